//! `drop_table`: deletes a custom table with its records.

use futures_util::future::BoxFuture;
use houston_domain::capability::Capability;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::record::{Record, RecordFuture};
use crate::tables;
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

const NAME: &str = "drop_table";

/// Deletes a table. Written with the step: exactly once.
#[derive(Debug)]
pub(super) struct DropTable(ToolDefinition);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    table: String,
}

impl Default for DropTable {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Delete a table with all its records, for good.".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {"table": tables::table_schema()},
                "required": ["table"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for DropTable {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Tables)
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { table } = input::read(NAME, input)?;
        Ok(Plan::record(Input { table: tables::name(NAME, table)? }))
    }
}

impl Record for Input {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async move {
            let table = match tables::table(&mut tx, &self.table).await? {
                Ok(table) => table,
                Err(missing) => return Ok(missing),
            };
            tx.delete_table(&table).await?;
            let (name, records) = (&table.name, table.records);
            Ok(ToolResponse::success(format!("Deleted {name} with its {records} records.")))
        })
    }

    fn has_preview(&self) -> bool {
        true
    }

    /// How much is lost.
    fn preview<'t>(&'t self, mut tx: RecordTx<'t>) -> BoxFuture<'t, houston_store::Result<Option<String>>> {
        Box::pin(async move {
            let table = tx.table(&self.table).await?;
            Ok(table.map(|table| format!("{} has {} records.", table.name, table.records)))
        })
    }
}
