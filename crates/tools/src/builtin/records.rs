//! Records of [custom tables](super::tables).

use chrono_tz::Tz;
use houston_domain::custom_table::{
    Aggregate, Fault, Function, MAX_ADDED, MAX_GROUPS, MAX_NAME_CHARS, Order, Part, conditions,
};
use houston_domain::id::RecordId;
use houston_domain::knowledge::MAX_QUERY_CHARS;
use houston_store::custom_record::{CustomRecord, Group, RecordData, RecordFilter, RecordSearch};
use houston_store::custom_table::CustomTable;
use serde_json::{Map, Value};

use super::prelude::*;
use super::tables::{ListTables, missing, refused, written};

built_in! {
    AddRecords: "add_records", Idempotent, capability Tables;
    SearchRecords: "search_records", Read, capability Tables;
    AggregateRecords: "aggregate_records", Read, capability Tables;
    UpdateRecord: "update_record", Idempotent, capability Tables;
    DeleteRecord: "delete_record", Idempotent, capability Tables;
}

/// A call with the zone in which its times are read.
#[derive(Debug)]
struct InZone<T> {
    call: T,
    zone: Tz,
}

/// Adds records: all or none. Written with the step: exactly once.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(description = format!("Add records to a table, each an object of its fields ({} shows them).", ListTables::NAME))]
pub(super) struct AddRecords {
    /// The name of the table.
    table: String,
    #[schemars(length(min = 1, max = MAX_ADDED))]
    records: Vec<Map<String, Value>>,
}

impl BuiltIn for AddRecords {
    fn plan(self, context: &CallContext, _: &Outside) -> Result<Plan, Refusal> {
        let count = self.records.len();
        if !(1..=MAX_ADDED).contains(&count) {
            return Err(invalid(format!("`records` has {count} records; 1 to {MAX_ADDED} are allowed")));
        }
        line("table", self.table.as_str(), MAX_NAME_CHARS)?;
        Ok(Plan::record(InZone { call: self, zone: context.zone }))
    }
}

impl Access for InZone<AddRecords> {
    async fn apply(&self, mut tx: RecordTx<'_>) -> Result<ToolResponse> {
        let AddRecords { table, records } = &self.call;
        let Some(table) = tx.knowledge().table_named(table).await? else { return Ok(missing(table)) };
        let mut new = Vec::with_capacity(records.len());
        for (id, record) in tx.ids.rows(records.len()).zip(records) {
            match table.fields.check(record, Some(self.zone), Part::Whole) {
                Ok(data) => new.push(RecordData { id: RecordId(id), data }),
                Err(faults) => {
                    let which = format!("{}: nothing was added; `records[{}]`", AddRecords::NAME, new.len());
                    return Ok(refused(&which, &table, &faults));
                }
            }
        }
        let done = tx.knowledge().add_records(&table, &new, None).await;
        written(done, |()| {
            let ids: Vec<String> = new.iter().map(|record| record.id.to_string()).collect();
            ToolResponse::success(format!("Added {} to {}: {}", ids.len(), table.name, ids.join(", ")))
        })
    }
}

/// A value, a list, or tests of one field.
const WHERE: &str = "All of these: {\"category\": \"food\", \"amount\": {\"gte\": 10, \"lt\": 100}, \"status\": [\"new\", \
                     \"open\"], \"note\": {\"contains\": \"train\"}, \"paid_on\": {\"empty\": true}}";
/// Records if the call does not set `limit`.
const DEFAULT_RECORDS: u32 = 20;
/// Maximum number of records of a page.
const MAX_RECORDS: u32 = 100;

/// Find records of a table, with their ids and how many there are.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchRecords {
    /// The name of the table.
    table: String,
    #[serde(default, rename = "where")]
    #[schemars(description = WHERE)]
    conditions: Map<String, Value>,
    /// A text in one of the values.
    query: Option<String>,
    /// A field; -field for the greatest first. Default: newest.
    order: Option<String>,
    #[schemars(range(min = 1, max = MAX_RECORDS))]
    limit: Option<u32>,
    #[schemars(range(min = 1))]
    page: Option<u32>,
}

impl BuiltIn for SearchRecords {
    fn plan(self, context: &CallContext, _: &Outside) -> Result<Plan, Refusal> {
        let page = self.page.unwrap_or(1);
        if page == 0 {
            return Err(invalid("`page` is 0, but the first page is 1"));
        }
        line("table", self.table.as_str(), MAX_NAME_CHARS)?;
        line("query", self.query.as_deref(), MAX_QUERY_CHARS)?;
        let limit = limit(self.limit, DEFAULT_RECORDS, MAX_RECORDS)?.into();
        Ok(Plan::record(Search { call: self, limit, page: page.into(), zone: context.zone }))
    }
}

#[derive(Debug)]
struct Search {
    call: SearchRecords,
    limit: i64,
    page: i64,
    zone: Tz,
}

impl Search {
    fn of(&self, table: &CustomTable) -> Result<RecordSearch, Vec<Fault>> {
        let SearchRecords { conditions: given, query, order, .. } = &self.call;
        let conditions = conditions(given, &table.fields, Some(self.zone))?;
        let filter = RecordFilter { conditions, text: query.clone() };
        let order = Order::parse(order.as_deref(), &table.fields).map_err(|fault| vec![fault])?;
        Ok(RecordSearch { filter, order, offset: (self.page - 1) * self.limit, limit: self.limit })
    }
}

impl Access for Search {
    async fn apply(&self, mut tx: RecordTx<'_>) -> Result<ToolResponse> {
        let name = &self.call.table;
        let Some(table) = tx.knowledge().table_named(name).await? else { return Ok(missing(name)) };
        let search = match self.of(&table) {
            Ok(search) => search,
            Err(faults) => return Ok(refused(SearchRecords::NAME, &table, &faults)),
        };
        let (records, all) = tx.knowledge().search_records(&table, &search).await?;
        if records.is_empty() {
            let none = if self.page > 1 { "There is no such page." } else { "There are no such records." };
            return Ok(ToolResponse::success(none));
        }
        let listed = i64::try_from(records.len()).unwrap_or(i64::MAX);
        let mut lines = vec![format!("{listed} of {all} records:")];
        lines.extend(records.iter().map(described));
        if search.offset + listed < all {
            lines.push(format!("There are more: ask again with `page` {}.", self.page + 1));
        }
        Ok(ToolResponse::success(lines.join("\n")))
    }
}

/// `record_0190…: {"amount":12.5}`
fn described(record: &CustomRecord) -> String {
    let (id, data) = (record.id.to_string(), Value::from(record.data.clone()).to_string());
    format!("{id}: {}", untrusted::stored(record.untrusted, &id, data))
}

/// Count or add up records of a table, exactly. `where` is as in a search.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AggregateRecords {
    /// The name of the table.
    table: String,
    #[schemars(with = "String", extend("enum" = ["count", "sum", "avg", "min", "max"]))]
    function: Function,
    /// Not needed for count.
    field: Option<String>,
    /// A field: one result for each of its values.
    group_by: Option<String>,
    #[serde(default, rename = "where")]
    conditions: Map<String, Value>,
}

impl BuiltIn for AggregateRecords {
    fn plan(self, context: &CallContext, _: &Outside) -> Result<Plan, Refusal> {
        line("table", self.table.as_str(), MAX_NAME_CHARS)?;
        Ok(Plan::record(InZone { call: self, zone: context.zone }))
    }
}

impl AggregateRecords {
    fn of(&self, table: &CustomTable, zone: Tz) -> Result<(RecordFilter, Aggregate), Vec<Fault>> {
        let conditions = conditions(&self.conditions, &table.fields, Some(zone))?;
        let (field, group_by) = (self.field.clone(), self.group_by.clone());
        let aggregate = Aggregate::new(self.function, field, group_by, &table.fields);
        Ok((RecordFilter { conditions, text: None }, aggregate.map_err(|fault| vec![fault])?))
    }

    /// The number, or `none` without a value.
    fn result(&self, group: &Group) -> String {
        let value = match self.function {
            Function::Count => Some(group.count.to_string()),
            Function::Sum => group.sum.clone(),
            Function::Avg => group.avg.clone(),
            Function::Min => group.min.as_ref().map(ToString::to_string),
            Function::Max => group.max.as_ref().map(ToString::to_string),
        };
        value.unwrap_or_else(|| "none".to_owned())
    }
}

impl Access for InZone<AggregateRecords> {
    async fn apply(&self, mut tx: RecordTx<'_>) -> Result<ToolResponse> {
        let Self { call, zone } = self;
        let Some(table) = tx.knowledge().table_named(&call.table).await? else {
            return Ok(missing(&call.table));
        };
        let (filter, aggregate) = match call.of(&table, *zone) {
            Ok(wanted) => wanted,
            Err(faults) => return Ok(refused(AggregateRecords::NAME, &table, &faults)),
        };
        let groups = tx.knowledge().aggregate_records(&table, &filter, &aggregate).await?;
        let of = call.field.as_ref().map(|field| format!(" of {field}")).unwrap_or_default();
        let what = format!("{}{of}", call.function.as_str());
        if call.group_by.is_none() {
            let none = if call.function == Function::Count { "0" } else { "none" };
            let (result, marked) =
                groups.first().map_or((none.to_owned(), false), |one| (call.result(one), one.untrusted));
            let text = untrusted::stored(marked, &table.id.to_string(), result);
            return Ok(ToolResponse::success(format!("{what}: {text}")));
        }
        let is_untrusted = groups.iter().any(|group| group.untrusted);
        let lines: Vec<String> = groups
            .iter()
            .take(MAX_GROUPS)
            .map(|group| format!("{}: {}", group.value, call.result(group)))
            .collect();
        let mut text = untrusted::stored(is_untrusted, &table.id.to_string(), lines.join("\n"));
        if groups.len() > MAX_GROUPS {
            text.push_str(&format!("\nThere are more than {MAX_GROUPS} groups: use `where`."));
        }
        let text = if groups.is_empty() { "There are no such records.".to_owned() } else { text };
        Ok(ToolResponse::success(format!("{what}:\n{text}")))
    }
}

/// Change values of one record; the others stay.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UpdateRecord {
    /// The name of the table.
    table: String,
    #[schemars(with = "String")]
    record_id: RecordId,
    /// The fields to set; null removes a value.
    values: Map<String, Value>,
}

impl BuiltIn for UpdateRecord {
    fn plan(self, context: &CallContext, _: &Outside) -> Result<Plan, Refusal> {
        line("table", self.table.as_str(), MAX_NAME_CHARS)?;
        Ok(Plan::record(InZone { call: self, zone: context.zone }))
    }
}

impl Access for InZone<UpdateRecord> {
    async fn apply(&self, mut tx: RecordTx<'_>) -> Result<ToolResponse> {
        let UpdateRecord { table, record_id: id, values } = &self.call;
        let Some(table) = tx.knowledge().table_named(table).await? else { return Ok(missing(table)) };
        let changes = match table.fields.check(values, Some(self.zone), Part::Changes) {
            Ok(changes) => changes,
            Err(faults) => return Ok(refused(UpdateRecord::NAME, &table, &faults)),
        };
        let changed = tx.knowledge().change_record(&table, *id, &changes).await;
        written(changed, |changed| match changed {
            Some(record) => ToolResponse::success(described(&record)),
            None => not_found(id, SearchRecords::NAME),
        })
    }
}

/// Delete one record of a table.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DeleteRecord {
    /// The name of the table.
    table: String,
    #[schemars(with = "String")]
    record_id: RecordId,
}

impl Access for DeleteRecord {
    fn check(&self) -> Result<(), Refusal> {
        line("table", self.table.as_str(), MAX_NAME_CHARS)
    }

    async fn apply(&self, mut tx: RecordTx<'_>) -> Result<ToolResponse> {
        let (name, id) = (&self.table, self.record_id);
        let Some(table) = tx.knowledge().table_named(name).await? else { return Ok(missing(name)) };
        Ok(match tx.knowledge().delete_record(&table, id).await? {
            true => ToolResponse::success(format!("Deleted {id}.")),
            false => not_found(id, SearchRecords::NAME),
        })
    }
}
