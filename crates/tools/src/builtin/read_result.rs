//! `read_result`: reads more of a large tool result, of which the history contains a preview.

use houston_domain::id::ResultId;
use houston_domain::knowledge::MAX_QUERY_CHARS;
use houston_domain::tool_call::{EffectClass, Record, ToolDefinition};
use houston_domain::tool_result::{ResultLimits, ResultQuery};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

/// The name of the tool. It is offered without being listed in an agent type, as soon as a large result
/// exists.
pub const NAME: &str = "read_result";

/// Reads a page of a result, or finds a text in it.
#[derive(Debug)]
pub(super) struct ReadResult(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    result_id: ResultId,
    offset: Option<usize>,
    line: Option<usize>,
    query: Option<String>,
}

impl Default for ReadResult {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Read more of a large tool result of which you see only the beginning (it names its result_id): \
                          a page from an offset in bytes or from a line, or the occurrences of a text."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "result_id": {"type": "string", "description": "An id that a shortened result names."},
                    "offset": {"type": "integer", "minimum": 0, "description": "Where the page begins, in bytes."},
                    "line": {"type": "integer", "minimum": 1, "description": "The line where it begins, instead."},
                    "query": {
                        "type": "string",
                        "description": "A text to look for instead; upper and lower case are the same."
                    },
                },
                "required": ["result_id"],
                "additionalProperties": false,
            }),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for ReadResult {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { result_id: id, offset, line, query } = input::read(NAME, input)?;
        let query = match (offset, line, query) {
            (offset, None, None) => ResultQuery::From(offset.unwrap_or(0)),
            (None, Some(line), None) if line > 0 => ResultQuery::Line(line),
            (None, Some(_), None) => return Err(InvalidInput(format!("{NAME}: `line` must be 1 or more"))),
            (None, None, Some(query)) if query.trim().is_empty() => {
                return Err(InvalidInput(format!("{NAME}: `query` must not be empty")));
            }
            (None, None, Some(query)) if query.chars().count() > MAX_QUERY_CHARS => {
                let error = format!("{NAME}: `query` must have at most {MAX_QUERY_CHARS} characters");
                return Err(InvalidInput(error));
            }
            (None, None, Some(query)) => ResultQuery::Find(query.trim().to_owned()),
            _ => {
                let error = format!("{NAME}: give at most one of `offset`, `line` and `query`");
                return Err(InvalidInput(error));
            }
        };
        // A placeholder: the engine replaces it by the setting.
        let max_bytes = ResultLimits::default().page_bytes;
        Ok(Plan::Record(Record::ReadResult { id, query, max_bytes }))
    }
}
