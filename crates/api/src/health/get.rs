//! `GET /v1/health`: what the health monitor found when it last looked, here or outside. It reads one small table;
//! it looks at nothing itself.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::health::{Check, HealthStatus, worst};
use serde::Serialize;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::rfc3339::Time;
use crate::state::App;

#[derive(Debug, Serialize)]
struct Health {
    /// The worst of the checks.
    status: HealthStatus,
    checked_at: Option<Time>,
    checks: Vec<Shown>,
}

#[derive(Debug, Serialize)]
struct Shown {
    id: String,
    status: HealthStatus,
    detail: String,
    since: Time,
}

impl From<Check> for Shown {
    fn from(check: Check) -> Self {
        Self { id: check.id, status: check.status, detail: check.detail, since: Time(check.since) }
    }
}

pub(crate) async fn get(State(app): State<Arc<App>>, _caller: Caller) -> Result<impl IntoResponse, ApiError> {
    let mut health = app.store().health().await?;
    if health.checks.is_empty() {
        health.checks.push(Check {
            id: "monitor".to_owned(),
            status: HealthStatus::Red,
            detail: "nobody has ever looked: start a worker, or run `houston monitor`".to_owned(),
            since: app.now(),
        });
    }
    Ok(Json(Health {
        status: worst(&health.checks),
        checked_at: health.checked_at.map(Time),
        checks: health.checks.into_iter().map(Shown::from).collect(),
    }))
}
