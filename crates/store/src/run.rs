//! Runs: reading them, and requesting their cancellation.

pub mod cancel;
pub mod claim;
pub mod compression;
pub mod context_cache;
pub mod cost;
pub(crate) mod deaths;
pub mod direct_start;
pub mod event;
pub mod history;
pub mod lease;
pub mod listen;
pub mod message;
pub mod plan;
pub mod question;
pub mod rate;
pub mod reach;
pub mod record;
pub mod run_context;
pub mod shared_state;
pub mod step;
pub mod sweep;
pub(crate) mod system_message;
pub mod task;
pub(crate) mod task_report;
pub mod tool_result;
mod trace;

use houston_domain::id::{AgentableId, RunId, WorkerId};
use houston_domain::owner::Owner;
use houston_domain::run::{Run, RunError, RunStatus};
use houston_domain::submission::Submission;
use houston_domain::time::Time;
use sqlx::types::Json;

use crate::cost::{Cost, stored_usage};
use crate::error::{Error, Result};
use crate::handle::{RunStore, TenantStore};
use crate::statement::{Statement as _, uuids};

/// Reads runs `r`, between the name of the query and the conditions.
macro_rules! query_runs {
    ($before:literal, $after:literal $(, $parameter:expr)* $(,)?) => {
        sqlx::query!(
            $before + r#"
            select r.id, r.first_seq, r.agentable_id, r.status, r.attempt, r.iterations,
                   array[r.input_tokens, r.output_tokens, r.cache_read_tokens, r.cache_write_tokens,
                         r.reasoning_tokens] as "tokens!",
                   r.cost, r.unpriced_calls, r.model, r.error_code, r.error_message, r.cancel_seq, r.cancel_reason,
                   r.created_at, r.started_at, r.ended_at, a.kind, l.next_attempt_at, r.cancelled_with_parent
              from houston.runs r
              join houston.agentables a on a.id = r.agentable_id
              join houston.run_locks l on l.agentable_id = r.agentable_id
            "# + $after
            $(, $parameter)*
        )
        .map(|r| {
        let status = RunStatus::from_name(&r.status).unwrap_or(RunStatus::Failed);
        let by = if r.cancelled_with_parent { Some("parent") } else { r.cancel_reason.as_deref() };
        let (cost, message) = (Cost::of(r.cost, r.unpriced_calls), r.error_message);
        Run {
            stop_reason: status.stopped_by(r.error_code.as_deref(), by),
            first_seq: r.first_seq,
            id: RunId(r.id),
            owner: Owner { kind: r.kind, id: AgentableId(r.agentable_id) },
            status,
            attempt: r.attempt,
            iterations: r.iterations,
            usage: stored_usage(&r.tokens),
            cost: cost.total,
            unpriced_calls: cost.unpriced_calls,
            model: r.model,
            // No run has a message without a code.
            error: r.error_code.map(|code| RunError { code, message }),
            cancel_requested: r.cancel_seq.is_some(),
            cancelled_by: r.cancel_seq.map(|_| r.cancel_reason.unwrap_or_else(|| "user".to_owned())),
            retry_at: r.next_attempt_at.filter(|_| status == RunStatus::Retrying).map(Time),
            waits_until: r.next_attempt_at.filter(|_| status == RunStatus::Waiting).map(Time),
            created_at: Time(r.created_at),
            started_at: r.started_at.map(Time),
            ended_at: r.ended_at.map(Time),
        }
        })
    };
}

impl RunStore {
    /// Remembers the model call that a run has submitted. It stays after its answer, and counts as none then: see
    /// [`Submission::entries`].
    pub async fn keep_submission(&self, run: RunId, submission: &Submission) -> Result<()> {
        sqlx::query!(
            "-- store::run::keep_submission
            update houston.runs set submission = $2 where id = $1",
            run.0,
            Json(submission) as _
        )
        .run(&self.pool)
        .await
    }
}

impl TenantStore<'_> {
    /// Reads a run of the tenant.
    pub async fn run(self, id: RunId) -> Result<Run> {
        let r =
            query_runs!("-- store::run::get", "where r.tenant_id = $1 and r.id = $2", self.tenant.0, id.0);
        r.fetch_optional(&self.pool).await?.ok_or(Error::NotFound { what: "run" })
    }

    /// Runs of an agentable of the tenant, newest first; older than the one whose first event is at `before`, and
    /// with this `status`, if given.
    pub async fn runs(
        self,
        agentable: AgentableId,
        status: Option<RunStatus>,
        before: Option<i64>,
        limit: i64,
    ) -> Result<Vec<Run>> {
        let rows = query_runs!(
            "-- store::run::list",
            "where r.tenant_id = $1 and r.agentable_id = $2 and r.first_seq < $3 and ($4::text is null or r.status = $4)
             order by r.first_seq desc limit $5",
            self.tenant.0,
            agentable.0,
            before.unwrap_or(i64::MAX),
            status.map(RunStatus::as_str),
            limit
        );
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// The runs of the tenant with these ids, in any order.
    pub async fn runs_with_ids(self, ids: &[RunId]) -> Result<Vec<Run>> {
        let rows = query_runs!(
            "-- store::run::with_ids",
            "where r.tenant_id = $1 and r.id = any ($2)",
            self.tenant.0,
            &uuids(ids)
        );
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// Requests the cancellation of a run of the tenant. The worker that drives it is notified at once; it, or the
    /// next worker to claim the run, ends it. Returns the agentable and its kind, or `None` when the run had
    /// already ended.
    pub async fn cancel_run(self, id: RunId) -> Result<Option<(AgentableId, String)>> {
        let mut tx = self.pool.begin().await?;
        let lock = sqlx::query!(
            "-- store::run::lock_for_cancel
            select l.agentable_id, l.last_seq, a.kind from houston.run_locks l
              join houston.runs r on r.agentable_id = l.agentable_id
              join houston.agentables a on a.id = l.agentable_id
             where r.tenant_id = $1 and r.id = $2 for no key update of l",
            self.tenant.0,
            id.0
        )
        .fetch_optional(&mut *tx)
        .await?
        .ok_or(Error::NotFound { what: "run" })?;
        let asked = sqlx::query!(
            "-- store::run::cancel
            with asked as (
                update houston.runs set cancel_seq = coalesce(cancel_seq, $2)
                 where tenant_id = $3 and id = $1 and ended_at is null returning agentable_id)
            update houston.run_locks l set wake = true, next_attempt_at = null, woken_at = statement_timestamp()
              from asked where l.agentable_id = asked.agentable_id
            returning pg_notify('houston', format('1 cancel %s %s', l.agentable_id, $1))::text",
            id.0,
            lock.last_seq,
            self.tenant.0
        )
        .fetch_optional(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(asked.is_some().then_some((AgentableId(lock.agentable_id), lock.kind)))
    }
}

impl RunStore {
    /// The runs of this worker whose cancellation was requested.
    pub async fn cancelled_runs_of(&self, worker: WorkerId) -> Result<Vec<(AgentableId, RunId)>> {
        let runs = sqlx::query!(
            "-- store::run::cancelled_of
            select agentable_id, id from houston.runs
             where status = 'running' and worker_id = $1 and cancel_seq is not null",
            worker.0
        )
        .map(|run| (AgentableId(run.agentable_id), RunId(run.id)));
        Ok(runs.fetch_all(&self.pool).await?)
    }
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunProgress {
    /// The agentable that it runs for.
    pub agentable: AgentableId,
    /// The position of the agentable's newest event.
    pub last_seq: i64,
    /// Whether it has ended.
    pub has_ended: bool,
    /// Whether it waits for a person: a question of it is open.
    pub asks: bool,
}

impl TenantStore<'_> {
    /// How far a run of the tenant is.
    pub async fn run_progress(self, run: RunId) -> Result<RunProgress> {
        let row = sqlx::query_as!(
            RunProgress,
            r#"-- store::run::awaited::progress
            select r.agentable_id as agentable, l.last_seq, r.ended_at is not null as "has_ended!",
                   r.status = 'waiting' and exists (
                       select from houston.questions q
                        where q.user_id = l.user_id and q.state = 'open' and q.run_id = r.id) as "asks!"
              from houston.runs r join houston.run_locks l on l.agentable_id = r.agentable_id
             where r.tenant_id = $1 and r.id = $2"#,
            self.tenant.0,
            run.0
        );
        row.fetch_optional(&self.pool).await?.ok_or(Error::NotFound { what: "run" })
    }
}
