//! Probes, and the health of the installation.

use houston_domain::health::HealthStatus;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;
use crate::time::Time;

/// The health of the installation, as the health monitor saw it last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HealthResponse {
    /// The worst of the checks.
    #[schema(value_type = schema::HealthStatus)]
    pub status: HealthStatus,
    #[schema(value_type = Option<schema::Time>)]
    pub checked_at: Option<Time>,
    pub checks: Vec<HealthCheckResponse>,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HealthCheckResponse {
    /// As `runs.stuck`.
    pub id: String,
    #[schema(value_type = schema::HealthStatus)]
    pub status: HealthStatus,
    #[schema(value_type = schema::Time)]
    pub since: Time,
}

/// Whether the process should be sent requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReadinessResponse {
    /// `ready` or `not_ready`.
    pub status: String,
    pub checks: ReadinessChecks,
    /// Whether the process is about to stop.
    pub draining: bool,
}

/// What readiness depends on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReadinessChecks {
    /// `ok`, `slow` or `unavailable`.
    pub postgres: String,
    /// `ok`, `older than this binary`, `newer than this binary` or `unknown`.
    pub schema: String,
    /// `ok`; `full` when Postgres has no room to write, or `unknown`.
    pub disk: String,
    /// `hints`; or `polling postgres each second`: everything works, slower.
    pub redis: String,
}

/// Which release answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VersionResponse {
    /// `houston`.
    pub name: String,
    pub version: String,
}
