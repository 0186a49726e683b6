//! Pages of lists.

use serde::{Deserialize, Serialize};

/// One page of a list.
///
/// ```json
/// {"data": [{"id": "note_0190…", …}], "has_more": true, "next_cursor": "m1f"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Page<T> {
    /// The items.
    pub data: Vec<T>,
    /// Whether there are more items.
    pub has_more: bool,
    /// The `cursor` of the next page; null on the last page.
    pub next_cursor: Option<String>,
}
