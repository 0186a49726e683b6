//! Attempts that continue although everything that should have ended them had time to.

use std::time::Duration;

use houston_domain::id::{AgentableId, RunId};
use houston_domain::intervention::Intervention;

use super::seconds;
use crate::error::Result;
use crate::handle::RunStore;

/// A run whose lock was taken from its holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopped {
    /// The agentable it runs for.
    pub agentable: AgentableId,
    /// Its kind, from which the lane of its hint follows.
    pub kind: String,
    /// The run's id.
    pub run: RunId,
}

impl RunStore {
    /// Takes the lock of attempts that began longer than `after` ago from living holders, which are zombies from
    /// then on, and marks the runs to be ended; at most `batch`. A run whose holder is dead is not stuck: the next
    /// worker continues it.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn stop_stuck(&self, after: Duration, batch: i64) -> Result<Vec<Stopped>> {
        let rows = sqlx::query!(
            r#"-- store::health::stuck::stop
            with stuck as (
                select l.agentable_id, l.run_id, l.last_seq
                  from houston.runs r
                  join houston.run_locks l on l.agentable_id = r.agentable_id and l.run_id = r.id
                  join houston.workers w on w.id = l.holder and w.alive_until > clock_timestamp()
                 cross join lateral (
                       -- The first attempt has no event of its own.
                       select case when r.attempt = 1 then r.started_at
                                   else (select e.created_at from houston.events e
                                          where e.agentable_id = r.agentable_id and e.seq >= r.first_seq
                                            and e.epoch = l.epoch
                                          order by e.seq limit 1) end as created_at) as began
                 where r.status = 'running' and l.run_open
                   and r.started_at < now() - make_interval(secs => $1)
                   and began.created_at < now() - make_interval(secs => $1)
                   -- A worker that slept, or did not reach Postgres, did not work meanwhile.
                   and coalesce(w.served_since, began.created_at) < now() - make_interval(secs => $1)
                 limit $2 for no key update of l skip locked),
            marked as (
                update houston.runs r
                   set cancel_reason = case when r.cancel_seq is null then $3 else r.cancel_reason end,
                       cancel_seq = coalesce(r.cancel_seq, s.last_seq)
                  from stuck s where r.id = s.run_id and r.ended_at is null)
            update houston.run_locks l
               set epoch = l.epoch + 1, run_token = null, holder = null, wake = true, next_attempt_at = null,
                   woken_at = statement_timestamp()
              from stuck s join houston.agentables a on a.id = s.agentable_id
             where l.agentable_id = s.agentable_id
            returning l.agentable_id, a.kind, l.run_id as "run_id!""#,
            seconds(after),
            batch,
            Intervention::Stuck.as_str()
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| Stopped {
                agentable: AgentableId(row.agentable_id),
                kind: row.kind,
                run: RunId(row.run_id),
            })
            .collect())
    }
}
