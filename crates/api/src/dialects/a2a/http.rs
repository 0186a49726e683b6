//! HTTP+JSON: the same operations as resources.

use axum::Extension;
use axum::extract::Path;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, Utc};
use houston_domain::scope::Scope;
use houston_protocol::a2a::{
    A2AError, GetTaskRequest, ListTasksRequest, MEDIA_TYPE, SendMessageResponse, SendRequest,
    TaskPushNotificationConfig, TaskState,
};
use serde::{Deserialize, Serialize};

use super::error::Refusal;
use super::operations::Ask;
use super::stream::Binding;
use super::{A2aBody, OfTenant, check_version};
use crate::deadline::Deadline;
use crate::dialects::threads::Asker;
use crate::error::Result;
use crate::request::body::{Creation, WithImages};
use crate::request::query::Query;

/// What every request has.
type Head = (Path<Vec<String>>, Extension<Deadline>, HeaderMap, Result<Asker>, Result<Query<OfTenant>>);

/// The request, with the id that its path names.
async fn ask((Path(names), Extension(deadline), headers, asker, of): Head) -> Result<(Ask, String), Refusal> {
    let (asker, Query(OfTenant { tenant })) = (asker?, of?);
    check_version(&headers)?;
    let mut names = names.into_iter();
    let target = names.next().unwrap_or_default();
    let ask = Ask { asker, target, deadline }.of_tenant(tenant.as_deref()).await?;
    Ok((ask, names.next().unwrap_or_default()))
}

fn reply(done: Result<impl Serialize, Refusal>) -> Response {
    match done {
        Ok(body) => {
            let body = serde_json::to_vec(&body).unwrap_or_default();
            ([(header::CONTENT_TYPE, MEDIA_TYPE)], body).into_response()
        }
        Err(refusal) => refusal.into_http(),
    }
}

fn streamed(done: Result<Response, Refusal>) -> Response {
    done.unwrap_or_else(Refusal::into_http)
}

/// `POST /a2a/{target}/message:send`.
pub(super) async fn send(head: Head, body: Result<A2aBody<SendRequest>>) -> Response {
    let done = async {
        let (ask, _) = ask(head).await?;
        let A2aBody(WithImages { creation: Creation { value, key: _ }, permit: _permit }) = body?;
        let ask = ask.of_tenant(value.tenant.as_deref()).await?;
        Ok(SendMessageResponse::Task(ask.send(&value).await?))
    };
    reply(done.await)
}

/// `POST /a2a/{target}/message:stream`.
pub(super) async fn stream(head: Head, body: Result<A2aBody<SendRequest>>) -> Response {
    let done = async {
        let (ask, _) = ask(head).await?;
        let A2aBody(WithImages { creation: Creation { value, key: _ }, permit: _permit }) = body?;
        ask.of_tenant(value.tenant.as_deref()).await?.send_streaming(&value, Binding::Http).await
    };
    streamed(done.await)
}

/// The query of a task.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OfTask {
    history_length: Option<i32>,
}

/// `GET /a2a/{target}/tasks/{id}`, and `…/tasks/{id}:subscribe`.
pub(super) async fn get(head: Head, query: Result<Query<OfTask>>) -> Response {
    let done = async {
        let (ask, id) = ask(head).await?;
        let Query(OfTask { history_length }) = query?;
        if let Some(id) = id.strip_suffix(":subscribe") {
            return ask.subscribe(id, Binding::Http).await;
        }
        let task = ask.get(GetTaskRequest { id, history_length, tenant: None }).await;
        Ok(reply(task))
    };
    streamed(done.await)
}

/// `POST /a2a/{target}/tasks/{id}:cancel`, and `…/tasks/{id}:subscribe`.
pub(super) async fn act(head: Head) -> Response {
    let done = async {
        let (ask, id) = ask(head).await?;
        match id.rsplit_once(':') {
            Some((id, "cancel")) => Ok(reply(ask.cancel(id).await)),
            Some((id, "subscribe")) => ask.subscribe(id, Binding::Http).await,
            _ => {
                Err(A2AError::method_not_found("what is posted to a task: `:cancel` or `:subscribe`").into())
            }
        }
    };
    streamed(done.await)
}

/// The query of a list.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OfList {
    context_id: Option<String>,
    status: Option<TaskState>,
    page_size: Option<i32>,
    page_token: Option<String>,
    history_length: Option<i32>,
    status_timestamp_after: Option<DateTime<Utc>>,
    include_artifacts: Option<bool>,
}

/// `GET /a2a/{target}/tasks`.
pub(super) async fn list(head: Head, query: Result<Query<OfList>>) -> Response {
    let done = async {
        let (ask, _) = ask(head).await?;
        let Query(of) = query?;
        let request = ListTasksRequest {
            context_id: of.context_id,
            status: of.status,
            page_size: of.page_size,
            page_token: of.page_token,
            history_length: of.history_length,
            status_timestamp_after: of.status_timestamp_after,
            include_artifacts: of.include_artifacts,
            tenant: None,
        };
        ask.list(request).await
    };
    reply(done.await)
}

/// `POST …/tasks/{id}/pushNotificationConfigs`.
pub(super) async fn create_push(head: Head, body: Result<A2aBody<TaskPushNotificationConfig>>) -> Response {
    let done = async {
        let (ask, task_id) = ask(head).await?;
        let A2aBody(WithImages { creation: Creation { value, key: _ }, permit: _permit }) = body?;
        let ask = ask.of_tenant(value.tenant.as_deref()).await?;
        ask.create_push(&TaskPushNotificationConfig { task_id, ..value }).await
    };
    reply(done.await)
}

/// `GET …/tasks/{id}/pushNotificationConfigs`.
pub(super) async fn pushes(head: Head) -> Response {
    let done = async {
        let (ask, task) = ask(head).await?;
        ask.pushes(&task).await
    };
    reply(done.await)
}

/// `GET …/tasks/{id}/pushNotificationConfigs/{config}`.
pub(super) async fn push(head: Head) -> Response {
    let id = head.0.get(2).cloned().unwrap_or_default();
    let done = async {
        let (ask, task) = ask(head).await?;
        ask.push(&task, &id).await
    };
    reply(done.await)
}

/// `DELETE …/tasks/{id}/pushNotificationConfigs/{config}`.
pub(super) async fn delete_push(head: Head) -> Response {
    let id = head.0.get(2).cloned().unwrap_or_default();
    let done = async {
        let (ask, task) = ask(head).await?;
        ask.delete_push(&task, &id).await.map(|()| serde_json::json!({}))
    };
    reply(done.await)
}

/// `GET /a2a/{target}/extendedAgentCard`.
pub(super) async fn card(head: Head) -> Response {
    let headers = head.2.clone();
    let done = async {
        let (ask, _) = ask(head).await?;
        Ok(super::card::extended(ask.ctx(Scope::Read)?, &ask.target, &headers).await?)
    };
    reply(done.await)
}
