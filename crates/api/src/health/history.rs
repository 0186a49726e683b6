//! `GET /v1/health/history`: when checks changed their status, newest first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use chrono::{DateTime, SecondsFormat, Utc};
use houston_domain::cell::CellName;
use houston_protocol::health::HealthChangeResponse;
use houston_protocol::time::Time;
use houston_store::health::history::{After, Change};
use serde::Deserialize;

use crate::auth::Caller;
use crate::endpoint::endpoint;
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

endpoint! {
    LIST: get "/v1/health/history" => list,
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
}

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
    let last = page.text(List::HealthChanges)?.map(|text| Place::read(&text)).transpose()?;
    let (check, last) = (check.as_deref(), last.as_ref());
    let cells = app.cells_by_name();
    let ask = |cell: Arc<App>| {
        let name = name(&cells, &cell);
        async move {
            let after = last.map(|last| last.after(name.as_deref()));
            let found = cell.api_store().health_changes(check, after.as_ref(), rows(limit)).await?;
            Ok(found.into_iter().map(|change| (name.clone(), change)).collect::<Vec<_>>())
        }
    };
    let (found, missing) = across(&app, ask).await?;
    let mut found: Vec<(Option<String>, Change)> = found.into_iter().flatten().collect();
    found.sort_unstable_by(|(cell, one), (other_cell, other)| {
        (other.at, &other.check, other_cell).cmp(&(one.at, &one.check, cell))
    });
    let shows_detail = caller.operates_installation();
    let show = |(cell, change)| response(cell, change, shows_detail);
    let page = Page::of(
        List::HealthChanges,
        limit,
        found,
        |(cell, change)| Place::of(cell.as_deref(), change).position(),
        show,
    );
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
    fn of(cell: Option<&str>, change: &Change) -> Self {
        Self { at: change.at, check: change.check.clone(), cell: cell.unwrap_or_default().to_owned() }
    }

    fn position(&self) -> HexText {
        let at = self.at.to_rfc3339_opts(SecondsFormat::Micros, true);
        HexText(format!("{at} {} {}", self.check, self.cell))
    }

    fn read(text: &str) -> Result<Self, ApiError> {
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

fn response(cell: Option<String>, change: Change, shows_detail: bool) -> HealthChangeResponse {
    HealthChangeResponse {
        check: change.check,
        cell,
        status: change.status,
        at: Time(change.at),
        detail: shows_detail.then_some(change.detail),
    }
}

#[cfg(test)]
mod tests {
    use houston_domain::health::HealthStatus;

    use super::*;

    #[test]
    fn cursor_goes_on_after_its_change_in_each_cell() {
        let at = DateTime::from_timestamp_micros(1_793_523_600_000_001).unwrap();
        let change =
            Change { check: "redis".to_owned(), status: HealthStatus::Warn, detail: String::new(), at };
        for cell in [None, Some("8000-ffff")] {
            let place = Place::of(cell, &change);
            assert_eq!(Place::read(&place.position().0).unwrap(), place);
        }
        let last = Place::of(Some("8000-ffff"), &change);
        let rest = ["0000-7fff", "8000-ffff", "added"].map(|cell| last.after(Some(cell)).is_inclusive);
        assert_eq!(rest, [true, false, false], "only the first cell has yet to list its change of that time");
        assert!(!Place::of(None, &change).after(None).is_inclusive);
        let earlier = Place::read("2026-11-01T09:00:00.000001Z redis").unwrap();
        assert_eq!((earlier.check.as_str(), earlier.cell.as_str()), ("redis", ""));
        for bad in ["", "redis", "now redis "] {
            assert!(Place::read(bad).is_err(), "{bad}");
        }
    }
}
