//! Arguments of tools that return a list page by page, shortened; other tools read a complete item.
//!
//! ```json
//! {"query": "hotel", "limit": 10, "before": "note_0190…"}
//! ```

use houston_domain::knowledge::{ListQuery, MAX_QUERY_CHARS};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::tool::InvalidInput;

/// Items of a page if the call does not set `limit`.
const DEFAULT_ITEMS: u32 = 10;

/// Arguments of a tool that lists.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input<Id> {
    query: Option<String>,
    limit: Option<u32>,
    before: Option<Id>,
}

/// The JSON Schema of the arguments, with pages of at most `max` items.
pub(crate) fn schema(max: u32) -> Value {
    json!({
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Only what has one of these words, or one like it."},
            "limit": {"type": "integer", "minimum": 1, "maximum": max,
                      "description": format!("How many at max; {DEFAULT_ITEMS} when left out.")},
            "before": {"type": "string", "description": "An id: only what is older than this one."},
        },
        "additionalProperties": false,
    })
}

/// Parses the arguments.
pub(crate) fn read<Id: serde::de::DeserializeOwned>(
    tool: &str,
    input: &Value,
    max: u32,
) -> Result<ListQuery<Id>, InvalidInput> {
    let Input { query, limit, before } = input::read(tool, input)?;
    let query = query.map(|query| input::line(tool, "query", query, MAX_QUERY_CHARS)).transpose()?;
    Ok(ListQuery { query, limit: input::limit(tool, limit, DEFAULT_ITEMS, max)?, before })
}
