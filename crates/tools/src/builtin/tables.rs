//! Custom tables of the user; what is in them: [`records`](super::records).

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
#[derive(Debug, Deserialize, JsonSchema)]
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

impl Access for CreateTable {
    fn check(&self, _: &CallContext) -> Result<()> {
        let Self { name, description, fields, preset } = self;
        if let Some(name) = name {
            check_name(name).map_err(invalid)?;
        }
        text("description", description.as_deref(), MAX_DESCRIPTION_BYTES)?;
        match (preset, name) {
            (Some(_), _) if !fields.is_empty() => Err(invalid("give either `fields` or `preset`, not both")),
            (None, None) => Err(invalid("give `name` and `fields`, or `preset`")),
            _ => Ok(()),
        }
    }

    async fn apply(&self, context: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let refused = |text: String| invalid(format!("{}: {text}", Self::NAME));
        let (mut about, mut fields) = (String::new(), self.fields.clone());
        if let Some(preset) = &self.preset {
            let found = tx.settings.table_presets.named(preset).map_err(refused)?;
            (about, fields) = (found.description.clone(), found.fields.clone());
        }
        let fields = Fields::new(fields, &tx.settings.knowledge_limits.tables)
            .map_err(|faults| refused(texts(&faults)))?;
        let name = self.name.as_ref().or(self.preset.as_ref()).cloned().unwrap_or_default();
        let description = self.description.clone().unwrap_or(about);
        let schema = fields.schema();
        tx.create_table(name.clone(), description, fields, context.now).await.map_err(gone)?;
        let id = TableId(tx.ids.row);
        Ok(format!("Created {name} ({id}). A record: {schema}"))
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
    fn check(&self, _: &CallContext) -> Result<()> {
        line("table", self.table.as_str(), MAX_NAME_CHARS)
    }

    async fn apply(&self, _: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let missing = || missing(&self.table);
        let table = tx.knowledge().table_named(&self.table).await?.ok_or_else(missing)?;
        let added = tx.add_fields(&table, &self.fields).await?.ok_or_else(missing)?;
        let added = added.map_err(|faults| refused(Self::NAME, &table, &faults))?;
        Ok(format!("Added to {}. A record: {}", added.name, added.schema))
    }
}

/// The user's tables and the presets for new ones; with `table`, the schema of its records.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListTables {
    table: Option<String>,
}

impl Access for ListTables {
    fn check(&self, _: &CallContext) -> Result<()> {
        line("table", self.table.as_deref(), MAX_NAME_CHARS)
    }

    async fn apply(&self, _: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let stored =
            |table: &CustomTable, text| untrusted::stored(table.untrusted, &table.id.to_string(), text);
        if let Some(name) = &self.table {
            let table = tx.knowledge().table_named(name).await?.ok_or_else(|| missing(name))?;
            let text = format!("{}\n{}", about(&table), table.fields.schema());
            return Ok(stored(&table, text));
        }
        let mut lines: Vec<String> =
            tx.knowledge().tables("", None).await?.iter().map(|table| stored(table, about(table))).collect();
        if lines.is_empty() {
            lines.push("There are no tables yet.".to_owned());
        }
        let presets = tx.settings.table_presets.0.iter();
        let presets: Vec<String> =
            presets.map(|(name, preset)| format!("{name} ({})", preset.description)).collect();
        if !presets.is_empty() {
            lines.push(format!("Presets for new tables: {}.", presets.join(", ")));
        }
        Ok(lines.join("\n"))
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
    fn check(&self, _: &CallContext) -> Result<()> {
        line("table", self.table.as_str(), MAX_NAME_CHARS)
    }

    const HAS_PREVIEW: bool = true;

    async fn apply(&self, _: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let table = tx.knowledge().table_named(&self.table).await?.ok_or_else(|| missing(&self.table))?;
        tx.delete_table(&table).await?;
        let (name, records) = (&table.name, table.records);
        Ok(format!("Deleted {name} with its {records} records."))
    }

    /// How much is lost.
    async fn preview(&self, mut tx: RecordTx<'_>) -> Result<Option<String>> {
        let table = tx.knowledge().table_named(&self.table).await?;
        Ok(table.map(|table| format!("{} has {} records.", table.name, table.records)))
    }
}

/// What the model reads if there is no table with this name.
pub(super) fn missing(name: &str) -> Refusal {
    let text = format!("there is no table `{name}`: {} shows those there are", ListTables::NAME);
    failed(ToolErrorCode::NotFound, text)
}

/// What the model reads of arguments that the table does not allow: each fault, and the fields.
pub(super) fn refused(tool: &str, table: &CustomTable, faults: &[Fault]) -> Refusal {
    let (name, schema) = (&table.name, table.fields.schema());
    let schema = untrusted::stored(table.untrusted, &table.id.to_string(), schema.to_string());
    invalid(format!("{tool}: {}. A record of {name}: {schema}", texts(faults)))
}

/// The refusal of a change that was not written. That the table was deleted meanwhile is told to the model, too.
pub(super) fn gone(error: Error) -> Refusal {
    match error {
        Error::NotFound { .. } => invalid(error),
        error => error.into(),
    }
}
