//! `create_table`: creates a custom table of the user.

use chrono::{DateTime, Utc};
use houston_domain::capability::Capability;
use houston_domain::custom_table::{Field, Fields, MAX_DESCRIPTION_BYTES, check_name, texts};
use houston_domain::id::TableId;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolErrorCode, ToolResponse};
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{add_fields, list_tables};
use crate::record::{Record, RecordFuture};
use crate::tables::written;
use crate::tool::{CallContext, InvalidInput, Plan, Tool};
use crate::{input, tables};

const NAME: &str = "create_table";

/// Creates a table. Written with the step: exactly once.
#[derive(Debug)]
pub(super) struct CreateTable(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    name: Option<String>,
    description: Option<String>,
    #[serde(default)]
    fields: Vec<Field>,
    preset: Option<String>,
}

impl Default for CreateTable {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: format!(
                "Create a table of the user for records of one kind: give `name` and `fields`, or `preset` ({} names \
                 them). Fields can be added later ({}), but not changed.",
                list_tables::NAME,
                add_fields::NAME
            ),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "As books_read; the preset's when left out."},
                    "description": {"type": "string"},
                    "fields": tables::fields_schema(),
                    "preset": {"type": "string"},
                },
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for CreateTable {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Tables)
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { name, description, fields, preset } = input::read(NAME, input)?;
        let invalid = |text: String| InvalidInput(format!("{NAME}: {text}"));
        if let Some(name) = &name {
            check_name(name).map_err(invalid)?;
        }
        let description = input::optional_text(NAME, "description", description, MAX_DESCRIPTION_BYTES)?;
        let what = match (preset, name) {
            (Some(_), _) if !fields.is_empty() => {
                return Err(invalid("give either `fields` or `preset`, not both".to_owned()));
            }
            (Some(preset), name) => What::Preset { preset, name },
            (None, Some(name)) => What::Own { name, fields },
            (None, None) => return Err(invalid("give `name` and `fields`, or `preset`".to_owned())),
        };
        Ok(Plan::record(Call { what, description, now: context.now }))
    }
}

#[derive(Debug)]
enum What {
    Preset { preset: String, name: Option<String> },
    Own { name: String, fields: Vec<Field> },
}

#[derive(Debug)]
struct Call {
    what: What,
    description: Option<String>,
    now: DateTime<Utc>,
}

impl Record for Call {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async move {
            let refused = |text: String| {
                ToolResponse::failure(ToolErrorCode::ValidationError, format!("{NAME}: {text}"))
            };
            let (name, about, fields) = match &self.what {
                What::Own { name, fields } => (name.clone(), String::new(), fields.clone()),
                What::Preset { preset, name } => match tx.table_presets().named(preset) {
                    Ok(found) => {
                        let name = name.as_ref().unwrap_or(preset).clone();
                        (name, found.description.clone(), found.fields.clone())
                    }
                    Err(unknown) => return Ok(refused(unknown.to_string())),
                },
            };
            let fields = match Fields::new(fields, &tx.table_limits()) {
                Ok(fields) => fields,
                Err(faults) => return Ok(refused(texts(&faults))),
            };
            let description = self.description.clone().unwrap_or(about);
            let done = tx.create_table(&name, &description, &fields, self.now).await;
            written(done, |()| {
                let (id, schema) = (TableId(tx.ids().row), fields.schema());
                ToolResponse::success(format!("Created {name} ({id}). A record: {schema}"))
            })
        })
    }
}
