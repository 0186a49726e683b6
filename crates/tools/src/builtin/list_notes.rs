//! `list_notes`: reads the notes of the agentable.

use houston_domain::tool_call::{EffectClass, Record, ToolDefinition};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

const NAME: &str = "list_notes";
const MOST: u32 = 50;

/// Lists notes, newest first.
#[derive(Debug)]
pub(super) struct ListNotes(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    limit: Option<u32>,
}

impl Default for ListNotes {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Read the notes of this goal in full, newest first.".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "limit": {"type": "integer", "minimum": 1, "maximum": MOST,
                              "description": "How many at most; 10 when left out."},
                },
                "additionalProperties": false,
            }),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for ListNotes {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let limit = input::read::<Input>(NAME, input)?.limit.unwrap_or(10);
        if !(1..=MOST).contains(&limit) {
            return Err(InvalidInput(format!("{NAME}: `limit` is {limit}, allowed are 1 to {MOST}")));
        }
        Ok(Plan::Record(Record::ListNotes { limit }))
    }
}
