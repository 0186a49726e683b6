//! `list_tables`: the custom tables of the user, and the fields of one.

use houston_domain::capability::Capability;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use houston_store::custom_table::CustomTable;
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::record::{Record, RecordFuture};
use crate::tables;
use crate::tool::{CallContext, InvalidInput, Plan, Tool};
use crate::untrusted;

pub(crate) const NAME: &str = "list_tables";

/// Lists tables.
#[derive(Debug)]
pub(super) struct ListTables(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    table: Option<String>,
}

impl Default for ListTables {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description:
                "The user's tables and the presets for new ones; with `table`, the schema of its records."
                    .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {"table": {"type": "string"}},
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for ListTables {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Tables)
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { table } = input::read(NAME, input)?;
        let table = table.map(|table| tables::name(NAME, table)).transpose()?;
        Ok(Plan::record(Call(table)))
    }
}

#[derive(Debug)]
struct Call(Option<String>);

impl Record for Call {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async move {
            if let Some(name) = &self.0 {
                return Ok(match tables::table(&mut tx, name).await? {
                    Ok(table) => {
                        let text = format!("{}\n{}", about(&table), table.fields.schema());
                        ToolResponse::success(untrusted::stored(table.untrusted, &table.id.to_string(), text))
                    }
                    Err(missing) => missing,
                });
            }
            let tables = tx.tables().await?;
            let mut lines: Vec<String> = tables
                .iter()
                .map(|table| untrusted::stored(table.untrusted, &table.id.to_string(), about(table)))
                .collect();
            if lines.is_empty() {
                lines.push("There are no tables yet.".to_owned());
            }
            let presets = tx.table_presets();
            let presets: Vec<String> =
                presets.0.iter().map(|(name, preset)| format!("{name} ({})", preset.description)).collect();
            if !presets.is_empty() {
                lines.push(format!("Presets for new tables: {}.", presets.join(", ")));
            }
            Ok(ToolResponse::success(lines.join("\n")))
        })
    }
}

/// `expenses: 12 records. What was spent. Fields: spent_on, amount`
fn about(table: &CustomTable) -> String {
    let fields: Vec<&str> = table.fields.all().iter().map(|field| field.name.as_str()).collect();
    let description = match table.description.trim_end_matches('.') {
        "" => String::new(),
        text => format!(" {text}."),
    };
    format!("{}: {} records.{description} Fields: {}", table.name, table.records, fields.join(", "))
}
