//! `/v1/runs`: one orchestrator execution each, over crashes and hand-overs.

pub(crate) mod calls;
pub(crate) mod cancel;
pub(crate) mod get;

use houston_domain::id::RunId;
use houston_domain::model::Usage;
use houston_domain::run::RunStatus;
use houston_store::run::Run;
use serde::Serialize;

use crate::cost::Cost;
use crate::place::Owner;
use crate::rfc3339::Time;

/// A run as clients see it.
#[derive(Debug, Serialize)]
struct Shown {
    id: RunId,
    #[serde(flatten)]
    owner: Owner,
    status: RunStatus,
    attempt: i32,
    iterations: i32,
    usage: Usage,
    #[serde(flatten)]
    cost: Cost,
    model: Option<String>,
    error: Option<Failure>,
    cancel_requested: bool,
    /// `user`, `interrupt`, `rollback`, or what found the run beyond help.
    cancelled_by: Option<String>,
    retry_at: Option<Time>,
    created_at: Time,
    started_at: Option<Time>,
    ended_at: Option<Time>,
}

#[derive(Debug, Serialize)]
struct Failure {
    code: String,
    message: Option<String>,
}

impl From<Run> for Shown {
    fn from(run: Run) -> Self {
        let message = run.error_message;
        Self {
            id: run.id,
            owner: Owner { kind: run.kind, id: run.agentable },
            status: run.status,
            attempt: run.attempt,
            iterations: run.iterations,
            usage: run.usage,
            cost: run.cost.into(),
            model: run.model,
            error: run.error_code.map(|code| Failure { code, message }),
            cancel_requested: run.cancel_requested,
            cancelled_by: run.cancelled_by,
            retry_at: run.retry_at.map(Time),
            created_at: Time(run.created_at),
            started_at: run.started_at.map(Time),
            ended_at: run.ended_at.map(Time),
        }
    }
}
