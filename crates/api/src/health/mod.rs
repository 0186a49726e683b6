//! Probes: whether the process lives, and whether it should be sent requests. Open to everybody. Beside them, for
//! who has a key, the health of the installation.

pub(crate) mod disk;
pub(crate) mod get;

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use houston_protocol::health::{ReadinessChecks, ReadinessResponse, VersionResponse};
use houston_store::Error;

use crate::state::App;

/// How long Postgres may take to answer a probe.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// `GET /livez`: the process answers; nothing else is asked.
#[utoipa::path(
    get,
    path = "/livez",
    tag = "health",
    operation_id = "get_livez",
    summary = "Whether the process answers",
    responses(
        (status = 200, description = "It answers", body = String)
    ),
    security(()
    ),
)]
pub(crate) async fn live() -> &'static str {
    "ok\n"
}

/// `GET /healthz`: the same as `/livez`, under the name that some balancers ask for.
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "health",
    operation_id = "get_healthz",
    summary = "The same as /livez",
    responses((status = 200, description = "It answers", body = String)),
    security(()),
)]
pub(crate) async fn healthy() -> &'static str {
    live().await
}

/// `GET /readyz`: 503 while Postgres is away or has no room to write, its schema is another's, or the process is about to
/// go. Without Redis everything works, slower, and this says so.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "health",
    operation_id = "get_readyz",
    summary = "Whether the process should be sent requests",
    responses(
        (status = 200, description = "It should", body = ReadinessResponse),
        (status = 503, description = "It should not", body = ReadinessResponse)
    ),
    security(()
    ),
)]
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Response {
    let asked = async {
        let (postgres, schema) = match app.store().check_schema().await {
            Ok(()) => ("ok", "ok"),
            Err(Error::SchemaOlder { .. }) => ("ok", "older than this binary"),
            Err(Error::SchemaNewer { .. }) => ("ok", "newer than this binary"),
            Err(_) => return ("unavailable", "unknown", "unknown"),
        };
        (postgres, schema, if app.disk.is_full(app.store()).await { "full" } else { "ok" })
    };
    let asked = tokio::time::timeout(ANSWERS_WITHIN, asked).await;
    let (postgres, schema, disk) = asked.unwrap_or(("slow", "unknown", "unknown"));
    let draining = app.state.draining.is_cancelled();
    let ready = [postgres, schema, disk] == ["ok"; 3] && !draining;
    let redis = if app.state.redis.is_up() { "hints" } else { "polling postgres each second" };
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let checks = ReadinessChecks {
        postgres: postgres.to_owned(),
        schema: schema.to_owned(),
        disk: disk.to_owned(),
        redis: redis.to_owned(),
    };
    let said = if ready { "ready" } else { "not_ready" };
    let body = ReadinessResponse { status: said.to_owned(), checks, draining };
    (status, Json(body)).into_response()
}

/// `GET /version`
#[utoipa::path(
    get,
    path = "/version",
    tag = "health",
    operation_id = "get_version",
    summary = "Which release answers",
    responses(
        (status = 200, description = "The release", body = VersionResponse)
    ),
    security(()
    ),
)]
pub(crate) async fn version() -> impl IntoResponse {
    Json(VersionResponse { name: "houston".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() })
}
