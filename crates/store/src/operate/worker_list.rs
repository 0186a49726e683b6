//! The registered workers, for operators: what each does, and asking one to drain.

use houston_domain::agentable::{Lane, Urgency};
use houston_domain::id::WorkerId;
pub use houston_domain::worker::RegisteredWorker;
use houston_domain::worker::WorkerSlots;

use crate::error::{Error, Result};
use crate::handle::ApiStore;
use crate::statement::Statement as _;

/// Maximum number of workers that are listed.
const MAX_WORKERS: i64 = 1_000;

impl ApiStore {
    /// The workers of all tenants, the oldest first: for a caller who operates the installation.
    pub async fn list_workers(&self) -> Result<Vec<RegisteredWorker>> {
        let rows = sqlx::query!(
            r#"-- store::worker_list::list
            select w.id, w.name, w.host, w.pid, w.version, w.slots, w.background_slots, w.started_at, w.beat_at,
                   w.alive_until as lease_until, w.alive_until > clock_timestamp() as "is_alive!", w.drain_requested_at, w.draining_since,
                   (select count(*) from houston.runs r where r.worker_id = w.id and r.status = 'running') as "busy!"
              from houston.workers w order by w.started_at, w.id limit $1"#,
            MAX_WORKERS
        )
        .map(|row| RegisteredWorker {
            id: row.id.into(),
            name: row.name,
            host: row.host,
            pid: row.pid,
            version: row.version,
            status: match row.drain_requested_at.or(row.draining_since) {
                _ if !row.is_alive => "dead",
                None => "alive",
                Some(_) => "draining",
            }
            .to_owned(),
            lanes: [Urgency::Interactive, Urgency::Background]
                .map(|lane| Lane::from(lane).as_str().to_owned())
                .to_vec(),
            slots: WorkerSlots { total: row.slots, background: row.background_slots, busy: row.busy },
            started_at: row.started_at.into(),
            beat_at: row.beat_at.into(),
            lease_until: row.lease_until.into(),
            drain_requested_at: row.drain_requested_at.map(Into::into),
            draining_since: row.draining_since.map(Into::into),
        });
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// Asks a worker to drain, as SIGTERM does. It reads this with the next look at its lease, at most half a second later.
    /// Idempotent; it cannot be taken back.
    pub async fn drain_worker(&self, worker: WorkerId) -> Result<()> {
        sqlx::query!(
            "-- store::worker_list::drain
            update houston.workers set drain_requested_at = least(drain_requested_at, statement_timestamp()) where id = $1",
            worker.0
        )
        .run_or(&self.pool, Error::NotFound { what: "worker" })
        .await
    }
}
