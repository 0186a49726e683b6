//! Liveness and readiness probes and the version, without an API key; the health of the installation and its history, with one.

use std::time::Duration;

use axum::extract::State;
use chrono::{DateTime, SecondsFormat, Utc};
use houston_domain::cell::CellName;
use houston_domain::health::{Check, HealthChange, HealthStatus, worst};
use houston_protocol::health::{
    HealthCheckResponse, HealthResponse, ReadinessChecks, ReadinessResponse, VersionResponse,
};
use houston_store::Error;
use houston_store::health::check::After;

use crate::request::prelude::*;
use crate::request::query::check_parameter;

endpoints! {
    get "/v1/health" for TENANT.all(Scope::Operate) => get,
    "get_health" in "health": "Get the health of the installation.",
    200 "The latest results of the health monitor." [HealthResponse];

    get "/v1/health/history" for TENANT.all(Scope::Operate) => list,
    "list_health_changes" in "health": "List when checks changed their status, newest first.",
    description = "The health monitor notes a change when it finds one; while no monitor runs, nothing is noted. The newest 200 changes of \
                   each check are kept, for 90 days. What was found is about all tenants: only keys with the scope `installation` see it.",
    params(("check" = Option<String>, Query, description = "Only this check.", example = "stuck_runs"), Paged),
    200 "A page of changes." [Page<HealthChange>];

    get "/livez", without key => live,
    "get_livez" in "health": "Liveness probe: the process answers.",
    200 "The process answers." [String],
    431 "The head of the request is too long.";

    get "/healthz", without key => live,
    "get_healthz" in "health": "Alias of /livez.",
    200 "The process answers." [String],
    431 "The head of the request is too long.";

    get "/readyz", without key => ready,
    "get_readyz" in "health": "Readiness probe: whether the process should get requests.",
    200 "The process is ready." [ReadinessResponse],
    431 "The head of the request is too long.",
    503 "The process is not ready; `checks` says why." [ReadinessResponse];

    get "/version", without key => version,
    "get_version" in "health": "Get the version of the running release.",
    200 "The release." [VersionResponse],
    431 "The head of the request is too long.";
}

/// Time limit for the queries of a probe.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// Time after which a probe without an answer connects to Postgres itself: the pool repeats refused attempts until its own
/// time limit, and does not report them before.
const CONNECTS_AFTER: Duration = Duration::from_millis(300);

/// A newer release has migrated since this process began.
const NEWER: &str = "newer than this binary";
/// A release whose functions differ has migrated since this process began.
const OTHER_FUNCTIONS: &str = "functions of another version";

/// The process answers; nothing else is checked. Some load balancers expect the other name.
async fn live() -> &'static str {
    "ok\n"
}

/// `GET /readyz`: 503 while Postgres is unreachable or cannot write, its schema is older, or the process is draining. Without
/// Redis everything works, only slower; the response says so. A newer release may migrate while this process runs: it goes on
/// until it is replaced, and only a process of this release that starts now is refused.
async fn ready(State(app): State<Arc<App>>) -> Response {
    let [postgres, schema, disk] = checked(&app).await;
    let draining = app.state.draining.is_cancelled();
    let fits = ["ok", NEWER, OTHER_FUNCTIONS].contains(&schema);
    let ready = [postgres, disk] == ["ok"; 2] && fits && !draining;
    let takes_hints = app.state.redis.is_up() && app.state.hints.health.is_up();
    let redis = if takes_hints { "hints" } else { "polling postgres each second" };
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let [postgres, schema, disk, redis] = [postgres, schema, disk, redis].map(str::to_owned);
    let checks = ReadinessChecks { postgres, schema, disk, redis };
    let label = if ready { "ready" } else { "not_ready" };
    let body = ReadinessResponse { status: label.to_owned(), checks, draining };
    (status, Json(body)).into_response()
}

/// What `postgres`, `schema` and `disk` of [`ReadinessChecks`] say.
async fn checked(app: &App) -> [&'static str; 3] {
    const UNAVAILABLE: [&str; 3] = ["unavailable", "unknown", "unknown"];
    let asked = async {
        let (postgres, schema) = match app.api_store().check_schema().await {
            Ok(()) => ("ok", "ok"),
            Err(Error::SchemaOlder { .. }) => ("ok", "older than this binary"),
            Err(Error::SchemaNewer { .. }) => ("ok", NEWER),
            Err(Error::FunctionsDiffer { .. }) => ("ok", OTHER_FUNCTIONS),
            Err(_) => return UNAVAILABLE,
        };
        let disk = if app.disk.is_full(app.api_store()).await { "full" } else { "ok" };
        [postgres, schema, disk]
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
        () = tokio::time::sleep(ANSWERS_WITHIN) => ["slow", "unknown", "unknown"],
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

/// `GET /version`: name and version of the running release.
async fn version() -> impl IntoResponse {
    Json(VersionResponse { name: "houston".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() })
}

async fn get(ctx: Ctx) -> Result<impl IntoResponse> {
    let mut health = ctx.api_store().health().await?;
    if health.checks.is_empty() {
        // No check has ever run: there is no worker and no `houston monitor`.
        let (id, detail) = ("monitor".to_owned(), String::new());
        health.checks.push(Check { id, status: HealthStatus::Red, detail, since: ctx.now() });
    }
    let check = |Check { id, status, since, .. }| HealthCheckResponse { id, status, since: Time(since) };
    Ok(Json(HealthResponse {
        status: worst(&health.checks),
        checked_at: health.checked_at.map(Time),
        checks: health.checks.into_iter().map(check).collect(),
    }))
}

/// The query: page parameters and the check.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Filter {
    check: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
}

async fn list(ctx: Ctx, Query(query): Query<Filter>) -> Result<impl IntoResponse> {
    let check = query.check;
    check_parameter("check", check.as_deref())?;
    let page = PageQuery { limit: query.limit, cursor: query.cursor };
    let limit = page.limit()?;
    let last = page.text(List::HealthChanges)?.map(|text| Place::read(&text)).transpose()?;
    let (check, last) = (check.as_deref(), last.as_ref());
    let cells = ctx.cells_by_name();
    let ask = |cell: Arc<App>| {
        let name = name(&cells, &cell);
        async move {
            let after = last.map(|last| last.after(name.as_deref()));
            let found = cell.api_store().health_changes(check, after.as_ref(), rows(limit)).await?;
            let named = |change| HealthChange { cell: name.clone(), ..change };
            Ok(found.into_iter().map(named).collect::<Vec<_>>())
        }
    };
    let (found, missing) = across(&ctx, ask).await?;
    let mut found: Vec<HealthChange> = found.into_iter().flatten().collect();
    found.sort_unstable_by(|one, other| {
        (other.at, &other.check, &other.cell).cmp(&(one.at, &one.check, &one.cell))
    });
    let shows_detail = ctx.caller.operates_installation();
    let show =
        |change: HealthChange| HealthChange { detail: change.detail.filter(|_| shows_detail), ..change };
    let page = Page::of(List::HealthChanges, limit, found, |change| Place::of(change).position(), show);
    Ok((missing, Json(page)))
}

/// The name of a cell, if there are several.
fn name(cells: &[(CellName, Arc<App>)], cell: &Arc<App>) -> Option<String> {
    let named = cells.iter().find(|(_, other)| Arc::ptr_eq(other, cell));
    named.filter(|_| cells.len() > 1).map(|(name, _)| name.to_string())
}

/// The place of a change in the list, the last of a page in a cursor. Of changes of the same check at the same time, that of the
/// cell whose name comes last is the first.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    at: DateTime<Utc>,
    check: String,
    /// Empty: there is only one.
    cell: String,
}

impl Place {
    fn of(change: &HealthChange) -> Self {
        let (check, cell) = (change.check.clone(), change.cell.clone().unwrap_or_default());
        Self { at: change.at.0, check, cell }
    }

    fn position(&self) -> HexText {
        let at = self.at.to_rfc3339_opts(SecondsFormat::Micros, true);
        HexText(format!("{at} {} {}", self.check, self.cell))
    }

    fn read(text: &str) -> Result<Self> {
        let (at, rest) = text.split_once(' ').ok_or(ApiError::InvalidCursor)?;
        let at = DateTime::parse_from_rfc3339(at).map_err(|_| ApiError::InvalidCursor)?;
        // Names of cells have no blank. A cursor of an earlier release has no cell.
        let (check, cell) = rest.rsplit_once(' ').unwrap_or((rest, ""));
        Ok(Self { at: at.to_utc(), check: check.to_owned(), cell: cell.to_owned() })
    }

    /// What comes after it in a cell.
    fn after(&self, cell: Option<&str>) -> After {
        let is_inclusive = cell.unwrap_or_default() < self.cell.as_str();
        After { at: self.at, check: self.check.clone(), is_inclusive }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_goes_on_after_its_change_in_each_cell() {
        let at = Time(DateTime::from_timestamp_micros(1_793_523_600_000_001).unwrap());
        let of = |cell: Option<&str>| {
            let (check, cell) = ("redis".to_owned(), cell.map(str::to_owned));
            Place::of(&HealthChange { check, cell, status: HealthStatus::Warn, at, detail: None })
        };
        for cell in [None, Some("8000-ffff")] {
            let place = of(cell);
            assert_eq!(Place::read(&place.position().0).unwrap(), place);
        }
        let last = of(Some("8000-ffff"));
        let rest = ["0000-7fff", "8000-ffff", "added"].map(|cell| last.after(Some(cell)).is_inclusive);
        assert_eq!(rest, [true, false, false], "only the first cell has yet to list its change of that time");
        assert!(!of(None).after(None).is_inclusive);
        let earlier = Place::read("2026-11-01T09:00:00.000001Z redis").unwrap();
        assert_eq!((earlier.check.as_str(), earlier.cell.as_str()), ("redis", ""));
        for bad in ["", "redis", "now redis "] {
            assert!(Place::read(bad).is_err(), "{bad}");
        }
    }
}
