//! The workers of the installation.

pub use houston_domain::worker::{RegisteredWorker as WorkerResponse, WorkerSlots};
use serde::{Deserialize, Serialize};

/// All registered workers: `{"data": [{"id": "worker_0190…", …}]}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkersResponse {
    pub data: Vec<WorkerResponse>,
}
