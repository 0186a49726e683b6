//! `add_records`: adds records to a custom table.

use chrono_tz::Tz;
use houston_domain::capability::Capability;
use houston_domain::custom_table::{MAX_ADDED, Part};
use houston_domain::id::RecordId;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::list_tables;
use crate::input;
use crate::record::{Record, RecordFuture};
use crate::tables;
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

const NAME: &str = "add_records";

/// Adds records: all or none. Written with the step: exactly once.
#[derive(Debug)]
pub(super) struct AddRecords(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    table: String,
    records: Vec<Map<String, Value>>,
}

impl Default for AddRecords {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: format!(
                "Add records to a table, each an object of its fields ({} shows them).",
                list_tables::NAME
            ),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "table": tables::table_schema(),
                    "records": {"type": "array", "items": {"type": "object"}, "minItems": 1, "maxItems": MAX_ADDED},
                },
                "required": ["table", "records"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for AddRecords {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Tables)
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { table, records } = input::read(NAME, input)?;
        let count = records.len();
        if !(1..=MAX_ADDED).contains(&count) {
            let text = format!("{NAME}: `records` has {count} records; 1 to {MAX_ADDED} are allowed");
            return Err(InvalidInput(text));
        }
        Ok(Plan::record(Call { table: tables::name(NAME, table)?, records, zone: context.zone }))
    }
}

#[derive(Debug)]
struct Call {
    table: String,
    records: Vec<Map<String, Value>>,
    zone: Tz,
}

impl Record for Call {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async move {
            let table = match tables::table(&mut tx, &self.table).await? {
                Ok(table) => table,
                Err(missing) => return Ok(missing),
            };
            let mut new = Vec::with_capacity(self.records.len());
            for (id, record) in tx.ids().rows(self.records.len()).zip(&self.records) {
                match table.fields.check(record, Some(self.zone), Part::Whole) {
                    Ok(data) => new.push((RecordId(id), data)),
                    Err(faults) => {
                        let which = format!("{NAME}: nothing was added; `records[{}]`", new.len());
                        return Ok(tables::refused(&which, &table, &faults));
                    }
                }
            }
            let done = tx.add_records(&table, &new).await;
            tables::written(done, |()| {
                let ids: Vec<String> = new.iter().map(|(id, _)| id.to_string()).collect();
                ToolResponse::success(format!("Added {} to {}: {}", ids.len(), table.name, ids.join(", ")))
            })
        })
    }
}
