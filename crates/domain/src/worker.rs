//! The workers of the installation.

use serde::{Deserialize, Serialize};

use crate::id::WorkerId;
use crate::time::Time;

/// A worker process. With several cells, a process has one worker in each, and they share its slots.
///
/// ```json
/// {"id": "worker_0190…", "name": "host-17", "host": "host", "pid": 17, "version": "0.1.0", "status": "alive",
///  "lanes": ["interactive", "background"], "slots": {"total": 64, "background": 32, "busy": 3},
///  "started_at": "2026-11-22T09:00:00.000Z", "beat_at": "2026-11-22T09:10:00.000Z",
///  "lease_until": "2026-11-22T09:10:30.000Z", "drain_requested_at": null, "draining_since": null}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = WorkerResponse))]
pub struct RegisteredWorker {
    pub id: WorkerId,
    /// Host and process id.
    pub name: String,
    /// Null for a worker of an older release, as are the process id, the version and the slots.
    pub host: Option<String>,
    pub pid: Option<i32>,
    /// The release of its binary.
    pub version: Option<String>,
    /// `alive`; `draining`: it claims nothing new and ends; `dead`: its lease has expired, and others take its runs.
    pub status: String,
    /// The lanes that it takes runs of.
    pub lanes: Vec<String>,
    pub slots: WorkerSlots,
    pub started_at: Time,
    /// When it last renewed its lease.
    pub beat_at: Time,
    /// When its lease ends, if it is not renewed.
    pub lease_until: Time,
    /// When it was asked to drain.
    pub drain_requested_at: Option<Time>,
    /// Since when it claims nothing new.
    pub draining_since: Option<Time>,
}

impl RegisteredWorker {
    /// Whether it claims runs: it is alive and neither drains nor was asked to.
    pub fn claims(&self) -> bool {
        self.status == "alive"
    }
}

/// Runs that a worker drives at once: `{"total": 64, "background": 32, "busy": 3}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkerSlots {
    pub total: Option<i32>,
    /// How many of them may be of the background.
    pub background: Option<i32>,
    /// Runs that it drives now.
    pub busy: i64,
}
