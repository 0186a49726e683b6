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
    since: Time,
}

impl From<Check> for Shown {
    fn from(check: Check) -> Self {
        Self { id: check.id, status: check.status, since: Time(check.since) }
    }
}

pub(crate) async fn get(State(app): State<Arc<App>>, _caller: Caller) -> Result<impl IntoResponse, ApiError> {
    let mut health = app.store().health().await?;
    if health.checks.is_empty() {
        // Nobody has ever looked: there is no worker, and no `houston monitor` either.
        let (id, detail) = ("monitor".to_owned(), String::new());
        health.checks.push(Check { id, status: HealthStatus::Red, detail, since: app.now() });
    }
    Ok(Json(Health {
        status: worst(&health.checks),
        checked_at: health.checked_at.map(Time),
        checks: health.checks.into_iter().map(Shown::from).collect(),
    }))
}
