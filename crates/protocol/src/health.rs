//! Probes, and the health of the installation.

use houston_domain::health::HealthStatus;
use serde::{Deserialize, Serialize};

use crate::time::Time;

/// The health of the installation, from the last run of the health monitor.
///
/// ```json
/// {"status": "ok", "checked_at": "2026-11-22T09:00:00.000Z",
///  "checks": [{"id": "stuck_runs", "status": "ok", "since": "2026-11-20T10:00:00.000Z"}]}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HealthResponse {
    /// The highest severity of the checks.
    pub status: HealthStatus,
    /// When the health monitor last ran; null if it never did.
    pub checked_at: Option<Time>,
    pub checks: Vec<HealthCheckResponse>,
}

/// The result of one check: `{"id": "stuck_runs", "status": "ok", "since": "2026-11-20T10:00:00.000Z"}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HealthCheckResponse {
    /// The name of the check, as in `stuck_runs`.
    pub id: String,
    pub status: HealthStatus,
    /// Since when the check has this status.
    pub since: Time,
}

/// Whether the process accepts requests.
///
/// ```json
/// {"status": "ready", "checks": {"postgres": "ok", "schema": "ok", "disk": "ok", "redis": "hints"}, "draining": false}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReadinessResponse {
    /// `ready` or `not_ready`.
    pub status: String,
    pub checks: ReadinessChecks,
    /// Whether the process is shutting down.
    pub draining: bool,
}

/// The checks of readiness: `{"postgres": "ok", "schema": "ok", "disk": "ok", "redis": "hints"}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReadinessChecks {
    /// `ok`; `slow`: no answer within a second; or `unavailable`: Postgres cannot be reached.
    pub postgres: String,
    /// `ok`, `older than this binary`, `newer than this binary`, `functions of another version` or `unknown`.
    pub schema: String,
    /// `ok`; `full` when Postgres cannot write; or `unknown`.
    pub disk: String,
    /// `hints`; or `polling postgres each second`: Houston works without Redis, but slower.
    pub redis: String,
}

/// The release of the server: `{"name": "houston", "version": "0.1.0"}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct VersionResponse {
    /// Always `houston`.
    pub name: String,
    pub version: String,
}
