//! Fields: what may be changed of a thing, to what, and by whom.

use houston_domain::field::{Entity, Field};
pub(crate) use houston_domain::nullable::nullable;
use serde::Serialize;

/// The fields of a thing that may be changed.
///
/// ```json
/// {"entity": "goal", "data": [{"name": "title", "type": "string", "values": [], "max": {"chars": 200}, "required": true,
///  "nullable": false, "updatable_by": "both", "description": "The new title, one line."}]}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FieldsResponse {
    /// What has them.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "note"))]
    pub entity: Entity,
    pub data: Vec<Field>,
}
