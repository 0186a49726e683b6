//! Lists a tool returns page by page, abbreviated; another tool reads one item in full.

use houston_domain::knowledge::{Listing, MAX_QUERY_CHARS};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::tool::InvalidInput;

/// Page size when the model names none.
const USUAL: u32 = 10;

/// Arguments of a tool that lists.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input<Id> {
    query: Option<String>,
    limit: Option<u32>,
    before: Option<Id>,
}

/// The JSON Schema of these arguments, with pages of up to `most` items.
pub(crate) fn schema(most: u32) -> Value {
    json!({
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Only what has one of these words, or one like it."},
            "limit": {"type": "integer", "minimum": 1, "maximum": most,
                      "description": format!("How many at most; {USUAL} when left out.")},
            "before": {"type": "string", "description": "An id: only what is older than this one."},
        },
        "additionalProperties": false,
    })
}

/// Parses the arguments.
pub(crate) fn read<Id: serde::de::DeserializeOwned>(
    tool: &str,
    input: &Value,
    most: u32,
) -> Result<Listing<Id>, InvalidInput> {
    let Input { query, limit, before } = input::read(tool, input)?;
    let query = query.map(|query| input::line(tool, "query", query, MAX_QUERY_CHARS)).transpose()?;
    Ok(Listing { query, limit: input::limit(tool, limit, USUAL, most)?, before })
}
