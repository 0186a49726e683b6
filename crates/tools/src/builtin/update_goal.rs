//! `update_goal`: changes title, description or status of another conversation of the user.

use std::sync::Arc;

use houston_domain::agentable::{AgentType, MAX_DESCRIPTION_BYTES, MAX_TITLE_CHARS};
use houston_domain::capability::Capability;
use houston_domain::field::Entity;
use houston_domain::id::AgentableId;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use houston_store::reach::ConversationChange;
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Value, json};

use super::list_conversations;
use crate::record::{Record, RecordFuture, not_found};
use crate::tool::{CallContext, InvalidInput, Plan, Tool};
use crate::{input, reach};

pub(super) const NAME: &str = "update_goal";

/// Changes a conversation of a kind that the agent reaches. Written with the step: exactly once.
#[derive(Debug)]
pub(super) struct UpdateGoal(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    conversation_id: String,
    title: Option<String>,
    description: Option<String>,
    status: Option<String>,
}

impl Default for UpdateGoal {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Change title, description or status of one of your user's goals. An archived one is closed: its \
                          run and tasks end, its check-ins are deleted. What you leave out stays as it is."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": Entity::Goal.properties(json!({
                    "conversation_id": {"type": "string", "description":
                        format!("An id from <conversations> or {}.", list_conversations::NAME)},
                })),
                "required": ["conversation_id"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for UpdateGoal {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Conversations)
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { conversation_id, title, description, status } =
            input::read_change(NAME, Entity::Goal, input)?;
        let reached = &context.reached;
        if reached.is_empty() {
            return Ok(Plan::Answer(reach::nothing_reached()));
        }
        let (kind, id) = reach::kind_and_id(NAME, &conversation_id, reached)?;
        let title = title.map(|title| input::line(NAME, "title", title, MAX_TITLE_CHARS)).transpose()?;
        let description = match description {
            Some(text) if text.trim().is_empty() => Some(String::new()),
            text => input::optional_text(NAME, "description", text, MAX_DESCRIPTION_BYTES)?,
        };
        let status = status.map(|status| kind.set_status(&status)).transpose();
        let status = status.map_err(|reason| InvalidInput(format!("{NAME}: `status` {reason}")))?;
        let change = ConversationChange { title, description, status };
        if change == ConversationChange::default() {
            let reason = "give at least one of `title`, `description`, `status`";
            return Err(InvalidInput(format!("{NAME}: {reason}")));
        }
        Ok(Plan::record(Update { id, given: conversation_id, change, reached: Arc::clone(reached) }))
    }
}

#[derive(Debug)]
struct Update {
    id: AgentableId,
    given: String,
    change: ConversationChange,
    reached: Arc<[AgentType]>,
}

impl Record for Update {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async move {
            let Self { id, given, change, reached } = self;
            let kinds = reach::names(reached);
            if tx.conversation(&kinds, *id).await?.is_none() {
                return Ok(not_found(given, list_conversations::NAME));
            }
            tx.change_conversation(*id, change).await?;
            Ok(match tx.conversation(&kinds, *id).await? {
                Some(changed) => ToolResponse::success(format!("Changed {}", reach::line(&changed, reached))),
                None => not_found(given, list_conversations::NAME),
            })
        })
    }
}
