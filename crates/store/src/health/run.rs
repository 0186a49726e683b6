//! Runs that were begun, and the workers that hold them: attempts that continue although everything that should have ended them had
//! time to, runs that no lock knows, how recent runs ended, and expired leases.

use std::time::Duration;

use houston_domain::id::{AgentableId, RunId};
use houston_domain::intervention::Intervention;

use crate::error::Result;
use crate::handle::RunStore;
use crate::sweep::Due;

/// The error code of a run that no lock knows.
const ZOMBIE: &str = "HEALTH_MONITOR_ZOMBIE";

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
    pub async fn stop_stuck(&self, after: Duration, batch: i64) -> Result<Vec<Stopped>> {
        let rows = sqlx::query_as!(
            Stopped,
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
            returning l.agentable_id as agentable, a.kind, l.run_id as "run!""#,
            after.as_secs_f64(),
            batch,
            Intervention::Stuck.as_str()
        );
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// Cancels runs whose row is open although their agentable's lock refers to another run, at most `batch`. No write of
    /// Houston's causes this. Returns how many.
    pub async fn cancel_zombies(&self, batch: i64) -> Result<u64> {
        let done = sqlx::query!(
            "-- store::health::zombie::cancel
            with zombie as (
                select r.id
                  from (select id, agentable_id from houston.runs where status in ('queued', 'retrying')
                        union all
                        select id, agentable_id from houston.runs where status = 'running') as r
                  join houston.run_locks l on l.agentable_id = r.agentable_id
                 where l.run_id is distinct from r.id or not l.run_open
                 limit $1 for no key update of l skip locked)
            update houston.runs r
               set status = 'cancelled', held_for = null, ended_at = statement_timestamp(), error_code = $2,
                   error_message = 'no lock knew of this run'
              from zombie z where r.id = z.id and r.status in ('queued', 'retrying', 'running')",
            batch,
            ZOMBIE
        )
        .execute(&self.pool)
        .await?;
        Ok(done.rows_affected())
    }

    /// Why `run` is to end; `None` when the health monitor does not want it to.
    pub async fn intervention(&self, run: RunId) -> Result<Option<Intervention>> {
        let reason = sqlx::query_scalar!(
            "-- store::health::intervention::get
            select cancel_reason from houston.runs where id = $1",
            run.0
        )
        .fetch_optional(&self.pool)
        .await?;
        Ok(reason.flatten().and_then(|reason| Intervention::from_name(&reason)))
    }
}

/// The latest runs, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcomes {
    /// Number of runs that were counted.
    pub ended: i64,
    /// How many of them failed.
    pub failed: i64,
}

impl RunStore {
    /// Counts the runs that ended within `window`: at most the latest `sample`.
    pub async fn outcomes(&self, window: Duration, sample: i64) -> Result<Outcomes> {
        let row = sqlx::query_as!(
            Outcomes,
            r#"-- store::health::outcome::count
            select count(*) as "ended!",
                   count(*) filter (where r.status in ('failed', 'dead_lettered')) as "failed!"
              from (select status from houston.runs
                     where ended_at > now() - make_interval(secs => $1)
                     order by ended_at desc limit $2) as r"#,
            window.as_secs_f64(),
            sample
        );
        Ok(row.fetch_one(&self.pool).await?)
    }

    /// Counts the messages given up within `window` because their workers died repeatedly (dead letters).
    pub async fn dead_letters(&self, window: Duration) -> Result<i64> {
        let count = sqlx::query_scalar!(
            r#"-- store::health::outcome::dead_letters
            select count(*) as "count!" from houston.runs
             where ended_at > now() - make_interval(secs => $1) and status = 'dead_lettered'"#,
            window.as_secs_f64()
        );
        Ok(count.fetch_one(&self.pool).await?)
    }
}

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
    pub async fn workers(&self, after: Duration) -> Result<Workers> {
        let row = sqlx::query_as!(
            Workers,
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
            after.as_secs_f64()
        );
        Ok(row.fetch_one(&self.pool).await?)
    }

    /// Whether a worker of this host is alive: workers are named `<host>-<process id>`.
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
    pub async fn release_dead(&self, batch: i64) -> Result<Vec<Due>> {
        let rows = sqlx::query_as!(
            Due,
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
            returning l.agentable_id as agentable, a.kind",
            batch
        );
        Ok(rows.fetch_all(&self.pool).await?)
    }
}
