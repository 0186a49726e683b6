//! `GET /v1/health`: how each check of the health monitor stood when it last looked, here or outside. It reads one
//! small table; it looks at nothing itself.
//!
//! A key belongs to a tenant, and what a check has found is about all of them: how many runs failed, how long work
//! waits. So this says which checks there are, how bad it is, and since when; the counts are for who operates the
//! installation, and `houston monitor` shows them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::health::{Check, HealthStatus, worst};
use houston_protocol::health::{HealthCheckResponse, HealthResponse};
use houston_protocol::time::Time;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::state::App;

#[utoipa::path(
    get,
    path = "/v1/health",
    tag = "health",
    operation_id = "get_health",
    summary = "The health of the installation",
    responses(
        (status = 200, description = "As the health monitor saw it last", body = HealthResponse)
    ),
)]
pub(crate) async fn get(State(app): State<Arc<App>>, _caller: Caller) -> Result<impl IntoResponse, ApiError> {
    let mut health = app.store().health().await?;
    if health.checks.is_empty() {
        // Nobody has ever looked: there is no worker, and no `houston monitor` either.
        let (id, detail) = ("monitor".to_owned(), String::new());
        health.checks.push(Check { id, status: HealthStatus::Red, detail, since: app.now() });
    }
    Ok(Json(HealthResponse {
        status: worst(&health.checks),
        checked_at: health.checked_at.map(Time),
        checks: health.checks.into_iter().map(response).collect(),
    }))
}

fn response(check: Check) -> HealthCheckResponse {
    HealthCheckResponse { id: check.id, status: check.status, since: Time(check.since) }
}
