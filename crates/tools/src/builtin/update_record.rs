//! `update_record`: changes values of a record of a custom table.

use chrono_tz::Tz;
use houston_domain::capability::Capability;
use houston_domain::custom_table::Part;
use houston_domain::id::RecordId;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::search_records;
use crate::input;
use crate::record::{Record, RecordFuture, not_found};
use crate::tables;
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

const NAME: &str = "update_record";

/// Changes a record. Written with the step: exactly once.
#[derive(Debug)]
pub(super) struct UpdateRecord(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    table: String,
    record_id: RecordId,
    values: Map<String, Value>,
}

impl Default for UpdateRecord {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Change values of one record; the others stay.".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "table": tables::table_schema(),
                    "record_id": {"type": "string"},
                    "values": {"type": "object", "description": "The fields to set; null removes a value."},
                },
                "required": ["table", "record_id", "values"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for UpdateRecord {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Tables)
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { table, record_id, values } = input::read(NAME, input)?;
        Ok(Plan::record(Call {
            table: tables::name(NAME, table)?,
            id: record_id,
            values,
            zone: context.zone,
        }))
    }
}

#[derive(Debug)]
struct Call {
    table: String,
    id: RecordId,
    values: Map<String, Value>,
    zone: Tz,
}

impl Record for Call {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async move {
            let table = match tables::table(&mut tx, &self.table).await? {
                Ok(table) => table,
                Err(missing) => return Ok(missing),
            };
            let changes = match table.fields.check(&self.values, Some(self.zone), Part::Changes) {
                Ok(changes) => changes,
                Err(faults) => return Ok(tables::refused(NAME, &table, &faults)),
            };
            let changed = tx.change_record(&table, self.id, &changes).await;
            tables::written(changed, |changed| match changed {
                Some(record) => ToolResponse::success(tables::line(&record)),
                None => not_found(self.id, search_records::NAME),
            })
        })
    }
}
