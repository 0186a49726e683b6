//! `GET /v1/audit`: who changed what, newest first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::AuditId;
use houston_protocol::audit::AuditRecordResponse;
use houston_protocol::time::Time;
use houston_store::audit::{Record, RecordFilter};
use serde::Deserialize;

use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::missing_cells::across;
use crate::page::{List, Page, PageQuery, rows};
use crate::query::{Query, time};
use crate::state::App;

/// The query: page parameters and filters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filter {
    operation: Option<String>,
    actor: Option<String>,
    target: Option<String>,
    since: Option<String>,
    until: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
}

endpoint! {
    LIST: get "/v1/audit" => list,
    tag = "operate",
    operation_id = "list_audit_records",
    summary = "List who changed what, newest first.",
    description = "Every request that changes something, also refused ones, and commands of operators. Messages, and the users and \
                   conversations that are created with them, are not recorded: they are the data. A request that posts them is \
                   recorded if it has the header `houston-audit`, whatever its value. Keys with the scope `installation` \
                   also see what was done to workers and lanes. Records are deleted after `requests.audit_s` of \
                   `jobs/health_monitor.toml`.",
    params(
        ("operation" = Option<String>, Query, description = "Only this operation.", example = "update_agent"),
        ("actor" = Option<String>, Query, description = "Only what this key did.", example = "key_019ab3c4d5e67f8091a2b3c4d5e6f708"),
        ("target" = Option<String>, Query, description = "Only what was done to this thing."),
        ("since" = Option<houston_protocol::schema::Time>, Query, description = "Only what was done then or later."),
        ("until" = Option<houston_protocol::schema::Time>, Query, description = "Only what was done before."),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page.")
    ),
    responses((status = 200, description = "A page of records.", body = houston_protocol::page::Page<AuditRecordResponse>)),
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Query(query): Query<Filter>,
) -> Result<impl IntoResponse, ApiError> {
    for (name, given) in [("operation", &query.operation), ("actor", &query.actor), ("target", &query.target)]
    {
        if given.as_deref().is_some_and(|given| given.contains('\0')) {
            return Err(ApiError::parameter(name, "must not contain the character U+0000"));
        }
    }
    let filter = RecordFilter {
        operation: query.operation,
        actor: query.actor,
        target: query.target,
        since: time("since", query.since.as_deref())?,
        until: time("until", query.until.as_deref())?,
    };
    let page = PageQuery { limit: query.limit, cursor: query.cursor };
    let (limit, before) = (page.limit()?, page.id(List::Audit)?.map(AuditId));
    let filter = &filter;
    let ask = |cell: Arc<App>| async move {
        let mut found = cell.store(caller).records(filter, before, rows(limit)).await?;
        if caller.operates_installation() {
            found.extend(cell.api_store().records_of_installation(filter, before, rows(limit)).await?);
        }
        Ok(found)
    };
    let (found, missing) = across(&app, ask).await?;
    let mut found: Vec<Record> = found.into_iter().flatten().collect();
    found.sort_unstable_by_key(|record| std::cmp::Reverse(record.of.id));
    let page = Page::of(List::Audit, limit, found, |record| record.of.id.0.as_u128(), response);
    Ok((missing, Json(page)))
}

fn response(Record { of, actor_name, at }: Record) -> AuditRecordResponse {
    AuditRecordResponse {
        id: of.id,
        at: Time(at),
        actor: of.actor,
        actor_name,
        on_behalf_of: of.on_behalf_of,
        operation: of.operation,
        target: of.target,
        status: of.status,
        code: of.code,
        request_id: of.request_id,
    }
}
