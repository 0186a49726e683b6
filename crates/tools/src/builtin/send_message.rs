//! `send_message`: sends a message to the user.

use houston_domain::agent::SEND_MESSAGE;
use houston_domain::capability::Capability;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

/// Sends the user a message. Written with the step: exactly once.
#[derive(Debug)]
pub(super) struct SendMessage(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    content: String,
}

impl Default for SendMessage {
    fn default() -> Self {
        Self(ToolDefinition {
            name: SEND_MESSAGE.to_owned(),
            description:
                "Send the user a message. It is the only thing they see, and it ends your turn: use the \
                          other tools first."
                    .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {"content": {"type": "string", "description": "The message, in Markdown."}},
                "required": ["content"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for SendMessage {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Messages)
    }

    fn is_for_code(&self) -> bool {
        false
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { content } = input::read(SEND_MESSAGE, input)?;
        let content = input::text(SEND_MESSAGE, "content", content, 256 * 1024)?;
        Ok(Plan::Message { content, response: ToolResponse::success("Message sent.") })
    }
}
