//! `post_to_conversation`: posts a message to the agent of another conversation of the user, which is woken.

use std::sync::Arc;

use houston_domain::agentable::AgentType;
use houston_domain::capability::Capability;
use houston_domain::id::AgentableId;
use houston_domain::reach::{MAX_POST_BYTES, PostRefusal};
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolErrorCode, ToolResponse};
use houston_store::reach::{Delivery, NewAgentMessage};
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{list_conversations, read_conversation};
use crate::record::{Record, RecordFuture, not_found};
use crate::tool::{CallContext, InvalidInput, Plan, Tool};
use crate::{input, reach};

pub(super) const NAME: &str = "post_to_conversation";

/// Posts a message. Written with the step: exactly once. How many there may be is checked when it is written.
#[derive(Debug)]
pub(super) struct PostToConversation(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    conversation_id: String,
    text: String,
}

impl Default for PostToConversation {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: format!(
                "Tell the agent of another conversation of your user something, or ask it to do something. It reads \
                 that you wrote it, not your user, and works on its own: do not wait for it. {} shows later what came \
                 of it.",
                read_conversation::NAME
            ),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "conversation_id": {"type": "string", "description":
                        format!("An id from <conversations> or {}.", list_conversations::NAME)},
                    "text": {"type": "string", "description":
                        "What its agent should know or do, with all it needs: it has not read your conversation."},
                },
                "required": ["conversation_id", "text"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for PostToConversation {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Conversations)
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { conversation_id, text } = input::read(NAME, input)?;
        let reached = &context.reached;
        if reached.is_empty() {
            return Ok(Plan::Answer(reach::nothing_reached()));
        }
        let to = reach::id(NAME, &conversation_id, reached)?;
        let text = input::text(NAME, "text", text, MAX_POST_BYTES)?;
        Ok(Plan::record(Post { to, given: conversation_id, text, reached: Arc::clone(reached) }))
    }
}

#[derive(Debug)]
struct Post {
    to: AgentableId,
    given: String,
    text: String,
    reached: Arc<[AgentType]>,
}

impl Record for Post {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async move {
            let Self { to, given, text, reached } = self;
            let Some(found) = tx.conversation(&reach::names(reached), *to).await? else {
                return Ok(not_found(given, list_conversations::NAME));
            };
            if found.is_archived() {
                let text = format!("{given} is archived: only your user wakes it. Nothing was posted");
                return Ok(ToolResponse::failure(ToolErrorCode::PermissionDenied, text));
            }
            let (own_kind, counts) = tx.post_counts().await?;
            let hops = match tx.limits().reach.hops(&counts) {
                Ok(hops) => hops,
                Err(refusal) => return Ok(refused(refusal)),
            };
            let message = NewAgentMessage { to: *to, text, hops };
            Ok(match tx.post_to(&own_kind, message).await? {
                Delivery::Posted => ToolResponse::success(format!(
                    "Posted to {}. Its agent works on its own: do not wait for it.",
                    reach::line(&found, reached)
                )),
                // It was archived in this moment.
                Delivery::Noted | Delivery::Refused => ToolResponse::success(format!(
                    "{given} has just been archived: its agent reads this when your user writes there again."
                )),
            })
        })
    }
}

/// The response when a limit is reached, with what the model can do instead.
pub(super) fn refused(refusal: PostRefusal) -> ToolResponse {
    let (code, text) = match refusal {
        PostRefusal::Run(most) => (
            ToolErrorCode::RateLimited,
            format!(
                "you have posted {most} messages in this run, and no more are allowed: put what is left into one message \
                 later"
            ),
        ),
        PostRefusal::Hour(most) => (
            ToolErrorCode::RateLimited,
            format!(
                "the agents of your user have posted {most} messages to each other within an hour, and no more are \
                 allowed: tell your user, or try again later"
            ),
        ),
        PostRefusal::Hops(most) => (
            ToolErrorCode::PermissionDenied,
            format!(
                "you were woken by a message of another agent, and messages may pass {most} agents: answer your user in \
                 this conversation, where other agents can read it"
            ),
        ),
    };
    ToolResponse::failure(code, format!("{text}. Nothing was done"))
}
