//! The registered workers, for operators: what each does, and asking one to drain.

use chrono::{DateTime, Utc};
use houston_domain::id::WorkerId;

use crate::error::{Error, Result};
use crate::handle::{ApiStore, OperatorStore, Shared};

/// Maximum number of workers that are listed.
const MAX_WORKERS: i64 = 1_000;

/// A registered worker. What one of an older release does not say of itself is `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredWorker {
    /// The worker's id.
    pub id: WorkerId,
    /// Host and process id, as its process named itself.
    pub name: String,
    /// The host that it runs on.
    pub host: Option<String>,
    /// Its process id there.
    pub pid: Option<i32>,
    /// The release of its binary.
    pub version: Option<String>,
    /// Runs that its process drives at once.
    pub slots: Option<i32>,
    /// How many of those may be of the background.
    pub background_slots: Option<i32>,
    /// Runs that it drives now.
    pub busy: i64,
    /// When it registered.
    pub started_at: DateTime<Utc>,
    /// When it last renewed its lease.
    pub beat_at: DateTime<Utc>,
    /// When its lease ends.
    pub lease_until: DateTime<Utc>,
    /// Whether its lease is valid.
    pub is_alive: bool,
    /// When it was asked to drain.
    pub drain_requested_at: Option<DateTime<Utc>>,
    /// Since when it claims nothing new.
    pub draining_since: Option<DateTime<Utc>>,
}

impl RegisteredWorker {
    /// Whether it claims runs: it is alive and neither drains nor was asked to.
    #[must_use]
    pub fn claims(&self) -> bool {
        self.is_alive && self.drain_requested_at.is_none() && self.draining_since.is_none()
    }
}

impl Shared {
    async fn registered_workers(&self) -> Result<Vec<RegisteredWorker>> {
        let rows = sqlx::query_as!(
            RegisteredWorker,
            r#"-- store::worker_list::list
            select w.id, w.name, w.host, w.pid, w.version, w.slots, w.background_slots, w.started_at, w.beat_at,
                   w.alive_until as lease_until, w.alive_until > clock_timestamp() as "is_alive!", w.drain_requested_at, w.draining_since,
                   (select count(*) from houston.runs r where r.worker_id = w.id and r.status = 'running') as "busy!"
              from houston.workers w order by w.started_at, w.id limit $1"#,
            MAX_WORKERS
        );
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// The worker reads this with the next look at its lease, at most half a second later.
    async fn ask_to_drain(&self, worker: WorkerId) -> Result<()> {
        let done = sqlx::query!(
            "-- store::worker_list::drain
            update houston.workers set drain_requested_at = least(drain_requested_at, statement_timestamp()) where id = $1",
            worker.0
        )
        .execute(&self.pool)
        .await?;
        if done.rows_affected() == 0 { Err(Error::NotFound { what: "worker" }) } else { Ok(()) }
    }
}

impl ApiStore {
    /// The workers of all tenants, the oldest first: for a caller who operates the installation.
    pub async fn list_workers(&self) -> Result<Vec<RegisteredWorker>> {
        self.shared.registered_workers().await
    }

    /// Asks a worker to drain, as SIGTERM does. Idempotent; it cannot be taken back.
    pub async fn drain_worker(&self, worker: WorkerId) -> Result<()> {
        self.shared.ask_to_drain(worker).await
    }
}

impl OperatorStore<'_> {
    /// See [`ApiStore::list_workers`].
    pub async fn list_workers(self) -> Result<Vec<RegisteredWorker>> {
        self.shared.registered_workers().await
    }
}
