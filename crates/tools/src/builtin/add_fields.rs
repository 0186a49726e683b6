//! `add_fields`: adds fields to a custom table of the user.

use houston_domain::capability::Capability;
use houston_domain::custom_table::Field;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::record::{Record, RecordFuture};
use crate::tool::{CallContext, InvalidInput, Plan, Tool};
use crate::{input, tables};

pub(super) const NAME: &str = "add_fields";

/// Adds fields. Written with the step: exactly once.
#[derive(Debug)]
pub(super) struct AddFields(ToolDefinition);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    table: String,
    fields: Vec<Field>,
}

impl Default for AddFields {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Add fields to a table. Its records stay as they are, without a value of the new fields, so a \
                          new field can be required only while there are no records."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {"table": tables::table_schema(), "fields": tables::fields_schema()},
                "required": ["table", "fields"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for AddFields {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Tables)
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { table, fields } = input::read(NAME, input)?;
        Ok(Plan::record(Input { table: tables::name(NAME, table)?, fields }))
    }
}

impl Record for Input {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async move {
            let table = match tables::table(&mut tx, &self.table).await? {
                Ok(table) => table,
                Err(missing) => return Ok(missing),
            };
            Ok(match tx.add_fields(&table, &self.fields).await? {
                Some(Ok(table)) => {
                    let schema = table.fields.schema();
                    ToolResponse::success(format!("Added to {}. A record: {schema}", table.name))
                }
                Some(Err(faults)) => tables::refused(NAME, &table, &faults),
                None => tables::missing(&self.table),
            })
        })
    }
}
