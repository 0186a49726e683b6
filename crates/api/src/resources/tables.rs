//! Custom tables: records of a user in fields that they or their agents chose.

use houston_domain::custom_table::{
    Aggregate, Fault, Fields, Function, MAX_DESCRIPTION_BYTES, MAX_GROUPS, check_name, conditions,
};
use houston_domain::id::{TableId, UserId};
use houston_protocol::problem::FieldError;
use houston_protocol::table::{AddFields, AggregateGroup, AggregateResponse, CreateTable};
use houston_store::custom_record::{Group, RecordFilter};
use houston_store::custom_table::CustomTable;
use serde_json::{Map, Value};

use crate::request::body::parse;
use crate::request::prelude::*;

endpoints! {
    get "/v1/users/{id}/tables" for USER => list,
    "list_tables_of_user" in "tables": "List the custom tables of a user by their names.",
    params(Paged),
    200 "A page of tables." [Page<houston_protocol::table::TableResponse>];

    post "/v1/users/{id}/tables" for USER => create,
    "create_custom_table" in "tables": "Create a custom table, with fields or by the name of a preset.",
    params(Keyed),
    body [CreateTable],
    201 "The new table." [houston_protocol::table::TableResponse],
    409 "`already_exists`: the user has a table with this name; `full`: the maximum number of tables exists.";

    get "/v1/tables/{id}" for ROW => async |ctx: Ctx, Id(id): Id<TableId>| found(ctx.store().table(id).await),
    "get_table" in "tables": "Get a custom table with its fields and the JSON Schema of its records.",
    200 "The table." [houston_protocol::table::TableResponse];

    delete "/v1/tables/{id}" for ROW =>
        async |ctx: Ctx, Id(id): Id<TableId>| gone(ctx.store().delete_table(id).await),
    "delete_table" in "tables": "Delete a custom table with its records.",
    204 "The table is deleted.";

    post "/v1/tables/{id}/fields" for ROW => add_fields,
    "extend_table" in "tables": "Add fields to a custom table; its records have no value of them.",
    body [AddFields],
    200 "The changed table." [houston_protocol::table::TableResponse];

    get "/v1/tables/{id}/aggregate" for ROW => aggregate,
    "aggregate_table" in "tables": "Count or add up records of a custom table.",
    params(
        ("function" = String, Query, description = "`count`, `sum`, `avg`, `min` or `max`."),
        ("field" = Option<String>, Query, description = "Of which field; not needed for `count`."),
        ("group_by" = Option<String>, Query, description = "A field: one result for each of its values."),
        ("where" = Option<String>, Query, description = "Conditions as JSON.", example = "{\"amount\": {\"gte\": 10}}"),
        ("query" = Option<String>, Query, description = "A text in one of the values."),
    ),
    200 "The numbers." [AggregateResponse];
}

async fn list(ctx: Ctx, Id(user): Id<UserId>, query: PageQuery) -> Result<impl IntoResponse> {
    let (limit, after) = (query.limit()?, query.text(List::Tables)?);
    ctx.store().user(user).await?;
    let tables = ctx.store().tables(user, after.as_deref(), rows(limit)).await?;
    let position = |table: &CustomTable| HexText(table.name.clone());
    Ok(Json(Page::of(List::Tables, limit, tables, position, |table| table)))
}

async fn create(ctx: Ctx, Id(user): Id<UserId>, request: Creation<CreateTable>) -> Result<Response> {
    let Creation { value, key } = request;
    let store = ctx.store();
    let CreateTable { name, description, mut fields, preset } = value;
    let mut about = String::new();
    if let Some(preset) = &preset {
        ensure!(fields.is_empty(), ApiError::field("/preset", "give either `fields` or `preset`, not both"));
        let found = store.table_presets.named(preset);
        let found = found.map_err(|unknown| ApiError::field("/preset", unknown))?;
        (about, fields) = (found.description.clone(), found.fields.clone());
    }
    let missing = || ApiError::field("/name", "missing field `name`");
    let name = name.or(preset).ok_or_else(missing)?;
    check_name(&name).map_err(|reason| ApiError::field("/name", reason))?;
    let description = description.unwrap_or(about);
    check_bytes("/description", &description, MAX_DESCRIPTION_BYTES)?;
    let limits = store.knowledge_limits.tables;
    let fields = Fields::new(fields, &limits).map_err(|faults| refused("/fields", faults))?;
    store.user(user).await?;
    let id = ctx.state.ids.beside(user);
    let table = CustomTable::new(id, user, (name, description), fields, ctx.now());
    let (key, body) = once(&key, &table);
    let done = store.create_table(&table, (key, &body)).await;
    created(unless_key_reused(done.map_err(ApiError::taken("name"))?)?, "/v1/tables")
}

async fn add_fields(
    ctx: Ctx,
    Id(id): Id<TableId>,
    Sent(AddFields { fields }): Sent<AddFields>,
) -> Result<impl IntoResponse> {
    let done = ctx.store().add_fields(id, &fields).await?;
    Ok(Json(done.map_err(|faults| refused("/fields", faults))?))
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

async fn aggregate(
    ctx: Ctx,
    Id(id): Id<TableId>,
    Query(query): Query<AggregateQuery>,
) -> Result<impl IntoResponse> {
    let AggregateQuery { function, field, group_by, conditions, query } = query;
    let table = ctx.store().table(id).await?;
    let filter = filter(&table.fields, conditions.as_deref(), query)?;
    let wanted = Aggregate::new(function, field, group_by, &table.fields)
        .map_err(|fault| ApiError::parameter("field", fault.to_string()))?;
    let mut groups = ctx.store().aggregate_records(&table, &filter, &wanted).await?;
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

/// The faults of values below `pointer`.
pub(crate) fn refused(pointer: &str, faults: Vec<Fault>) -> ApiError {
    let error = |fault: Fault| {
        let field = fault.field.replace('~', "~0").replace('/', "~1");
        let at = if field.is_empty() { pointer.to_owned() } else { format!("{pointer}/{field}") };
        FieldError::at(at, fault.reason)
    };
    ApiError::InvalidRequest(faults.into_iter().map(error).collect())
}

/// The filter of the query parameters `where`, which is JSON, and `query`.
///
/// # Errors
/// [`ApiError::InvalidRequest`] that names the parameter.
pub(crate) fn filter(
    fields: &Fields,
    conditions_text: Option<&str>,
    text: Option<String>,
) -> Result<RecordFilter> {
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
        ApiError::InvalidRequest(errors)
    })?;
    Ok(RecordFilter { conditions, text })
}
