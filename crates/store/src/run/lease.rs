//! The lease of a worker process: one row, renewed over a connection of its own, so that an exhausted pool or a
//! blocked runtime cannot lose it. It expires by the database's clock, never by a worker's.
//!
//! The connection holds an advisory lock, which Postgres releases as soon as the process dies. Each worker tries the lock of
//! one other with every look, so that a death is noticed within a look, long before the lease expires.

use std::time::{Duration, Instant};

use houston_domain::id::WorkerId;
use sqlx::{Connection, PgConnection, PgExecutor};

use crate::error::Result;
use crate::handle::RunStore;
use crate::primary::{self, addresses};
use crate::statement::Statement as _;
use crate::timeline::Newest;

/// The connection that renews a worker's lease and holds its advisory lock. Postgres releases the lock as soon as
/// the process dies, so other workers notice a kill -9 before the lease expires.
#[derive(Debug)]
pub struct LeaseConnection {
    connection: PgConnection,
    worker: WorkerId,
    lease: Duration,
    locked: bool,
    opened: Instant,
    newest: Newest,
    /// The worker whose lock the next look tries: the next one by id, behind the last the first.
    neighbour: Option<WorkerId>,
}

/// How a worker introduces itself to operators.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkerDescription {
    /// Host and process id.
    pub name: String,
    /// The host.
    pub host: Option<String>,
    /// The process id there.
    pub pid: Option<i32>,
    /// The release of the binary.
    pub version: Option<String>,
    /// Runs that the process drives at once.
    pub slots: Option<i32>,
    /// How many of those may be of the background.
    pub background_slots: Option<i32>,
}

/// What operators want of a living worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// Whether it is asked to drain.
    pub is_asked_to_drain: bool,
    /// The names of the lanes that are paused, for all workers.
    pub paused_lanes: Vec<String>,
    /// The advisory lock of this worker's neighbour is free although its lease is valid: it died, or has lost its connection.
    pub is_neighbour_gone: bool,
}

/// The key of a worker's advisory lock: the random half of its id.
fn advisory_key(worker: WorkerId) -> i64 {
    let bytes = worker.0.as_u128() & u128::from(u64::MAX);
    #[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "any 64 bits will do")]
    let key = bytes as u64 as i64;
    key
}

impl LeaseConnection {
    /// Connects and tries to take the advisory lock of `worker`. An earlier, broken connection may still hold it.
    pub async fn open(url: &str, worker: WorkerId, lease: Duration) -> Result<Self> {
        let addresses = addresses(url, "houston lease")?;
        let (_, connection) = primary::connect(&addresses.sessions, &addresses.newest).await?;
        let (opened, newest) = (Instant::now(), addresses.newest);
        let mut this = Self { connection, worker, lease, locked: false, opened, newest, neighbour: None };
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

    /// Whether this connection holds the advisory lock. If not, each renewal tries again.
    pub fn is_locked(&self) -> bool {
        self.locked
    }

    /// Reads the worker's row, and tries the lock of its neighbour. `None`: the row was reaped.
    ///
    /// The workers form a ring: each watches one other, so that what a look costs does not grow with their number. A lock that
    /// is free is held shared for a moment, in which its owner cannot take it; the owner tries again at its next look.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when the connection broke, and the advisory lock with it.
    pub async fn look(&mut self) -> Result<Option<Look>> {
        let watched = self.neighbour;
        let found = sqlx::query!(
            r#"-- store::lease::look
            select w.drain_requested_at is not null as "is_asked!",
                   coalesce((select array_agg(p.lane) from houston.paused_lanes p), '{}') as "paused!",
                   coalesce((select n.id from houston.workers n
                              where n.id > $1 and n.alive_until > statement_timestamp() order by n.id limit 1),
                            (select n.id from houston.workers n
                              where n.id < $1 and n.alive_until > statement_timestamp() order by n.id limit 1))
                       as neighbour,
                   case when $2::bigint is null then false
                        when pg_try_advisory_lock_shared($2) then pg_advisory_unlock_shared($2)
                        else false end as "is_free!"
              from houston.workers w where w.id = $1"#,
            self.worker.0,
            watched.map(advisory_key)
        );
        let Some(row) = found.fetch_optional(&mut self.connection).await? else { return Ok(None) };
        self.neighbour = row.neighbour.map(WorkerId);
        Ok(Some(Look {
            is_asked_to_drain: row.is_asked,
            paused_lanes: row.paused,
            // A neighbour that gave its lease back has no row.
            is_neighbour_gone: row.is_free && self.neighbour == watched,
        }))
    }

    /// The worker whose lease this is.
    pub fn worker(&self) -> WorkerId {
        self.worker
    }

    /// Inserts the worker's row: from now on it may claim.
    pub async fn register(&mut self, worker: WorkerDescription) -> Result<()> {
        let WorkerDescription { name, host, pid, version, slots, background_slots } = worker;
        sqlx::query!(
            "-- store::lease::register
            insert into houston.workers (id, name, alive_until, host, pid, version, slots, background_slots)
            values ($1, $2, clock_timestamp() + make_interval(secs => $3), $4, $5, $6, $7, $8)",
            self.worker.0,
            name,
            self.lease.as_secs_f64(),
            host,
            pid,
            version,
            slots,
            background_slots
        )
        .run(&mut self.connection)
        .await
    }

    /// Renews the lease. Returns `false` when the row was reaped: it never comes back, so the worker must drop all
    /// its runs and register under a new id.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement, or has become a
    /// former primary.
    pub async fn renew(&mut self) -> Result<bool> {
        if !self.newest.is_current(self.opened.elapsed()) {
            let text = "the lease is at a former primary";
            return Err(sqlx::Error::Io(std::io::Error::other(text)).into());
        }
        if !self.locked {
            self.lock().await?;
        }
        let done = sqlx::query!(
            "-- store::lease::renew
            with t as materialized (select statement_timestamp() as at)
            update houston.workers w
               set beat_at = t.at, alive_until = t.at + make_interval(secs => $2),
                   -- The lease was over: the worker slept, or did not reach Postgres.
                   served_since = case when w.alive_until < t.at then t.at else w.served_since end
              from t where w.id = $1",
            self.worker.0,
            self.lease.as_secs_f64()
        );
        Ok(done.execute(&mut self.connection).await?.rows_affected() == 1)
    }

    /// Writes for operators that the worker claims nothing new.
    pub async fn tell_draining(&mut self) -> Result<()> {
        sqlx::query!(
            "-- store::lease::tell_draining
            update houston.workers set draining_since = statement_timestamp() where id = $1 and draining_since is null",
            self.worker.0
        )
        .run(&mut self.connection)
        .await
    }

    /// Deletes the worker's row and releases its locks at a graceful shutdown. Its runs count no death.
    pub async fn deregister(mut self) -> Result<()> {
        release_locks(&mut self.connection, self.worker).await?;
        self.connection.close().await?;
        Ok(())
    }

    /// Releases all locks of `worker`, an earlier id of this process, and takes back the deaths counted for its
    /// runs: the worker lost its lease but is alive. Idempotent.
    pub async fn release_locks(&mut self, worker: WorkerId) -> Result<()> {
        release_locks(&mut self.connection, worker).await
    }
}

/// Deletes the row of a worker and releases its locks; with `is_dead`, counts a death of the runs that it held.
async fn let_go(executor: impl PgExecutor<'_>, worker: WorkerId, is_dead: bool) -> Result<()> {
    sqlx::query!(
        "-- store::lease::let_go
        with gone as (delete from houston.workers where id = $1),
        held as (
            select l.agentable_id from houston.runs r
              join houston.run_locks l on l.agentable_id = r.agentable_id and l.holder = $1
             where r.worker_id = $1 and r.status = 'running'
             order by l.agentable_id for no key update of l)
        update houston.run_locks l
           set died_with = case when $2 then l.died_with || $1::uuid else l.died_with end, holder = null, wake = true,
               woken_at = statement_timestamp()
          from held where l.agentable_id = held.agentable_id",
        worker.0,
        is_dead
    )
    .run(executor)
    .await
}

async fn release_locks(connection: &mut PgConnection, worker: WorkerId) -> Result<()> {
    let_go(&mut *connection, worker, false).await?;
    // Only after the release: a claim of one of these runs in between has recorded the death.
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
    .run(&mut *connection)
    .await
}

/// A worker whose advisory lock is free: it died, or lost its connection and has not noticed yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SuspectedWorker {
    /// The worker's id.
    pub worker: WorkerId,
    /// Its last renewal, in microseconds of the database's clock.
    pub beat: i64,
    /// Whether it may just not have reconnected yet: Postgres has restarted a short time ago.
    pub is_excused: bool,
}

impl RunStore {
    /// Workers that look dead although their lease is still valid: their advisory lock is free. Since a restart of
    /// Postgres releases the locks of living workers too, a worker is excused unless it renewed its lease after the
    /// restart, or the restart is longer ago than `settled`, the time living workers need to reconnect.
    ///
    /// A promoted standby has not restarted, and never had the locks. There a worker is excused until it has renewed once, or
    /// its lease is over: how long ago the promotion was cannot be read.
    pub async fn suspected_workers(&self, settled: Duration) -> Result<Vec<SuspectedWorker>> {
        let mut workers = sqlx::query_as!(
            SuspectedWorker,
            r#"-- store::lease::suspects
            select id as worker, (extract(epoch from beat_at) * 1000000)::bigint as "beat!",
                   beat_at <= pg_postmaster_start_time()
                   and pg_postmaster_start_time() >= clock_timestamp() - make_interval(secs => $1)
                   or coalesce(beat_at <= pg_last_xact_replay_timestamp(), false) as "is_excused!"
              from houston.workers
             where alive_until > clock_timestamp()"#,
            settled.as_secs_f64()
        )
        .fetch_all(&self.pool)
        .await?;
        let ids: Vec<WorkerId> = workers.iter().map(|suspect| suspect.worker).collect();
        let free = self.free_locks(&ids).await?;
        workers.retain(|suspect| free.contains(&advisory_key(suspect.worker)));
        Ok(workers)
    }

    /// The advisory locks of these workers that are free.
    async fn free_locks(&self, workers: &[WorkerId]) -> Result<Vec<i64>> {
        let keys: Vec<i64> = workers.iter().copied().map(advisory_key).collect();
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
        );
        Ok(free.fetch_all(&self.pool).await?)
    }

    /// Deletes the row of a worker whose process has ended, as its parent knows, and counts the death of the run that it held.
    pub async fn bury(&self, worker: WorkerId) -> Result<()> {
        let_go(&self.pool, worker, true).await
    }

    /// Deletes the rows of workers whose lease has expired, and of these suspected workers unless they have renewed
    /// since. Returns the reaped ids. A wrong guess loses nothing: every write of a run is fenced.
    ///
    /// A worker that still holds its advisory lock is not dead: it is stopped, or cut off from Postgres. Its runs count
    /// no death.
    pub async fn reap(&self, suspects: &[SuspectedWorker]) -> Result<Vec<WorkerId>> {
        let ids: Vec<uuid::Uuid> = suspects.iter().map(|suspect| suspect.worker.0).collect();
        let beats: Vec<i64> = suspects.iter().map(|suspect| suspect.beat).collect();
        let reaped = sqlx::query_scalar!(
            "-- store::lease::reap
            delete from houston.workers w
             where w.alive_until <= statement_timestamp()
                or exists (select from unnest($1::uuid[], $2::bigint[]) as s (id, beat)
                            where s.id = w.id and s.beat = (extract(epoch from w.beat_at) * 1000000)::bigint)
            returning w.id",
            &ids,
            &beats
        )
        .fetch_all(&self.pool)
        .await?;
        let reaped: Vec<WorkerId> = reaped.into_iter().map(WorkerId).collect();
        if !reaped.is_empty() {
            let free = self.free_locks(&reaped).await?;
            for worker in reaped.iter().filter(|worker| !free.contains(&advisory_key(**worker))) {
                release_locks(&mut *self.pool.acquire().await?, *worker).await?;
            }
        }
        Ok(reaped)
    }
}
