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
use super::tables::{ListTables, gone, missing, refused};

built_in! {
    AddRecords: "add_records", Idempotent, capability Tables;
    SearchRecords: "search_records", Read, capability Tables;
    AggregateRecords: "aggregate_records", Read, capability Tables;
    UpdateRecord: "update_record", Idempotent, capability Tables;
    DeleteRecord: "delete_record", Idempotent, capability Tables;
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

impl Access for AddRecords {
    fn check(&self, _: &CallContext) -> Result<()> {
        let count = self.records.len();
        if !(1..=MAX_ADDED).contains(&count) {
            return Err(invalid(format!("`records` has {count} records; 1 to {MAX_ADDED} are allowed")));
        }
        line("table", self.table.as_str(), MAX_NAME_CHARS)
    }

    async fn apply(&self, context: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let Self { table, records } = self;
        let table = tx.knowledge().table_named(table).await?.ok_or_else(|| missing(table))?;
        let mut new = Vec::with_capacity(records.len());
        for (id, record) in tx.ids.rows(records.len()).zip(records) {
            let data = table.fields.check(record, Some(context.zone), Part::Whole).map_err(|faults| {
                let which = format!("{}: nothing was added; `records[{}]`", Self::NAME, new.len());
                refused(&which, &table, &faults)
            })?;
            new.push(RecordData { id: RecordId(id), data });
        }
        tx.knowledge().add_records(&table, &new, None).await.map_err(gone)?;
        let ids: Vec<String> = new.iter().map(|record| record.id.to_string()).collect();
        Ok(format!("Added {} to {}: {}", ids.len(), table.name, ids.join(", ")))
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

impl SearchRecords {
    fn page(&self) -> i64 {
        self.page.unwrap_or(1).into()
    }

    fn limit(&self) -> Result<i64> {
        limit(self.limit, DEFAULT_RECORDS, MAX_RECORDS).map(i64::from)
    }

    fn of(&self, table: &CustomTable, zone: Tz, limit: i64) -> Result<RecordSearch, Vec<Fault>> {
        let conditions = conditions(&self.conditions, &table.fields, Some(zone))?;
        let filter = RecordFilter { conditions, text: self.query.clone() };
        let order = Order::parse(self.order.as_deref(), &table.fields).map_err(|fault| vec![fault])?;
        Ok(RecordSearch { filter, order, offset: (self.page() - 1) * limit, limit })
    }
}

impl Access for SearchRecords {
    fn check(&self, _: &CallContext) -> Result<()> {
        ensure!(self.page != Some(0), invalid("`page` is 0, but the first page is 1"));
        line("table", self.table.as_str(), MAX_NAME_CHARS)?;
        line("query", self.query.as_deref(), MAX_QUERY_CHARS)?;
        self.limit().map(drop)
    }

    async fn apply(&self, context: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let name = &self.table;
        let table = tx.knowledge().table_named(name).await?.ok_or_else(|| missing(name))?;
        let search = self.of(&table, context.zone, self.limit()?);
        let search = search.map_err(|faults| refused(Self::NAME, &table, &faults))?;
        let (records, all) = tx.knowledge().search_records(&table, &search).await?;
        if records.is_empty() {
            let none = if self.page() > 1 { "There is no such page." } else { "There are no such records." };
            return Ok(none.to_owned());
        }
        let listed = i64::try_from(records.len()).unwrap_or(i64::MAX);
        let mut lines = vec![format!("{listed} of {all} records:")];
        lines.extend(records.iter().map(described));
        if search.offset + listed < all {
            lines.push(format!("There are more: ask again with `page` {}.", self.page() + 1));
        }
        Ok(lines.join("\n"))
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

impl Access for AggregateRecords {
    fn check(&self, _: &CallContext) -> Result<()> {
        line("table", self.table.as_str(), MAX_NAME_CHARS)
    }

    async fn apply(&self, context: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let table = tx.knowledge().table_named(&self.table).await?.ok_or_else(|| missing(&self.table))?;
        let wanted = self.of(&table, context.zone);
        let (filter, aggregate) = wanted.map_err(|faults| refused(Self::NAME, &table, &faults))?;
        let groups = tx.knowledge().aggregate_records(&table, &filter, &aggregate).await?;
        let of = self.field.as_ref().map(|field| format!(" of {field}")).unwrap_or_default();
        let what = format!("{}{of}", self.function.as_str());
        if self.group_by.is_none() {
            let none = if self.function == Function::Count { "0" } else { "none" };
            let result = groups.first().map_or_else(|| none.to_owned(), |one| self.result(one));
            let marked = groups.first().is_some_and(|one| one.untrusted);
            let text = untrusted::stored(marked, &table.id.to_string(), result);
            return Ok(format!("{what}: {text}"));
        }
        let is_untrusted = groups.iter().any(|group| group.untrusted);
        let lines: Vec<String> = groups
            .iter()
            .take(MAX_GROUPS)
            .map(|group| format!("{}: {}", group.value, self.result(group)))
            .collect();
        let mut text = untrusted::stored(is_untrusted, &table.id.to_string(), lines.join("\n"));
        if groups.len() > MAX_GROUPS {
            text.push_str(&format!("\nThere are more than {MAX_GROUPS} groups: use `where`."));
        }
        let text = if groups.is_empty() { "There are no such records.".to_owned() } else { text };
        Ok(format!("{what}:\n{text}"))
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

impl Access for UpdateRecord {
    fn check(&self, _: &CallContext) -> Result<()> {
        line("table", self.table.as_str(), MAX_NAME_CHARS)
    }

    async fn apply(&self, context: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let Self { table, record_id: id, values } = self;
        let table = tx.knowledge().table_named(table).await?.ok_or_else(|| missing(table))?;
        let changes = table.fields.check(values, Some(context.zone), Part::Changes);
        let changes = changes.map_err(|faults| refused(Self::NAME, &table, &faults))?;
        let changed = tx.knowledge().change_record(&table, *id, &changes).await.map_err(gone)?;
        changed.as_ref().map(described).ok_or_else(|| not_found(id, SearchRecords::NAME))
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
    fn check(&self, _: &CallContext) -> Result<()> {
        line("table", self.table.as_str(), MAX_NAME_CHARS)
    }

    async fn apply(&self, _: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let (name, id) = (&self.table, self.record_id);
        let table = tx.knowledge().table_named(name).await?.ok_or_else(|| missing(name))?;
        let was_there = tx.knowledge().delete_record(&table, id).await?;
        ensure!(was_there, not_found(id, SearchRecords::NAME));
        Ok(format!("Deleted {id}."))
    }
}
