//! Lists.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One page of a list: `{"data": […], "has_more": true, "next_cursor": "m1f"}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    /// The items.
    pub data: Vec<T>,
    /// Whether there are more.
    pub has_more: bool,
    /// What to give as `cursor` to get them; null on the last page.
    pub next_cursor: Option<String>,
}
