//! The lease of a worker process: one row, renewed over a connection of its own, so that a drained pool or a
//! blocked runtime cannot lose it. The database's clock decides, never a worker's.

use std::time::Duration;

use houston_domain::id::WorkerId;
use sqlx::{ConnectOptions, Connection, PgConnection};

use crate::error::Result;
use crate::pool::{Store, connect_options};

/// The connection that carries a worker's lease and its advisory lock: kill -9 drops the lock at once, which
/// tells the others sooner than the lease's end would.
#[derive(Debug)]
pub struct LeaseConnection {
    connection: PgConnection,
    worker: WorkerId,
    lease: Duration,
    locked: bool,
}

/// The advisory lock of a worker: the random half of its id.
fn advisory_key(worker: WorkerId) -> i64 {
    let bytes = worker.0.as_u128() & u128::from(u64::MAX);
    #[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "any 64 bits will do")]
    let key = bytes as u64 as i64;
    key
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

impl LeaseConnection {
    /// Connects, and takes the advisory lock of `worker`, unless a connection of its that broke still has it.
    ///
    /// # Errors
    /// What the database says.
    pub async fn open(url: &str, worker: WorkerId, lease: Duration) -> Result<Self> {
        let connection = connect_options(url, "houston lease")?.connect().await?;
        let mut this = Self { connection, worker, lease, locked: false };
        this.lock().await?;
        Ok(this)
    }

    async fn lock(&mut self) -> Result<()> {
        self.locked = sqlx::query_scalar!(
            r#"-- store::lease::lock
            select pg_try_advisory_lock($1) as "locked!""#,
            advisory_key(self.worker)
        )
        .fetch_one(&mut self.connection)
        .await?;
        Ok(())
    }

    /// Whether this connection has the advisory lock; else it is tried for at each renewal.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.locked
    }

    /// Whether the worker's row is still there: it was not reaped.
    ///
    /// # Errors
    /// That the connection broke, and with it the advisory lock.
    pub async fn look(&mut self) -> Result<bool> {
        let is_there = sqlx::query_scalar!(
            r#"-- store::lease::look
            select exists (select from houston.workers where id = $1) as "is_there!""#,
            self.worker.0
        );
        Ok(is_there.fetch_one(&mut self.connection).await?)
    }

    /// Whose lease it carries.
    #[must_use]
    pub fn worker(&self) -> WorkerId {
        self.worker
    }

    /// Puts the worker's row in place: from now on it may claim.
    ///
    /// # Errors
    /// What the database says.
    pub async fn register(&mut self, name: &str) -> Result<()> {
        sqlx::query!(
            "-- store::lease::register
            insert into houston.workers (id, name, alive_until)
            values ($1, $2, clock_timestamp() + make_interval(secs => $3))",
            self.worker.0,
            name,
            seconds(self.lease)
        )
        .execute(&mut self.connection)
        .await?;
        Ok(())
    }

    /// Renews the lease. `false`: the row was reaped and never comes back; drop every run, begin anew under a
    /// fresh id.
    ///
    /// # Errors
    /// What the database says.
    pub async fn renew(&mut self) -> Result<bool> {
        if !self.locked {
            self.lock().await?;
        }
        let done = sqlx::query!(
            "-- store::lease::renew
            update houston.workers
               set beat_at = clock_timestamp(), alive_until = clock_timestamp() + make_interval(secs => $2)
             where id = $1",
            self.worker.0,
            seconds(self.lease)
        )
        .execute(&mut self.connection)
        .await?;
        Ok(done.rows_affected() == 1)
    }

    /// Takes the row away and lets go of what the worker holds. It lives: nothing is held against its runs.
    ///
    /// # Errors
    /// What the database says.
    pub async fn resign(mut self) -> Result<()> {
        let worker = self.worker;
        self.let_go(worker).await?;
        self.connection.close().await?;
        Ok(())
    }

    /// Lets go of everything that `worker`, an earlier id of this process, holds, and takes back that runs died with
    /// it: it was taken for dead, or lost its lease, and lives. Once or twice, all is the same.
    ///
    /// # Errors
    /// What the database says.
    pub async fn let_go(&mut self, worker: WorkerId) -> Result<()> {
        sqlx::query!(
            "-- store::lease::let_go
            with gone as (delete from houston.workers where id = $1),
            held as (
                select l.agentable_id from houston.runs r
                  join houston.run_locks l on l.agentable_id = r.agentable_id and l.holder = $1
                 where r.worker_id = $1 and r.status = 'running'
                 order by l.agentable_id for no key update of l)
            update houston.run_locks l set holder = null, wake = true, woken_at = clock_timestamp()
              from held where l.agentable_id = held.agentable_id",
            worker.0
        )
        .execute(&mut self.connection)
        .await?;
        // After that: who claimed one of them meanwhile has written the death down.
        sqlx::query!(
            "-- store::lease::acquit
            with wronged as (
                select agentable_id from houston.run_locks
                 where died_with <> '{}' and $1 = any (died_with)
                 order by agentable_id for no key update)
            update houston.run_locks l set died_with = array_remove(l.died_with, $1)
              from wronged where l.agentable_id = wronged.agentable_id",
            worker.0
        )
        .execute(&mut self.connection)
        .await?;
        Ok(())
    }
}

/// A worker whose advisory lock is free: it died, or lost its connection and has not noticed yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Suspect {
    /// Which worker.
    pub worker: WorkerId,
    /// Its last renewal, in microseconds of the database's clock.
    pub beat: i64,
}

impl Store {
    /// Workers that look dead although their lease runs: nobody holds their advisory lock, and the server has
    /// not restarted since their last renewal (a restart drops the locks of the living too), or so long ago that
    /// the living have come back: `settled`.
    ///
    /// # Errors
    /// What the database says.
    pub async fn suspects(&self, settled: Duration) -> Result<Vec<Suspect>> {
        let workers = sqlx::query!(
            r#"-- store::lease::suspects
            select id, (extract(epoch from beat_at) * 1000000)::bigint as "beat!"
              from houston.workers
             where alive_until > clock_timestamp()
               and (beat_at > pg_postmaster_start_time()
                    or pg_postmaster_start_time() < clock_timestamp() - make_interval(secs => $1))"#,
            seconds(settled)
        )
        .fetch_all(&self.pool)
        .await?;
        let keys: Vec<i64> = workers.iter().map(|worker| advisory_key(WorkerId(worker.id))).collect();
        let free = sqlx::query_scalar!(
            r#"-- store::lease::free_locks
            select k.key as "key!" from unnest($1::bigint[]) as k (key)
             where not exists (
                   select from pg_locks l
                    where l.locktype = 'advisory' and l.granted and l.objsubid = 1
                      and l.database = (select oid from pg_database where datname = current_database())
                      and l.classid::bigint = ((k.key >> 32) & 4294967295)
                      and l.objid::bigint = (k.key & 4294967295))"#,
            &keys
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(workers
            .into_iter()
            .map(|worker| Suspect { worker: WorkerId(worker.id), beat: worker.beat })
            .filter(|suspect| free.contains(&advisory_key(suspect.worker)))
            .collect())
    }

    /// Reaps workers whose lease has run out, and these suspects unless they have renewed since. Returns who
    /// was reaped. A wrong guess loses nothing: every write of a run is fenced.
    ///
    /// # Errors
    /// What the database says.
    pub async fn reap(&self, suspects: &[Suspect]) -> Result<Vec<WorkerId>> {
        let ids: Vec<uuid::Uuid> = suspects.iter().map(|suspect| suspect.worker.0).collect();
        let beats: Vec<i64> = suspects.iter().map(|suspect| suspect.beat).collect();
        let reaped = sqlx::query_scalar!(
            "-- store::lease::reap
            delete from houston.workers w
             where w.alive_until <= clock_timestamp()
                or exists (select from unnest($1::uuid[], $2::bigint[]) as s (id, beat)
                            where s.id = w.id and s.beat = (extract(epoch from w.beat_at) * 1000000)::bigint)
            returning w.id",
            &ids,
            &beats
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(reaped.into_iter().map(WorkerId).collect())
    }
}
