//! `GET /v1/health`: the latest result of each check of the health monitor, in a worker or in `houston monitor`. Reads
//! one small table and runs no checks itself.
//!
//! A key belongs to one tenant, but the findings of a check are about all tenants: how many runs failed, how long work
//! waits. So the response has only the checks, their status and since when; the findings are for the operator of the
//! installation (`houston monitor`).

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::health::{Check, HealthStatus, worst};
use houston_protocol::health::{HealthCheckResponse, HealthResponse};
use houston_protocol::time::Time;

use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    GET: get "/v1/health" => get,
    tag = "health",
    operation_id = "get_health",
    summary = "Get the health of the installation.",
    responses(
        (status = 200, description = "The latest results of the health monitor.", body = HealthResponse)
    ),
}

pub(crate) async fn get(State(app): State<Arc<App>>, _caller: Caller) -> Result<impl IntoResponse, ApiError> {
    let mut health = app.api_store().health().await?;
    if health.checks.is_empty() {
        // No check has ever run: there is no worker and no `houston monitor`.
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
