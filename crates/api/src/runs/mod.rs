//! `/v1/runs`: runs. A run is one execution for an agentable, across crashes and hand-overs.

pub(crate) mod bulk;
pub(crate) mod calls;
pub(crate) mod cancel;
mod filter;
pub(crate) mod get;
pub(crate) mod list;
mod retry;
pub(crate) mod trace;
mod wait;

use houston_protocol::run::{RunError, RunResponse};
use houston_protocol::time::Time;
use houston_store::run::Run;

use crate::agentable_path::Owner;

/// The response for a run.
pub(crate) fn response(run: Run) -> RunResponse {
    let message = run.error_message;
    RunResponse {
        id: run.id,
        owner: Owner { kind: run.kind, id: run.agentable },
        status: run.status,
        attempt: run.attempt,
        iterations: run.iterations,
        usage: run.usage,
        cost: run.cost.total.map(|cost| cost.normalize()),
        unpriced_calls: run.cost.unpriced_calls,
        model: run.model,
        error: run.error_code.map(|code| RunError { code, message }),
        stop_reason: run.stop_reason,
        cancel_requested: run.cancel_requested,
        cancelled_by: run.cancelled_by,
        retry_at: run.retry_at.map(Time),
        waits_until: run.waits_until.map(Time),
        created_at: Time(run.created_at),
        started_at: run.started_at.map(Time),
        ended_at: run.ended_at.map(Time),
    }
}
