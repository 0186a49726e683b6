//! `delete_record`: deletes a record of a custom table.

use houston_domain::capability::Capability;
use houston_domain::id::RecordId;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Value, json};

use super::search_records;
use crate::input;
use crate::record::{Record, RecordFuture, not_found};
use crate::tables;
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

const NAME: &str = "delete_record";

/// Deletes a record. Written with the step: exactly once.
#[derive(Debug)]
pub(super) struct DeleteRecord(ToolDefinition);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    table: String,
    record_id: RecordId,
}

impl Default for DeleteRecord {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Delete one record of a table.".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {"table": tables::table_schema(), "record_id": {"type": "string"}},
                "required": ["table", "record_id"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for DeleteRecord {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Tables)
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { table, record_id } = input::read(NAME, input)?;
        Ok(Plan::record(Input { table: tables::name(NAME, table)?, record_id }))
    }
}

impl Record for Input {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async move {
            let table = match tables::table(&mut tx, &self.table).await? {
                Ok(table) => table,
                Err(missing) => return Ok(missing),
            };
            Ok(if tx.delete_record(&table, self.record_id).await? {
                ToolResponse::success(format!("Deleted {}.", self.record_id))
            } else {
                not_found(self.record_id, search_records::NAME)
            })
        })
    }
}
