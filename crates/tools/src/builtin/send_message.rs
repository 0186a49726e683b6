//! `send_message`: sends a message to the user.

use houston_domain::agent::SEND_MESSAGE;
use houston_domain::capability::Capability;
use houston_domain::tool_call::{EffectClass, ToolResponse};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::input::{Refusal, text};
use crate::outside::Outside;
use crate::tool::{CallContext, Plan};
use crate::typed::BuiltIn;

/// Sends the user a message. Written with the step: exactly once.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SendMessage {
    /// The message, in Markdown.
    content: String,
}

impl BuiltIn for SendMessage {
    const NAME: &'static str = SEND_MESSAGE;
    const EFFECT: EffectClass = EffectClass::Idempotent;
    const CAPABILITY: Option<Capability> = Some(Capability::Messages);
    const IS_FOR_CODE: bool = false;

    fn description(_: &Outside) -> String {
        "Send the user a message. It is the only thing they see, and it ends your turn: use the other tools first.".to_owned()
    }

    fn plan(self, _: &CallContext, _: &Outside) -> Result<Plan, Refusal> {
        text("content", self.content.as_str(), 256 * 1024)?;
        Ok(Plan::Message { content: self.content, response: ToolResponse::success("Message sent.") })
    }
}
