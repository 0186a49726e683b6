//! Lists a tool reads page by page: abbreviated first, the whole by another tool.

use houston_domain::knowledge::{Listing, MAX_QUERY_CHARS};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::tool::InvalidInput;

/// How many are listed when the model does not say.
const USUAL: u32 = 10;

/// What the model may say of a list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input<Id> {
    query: Option<String>,
    limit: Option<u32>,
    before: Option<Id>,
}

/// The schema of a list of up to `most`.
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

/// Reads what the model said.
pub(crate) fn read<Id: serde::de::DeserializeOwned>(
    tool: &str,
    input: &Value,
    most: u32,
) -> Result<Listing<Id>, InvalidInput> {
    let Input { query, limit, before } = input::read(tool, input)?;
    let query = query.map(|query| input::line(tool, "query", query, MAX_QUERY_CHARS)).transpose()?;
    Ok(Listing { query, limit: input::limit(tool, limit, USUAL, most)?, before })
}
