//! HTTP+JSON: the same operations as resources.

use axum::Extension;
use axum::extract::Path;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use houston_domain::scope::Scope;
use houston_protocol::a2a::{
    A2AError, GetTaskRequest, ListTasksRequest, MEDIA_TYPE, SendMessageResponse, SendRequest,
    TaskPushNotificationConfig,
};
use serde::{Deserialize, Serialize};

use super::error::Refusal;
use super::operations::Ask;
use super::stream::Binding;
use super::{A2aBody, OfTenant, check_version};
use crate::deadline::Deadline;
use crate::dialects::threads::Asker;
use crate::error::Result;
use crate::request::query::Query;

/// What every request has.
type Head = (Path<Vec<String>>, Extension<Deadline>, HeaderMap, Result<Asker>, Result<Query<OfTenant>>);

/// Answers a request. `done` gets it with the ids that its path names: that of the task, and that of the configuration.
async fn answer(
    (Path(names), Extension(deadline), headers, asker, of): Head,
    done: impl AsyncFnOnce(Ask, [String; 2]) -> Result<Response, Refusal>,
) -> Response {
    let answered = async {
        let (asker, Query(OfTenant { tenant })) = (asker?, of?);
        check_version(&headers)?;
        let mut names = names.into_iter();
        let [target, task, config] = std::array::from_fn(|_| names.next().unwrap_or_default());
        let ask = Ask { asker, target, deadline }.of_tenant(tenant.as_deref()).await?;
        done(ask, [task, config]).await
    };
    answered.await.unwrap_or_else(Refusal::into_http)
}

fn written(body: &impl Serialize) -> Result<Response, Refusal> {
    let body = serde_json::to_vec(body).unwrap_or_default();
    Ok(([(header::CONTENT_TYPE, MEDIA_TYPE)], body).into_response())
}

/// `POST /a2a/{target}/message:send`.
pub(super) async fn send(head: Head, body: Result<A2aBody<SendRequest>>) -> Response {
    let done = async |ask: Ask, _| {
        let body = body?;
        let ask = ask.of_tenant(body.value.tenant.as_deref()).await?;
        written(&SendMessageResponse::Task(ask.send(&body.value).await?))
    };
    answer(head, done).await
}

/// `POST /a2a/{target}/message:stream`.
pub(super) async fn stream(head: Head, body: Result<A2aBody<SendRequest>>) -> Response {
    let done = async |ask: Ask, _| {
        let body = body?;
        let ask = ask.of_tenant(body.value.tenant.as_deref()).await?;
        ask.send_streaming(&body.value, Binding::Http).await
    };
    answer(head, done).await
}

/// The query of a task.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OfTask {
    history_length: Option<i32>,
}

/// `GET /a2a/{target}/tasks/{id}`, and `…/tasks/{id}:subscribe`.
pub(super) async fn get(head: Head, query: Result<Query<OfTask>>) -> Response {
    let done = async |ask: Ask, [id, _]: [String; 2]| {
        let Query(OfTask { history_length }) = query?;
        match id.strip_suffix(":subscribe") {
            Some(id) => ask.subscribe(id, Binding::Http).await,
            None => written(&ask.get(GetTaskRequest { id, history_length, tenant: None }).await?),
        }
    };
    answer(head, done).await
}

/// `POST /a2a/{target}/tasks/{id}:cancel`, and `…/tasks/{id}:subscribe`.
pub(super) async fn act(head: Head) -> Response {
    let done = async |ask: Ask, [id, _]: [String; 2]| match id.rsplit_once(':') {
        Some((id, "cancel")) => written(&ask.cancel(id).await?),
        Some((id, "subscribe")) => ask.subscribe(id, Binding::Http).await,
        _ => Err(A2AError::method_not_found("what is posted to a task: `:cancel` or `:subscribe`").into()),
    };
    answer(head, done).await
}

/// `GET /a2a/{target}/tasks`.
pub(super) async fn list(head: Head, query: Result<Query<ListTasksRequest>>) -> Response {
    answer(head, async |ask, _| written(&ask.list(query?.0).await?)).await
}

/// `POST …/tasks/{id}/pushNotificationConfigs`.
pub(super) async fn create_push(head: Head, body: Result<A2aBody<TaskPushNotificationConfig>>) -> Response {
    let done = async |ask: Ask, [task_id, _]: [String; 2]| {
        let A2aBody { value, .. } = body?;
        let ask = ask.of_tenant(value.tenant.as_deref()).await?;
        written(&ask.create_push(&TaskPushNotificationConfig { task_id, ..value }).await?)
    };
    answer(head, done).await
}

/// `GET …/tasks/{id}/pushNotificationConfigs`.
pub(super) async fn pushes(head: Head) -> Response {
    answer(head, async |ask, [task, _]| written(&ask.pushes(&task).await?)).await
}

/// `GET …/tasks/{id}/pushNotificationConfigs/{config}`.
pub(super) async fn push(head: Head) -> Response {
    answer(head, async |ask, [task, id]| written(&ask.push(&task, &id).await?)).await
}

/// `DELETE …/tasks/{id}/pushNotificationConfigs/{config}`.
pub(super) async fn delete_push(head: Head) -> Response {
    let done = async |ask: Ask, [task, id]: [String; 2]| {
        ask.delete_push(&task, &id).await?;
        written(&serde_json::json!({}))
    };
    answer(head, done).await
}

/// `GET /a2a/{target}/extendedAgentCard`.
pub(super) async fn card(head: Head) -> Response {
    let (_, _, headers, ..) = &head;
    let headers = headers.clone();
    let done = async |ask: Ask, _| {
        written(&super::card::extended(ask.ctx(Scope::Read)?, &ask.target, &headers).await?)
    };
    answer(head, done).await
}
