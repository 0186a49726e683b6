//! Expired leases, and whether any worker is alive.

use std::time::Duration;

use houston_domain::id::AgentableId;

use super::seconds;
use crate::error::Result;
use crate::handle::RunStore;
use crate::sweep::Due;

/// Workers, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workers {
    /// Workers whose lease is valid.
    pub alive: i64,
    /// Workers whose lease expired so long ago that they should have been reaped.
    pub overdue: i64,
    /// Those alive that should have renewed their lease twice since they did.
    pub silent: i64,
    /// Whether any run waits for a worker, or is held by a dead one.
    pub work_is_due: bool,
}

impl RunStore {
    /// Counts workers; `overdue` are those whose lease expired longer than `after` ago.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn workers(&self, after: Duration) -> Result<Workers> {
        let row = sqlx::query!(
            r#"-- store::health::lease::workers
            select count(*) filter (where alive_until > clock_timestamp()) as "alive!",
                   count(*) filter (where alive_until < clock_timestamp() - make_interval(secs => $1))
                       as "overdue!",
                   count(*) filter (where alive_until > clock_timestamp()
                                      and beat_at + 0.4 * (alive_until - beat_at) < clock_timestamp()) as "silent!",
                   exists (select from houston.run_locks
                            where wake and run_open
                              and (next_attempt_at is null or next_attempt_at <= clock_timestamp()))
                   or exists (select from houston.runs r
                                join houston.run_locks l on l.agentable_id = r.agentable_id and l.run_id = r.id
                               where r.status = 'running' and l.holder is not null
                                 and not exists (select from houston.workers h
                                                  where h.id = l.holder and h.alive_until > clock_timestamp()))
                       as "work_is_due!"
              from houston.workers"#,
            seconds(after)
        )
        .fetch_one(&self.pool)
        .await?;
        let (alive, silent) = (row.alive, row.silent);
        Ok(Workers { alive, overdue: row.overdue, silent, work_is_due: row.work_is_due })
    }

    /// Whether a worker of this host is alive: workers are named `<host>-<process id>`.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn worker_is_alive_on(&self, host: &str) -> Result<bool> {
        let is_alive = sqlx::query_scalar!(
            r#"-- store::health::lease::worker_is_alive_on
            select exists (select from houston.workers
                            where alive_until > clock_timestamp()
                              and regexp_replace(name, '-[0-9]+$', '') = $1) as "is_alive!""#,
            host
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(is_alive)
    }

    /// Releases the locks of dead workers, so that their runs count as waiting; the next worker continues them.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn release_dead(&self, batch: i64) -> Result<Vec<Due>> {
        let rows = sqlx::query!(
            "-- store::health::lease::release_dead
            with held as (
                select l.agentable_id from houston.runs r
                  join houston.run_locks l on l.agentable_id = r.agentable_id and l.run_id = r.id
                 where r.status = 'running' and l.holder is not null
                   and not exists (select from houston.workers w
                                    where w.id = l.holder and w.alive_until > clock_timestamp())
                 limit $1 for no key update of l skip locked)
            update houston.run_locks l
               set holder = null, wake = true, woken_at = statement_timestamp(), died_with = l.died_with || l.holder
              from held join houston.agentables a on a.id = held.agentable_id
             where l.agentable_id = held.agentable_id
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
}
