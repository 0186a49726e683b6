//! Custom tables of the user; what is in them: [`records`](super::records).

use chrono::{DateTime, Utc};
use houston_domain::custom_table::{
    Fault, Field, FieldType, Fields, MAX_DESCRIPTION_BYTES, MAX_NAME_CHARS, check_name, texts,
};
use houston_domain::id::TableId;
use houston_store::Error;
use houston_store::custom_table::CustomTable;
use schemars::{Schema, SchemaGenerator, json_schema};

use super::prelude::*;

built_in! {
    CreateTable: "create_table", Idempotent, capability Tables;
    AddFields: "add_fields", Idempotent, capability Tables;
    ListTables: "list_tables", Read, capability Tables;
    DropTable: "drop_table", Idempotent, capability Tables;
}

/// Creates a table. Written with the step: exactly once.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(description = format!(
    "Create a table of the user for records of one kind: give `name` and `fields`, or `preset` ({} names them). Fields \
     can be added later ({}), but not changed.",
    ListTables::NAME,
    AddFields::NAME
))]
pub(super) struct CreateTable {
    /// As books_read; the preset's when left out.
    name: Option<String>,
    description: Option<String>,
    #[serde(default)]
    #[schemars(schema_with = "fields_schema")]
    fields: Vec<Field>,
    preset: Option<String>,
}

/// Fields, whose type is the one that is stored.
fn fields_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "type": {"type": "string", "enum": FieldType::ALL.map(FieldType::as_str), "description": "list: of texts."},
            "required": {"type": "boolean"},
            "enum": {"type": "array", "items": {"type": "string"}},
            "description": {"type": "string"},
        },
        "required": ["name", "type"],
        "additionalProperties": false,
    }})
}

impl BuiltIn for CreateTable {
    fn plan(self, context: &CallContext, _: &Outside) -> Result<Plan, Refusal> {
        let Self { name, description, fields, preset } = self;
        if let Some(name) = &name {
            check_name(name).map_err(invalid)?;
        }
        text("description", description.as_deref(), MAX_DESCRIPTION_BYTES)?;
        let what = match (preset, name) {
            (Some(_), _) if !fields.is_empty() => {
                return Err(invalid("give either `fields` or `preset`, not both"));
            }
            (Some(preset), name) => What::Preset { preset, name },
            (None, Some(name)) => What::Own { name, fields },
            (None, None) => return Err(invalid("give `name` and `fields`, or `preset`")),
        };
        Ok(Plan::record(Create { what, description, now: context.now }))
    }
}

#[derive(Debug)]
enum What {
    Preset { preset: String, name: Option<String> },
    Own { name: String, fields: Vec<Field> },
}

#[derive(Debug)]
struct Create {
    what: What,
    description: Option<String>,
    now: DateTime<Utc>,
}

impl Access for Create {
    async fn apply(&self, mut tx: RecordTx<'_>) -> Result<ToolResponse> {
        let refused = |text: String| {
            let text = format!("{}: {text}", CreateTable::NAME);
            ToolResponse::failure(ToolErrorCode::ValidationError, text)
        };
        let (name, about, fields) = match &self.what {
            What::Own { name, fields } => (name.clone(), String::new(), fields.clone()),
            What::Preset { preset, name } => match tx.settings.table_presets.named(preset) {
                Ok(found) => {
                    let name = name.as_ref().unwrap_or(preset).clone();
                    (name, found.description.clone(), found.fields.clone())
                }
                Err(unknown) => return Ok(refused(unknown)),
            },
        };
        let fields = match Fields::new(fields, &tx.settings.knowledge_limits.tables) {
            Ok(fields) => fields,
            Err(faults) => return Ok(refused(texts(&faults))),
        };
        let description = self.description.clone().unwrap_or(about);
        let schema = fields.schema();
        let done = tx.create_table(name.clone(), description, fields, self.now).await;
        written(done, |()| {
            let id = TableId(tx.ids.row);
            ToolResponse::success(format!("Created {name} ({id}). A record: {schema}"))
        })
    }
}

/// Add fields to a table. Its records stay as they are, without a value of the new fields, so a new field can be
/// required only while there are no records.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AddFields {
    /// The name of the table.
    table: String,
    #[schemars(schema_with = "fields_schema")]
    fields: Vec<Field>,
}

impl Access for AddFields {
    fn check(&self) -> Result<(), Refusal> {
        line("table", self.table.as_str(), MAX_NAME_CHARS)
    }

    async fn apply(&self, mut tx: RecordTx<'_>) -> Result<ToolResponse> {
        let Some(table) = tx.table(&self.table).await? else { return Ok(missing(&self.table)) };
        Ok(match tx.add_fields(&table, &self.fields).await? {
            Some(Ok(table)) => {
                ToolResponse::success(format!("Added to {}. A record: {}", table.name, table.schema))
            }
            Some(Err(faults)) => refused(Self::NAME, &table, &faults),
            None => missing(&self.table),
        })
    }
}

/// The user's tables and the presets for new ones; with `table`, the schema of its records.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListTables {
    table: Option<String>,
}

impl Access for ListTables {
    fn check(&self) -> Result<(), Refusal> {
        line("table", self.table.as_deref(), MAX_NAME_CHARS)
    }

    async fn apply(&self, mut tx: RecordTx<'_>) -> Result<ToolResponse> {
        let stored =
            |table: &CustomTable, text| untrusted::stored(table.untrusted, &table.id.to_string(), text);
        if let Some(name) = &self.table {
            let Some(table) = tx.table(name).await? else { return Ok(missing(name)) };
            let text = format!("{}\n{}", about(&table), table.fields.schema());
            return Ok(ToolResponse::success(stored(&table, text)));
        }
        let mut lines: Vec<String> =
            tx.tables().await?.iter().map(|table| stored(table, about(table))).collect();
        if lines.is_empty() {
            lines.push("There are no tables yet.".to_owned());
        }
        let presets = tx.settings.table_presets.0.iter();
        let presets: Vec<String> =
            presets.map(|(name, preset)| format!("{name} ({})", preset.description)).collect();
        if !presets.is_empty() {
            lines.push(format!("Presets for new tables: {}.", presets.join(", ")));
        }
        Ok(ToolResponse::success(lines.join("\n")))
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

/// Delete a table with all its records, for good.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DropTable {
    /// The name of the table.
    table: String,
}

impl Access for DropTable {
    fn check(&self) -> Result<(), Refusal> {
        line("table", self.table.as_str(), MAX_NAME_CHARS)
    }

    const HAS_PREVIEW: bool = true;

    async fn apply(&self, mut tx: RecordTx<'_>) -> Result<ToolResponse> {
        let Some(table) = tx.table(&self.table).await? else { return Ok(missing(&self.table)) };
        tx.delete_table(&table).await?;
        let (name, records) = (&table.name, table.records);
        Ok(ToolResponse::success(format!("Deleted {name} with its {records} records.")))
    }

    /// How much is lost.
    async fn preview(&self, mut tx: RecordTx<'_>) -> Result<Option<String>> {
        let table = tx.table(&self.table).await?;
        Ok(table.map(|table| format!("{} has {} records.", table.name, table.records)))
    }
}

/// What the model reads if there is no table with this name.
pub(super) fn missing(name: &str) -> ToolResponse {
    let text = format!("there is no table `{name}`: {} shows those there are", ListTables::NAME);
    ToolResponse::failure(ToolErrorCode::NotFound, text)
}

/// What the model reads of arguments that the table does not allow: each fault, and the fields.
pub(super) fn refused(tool: &str, table: &CustomTable, faults: &[Fault]) -> ToolResponse {
    let (name, schema) = (&table.name, table.fields.schema());
    let schema = untrusted::stored(table.untrusted, &table.id.to_string(), schema.to_string());
    let text = format!("{tool}: {}. A record of {name}: {schema}", texts(faults));
    ToolResponse::failure(ToolErrorCode::ValidationError, text)
}

/// The answer to what was written, or to what has no room.
pub(super) fn written<T>(done: Result<T>, text: impl FnOnce(T) -> ToolResponse) -> Result<ToolResponse> {
    let (code, error) = match done {
        Ok(value) => return Ok(text(value)),
        Err(error @ (Error::Full { .. } | Error::TooLarge { .. })) => (ToolErrorCode::RateLimited, error),
        Err(error @ (Error::Exists { .. } | Error::NotFound { .. })) => {
            (ToolErrorCode::ValidationError, error)
        }
        Err(error) => return Err(error),
    };
    Ok(ToolResponse::failure(code, error.to_string()))
}
