//! The end of an executor: its plan keeps what it returned, and goes on.

use sqlx::PgConnection;
use sqlx::types::Json;

use super::ExecutorOutcome;
use crate::error::Result;
use crate::system_message::LockedRow;
use houston_domain::id::AgentableId;

/// Keeps the outcome of an executor for the run of its plan, whose lock the caller holds, and wakes that run. An
/// executor that its plan no longer waits for leaves nothing.
pub(crate) async fn keep_outcome(
    connection: &mut PgConnection,
    plan: &LockedRow,
    task: AgentableId,
    outcome: &ExecutorOutcome,
) -> Result<()> {
    let kept = sqlx::query_scalar!(
        r#"-- store::plan::outcome::keep
        with kept as (
            update houston.plan_steps set outcome = $3
             where task_id = $1 and plan_id = $2 and status = 'running'
            returning plan_id),
        counted as (update houston.plans p set changes = p.changes + 1 from kept k where p.agentable_id = k.plan_id)
        select exists (select from kept) as "kept!""#,
        task.0,
        plan.agentable.0,
        Json(outcome) as Json<&ExecutorOutcome>
    )
    .fetch_one(&mut *connection)
    .await?;
    if kept {
        plan.wake(connection).await?;
        houston_faults::fault!("C30")?;
    }
    Ok(())
}
