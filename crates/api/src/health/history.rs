//! `GET /v1/health/history`: when checks changed their status, newest first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use chrono::{DateTime, SecondsFormat, Utc};
use houston_domain::cell::CellName;
use houston_protocol::health::HealthChangeResponse;
use houston_protocol::time::Time;
use houston_store::health::history::Change;
use serde::Deserialize;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::missing_cells::across;
use crate::page::{HexText, List, Page, PageQuery, rows};
use crate::query::Query;
use crate::state::App;

/// The query: page parameters and the check.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filter {
    check: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
}

#[utoipa::path(
    get,
    path = "/v1/health/history",
    tag = "health",
    operation_id = "list_health_changes",
    summary = "List when checks changed their status, newest first.",
    description = "The health monitor notes a change when it finds one; while no monitor runs, nothing is noted. The newest 200 changes of \
                   each check are kept, for 90 days. What was found is about all tenants: only keys with the scope `installation` see it.",
    params(
        ("check" = Option<String>, Query, description = "Only this check.", example = "stuck_runs"),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page.")
    ),
    responses((status = 200, description = "A page of changes.", body = houston_protocol::page::Page<HealthChangeResponse>)),
)]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Query(query): Query<Filter>,
) -> Result<impl IntoResponse, ApiError> {
    let check = query.check;
    if check.as_deref().is_some_and(|check| check.contains('\0')) {
        return Err(ApiError::parameter("check", "must not contain the character U+0000"));
    }
    let page = PageQuery { limit: query.limit, cursor: query.cursor };
    let limit = page.limit()?;
    let before = page.text(List::HealthChanges)?.map(|text| place(&text)).transpose()?;
    let (check, before) = (check.as_deref(), before.as_ref());
    let cells = app.cells_by_name();
    let ask = |cell: Arc<App>| {
        let name = name(&cells, &cell);
        async move {
            let found = cell.api_store().health_changes(check, before, rows(limit)).await?;
            Ok(found.into_iter().map(|change| (name.clone(), change)).collect::<Vec<_>>())
        }
    };
    let (found, missing) = across(&app, ask).await?;
    let mut found: Vec<(Option<String>, Change)> = found.into_iter().flatten().collect();
    found.sort_unstable_by(|(_, one), (_, other)| (other.at, &other.check).cmp(&(one.at, &one.check)));
    let shows_detail = caller.operates_installation();
    let show = |(cell, change)| response(cell, change, shows_detail);
    let page = Page::of(List::HealthChanges, limit, found, |(_, change)| position(change), show);
    Ok((missing, Json(page)))
}

/// The name of a cell, if there are several.
fn name(cells: &[(CellName, Arc<App>)], cell: &Arc<App>) -> Option<String> {
    let named = cells.iter().find(|(_, other)| Arc::ptr_eq(other, cell));
    named.filter(|_| cells.len() > 1).map(|(name, _)| name.to_string())
}

/// A change in a cursor: its time and its check.
fn position(change: &Change) -> HexText {
    HexText(format!("{} {}", change.at.to_rfc3339_opts(SecondsFormat::Micros, true), change.check))
}

fn place(text: &str) -> Result<(DateTime<Utc>, String), ApiError> {
    let (at, check) = text.split_once(' ').ok_or(ApiError::InvalidCursor)?;
    let at = DateTime::parse_from_rfc3339(at).map_err(|_| ApiError::InvalidCursor)?;
    Ok((at.to_utc(), check.to_owned()))
}

fn response(cell: Option<String>, change: Change, shows_detail: bool) -> HealthChangeResponse {
    HealthChangeResponse {
        check: change.check,
        cell,
        status: change.status,
        at: Time(change.at),
        detail: shows_detail.then_some(change.detail),
    }
}
