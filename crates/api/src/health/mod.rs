//! Liveness and readiness probes and the version, without an API key; the health of the installation, with one.

pub(crate) mod disk;
pub(crate) mod get;
pub(crate) mod history;

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use houston_protocol::health::{ReadinessChecks, ReadinessResponse, VersionResponse};
use houston_store::Error;

use crate::endpoint::endpoint;
use crate::state::App;

/// Time limit for the queries of a probe.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// Time after which a probe without an answer connects to Postgres itself: the pool repeats refused attempts until its own
/// time limit, and does not report them before.
const CONNECTS_AFTER: Duration = Duration::from_millis(300);

/// A newer release has migrated since this process began.
const NEWER: &str = "newer than this binary";
/// A release whose functions differ has migrated since this process began.
const OTHER_FUNCTIONS: &str = "functions of another version";

endpoint! {
    LIVE: get "/livez" => live,
    tag = "health",
    operation_id = "get_livez",
    summary = "Liveness probe: the process answers.",
    responses(
        (status = 200, description = "The process answers.", body = String),
        (status = 431, description = "The head of the request is too long.")
    ),
    security(()),
}

/// `GET /livez`: the process answers; nothing else is checked.
pub(crate) async fn live() -> &'static str {
    "ok\n"
}

endpoint! {
    HEALTHY: get "/healthz" => healthy,
    tag = "health",
    operation_id = "get_healthz",
    summary = "Alias of /livez.",
    responses(
        (status = 200, description = "The process answers.", body = String),
        (status = 431, description = "The head of the request is too long.")
    ),
    security(()),
}

/// `GET /healthz`: an alias of `/livez` for load balancers that expect this name.
pub(crate) async fn healthy() -> &'static str {
    live().await
}

endpoint! {
    READY: get "/readyz" => ready,
    tag = "health",
    operation_id = "get_readyz",
    summary = "Readiness probe: whether the process should get requests.",
    responses(
        (status = 200, description = "The process is ready.", body = ReadinessResponse),
        (status = 431, description = "The head of the request is too long."),
        (status = 503, description = "The process is not ready; `checks` says why.", body = ReadinessResponse)
    ),
    security(()),
}

/// `GET /readyz`: 503 while Postgres is unreachable or cannot write, its schema is older, or the process is draining. Without
/// Redis everything works, only slower; the response says so. A newer release may migrate while this process runs: it goes on
/// until it is replaced, and only a process of this release that starts now is refused.
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Response {
    let (postgres, schema, disk) = checked(&app).await;
    let draining = app.state.draining.is_cancelled();
    let fits = ["ok", NEWER, OTHER_FUNCTIONS].contains(&schema);
    let ready = [postgres, disk] == ["ok"; 2] && fits && !draining;
    let takes_hints = app.state.redis.is_up() && app.state.hints.health().is_up();
    let redis = if takes_hints { "hints" } else { "polling postgres each second" };
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let checks = ReadinessChecks {
        postgres: postgres.to_owned(),
        schema: schema.to_owned(),
        disk: disk.to_owned(),
        redis: redis.to_owned(),
    };
    let label = if ready { "ready" } else { "not_ready" };
    let body = ReadinessResponse { status: label.to_owned(), checks, draining };
    (status, Json(body)).into_response()
}

/// What `postgres`, `schema` and `disk` of [`ReadinessChecks`] say.
async fn checked(app: &App) -> (&'static str, &'static str, &'static str) {
    const UNAVAILABLE: (&str, &str, &str) = ("unavailable", "unknown", "unknown");
    let asked = async {
        let (postgres, schema) = match app.api_store().check_schema().await {
            Ok(()) => ("ok", "ok"),
            Err(Error::SchemaOlder { .. }) => ("ok", "older than this binary"),
            Err(Error::SchemaNewer { .. }) => ("ok", NEWER),
            Err(Error::FunctionsDiffer { .. }) => ("ok", OTHER_FUNCTIONS),
            Err(_) => return UNAVAILABLE,
        };
        (postgres, schema, if app.disk.is_full(app.api_store()).await { "full" } else { "ok" })
    };
    let refused = async {
        tokio::time::sleep(CONNECTS_AFTER).await;
        if !is_unreachable(app).await {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        found = asked => found,
        () = refused => UNAVAILABLE,
        () = tokio::time::sleep(ANSWERS_WITHIN) => ("slow", "unknown", "unknown"),
    }
}

/// Whether Postgres cannot be reached. One probe at a time finds out: a slow Postgres gets one connection more, not one for
/// each probe.
async fn is_unreachable(app: &App) -> bool {
    let Ok(_alone) = app.connecting.try_lock() else { return false };
    let Err(error) = app.api_store().check_connection().await else { return false };
    // A server that refuses has been reached, unless it starts or stops (class 57P).
    error.sqlstate().is_none_or(|code| code.starts_with("57P"))
}

endpoint! {
    VERSION: get "/version" => version,
    tag = "health",
    operation_id = "get_version",
    summary = "Get the version of the running release.",
    responses(
        (status = 200, description = "The release.", body = VersionResponse),
        (status = 431, description = "The head of the request is too long.")
    ),
    security(()),
}

/// `GET /version`: name and version of the running release.
pub(crate) async fn version() -> impl IntoResponse {
    Json(VersionResponse { name: "houston".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() })
}
