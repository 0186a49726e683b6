//! `search_records`: finds records of a custom table.

use chrono_tz::Tz;
use houston_domain::capability::Capability;
use houston_domain::custom_table::Order;
use houston_domain::knowledge::MAX_QUERY_CHARS;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use houston_store::custom_record::RecordSearch;
use houston_store::custom_table::CustomTable;
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::input;
use crate::record::{Record, RecordFuture};
use crate::tables;
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

pub(super) const NAME: &str = "search_records";
/// Records if the call does not set `limit`.
const DEFAULT_RECORDS: u32 = 20;
/// Maximum number of records of a page.
const MAX_RECORDS: u32 = 100;

/// Finds records.
#[derive(Debug)]
pub(super) struct SearchRecords(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    table: String,
    #[serde(default, rename = "where")]
    conditions: Map<String, Value>,
    query: Option<String>,
    order: Option<String>,
    limit: Option<u32>,
    page: Option<u32>,
}

impl Default for SearchRecords {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Find records of a table, with their ids and how many there are.".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "table": tables::table_schema(),
                    "where": {"type": "object", "description": tables::WHERE},
                    "query": {"type": "string", "description": "A text in one of the values."},
                    "order": {"type": "string", "description": "A field; -field for the greatest first. Default: newest."},
                    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_RECORDS},
                    "page": {"type": "integer", "minimum": 1},
                },
                "required": ["table"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for SearchRecords {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Tables)
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { table, conditions, query, order, limit, page } = input::read(NAME, input)?;
        let page = page.unwrap_or(1);
        if page == 0 {
            return Err(InvalidInput(format!("{NAME}: `page` is 0, but the first page is 1")));
        }
        Ok(Plan::record(Call {
            table: tables::name(NAME, table)?,
            conditions,
            query: query.map(|query| input::line(NAME, "query", query, MAX_QUERY_CHARS)).transpose()?,
            order,
            limit: input::limit(NAME, limit, DEFAULT_RECORDS, MAX_RECORDS)?.into(),
            page: page.into(),
            zone: context.zone,
        }))
    }
}

#[derive(Debug)]
struct Call {
    table: String,
    conditions: Map<String, Value>,
    query: Option<String>,
    order: Option<String>,
    limit: i64,
    page: i64,
    zone: Tz,
}

impl Call {
    fn search(&self, table: &CustomTable) -> Result<RecordSearch, Vec<houston_domain::custom_table::Fault>> {
        let filter = tables::filter(table, &self.conditions, self.query.as_deref(), self.zone)?;
        let order = Order::parse(self.order.as_deref(), &table.fields).map_err(|fault| vec![fault])?;
        Ok(RecordSearch { filter, order, offset: (self.page - 1) * self.limit, limit: self.limit })
    }
}

impl Record for Call {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async move {
            let table = match tables::table(&mut tx, &self.table).await? {
                Ok(table) => table,
                Err(missing) => return Ok(missing),
            };
            let search = match self.search(&table) {
                Ok(search) => search,
                Err(faults) => return Ok(tables::refused(NAME, &table, &faults)),
            };
            let (records, all) = tx.search_records(&table, &search).await?;
            if records.is_empty() {
                let none =
                    if self.page > 1 { "There is no such page." } else { "There are no such records." };
                return Ok(ToolResponse::success(none));
            }
            let listed = i64::try_from(records.len()).unwrap_or(i64::MAX);
            let mut lines = vec![format!("{listed} of {all} records:")];
            lines.extend(records.iter().map(tables::line));
            if search.offset + listed < all {
                lines.push(format!("There are more: ask again with `page` {}.", self.page + 1));
            }
            Ok(ToolResponse::success(lines.join("\n")))
        })
    }
}
