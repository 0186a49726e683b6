//! [`Handler`]: what a server may ask of us outside of its answers, which is nothing, and what it may say.

#![expect(deprecated, reason = "servers of older protocols may ask for a model or for folders")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use houston_tools::Progress;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
    ElicitResult, ElicitationAction, ElicitationCapability, ErrorCode, FormElicitationCapability,
    Implementation, JsonObject, ListRootsResult, ProgressNotificationParam, ProgressToken,
    TASKS_EXTENSION_ID, UrlElicitationCapability,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use rmcp::{ClientHandler, ErrorData};

/// What a server has said, and what it has asked.
#[derive(Default)]
pub(super) struct Heard {
    /// How often it said that its tools have changed.
    pub(super) changes: AtomicU64,
    /// How often it asked a person something in the middle of a call.
    pub(super) declined: AtomicU64,
    /// The calls in progress, by the token of their progress.
    calls: Mutex<HashMap<ProgressToken, Progress>>,
}

impl Heard {
    fn calls(&self) -> MutexGuard<'_, HashMap<ProgressToken, Progress>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes the progress of a call on as long as the result lives.
    pub(super) fn listen(self: &Arc<Self>, token: ProgressToken, progress: Progress) -> Listening {
        self.calls().insert(token.clone(), progress);
        Listening { heard: Arc::clone(self), token }
    }
}

/// Progress of a call is passed on.
pub(super) struct Listening {
    heard: Arc<Heard>,
    token: ProgressToken,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.heard.calls().remove(&self.token);
    }
}

/// Answers a server.
pub(super) struct Handler {
    pub(super) heard: Arc<Heard>,
    /// Whether it was asked to speak the protocol without a handshake, in which questions and tasks are answers to a call.
    pub(super) is_modern: bool,
}

impl Handler {
    fn capabilities(&self) -> ClientCapabilities {
        let mut capabilities = ClientCapabilities::default();
        if self.is_modern {
            let elicitation = ElicitationCapability::new()
                .with_form(FormElicitationCapability::new())
                .with_url(UrlElicitationCapability::default());
            capabilities.elicitation = Some(elicitation);
            capabilities.extensions = Some([(TASKS_EXTENSION_ID.to_owned(), JsonObject::new())].into());
        }
        capabilities
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(self.capabilities(), Implementation::new("houston", env!("CARGO_PKG_VERSION")))
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.heard.changes.fetch_add(1, Ordering::Relaxed);
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let progress = self.heard.calls().get(&params.progress_token).cloned();
        if let Some(progress) = progress {
            progress.report(params.progress, params.total, params.message.as_deref().unwrap_or_default());
        }
    }

    /// The connection would have to be held open until a person answers, which may be tomorrow, on another worker.
    async fn create_elicitation(
        &self,
        _params: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.heard.declined.fetch_add(1, Ordering::Relaxed);
        Ok(ElicitResult::new(ElicitationAction::Decline))
    }

    /// It would spend the tokens of Houston's operator.
    async fn create_message(
        &self,
        _params: CreateMessageRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        Err(refused("Houston calls no model for a server"))
    }

    async fn list_roots(&self, _context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Err(refused("Houston has no folders for a server"))
    }
}

fn refused(reason: &'static str) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, reason, None)
}
