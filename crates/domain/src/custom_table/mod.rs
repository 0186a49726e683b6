//! Custom tables: records that agents and people keep for a user, such as expenses or contacts, in fields that they chose.
//!
//! [`Fields`] is the one description of a table. It checks the records of tools and of requests with the same function, makes
//! the errors, and makes the JSON Schema that models and clients read.
//!
//! # Bounds
//! How long one value may be is a constant here. How many tables and records there may be is [`TableLimits`], from
//! `jobs/knowledge.toml`: a search reads all records of one table.

mod aggregate;
mod condition;
mod csv;
#[cfg(test)]
mod csv_tests;
mod field;
mod fields;
mod name;
mod preset;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use aggregate::{Aggregate, Function};
pub use condition::{Condition, MAX_CONDITIONS, Order, Test, conditions};
pub use csv::CsvFault;
pub use field::{Field, FieldType};
pub use fields::{Fault, Fields, Part, texts};
pub use name::{MAX_NAME_CHARS, check_name};
pub use preset::{TablePreset, TablePresets, UnknownPreset};

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableLimits {
    /// Tables of one user.
    pub max_tables: u32,
    /// Fields of one table.
    pub max_fields: u32,
    /// Records of one table.
    pub max_records: u32,
    /// Bytes of one record, as JSON.
    pub max_record_bytes: u32,
    /// Bytes of all records of one table, as JSON.
    pub max_bytes: u32,
}

impl Default for TableLimits {
    fn default() -> Self {
        Self {
            max_tables: 50,
            max_fields: 40,
            max_records: 10_000,
            max_record_bytes: 16 * 1024,
            max_bytes: 4 * 1024 * 1024,
        }
    }
}
