//! Custom tables: records of a user in fields that they or their agents chose.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use houston_domain::custom_table::{
    Aggregate, Fault, Fields, Function, MAX_DESCRIPTION_BYTES, MAX_GROUPS, check_name, conditions,
};
use houston_domain::id::{TableId, UserId};
use houston_protocol::problem::FieldError;
use houston_protocol::table::{AddFields, AggregateGroup, AggregateResponse, CreateTable, TableResponse};
use houston_protocol::time::Time;
use houston_store::Error;
use houston_store::custom_record::{Group, RecordFilter};
use houston_store::custom_table::{CustomTable, NewCustomTable};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::caller::Caller;
use crate::error::ApiError;
use crate::request::agentable_path::Id;
use crate::request::body::Creation;
use crate::request::body::parse;
use crate::request::checks::{check_size, check_text};
use crate::request::endpoint::{Endpoint, endpoint};
use crate::request::idempotency::{Key, created, stored_body, unless_key_reused};
use crate::request::page::{HexText, List, Page, PageQuery, rows};
use crate::request::query::Query;
use crate::state::App;

pub(crate) const ENDPOINTS: &[Endpoint] = &[LIST, CREATE, GET, DELETE, ADD_FIELDS, AGGREGATE];

endpoint! {
    LIST: get "/v1/users/{id}/tables" for USER => list,
    tag = "tables",
    operation_id = "list_tables_of_user",
    summary = "List the custom tables of a user by their names.",
    params(
        ("id" = houston_domain::id::UserId, Path, description = "Id of the user."),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page.")
    ),
    responses((status = 200, description = "A page of tables.", body = houston_protocol::page::Page<houston_protocol::table::TableResponse>)),
}

async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(user): Id<UserId>,
    Query(query): Query<PageQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let (limit, after) = (query.limit()?, query.text(List::Tables)?);
    app.store(caller).user(user).await?;
    let tables = app.store(caller).tables(user, after.as_deref(), rows(limit)).await?;
    let position = |table: &CustomTable| HexText(table.name.clone());
    Ok(Json(Page::of(List::Tables, limit, tables, position, response)))
}

endpoint! {
    CREATE: post "/v1/users/{id}/tables" for USER => create,
    tag = "tables",
    operation_id = "create_custom_table",
    summary = "Create a custom table, with fields or by the name of a preset.",
    params(
        ("id" = houston_domain::id::UserId, Path, description = "Id of the user."),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the request safe to repeat: the same request with the same key gets the first response again and creates nothing new. 1 to 255 printable ASCII characters, kept for a day.")
    ),
    request_body = CreateTable,
    responses(
        (status = 201, description = "The new table.", body = houston_protocol::table::TableResponse),
        (status = 409, description = "`already_exists`: the user has a table with this name; `full`: the maximum number of tables exists.")
    ),
}

async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(user): Id<UserId>,
    request: Creation<CreateTable>,
) -> Result<Response, ApiError> {
    let Creation { value, key } = request;
    let store = app.store(caller);
    let CreateTable { name, description, mut fields, preset } = value;
    let mut about = String::new();
    if let Some(preset) = &preset {
        if !fields.is_empty() {
            return Err(ApiError::field("/preset", "give either `fields` or `preset`, not both"));
        }
        let presets = store.table_presets();
        let found =
            presets.named(preset).map_err(|unknown| ApiError::field("/preset", unknown.to_string()))?;
        (about, fields) = (found.description.clone(), found.fields.clone());
    }
    let missing = || ApiError::field("/name", "missing field `name`");
    let name = name.or(preset).ok_or_else(missing)?;
    check_name(&name).map_err(|reason| ApiError::field("/name", reason))?;
    let description = description.unwrap_or(about);
    check_text("/description", &description)?;
    check_size("/description", description.len(), MAX_DESCRIPTION_BYTES)?;
    let limits = store.knowledge_limits().tables;
    let fields = Fields::new(fields, &limits).map_err(|faults| refused("/fields", faults))?;
    store.user(user).await?;
    let (id, created_at) = (app.state.ids.beside(user), app.now());
    let (name, description, fields) = (name.as_str(), description.as_str(), &fields);
    let new = NewCustomTable { id, user, name, description, fields, untrusted: false, created_at };
    let table = CustomTable {
        id,
        user,
        name: name.to_owned(),
        description: description.to_owned(),
        fields: fields.clone(),
        records: 0,
        bytes: 0,
        untrusted: false,
        created_at,
    };
    let done =
        store.create_table(&new, key.as_ref().map(Key::as_stored), &stored_body(&response(table))).await;
    let done = done.map_err(|error| match error {
        Error::Exists { what, existing } => ApiError::AlreadyExists { what, field: "name", existing },
        error => error.into(),
    })?;
    let (stored, replayed) = unless_key_reused(done)?;
    created(stored, replayed, "/v1/tables")
}

endpoint! {
    GET: get "/v1/tables/{id}" for ROW => get,
    tag = "tables",
    operation_id = "get_table",
    summary = "Get a custom table with its fields and the JSON Schema of its records.",
    params(("id" = houston_domain::id::TableId, Path, description = "Id of the table.")),
    responses((status = 200, description = "The table.", body = houston_protocol::table::TableResponse)),
}

async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<TableId>,
) -> Result<impl IntoResponse, ApiError> {
    Ok(Json(response(app.store(caller).table(id).await?)))
}

endpoint! {
    ADD_FIELDS: post "/v1/tables/{id}/fields" for ROW => add_fields,
    tag = "tables",
    operation_id = "extend_table",
    summary = "Add fields to a custom table; its records have no value of them.",
    params(("id" = houston_domain::id::TableId, Path, description = "Id of the table.")),
    request_body = AddFields,
    responses((status = 200, description = "The changed table.", body = houston_protocol::table::TableResponse)),
}

async fn add_fields(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<TableId>,
    // A field is there once, so a repeated request adds nothing.
    Creation { value: AddFields { fields }, key: _ }: Creation<AddFields>,
) -> Result<impl IntoResponse, ApiError> {
    let done = app.store(caller).add_fields(id, &fields).await?;
    Ok(Json(response(done.map_err(|faults| refused("/fields", faults))?)))
}

endpoint! {
    DELETE: delete "/v1/tables/{id}" for ROW => delete,
    tag = "tables",
    operation_id = "delete_table",
    summary = "Delete a custom table with its records.",
    params(("id" = houston_domain::id::TableId, Path, description = "Id of the table.")),
    responses((status = 204, description = "The table is deleted.")),
}

async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<TableId>,
) -> Result<StatusCode, ApiError> {
    app.store(caller).delete_table(id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The query parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AggregateQuery {
    function: Function,
    field: Option<String>,
    group_by: Option<String>,
    #[serde(rename = "where")]
    conditions: Option<String>,
    query: Option<String>,
}

endpoint! {
    AGGREGATE: get "/v1/tables/{id}/aggregate" for ROW => aggregate,
    tag = "tables",
    operation_id = "aggregate_table",
    summary = "Count or add up records of a custom table.",
    params(
        ("id" = houston_domain::id::TableId, Path, description = "Id of the table."),
        ("function" = String, Query, description = "`count`, `sum`, `avg`, `min` or `max`."),
        ("field" = Option<String>, Query, description = "Of which field; not needed for `count`."),
        ("group_by" = Option<String>, Query, description = "A field: one result for each of its values."),
        ("where" = Option<String>, Query, description = "Conditions as JSON.", example = "{\"amount\": {\"gte\": 10}}"),
        ("query" = Option<String>, Query, description = "A text in one of the values.")
    ),
    responses((status = 200, description = "The numbers.", body = AggregateResponse)),
}

async fn aggregate(
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

fn response(table: CustomTable) -> TableResponse {
    TableResponse {
        id: table.id,
        user_id: table.user,
        name: table.name,
        description: table.description,
        schema: table.fields.schema(),
        fields: table.fields,
        records: table.records,
        bytes: table.bytes,
        untrusted: table.untrusted,
        created_at: Time(table.created_at),
    }
}

/// The faults of values below `pointer`.
pub(crate) fn refused(pointer: &str, faults: Vec<Fault>) -> ApiError {
    let error = |fault: Fault| {
        let field = fault.field.replace('~', "~0").replace('/', "~1");
        let at = if field.is_empty() { pointer.to_owned() } else { format!("{pointer}/{field}") };
        FieldError::at(at, fault.reason)
    };
    ApiError::InvalidRequest { errors: faults.into_iter().map(error).collect() }
}

/// The filter of the query parameters `where`, which is JSON, and `query`.
///
/// # Errors
/// [`ApiError::InvalidRequest`] that names the parameter.
pub(crate) fn filter(
    fields: &Fields,
    conditions_text: Option<&str>,
    text: Option<String>,
) -> Result<RecordFilter, ApiError> {
    if text.as_ref().is_some_and(|text| text.contains('\0')) {
        return Err(ApiError::parameter("query", "the character U+0000 is in no record"));
    }
    let given: Map<String, Value> = match conditions_text {
        Some(json) => parse(json.as_bytes()).map_err(|error| {
            let example = r#"must be a JSON object, as {"amount": {"gte": 10}}"#;
            ApiError::parameter("where", format!("{example}: {error}"))
        })?,
        None => Map::new(),
    };
    let conditions = conditions(&given, fields, None).map_err(|faults| {
        let errors = faults.iter().map(|fault| FieldError::parameter("where", fault.to_string())).collect();
        ApiError::InvalidRequest { errors }
    })?;
    Ok(RecordFilter { conditions, text })
}
