//! Runs that have waited too long for a worker or for their next attempt.

use std::time::Duration;

use houston_domain::id::AgentableId;
use houston_domain::intervention::Intervention;

use super::seconds;
use crate::error::Result;
use crate::handle::RunStore;
use crate::sweep::Due;

impl RunStore {
    /// Marks runs of tasks to be ended whose next attempt has been due for longer than `after`, at most `batch`. `tasks`
    /// are kinds that do not chat, and whose lane was served all that time.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn stop_expired(&self, tasks: &[String], after: Duration, batch: i64) -> Result<Vec<Due>> {
        let rows = sqlx::query!(
            "-- store::health::stale::expire
            with expired as (
                select l.agentable_id, l.run_id, l.last_seq, a.kind
                  from houston.runs r
                  join houston.agentables a on a.id = r.agentable_id
                  join houston.run_locks l on l.agentable_id = r.agentable_id and l.run_id = r.id
                 cross join lateral (
                       -- When it had its latest event: a stored one, or a message.
                       select greatest(r.created_at, r.started_at,
                                       (select s.created_at from houston.events s
                                         where s.agentable_id = l.agentable_id and s.seq <= l.last_seq
                                         order by s.seq desc limit 1),
                                       (select m.created_at from houston.messages m
                                         where m.agentable_id = l.agentable_id and m.seq <= l.last_seq
                                         order by m.seq desc limit 1)) as created_at) as e
                 where r.status = 'retrying' and r.created_at < now() - make_interval(secs => $1)
                   and r.cancel_seq is null and a.kind = any ($2) and l.run_open and l.holder is null
                   -- Until it is due, it waits for what its provider asked for.
                   and greatest(e.created_at, l.woken_at, l.next_attempt_at) < now() - make_interval(secs => $1)
                 limit $3 for no key update of l skip locked),
            marked as (
                update houston.runs r set cancel_seq = x.last_seq, cancel_reason = $4
                  from expired x where r.id = x.run_id and r.ended_at is null and r.cancel_seq is null)
            update houston.run_locks l
               set wake = true, next_attempt_at = null, woken_at = statement_timestamp()
              from expired x where l.agentable_id = x.agentable_id
            returning l.agentable_id, x.kind",
            seconds(after),
            tasks,
            batch,
            Intervention::Expired.as_str()
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| Due { agentable: AgentableId(row.agentable_id), kind: row.kind })
            .collect())
    }

    /// Marks open runs to be ended that no worker has claimed for longer than `after`: runs of `kinds`, or of all other
    /// kinds if `others`; at most `batch`. The caller has made sure that their [lanes](crate::paused_lane::LaneServices) were
    /// served all that time. A run that waits for a person or for a later attempt is not stale.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn stop_stale(
        &self,
        kinds: &[String],
        others: bool,
        after: Duration,
        reason: Intervention,
        batch: i64,
    ) -> Result<Vec<Due>> {
        let rows = sqlx::query!(
            "-- store::health::stale::stop
            with stale as (
                select l.agentable_id, l.run_id, l.last_seq, a.kind
                  from ((select id, agentable_id, created_at, started_at, cancel_seq from houston.runs
                          where status in ('queued', 'retrying')
                            and created_at < now() - make_interval(secs => $1))
                        union all
                        select id, agentable_id, created_at, started_at, cancel_seq from houston.runs
                         where status = 'running'
                           and created_at < now() - make_interval(secs => $1)
                        union all
                        -- Runs that waited for something that has arrived; the others may wait for as long as they like.
                        select o.id, o.agentable_id, o.created_at, o.started_at, o.cancel_seq from houston.run_locks k
                          join houston.runs o on o.id = k.run_id
                         where k.wake and o.status = 'waiting'
                           and o.created_at < now() - make_interval(secs => $1)) as r
                  join houston.agentables a on a.id = r.agentable_id
                  join houston.run_locks l on l.agentable_id = r.agentable_id and l.run_id = r.id
                 cross join lateral (
                       -- When it had its latest event: a stored one, or a message.
                       select greatest(r.created_at, r.started_at,
                                       (select s.created_at from houston.events s
                                         where s.agentable_id = l.agentable_id and s.seq <= l.last_seq
                                         order by s.seq desc limit 1),
                                       (select m.created_at from houston.messages m
                                         where m.agentable_id = l.agentable_id and m.seq <= l.last_seq
                                         order by m.seq desc limit 1)) as created_at) as e
                 where r.cancel_seq is null and (a.kind = any ($2)) <> $3 and l.run_open and l.holder is null
                   and greatest(e.created_at, l.woken_at, l.next_attempt_at) < now() - make_interval(secs => $1)
                 limit $4 for no key update of l skip locked),
            marked as (
                update houston.runs r set cancel_seq = s.last_seq, cancel_reason = $5
                  from stale s where r.id = s.run_id and r.ended_at is null and r.cancel_seq is null)
            update houston.run_locks l
               set wake = true, next_attempt_at = null, woken_at = statement_timestamp()
              from stale s where l.agentable_id = s.agentable_id
            returning l.agentable_id, s.kind",
            seconds(after),
            kinds,
            others,
            batch,
            reason.as_str()
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| Due { agentable: AgentableId(row.agentable_id), kind: row.kind })
            .collect())
    }
}
