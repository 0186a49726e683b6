//! Custom tables and their records.

use houston_domain::custom_table::Field;
pub use houston_domain::custom_table::{CustomRecord as RecordResponse, CustomTable as TableResponse};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[cfg(feature = "openapi")]
use crate::schema;

/// Creates a table, with fields or by the name of a preset: `{"preset": "expenses"}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateTable {
    /// Small letters, digits and `_`; the preset's if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Up to 500 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<Field>,
    /// A table of `tables.toml`, in place of fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
}

/// Adds fields to a table: `{"fields": [{"name": "shop", "type": "text"}]}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AddFields {
    /// At least one. None may be required if the table has records.
    #[cfg_attr(feature = "openapi", schema(min_items = 1))]
    pub fields: Vec<Field>,
}

/// What an import has added: `{"records": 120}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ImportedRecords {
    pub records: usize,
}

/// Adds records to a table, all or none: `{"records": [{"amount": 12.5}]}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AddRecords {
    /// 1 to 100 records, each with its values by the names of the fields.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 100, value_type = Vec<BTreeMap<String, schema::AnyJson>>))]
    pub records: Vec<Map<String, Value>>,
}

/// The records that were added, in the order given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AddedRecords {
    pub data: Vec<RecordResponse>,
}

/// Changes a record: given values are set, null removes one, others stay. `{"values": {"amount": 13}}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct UpdateRecord {
    /// By the names of the fields.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, schema::AnyJson>))]
    pub values: Map<String, Value>,
}

/// Numbers over records: one group, or one for each value of `group_by`.
///
/// ```json
/// {"data": [{"group": "food", "value": "61.30"}, {"group": null, "value": null}], "has_more": false}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AggregateResponse {
    pub data: Vec<AggregateGroup>,
    /// Whether there are more than 100 groups.
    pub has_more: bool,
}

/// One number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AggregateGroup {
    /// The value that its records have in common; null: none.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::AnyJson))]
    pub group: Value,
    /// A count as a number, a sum or mean as a decimal in a text, the least or greatest value as it is; null: no value.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::AnyJson))]
    pub value: Value,
}
