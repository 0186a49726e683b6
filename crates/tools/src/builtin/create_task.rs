//! `create_task`: creates a task that runs on its own.

use houston_domain::knowledge::MAX_TITLE_CHARS;
use houston_domain::task::{MAX_INSTRUCTIONS_BYTES, TaskRequest};
use houston_domain::tool_call::{EffectClass, Record, ToolDefinition};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

const NAME: &str = "create_task";

/// Creates a task. Written with the step: exactly once. The engine checks the kind and the number of tasks.
#[derive(Debug)]
pub(super) struct CreateTask(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    title: String,
    instructions: String,
    kind: Option<String>,
    tools: Option<Vec<String>>,
}

impl Default for CreateTask {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Let a task carry something out on its own, in the background. It knows what you work for and \
                          its instructions, nothing else: no notes, no messages. When it has ended you get its \
                          result and its notes. Do not wait for it."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "title": {"type": "string", "description": "One line that says what the task is about."},
                    "instructions": {"type": "string", "description":
                        "What to do, what to know for it, and what the result should be."},
                    "kind": {"type": "string", "description":
                        "Which kind of task, if there are several; the usual one when left out."},
                    "tools": {"type": "array", "items": {"type": "string"}, "description":
                        "The names of the tools it may call; all that tasks have when left out."},
                },
                "required": ["title", "instructions"],
                "additionalProperties": false,
            }),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for CreateTask {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { title, instructions, kind, tools } = input::read(NAME, input)?;
        Ok(Plan::Record(Record::CreateTask(TaskRequest {
            title: input::line(NAME, "title", title, MAX_TITLE_CHARS)?,
            instructions: input::text(NAME, "instructions", instructions, MAX_INSTRUCTIONS_BYTES)?,
            kind,
            tools,
        })))
    }
}
