//! `GET /v1/tables/{id}/aggregate`: counts and sums records of a custom table.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::custom_table::{Aggregate, Function, MAX_GROUPS};
use houston_domain::id::TableId;
use houston_protocol::table::{AggregateGroup, AggregateResponse};
use houston_store::custom_record::Group;
use serde::Deserialize;
use serde_json::Value;

use super::filter;
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::query::Query;
use crate::state::App;

/// The query parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AggregateQuery {
    function: Function,
    field: Option<String>,
    group_by: Option<String>,
    #[serde(rename = "where")]
    conditions: Option<String>,
    query: Option<String>,
}

endpoint! {
    AGGREGATE: get "/v1/tables/{id}/aggregate" => aggregate,
    tag = "tables",
    operation_id = "aggregate_table",
    summary = "Count or add up records of a custom table.",
    params(
        ("id" = houston_protocol::schema::TableId, Path, description = "Id of the table."),
        ("function" = String, Query, description = "`count`, `sum`, `avg`, `min` or `max`."),
        ("field" = Option<String>, Query, description = "Of which field; not needed for `count`."),
        ("group_by" = Option<String>, Query, description = "A field: one result for each of its values."),
        ("where" = Option<String>, Query, description = "Conditions as JSON.", example = "{\"amount\": {\"gte\": 10}}"),
        ("query" = Option<String>, Query, description = "A text in one of the values.")
    ),
    responses((status = 200, description = "The numbers.", body = AggregateResponse)),
}

pub(crate) async fn aggregate(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<TableId>,
    Query(query): Query<AggregateQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let AggregateQuery { function, field, group_by, conditions, query } = query;
    let table = app.store(caller).table(id).await?;
    let filter = filter(&table.fields, conditions.as_deref(), query)?;
    let wanted = Aggregate::new(function, field, group_by, &table.fields)
        .map_err(|fault| ApiError::parameter("field", fault.to_string()))?;
    let mut groups = app.store(caller).aggregate_records(&table, &filter, &wanted).await?;
    let has_more = groups.len() > MAX_GROUPS;
    groups.truncate(MAX_GROUPS);
    let data =
        groups.into_iter().map(|group| AggregateGroup { value: value(function, &group), group: group.value });
    Ok(Json(AggregateResponse { data: data.collect(), has_more }))
}

fn value(function: Function, group: &Group) -> Value {
    match function {
        Function::Count => group.count.into(),
        Function::Sum => group.sum.clone().into(),
        Function::Avg => group.avg.clone().into(),
        Function::Min => group.min.clone().unwrap_or_default(),
        Function::Max => group.max.clone().unwrap_or_default(),
    }
}
