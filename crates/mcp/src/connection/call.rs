//! Calls of tools, and tasks that calls have begun.

use std::sync::atomic::Ordering;

use houston_domain::ensure;
use houston_tools::Progress;
use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams,
    CancelledNotificationParam, ClientRequest, DetailedTask, ErrorCode, GetTaskParams, InputResponses,
    JsonObject, MetaObject, RequestId, RequestMetaObject, ServerResult, UpdateTaskParams,
};
use rmcp::service::{Peer, PeerRequestOptions, RoleClient, ServiceError};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::{Connection, KEY, MAX_ERROR};
use crate::error::CallError;
use crate::text::cleaned;

/// A call of a tool.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// The name that the server gives the tool.
    pub(crate) tool: String,
    pub(crate) arguments: JsonObject,
    /// The idempotency key.
    pub(crate) key: String,
    /// For a call that is sent again, because the server needed input.
    pub(crate) again: Option<Again>,
    pub(crate) progress: Progress,
}

/// What a call that is sent again has besides its arguments.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Again {
    /// The answers to what the server asked.
    pub(crate) responses: Option<InputResponses>,
    /// What the server wants back, byte for byte.
    pub(crate) state: Option<String>,
}

impl Request {
    fn params(self) -> (CallToolRequestParams, Progress) {
        let mut params = CallToolRequestParams::new(self.tool).with_arguments(self.arguments);
        let meta = JsonObject::from_iter([(KEY.to_owned(), self.key.into())]);
        params.meta = Some(RequestMetaObject(MetaObject(meta)));
        if let Some(again) = self.again {
            params.input_responses = again.responses;
            params.request_state = again.state;
        }
        (params, self.progress)
    }
}

impl Connection {
    /// Calls a tool. Dropping the future cancels the call at the server. Also returns whether the server asked a person in
    /// the middle of the call, which was declined.
    ///
    /// # Errors
    /// [`CallError`]. A result that the server calls an error is an `Ok`.
    pub(crate) async fn call(
        &self,
        request: Request,
        deadline: Instant,
    ) -> Result<(CallToolResponse, bool), CallError> {
        let before = self.heard.declined.load(Ordering::Relaxed);
        let (params, progress) = request.params();
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let answer = match self.ask(request, Some(progress), deadline).await? {
            ServerResult::CallToolResult(result) => CallToolResponse::Complete(result),
            ServerResult::InputRequiredResult(result) => CallToolResponse::InputRequired(result),
            ServerResult::CreateTaskResult(result) => CallToolResponse::Task(result),
            ServerResult::EmptyResult(_) | ServerResult::TaskAckResult(_) => {
                CallToolResponse::Complete(CallToolResult::default())
            }
            ServerResult::CustomResult(custom) if is_empty(&custom.0) => {
                CallToolResponse::Complete(CallToolResult::default())
            }
            _ => return Err(CallError::Unsupported("with something else")),
        };
        Ok((answer, self.heard.declined.load(Ordering::Relaxed) != before))
    }

    /// Sends a request, and waits for its answer. Dropping the future cancels it.
    async fn ask(
        &self,
        request: ClientRequest,
        progress: Option<Progress>,
        deadline: Instant,
    ) -> Result<ServerResult, CallError> {
        ensure!(!self.peer.is_transport_closed(), CallError::NotSent(Box::new(self.closed())));
        let asked = async {
            let handle =
                self.peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
            let _listening =
                progress.map(|progress| self.heard.listen(handle.progress_token.clone(), progress));
            let mut cancel =
                CancelOnDrop { peer: &self.peer, request: Some(handle.id.clone()), tracker: &self.tracker };
            let answer = handle.await_response().await;
            cancel.request = None;
            answer
        };
        let answer = self.until(deadline, asked).await?;
        if matches!(answer, Ok(_) | Err(ServiceError::McpError(_))) {
            self.answers.fetch_add(1, Ordering::Relaxed);
        }
        answer.map_err(|error| {
            if !matches!(error, ServiceError::McpError(_) | ServiceError::UnexpectedResponse) {
                self.cut.store(true, Ordering::Relaxed);
            }
            self.refused(error)
        })
    }

    fn refused(&self, error: ServiceError) -> CallError {
        match error {
            ServiceError::McpError(ErrorData { code: ErrorCode(code), message, .. }) => {
                CallError::Rpc { code, message: cleaned(&message, MAX_ERROR) }
            }
            ServiceError::UnexpectedResponse => CallError::Unsupported("with something else"),
            error => self.failed(&error),
        }
    }

    /// How far a task is.
    pub(crate) async fn task(&self, id: &str, deadline: Instant) -> Result<DetailedTask, CallError> {
        self.answered(self.peer.get_task(GetTaskParams::new(id)), deadline).await.map(|result| result.task)
    }

    /// Gives a task the input that it needs.
    pub(crate) async fn update_task(
        &self,
        id: &str,
        responses: InputResponses,
        deadline: Instant,
    ) -> Result<(), CallError> {
        self.answered(self.peer.update_task(UpdateTaskParams::new(id, responses)), deadline).await
    }

    /// Asks the server to end a task.
    pub(crate) async fn cancel_task(&self, id: &str, deadline: Instant) -> Result<(), CallError> {
        self.answered(self.peer.cancel_task(CancelTaskParams::new(id)), deadline).await
    }

    async fn answered<T>(
        &self,
        asked: impl Future<Output = Result<T, ServiceError>>,
        deadline: Instant,
    ) -> Result<T, CallError> {
        self.until(deadline, asked).await?.map_err(|error| self.refused(error))
    }
}

/// Whether a result says nothing.
fn is_empty(result: &serde_json::Value) -> bool {
    result.as_object().is_some_and(|fields| fields.keys().all(|name| name == "_meta"))
}

/// Cancels a request whose answer is not waited for.
struct CancelOnDrop<'c> {
    peer: &'c Peer<RoleClient>,
    request: Option<RequestId>,
    tracker: &'c TaskTracker,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        let Some(request) = self.request.take() else { return };
        let peer = self.peer.clone();
        self.tracker.spawn(async move {
            let params = CancelledNotificationParam::new(Some(request), None);
            // A server that is gone needs no notice.
            let _ = peer.notify_cancelled(params).await;
        });
    }
}
