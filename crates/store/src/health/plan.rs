//! Plans that wait for nothing that can come.

use std::time::Duration;

use houston_domain::id::AgentableId;

use super::seconds;
use crate::error::Result;
use crate::handle::RunStore;
use crate::sweep::Due;

impl RunStore {
    /// Wakes plans whose run has waited for longer than `after` although no executor works, no question is open, no step
    /// has a time, and none is paused; at most `batch`. Every write that something can come of wakes the plan
    /// itself, so there should be none. Their run looks again at what is next, and waits again if that is nothing.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn wake_stalled_plans(&self, after: Duration, batch: i64) -> Result<Vec<Due>> {
        let rows = sqlx::query!(
            "-- store::health::plan::wake_stalled
            with stalled as (
                select l.agentable_id, a.kind
                  from houston.plans p
                  join houston.run_locks l on l.agentable_id = p.agentable_id
                  join houston.runs r on r.id = l.run_id
                  join houston.agentables a on a.id = p.agentable_id
                 where p.ended_at is null and not p.paused and p.created_at < now() - make_interval(secs => $1)
                   and r.status = 'waiting' and l.run_open and not l.wake and l.holder is null
                   -- The deadline of the plan is no reason to wait.
                   and coalesce(l.next_attempt_at, p.deadline_at) >= p.deadline_at
                   and (l.woken_at is null or l.woken_at < now() - make_interval(secs => $1))
                   -- It waits since its latest event.
                   and not exists (
                       select from houston.events e
                        where e.agentable_id = l.agentable_id and e.seq = l.last_seq
                          and e.created_at >= now() - make_interval(secs => $1))
                   and not exists (
                       select from houston.plan_steps s join houston.run_locks x on x.agentable_id = s.task_id
                        where s.plan_id = p.agentable_id and s.status = 'running' and s.outcome is null and x.run_open)
                   and not exists (
                       select from houston.questions q
                        where q.agentable_id = l.agentable_id and q.run_id = l.run_id and q.state = 'open')
                 limit $2 for no key update of l skip locked)
            update houston.run_locks l
               set wake = true, next_attempt_at = null, woken_at = statement_timestamp(),
                   waiting_since = statement_timestamp()
              from stalled s where l.agentable_id = s.agentable_id
            returning l.agentable_id, s.kind",
            seconds(after),
            batch
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| Due { agentable: AgentableId(row.agentable_id), kind: row.kind })
            .collect())
    }
}
