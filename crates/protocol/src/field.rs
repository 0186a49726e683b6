//! Fields: what may be changed of a thing, to what, and by whom.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

/// The fields of a thing that may be changed.
///
/// ```json
/// {"entity": "goal", "data": [{"name": "title", "type": "string", "values": [], "max": {"chars": 200}, "required": true,
///  "nullable": false, "updatable_by": "both", "description": "The new title, one line."}]}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FieldsResponse {
    /// What has them.
    #[cfg_attr(feature = "openapi", schema(example = "note"))]
    pub entity: String,
    pub data: Vec<FieldResponse>,
}

/// A field that may be changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FieldResponse {
    pub name: String,
    /// `string`, `boolean`, `string_list` or `object`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The values that are allowed; empty: all of its type.
    pub values: Vec<String>,
    /// The most that a value may have: `chars`, `bytes` or `items`.
    pub max: Option<BTreeMap<String, usize>>,
    /// Whether a value must not be empty.
    pub required: bool,
    /// Whether null is a value: it restores the default.
    pub nullable: bool,
    /// `api`: requests may change it; `agent`: tools; `both`.
    pub updatable_by: String,
    pub description: String,
}

/// Reads a field that may be absent (`None`), null (`Some(None)`) or given.
pub(crate) fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    value: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(value).map(Some)
}
