//! Probes: whether the process lives, and whether it should be sent requests. Open to everybody. Beside them, for
//! who has a key, the health of the installation.

pub(crate) mod get;

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use houston_store::Error;
use serde::Serialize;

use crate::state::App;

/// How long Postgres may take to answer a probe.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

#[derive(Debug, Serialize)]
struct Readiness {
    status: &'static str,
    checks: Checks,
    draining: bool,
}

#[derive(Debug, Serialize)]
struct Checks {
    postgres: &'static str,
    schema: &'static str,
    redis: &'static str,
}

#[derive(Debug, Serialize)]
struct Version {
    name: &'static str,
    version: &'static str,
}

/// `GET /livez`: the process answers; nothing else is asked.
pub(crate) async fn live() -> &'static str {
    "ok\n"
}

/// `GET /readyz`: 503 while Postgres is away, its schema is another's, or the process is about to go. Without
/// Redis everything works, slower, and this says so.
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Response {
    let (postgres, schema) = match tokio::time::timeout(ANSWERS_WITHIN, app.store().check_schema()).await {
        Ok(Ok(())) => ("ok", "ok"),
        Ok(Err(Error::SchemaOlder { .. })) => ("ok", "older than this binary"),
        Ok(Err(Error::SchemaNewer { .. })) => ("ok", "newer than this binary"),
        Ok(Err(_)) => ("unavailable", "unknown"),
        Err(_) => ("slow", "unknown"),
    };
    let draining = app.state.draining.is_cancelled();
    let ready = postgres == "ok" && schema == "ok" && !draining;
    let redis = if app.state.redis.is_up() { "hints" } else { "polling postgres each second" };
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let checks = Checks { postgres, schema, redis };
    let body = Readiness { status: if ready { "ready" } else { "not_ready" }, checks, draining };
    (status, Json(body)).into_response()
}

/// `GET /version`
pub(crate) async fn version() -> impl IntoResponse {
    Json(Version { name: "houston", version: env!("CARGO_PKG_VERSION") })
}
