//! The runtime state of an agentable: its lock, the holder, the run, and what it waits for.

use houston_domain::id::{AgentableId, RunId, WorkerId};
use houston_domain::run::RunStatus;
use houston_domain::runtime_state::{Failure, Holder, LatestRun, RuntimeState, Session};

use crate::error::{Error, Result};
use crate::handle::TenantStore;

/// How many of the latest runs are searched for the last failure.
const LATEST_RUNS: i64 = 20;

impl TenantStore<'_> {
    /// The runtime state of an agentable of the tenant, by the database's clock.
    pub async fn state(self, agentable: AgentableId) -> Result<RuntimeState> {
        let row = sqlx::query!(
            r#"-- store::state::get
            select clock_timestamp() as "now!", l.epoch, l.holder, l.wake, l.waiting_since, l.next_attempt_at, l.unread,
                   l.failed_attempts, l.crash_count, cardinality(l.died_with) as "deaths!", l.run_id, l.run_open,
                   l.last_seq, l.last_position, l.session_position, a.forked_from,
                   w.name as "worker_name?", w.alive_until as "alive_until?", w.beat_at as "beat_at?", r.status as "status?",
                   r.attempt as "attempt?", r.iterations as "iterations?", r.created_at as "queued_at?",
                   r.started_at as "started_at?", r.ended_at as "ended_at?", r.cancel_seq as "cancel_seq?",
                   coalesce((select e.created_at from houston.events e
                              where e.agentable_id = l.agentable_id and e.seq = l.last_seq),
                            (select m.created_at from houston.messages m
                              where m.agentable_id = l.agentable_id and m.seq = l.last_seq),
                            case l.last_seq when r.last_seq then r.ended_at when r.started_seq then r.started_at
                                            when r.first_seq then r.created_at end) as last_event_at,
                   exists (select from houston.workers x where x.alive_until > clock_timestamp()) as "workers!",
                   f.id as "failed_run?", f.error_code as "error_code?", f.error_message as "error_message?",
                   f.ended_at as "failed_at?"
              from houston.run_locks l
              join houston.agentables a on a.id = l.agentable_id
              left join houston.workers w on w.id = l.holder
              left join houston.runs r on r.id = l.run_id
              left join lateral (
                  select x.id, x.error_code, x.error_message, x.ended_at, x.first_seq
                    from (select * from houston.runs k where k.agentable_id = l.agentable_id
                           order by k.first_seq desc limit $3) as x
                   where x.error_code is not null order by x.first_seq desc limit 1) as f on true
             where l.tenant_id = $1 and l.agentable_id = $2"#,
            self.tenant.0,
            agentable.0,
            LATEST_RUNS
        )
        .fetch_optional(&self.pool)
        .await?
        .ok_or(Error::NotFound { what: "agentable" })?;
        let holder = row.holder.map(|holder| Holder {
            worker: WorkerId(holder),
            name: row.worker_name,
            alive_until: row.alive_until,
            heard_at: row.beat_at,
        });
        let run = row.run_id.zip(row.status).map(|(id, status)| LatestRun {
            id: RunId(id),
            open: row.run_open,
            status: RunStatus::from_name(&status).unwrap_or(RunStatus::Failed),
            attempt: row.attempt.unwrap_or(0),
            iterations: row.iterations.unwrap_or(0),
            cancel_requested: row.cancel_seq.is_some() && row.run_open,
            queued_at: row.queued_at.unwrap_or_default(),
            started_at: row.started_at,
            ended_at: row.ended_at,
        });
        let last_error = row.failed_run.zip(row.error_code).map(|(run, code)| Failure {
            run: RunId(run),
            code,
            message: row.error_message.unwrap_or_default(),
            at: row.failed_at,
        });
        Ok(RuntimeState {
            at: row.now,
            epoch: row.epoch,
            holder,
            run,
            last_error,
            wake: row.wake,
            waiting_since: row.wake.then_some(row.waiting_since),
            next_attempt_at: row.next_attempt_at,
            unread: row.unread,
            failed_attempts: row.failed_attempts,
            claims_without_progress: row.crash_count,
            deaths: row.deaths,
            workers_alive: row.workers,
            session: Session {
                entries: row.last_position - row.session_position,
                closed_entries: row.session_position,
            },
            last_seq: row.last_seq,
            last_event_at: row.last_event_at,
            forked_from: row.forked_from.map(AgentableId),
        })
    }
}
