//! The end of an executor: its plan keeps what it returned, and goes on.

use sqlx::PgConnection;
use sqlx::types::Json;

use super::ExecutorOutcome;
use crate::error::Result;
use crate::fairness::Fairness;
use crate::system_message::LockedRow;
use houston_domain::id::AgentableId;

/// Keeps the outcome of an executor for the run of its plan, whose lock the caller holds, and wakes that run. Returns `false`,
/// and changes nothing, if the task is no executor. An executor that its plan no longer waits for leaves nothing.
pub(crate) async fn keep_outcome(
    connection: &mut PgConnection,
    plan: &LockedRow,
    task: AgentableId,
    outcome: &ExecutorOutcome,
    fairness: Fairness,
) -> Result<bool> {
    let step = sqlx::query!(
        r#"-- store::plan::outcome::keep
        with step as (select plan_id, path, status from houston.plan_steps where task_id = $1 and plan_id = $2),
        kept as (
            update houston.plan_steps s set outcome = $3
              from step o where s.plan_id = o.plan_id and s.path = o.path and o.status = 'running'
            returning s.plan_id),
        counted as (update houston.plans p set changes = p.changes + 1 from kept k where p.agentable_id = k.plan_id)
        select exists (select from kept) as "kept!" from step"#,
        task.0,
        plan.agentable.0,
        Json(outcome) as Json<&ExecutorOutcome>
    )
    .fetch_optional(&mut *connection)
    .await?;
    let Some(step) = step else { return Ok(false) };
    if step.kept {
        plan.wake(connection, fairness).await?;
    }
    Ok(true)
}
