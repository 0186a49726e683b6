//! Guards: what decides about tool calls.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A call to explain: `{"tool": "delete_note", "input": {"note_id": "note_0190…"}}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct GuardedCall {
    /// The tool.
    pub tool: String,
    /// Its arguments.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, crate::schema::AnyJson>))]
    pub input: Map<String, Value>,
}
