//! A2A 1.0: agents of other platforms talk with Houston's, over JSON-RPC (`POST /a2a/{target}`) and HTTP+JSON below it. The
//! target is a kind or an agent of the tenant.
//!
//! | A2A | Houston |
//! |---|---|
//! | context | a thread ([`threads`](crate::dialects::threads)): the client's own id for it, or Houston's |
//! | task | a run, under its id |
//! | message to a task | a message, or the answer to its question |
//! | artifact | a message of the agent, under its id |
//! | `INPUT_REQUIRED` | the run waits, and a question is open |
//! | push notification configuration | a webhook of the run ([`push`]) |
//! | `tenant` of a request | the user, if the key is not of one |
//!
//! # Streams
//! They are event streams like all others, and [`stream`] translates: they are aborted, not ended, while the task is at
//! work. The first frame is the task; then come updates, until the task has ended or waits for a person.
//!
//! # Of the official crates
//! The types are those of `a2a-lf`. The routes are Houston's own: those of `a2a-server-lf` end streams of drained servers as
//! if the task had ended, send heartbeats that some clients take for events, keep tasks in a store of their own, and bring a
//! second HTTP client with another TLS.
//!
//! Not in the OpenAPI document: the protocol has its own, and a client reads the agent card.

pub(crate) mod card;
mod error;
mod http;
mod operations;
mod push;
mod send;
mod stream;
mod task;

use std::sync::Arc;

use axum::extract::{FromRequest, Path, Request};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use houston_domain::ensure;
use houston_domain::scope::Scope;
use houston_protocol::a2a::{
    A2AError, CancelTaskRequest, DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest, JsonRpcId, JsonRpcResponse, ListTaskPushNotificationConfigsRequest,
    MEDIA_TYPE, RpcRequest, SVC_PARAM_VERSION, SendMessageResponse, SubscribeToTaskRequest, VERSION, methods,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use self::error::Refusal;
use self::operations::Ask;
use self::stream::Binding;
use crate::deadline::Deadline;
use crate::dialects::threads::Asker;
use crate::error::{ApiError, Result};
use crate::request::access::{Access, THREAD};
use crate::request::body::{JSON, WithImages, is_of_type, parse};
use crate::request::endpoint::undocumented;
use crate::state::App;
use crate::state::documents::DocumentPermit;

// The route of the main card, which needs no key, is not among them.
undocumented! {
    post "/a2a/{target}" for READ => rpc;
    post "/a2a/{target}/message:send" for READ => http::send;
    post "/a2a/{target}/message:stream" for READ => http::stream;
    get "/a2a/{target}/tasks" for READ => http::list;
    get "/a2a/{target}/tasks/{id}" for READ => http::get;
    post "/a2a/{target}/tasks/{id}" for READ => http::act;
    get "/a2a/{target}/tasks/{id}/pushNotificationConfigs" for READ => http::pushes;
    post "/a2a/{target}/tasks/{id}/pushNotificationConfigs" for READ => http::create_push;
    get "/a2a/{target}/tasks/{id}/pushNotificationConfigs/{config}" for READ => http::push;
    delete "/a2a/{target}/tasks/{id}/pushNotificationConfigs/{config}" for READ => http::delete_push;
    get "/a2a/{target}/extendedAgentCard" for READ => http::card;
    get "/a2a/{target}/.well-known/agent-card.json" for READ => card::of_target;
}

/// Each request needs the scope `read`, also one that sends a message: it is answered with what the agent writes. What else it needs,
/// [`Ask`] checks.
const READ: Access = THREAD.all(Scope::Read);

/// Where clients look for the card of the first kind.
pub(crate) const CARD: &str = "/.well-known/agent-card.json";

/// A body with JSON, under either media type, and the memory of a long one.
struct A2aBody<T> {
    value: T,
    _permit: Option<DocumentPermit>,
}

impl<T: DeserializeOwned + Send + 'static> FromRequest<Arc<App>> for A2aBody<T> {
    type Rejection = ApiError;

    async fn from_request(mut request: Request, app: &Arc<App>) -> Result<Self> {
        if is_of_type(request.headers(), MEDIA_TYPE) {
            request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
        }
        let WithImages { creation, permit } = WithImages::from_request(request, app).await?;
        Ok(Self { value: creation.value, _permit: permit })
    }
}

/// Checks the version of the protocol that the client speaks; without one, this version is assumed.
fn check_version(headers: &HeaderMap) -> Result<(), A2AError> {
    let version = headers.get(SVC_PARAM_VERSION).map(|version| version.to_str().unwrap_or("?").trim());
    match version.filter(|version| !version.is_empty()) {
        None => Ok(()),
        Some(version) if version == VERSION || version.starts_with("1.0.") => Ok(()),
        Some(version) => {
            let mut error = A2AError::version_not_supported("");
            let given: String = version.chars().take(20).collect();
            error.message = format!("A2A {given} is not supported; send `{SVC_PARAM_VERSION}: {VERSION}`");
            Err(error)
        }
    }
}

/// `POST /a2a/{target}`: JSON-RPC.
async fn rpc(
    Path(target): Path<String>,
    Extension(deadline): Extension<Deadline>,
    headers: HeaderMap,
    asker: Result<Asker>,
    body: Result<A2aBody<RpcRequest>>,
) -> Response {
    let mut id = JsonRpcId::Null;
    let answered = async {
        let asker = asker?;
        let body = body.map_err(|error| match error {
            ApiError::InvalidRequest(_) => {
                Refusal::from(A2AError::invalid_request(format!("no JSON-RPC request: {error}")))
            }
            error => error.into(),
        })?;
        let RpcRequest { jsonrpc, id: given, method, params } = &body.value;
        id = given.clone().unwrap_or(JsonRpcId::Null);
        ensure!(jsonrpc == "2.0", A2AError::invalid_request("`jsonrpc` must be \"2.0\"").into());
        check_version(&headers)?;
        let ask = Ask { asker, target, deadline };
        called(ask, method, params.as_deref(), &headers, &id).await
    };
    answered.await.unwrap_or_else(|refusal| refusal.into_rpc(id))
}

/// What any request may say: whose it is.
#[derive(Debug, Deserialize)]
struct OfTenant {
    tenant: Option<String>,
}

/// Carries out a method.
async fn called(
    ask: Ask,
    method: &str,
    params: Option<&RawValue>,
    headers: &HeaderMap,
    id: &JsonRpcId,
) -> Result<Response, Refusal> {
    let text = params.map_or("{}", RawValue::get).as_bytes();
    // Every method may name the user.
    let OfTenant { tenant } = parse(text)?;
    let ask = ask.of_tenant(tenant.as_deref()).await?;
    let binding = Binding::Rpc(id.clone());
    match method {
        methods::SEND_MESSAGE => result(id, &SendMessageResponse::Task(ask.send(&parse(text)?).await?)),
        methods::SEND_STREAMING_MESSAGE => ask.send_streaming(&parse(text)?, binding).await,
        methods::GET_TASK => result(id, &ask.get(parse(text)?).await?),
        methods::LIST_TASKS => result(id, &ask.list(parse(text)?).await?),
        methods::CANCEL_TASK => result(id, &ask.cancel(&parse::<CancelTaskRequest>(text)?.id).await?),
        methods::SUBSCRIBE_TO_TASK => {
            ask.subscribe(&parse::<SubscribeToTaskRequest>(text)?.id, binding).await
        }
        methods::GET_EXTENDED_AGENT_CARD => {
            result(id, &card::extended(ask.ctx(Scope::Read)?, &ask.target, headers).await?)
        }
        methods::CREATE_PUSH_CONFIG => result(id, &ask.create_push(&parse(text)?).await?),
        methods::LIST_PUSH_CONFIGS => {
            let of: ListTaskPushNotificationConfigsRequest = parse(text)?;
            result(id, &ask.pushes(&of.task_id).await?)
        }
        methods::GET_PUSH_CONFIG => {
            let of: GetTaskPushNotificationConfigRequest = parse(text)?;
            result(id, &ask.push(&of.task_id, &of.id).await?)
        }
        methods::DELETE_PUSH_CONFIG => {
            let of: DeleteTaskPushNotificationConfigRequest = parse(text)?;
            result(id, &ask.delete_push(&of.task_id, &of.id).await?)
        }
        _ => Err(A2AError::method_not_found(&method.chars().take(80).collect::<String>()).into()),
    }
}

fn result(id: &JsonRpcId, result: &impl Serialize) -> Result<Response, Refusal> {
    // Serialising texts, numbers and JSON cannot fail.
    let result = serde_json::to_value(result).unwrap_or_default();
    Ok(Json(JsonRpcResponse::success(id.clone(), result)).into_response())
}
