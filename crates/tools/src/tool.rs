//! What a tool is to Houston.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use futures_util::future::BoxFuture;
use houston_domain::capability::Capability;
use houston_domain::id::{AgentableId, RunId, UserId};
use houston_domain::tool_call::{Record, ToolDefinition, ToolErrorCode, ToolResponse};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Who calls, and when.
#[derive(Debug, Clone)]
pub struct CallContext {
    /// For which agentable.
    pub agentable: AgentableId,
    /// For whom.
    pub user: UserId,
    /// In which run.
    pub run: RunId,
    /// The key a repeated call carries to the outside.
    pub idempotency_key: String,
    /// The time of the call.
    pub now: DateTime<Utc>,
    /// Where the user lives.
    pub zone: Tz,
    /// Cancelled when the run is: a tool that has a stop of its own begins it, see [`Tool::stop_within`].
    pub stop: CancellationToken,
}

/// What a call comes to, once its arguments are understood.
pub enum Plan {
    /// Known at once; nothing happens anywhere.
    Answer(ToolResponse),
    /// Rows in Houston's own tables: committed with the result in one fenced transaction, exactly once.
    Record(Record),
    /// Something outside. Its intent is committed before this future is polled; dropping it must stop it.
    Execute(BoxFuture<'static, ToolResponse>),
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Answer(response) => f.debug_tuple("Answer").field(response).finish(),
            Self::Record(record) => f.debug_tuple("Record").field(record).finish(),
            Self::Execute(_) => f.write_str("Execute"),
        }
    }
}

/// Arguments the tool cannot work with; the model reads it and mends the call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidInput(pub String);

impl From<InvalidInput> for ToolResponse {
    fn from(invalid: InvalidInput) -> Self {
        Self::failure(ToolErrorCode::ValidationError, invalid.0)
    }
}

/// What happened to an external call that a crash cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happened {
    /// It did, with this outcome.
    Yes(ToolResponse),
    /// It did not, and will not: it may be executed.
    No,
    /// Nobody can tell.
    Unknown,
}

/// How an agentable stands when a run of it begins, as far as tools care.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Situation {
    /// Whether it has closed sessions.
    pub has_sessions: bool,
}

/// One tool.
pub trait Tool: Send + Sync + 'static {
    /// How the model is told of it, and what a crash allows.
    fn definition(&self) -> &ToolDefinition;

    /// Whether the model is told of it in this situation; always, unless told otherwise. What may be offered once must
    /// stay so: the history may hold calls of it.
    fn offered(&self, _situation: Situation) -> bool {
        true
    }

    /// What it enables an agent to do, as the prompt says it; one that says nothing is told of by its name.
    fn capability(&self) -> Option<Capability> {
        None
    }

    /// Understands the arguments and says what the call comes to. Pure: nothing happens before the plan is
    /// carried out.
    ///
    /// # Errors
    /// [`InvalidInput`]: what is wrong, and what is allowed.
    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput>;

    /// How long a call may go on once its run was cancelled (`CallContext::stop`), to end in order and to say what
    /// it has done; then it is dropped. Zero, unless told otherwise: it is dropped at once.
    fn stop_within(&self) -> Duration {
        Duration::ZERO
    }

    /// Of a `checkable` tool: asks the outside, by the call's idempotency key, whether a call happened.
    fn check<'a>(&'a self, _input: &'a Value, _context: &'a CallContext) -> BoxFuture<'a, Happened> {
        Box::pin(std::future::ready(Happened::Unknown))
    }
}

/// A tool as it is handed around.
pub type SharedTool = Arc<dyn Tool>;
