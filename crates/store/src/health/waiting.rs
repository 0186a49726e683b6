//! Work that waits for a worker: for how long, and how much.

use std::time::Duration;

use chrono::{DateTime, Utc};
use houston_domain::id::AgentableId;

use super::seconds;
use crate::error::Result;
use crate::handle::RunStore;
use crate::sweep::Due;

/// How many of the oldest waiting runs are examined; a longer queue is late in any case.
const LOOKED_AT: i64 = 5000;

/// An agentable that has waited too long for a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LateAgentable {
    /// The agentable and its kind.
    pub due: Due,
    /// How long it has waited, in seconds.
    pub waited_s: i64,
}

/// The amount of waiting work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Depth {
    /// Awake agentables, including those held by a worker.
    pub agentables: i64,
    /// Unread messages, counted up to a thousand.
    pub messages: i64,
    /// When the oldest open run that no worker holds was accepted.
    pub oldest: Option<DateTime<Utc>>,
}

/// Runs that wait for their next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// Number of such runs.
    pub waiting: i64,
    /// How many of them are due.
    pub due: i64,
}

impl RunStore {
    /// Agentables that could have been claimed for longer than `after`, not counting those over the limit of their
    /// user; the longest waiting first, at most `batch`.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn late(&self, after: Duration, batch: i64) -> Result<Vec<LateAgentable>> {
        let rows = sqlx::query!(
            r#"-- store::health::waiting::late
            select l.agentable_id, a.kind,
                   extract(epoch from clock_timestamp() - w.since)::bigint as "waited_s!"
              from ((select id, agentable_id, created_at, started_at, attempt from houston.runs
                      where status in ('queued', 'retrying') order by created_at limit $3)
                    union all
                    select id, agentable_id, created_at, started_at, attempt from houston.runs
                     where status = 'running'
                    union all
                    -- Runs that waited for something that has arrived.
                    select o.id, o.agentable_id, o.created_at, o.started_at, o.attempt from houston.run_locks k
                      join houston.runs o on o.id = k.run_id
                     where k.wake and o.status = 'waiting') as r
              join houston.run_locks l on l.agentable_id = r.agentable_id and l.run_id = r.id
              join houston.agentables a on a.id = l.agentable_id
             cross join lateral (
                   -- Since its latest event: a stored one, or a message.
                   select greatest(r.created_at, l.next_attempt_at, l.woken_at,
                                   case when r.attempt > 0 then greatest(
                                        r.started_at,
                                        (select e.created_at from houston.events e
                                          where e.agentable_id = l.agentable_id and e.seq <= l.last_seq
                                          order by e.seq desc limit 1),
                                        (select m.created_at from houston.messages m
                                          where m.agentable_id = l.agentable_id and m.seq <= l.last_seq
                                          order by m.seq desc limit 1)) end) as since) as w
             where l.wake and l.run_open and l.holder is null
               and (l.next_attempt_at is null or l.next_attempt_at <= clock_timestamp())
               and w.since < now() - make_interval(secs => $1)
               -- Those of a user who has as many runs as may be wait for their turn.
               and houston.free_slots(l.user_id, l.agentable_id, $4) > 0
             order by w.since limit $2"#,
            seconds(after),
            batch,
            LOOKED_AT,
            self.fairness.running()
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| LateAgentable {
                due: Due { agentable: AgentableId(row.agentable_id), kind: row.kind },
                waited_s: row.waited_s,
            })
            .collect())
    }

    /// Wakes open runs that no worker holds and no sweep would find. Every write that releases a run also wakes it,
    /// so there should be none.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn wake_forgotten(&self, batch: i64) -> Result<Vec<Due>> {
        let rows = sqlx::query!(
            "-- store::health::waiting::wake_forgotten
            with forgotten as (
                select l.agentable_id
                  from (select id, agentable_id from houston.runs where status in ('queued', 'retrying')
                        union all
                        select id, agentable_id from houston.runs where status = 'running') as r
                  join houston.run_locks l on l.agentable_id = r.agentable_id and l.run_id = r.id
                 where l.run_open and not l.wake and l.holder is null
                 limit $1 for no key update of l skip locked)
            update houston.run_locks l set wake = true, woken_at = statement_timestamp()
              from forgotten f join houston.agentables a on a.id = f.agentable_id
             where l.agentable_id = f.agentable_id
            returning l.agentable_id, a.kind",
            batch
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| Due { agentable: AgentableId(row.agentable_id), kind: row.kind })
            .collect())
    }

    /// The amount of work that waits for a worker.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn depth(&self) -> Result<Depth> {
        let row = sqlx::query!(
            r#"-- store::health::waiting::depth
            select (select count(*) from houston.run_locks where wake) as "agentables!",
                   (select count(*)
                      from (select agentable_id, read_seq from houston.run_locks where wake limit 1000) as l
                     cross join lateral (
                           select 1 from houston.messages m
                            where m.agentable_id = l.agentable_id and m.seq > l.read_seq and houston.is_for_agent(m.source)
                            limit 1000) as m) as "messages!",
                   (select min(created_at) from houston.runs where status in ('queued', 'retrying')) as oldest"#
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(Depth { agentables: row.agentables, messages: row.messages, oldest: row.oldest })
    }

    /// Runs that wait for their next attempt, counted among the oldest waiting ones.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn retries(&self) -> Result<Retries> {
        let row = sqlx::query!(
            r#"-- store::health::waiting::retries
            select count(*) as "waiting!",
                   count(*) filter (where l.next_attempt_at <= clock_timestamp()) as "due!"
              from (select id, agentable_id from houston.runs where status = 'retrying'
                     order by created_at limit $1) as r
              join houston.run_locks l on l.agentable_id = r.agentable_id and l.run_id = r.id
             where l.run_open"#,
            LOOKED_AT
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(Retries { waiting: row.waiting, due: row.due })
    }
}
