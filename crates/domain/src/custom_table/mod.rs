//! Custom tables: records that agents and people keep for a user, such as expenses or contacts, in fields that they chose.
//!
//! [`Fields`] is the one description of a table. It checks the records of tools and of requests with the same function, makes
//! the errors, and makes the JSON Schema that models and clients read.
//!
//! # Bounds
//! How long one value may be is a constant here. How many tables and records there may be is [`TableLimits`], from
//! `jobs/knowledge.toml`: a search reads all records of one table.

mod csv;
mod fields;
mod query;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::id::{RecordId, TableId, UserId};
use crate::time::Time;

pub use csv::CsvFault;
pub use fields::{Fault, Field, FieldType, Fields, MAX_NAME_CHARS, Part, check_name, texts};
pub use query::{Aggregate, Condition, Function, MAX_CONDITIONS, Order, Test, conditions};

/// Maximum length of a text in a record, in bytes.
pub const MAX_TEXT_BYTES: usize = 8 * 1024;

/// Maximum number of texts in a list.
pub const MAX_LIST_ITEMS: usize = 100;

/// Maximum length of a text in a list and of an allowed value of an enum, in bytes.
pub const MAX_ITEM_BYTES: usize = 500;

/// Maximum number of allowed values of an enum.
pub const MAX_OPTIONS: usize = 50;

/// Maximum length of the description of a table or a field, in bytes.
pub const MAX_DESCRIPTION_BYTES: usize = 500;

/// Maximum number of records that one call adds.
pub const MAX_ADDED: usize = 100;

/// Maximum number of groups of an aggregate.
pub const MAX_GROUPS: usize = 100;

/// A custom table of a user.
///
/// ```json
/// {"id": "table_0190…", "user_id": "user_0190…", "name": "expenses", "description": "What was spent",
///  "fields": [{"name": "amount", "type": "number", "required": true}], "schema": {"type": "object", …},
///  "records": 12, "bytes": 1840, "untrusted": false, "created_at": "2026-11-22T09:00:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TableResponse))]
pub struct CustomTable {
    pub id: TableId,
    #[serde(rename = "user_id")]
    pub user: UserId,
    /// Unique among the tables of the user.
    pub name: String,
    pub description: String,
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Field>))]
    pub fields: Fields,
    /// The JSON Schema of a record.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson))]
    pub schema: Value,
    /// How many records it has.
    pub records: i64,
    /// Bytes of its records as JSON.
    pub bytes: i64,
    /// Whether an agent made it after it had read what strangers wrote.
    pub untrusted: bool,
    pub created_at: Time,
}

/// A record of a custom table.
///
/// ```json
/// {"id": "record_0190…", "table_id": "table_0190…", "values": {"amount": 12.5}, "untrusted": false,
///  "created_at": "2026-11-22T09:00:00.000Z", "updated_at": "2026-11-22T09:00:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = RecordResponse))]
pub struct CustomRecord {
    pub id: RecordId,
    #[serde(rename = "table_id")]
    pub table: TableId,
    /// By the names of the fields.
    #[serde(rename = "values")]
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, crate::schema::AnyJson>))]
    pub data: Map<String, Value>,
    /// Whether an agent wrote it after it had read what strangers wrote.
    pub untrusted: bool,
    pub created_at: Time,
    pub updated_at: Time,
}

impl CustomTable {
    /// A table without records that a request makes.
    pub fn new(
        id: TableId,
        user: UserId,
        (name, description): (String, String),
        fields: Fields,
        created_at: impl Into<Time>,
    ) -> Self {
        let (schema, created_at) = (fields.schema(), created_at.into());
        let (records, bytes, untrusted) = (0, 0, false);
        Self { id, user, name, description, fields, schema, records, bytes, untrusted, created_at }
    }
}

settings! {
    /// `[tables]` of `jobs/knowledge.toml`.
    ///
    /// ```toml
    /// [tables]
    /// max_tables = 50
    /// max_fields = 40
    /// max_records = 10_000
    /// max_record_bytes = 16_384
    /// max_bytes = 4_194_304
    /// ```
    pub struct TableLimits {
        /// Tables of one user.
        pub max_tables: u32 = 50;
        /// Fields of one table.
        pub max_fields: u32 = 40;
        /// Records of one table.
        pub max_records: u32 = 10_000;
        /// Bytes of one record, as JSON.
        pub max_record_bytes: u32 = 16 * 1024;
        /// Bytes of all records of one table, as JSON.
        pub max_bytes: u32 = 4 * 1024 * 1024;
    }
}

/// A table that can be created by its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TablePreset {
    /// What it is for.
    pub description: String,
    /// Its fields.
    pub fields: Vec<Field>,
}

/// `jobs/tables.toml`: the presets, by the name that their tables get.
///
/// ```toml
/// [bookmarks]
/// description = "Web pages worth keeping"
/// fields = [{ name = "url", type = "text", required = true }]
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TablePresets(pub BTreeMap<String, TablePreset>);

impl TablePresets {
    /// The preset with this name. The error has the names there are.
    pub fn named(&self, name: &str) -> Result<&TablePreset, String> {
        let there_are = || self.0.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        self.0.get(name).ok_or_else(|| format!("there is no preset `{name:.60}`; there are: {}", there_are()))
    }

    /// Checks each preset as a new table is checked.
    ///
    /// # Errors
    /// The name of the first preset that is wrong, and its faults.
    pub fn check(&self, limits: &TableLimits) -> Result<(), (String, Vec<Fault>)> {
        for (name, preset) in &self.0 {
            let named = check_name(name).map_err(|reason| vec![Fault::of("", reason)]);
            let checked = named.and_then(|()| Fields::new(preset.fields.clone(), limits));
            checked.map_err(|faults| (name.clone(), faults))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
