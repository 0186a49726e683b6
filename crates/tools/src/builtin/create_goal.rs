//! `create_goal`: makes a conversation of its own for the user, with a first message to its agent if one is given.

use houston_domain::agentable::{AgentType, MAX_DESCRIPTION_BYTES, MAX_TITLE_CHARS};
use houston_domain::capability::Capability;
use houston_domain::id::AgentableId;
use houston_domain::reach::{MAX_POST_BYTES, MakeRefusal};
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolErrorCode, ToolResponse};
use houston_store::reach::{NewAgentMessage, NewConversation};
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{list_conversations, post_to_conversation};
use crate::input;
use crate::record::{Record, RecordFuture};
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

pub(super) const NAME: &str = "create_goal";

/// Makes a conversation. Written with the step: exactly once. How many there may be is checked when it is written.
#[derive(Debug)]
pub(super) struct CreateGoal(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    title: String,
    #[serde(default)]
    description: String,
    message: Option<String>,
    kind: Option<String>,
}

impl Default for CreateGoal {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: format!(
                "Create a goal for your user: a conversation of its own about one aim, with its own agent. See with {} \
                 first that there is none for it yet. Without a message, its agent waits until your user writes there.",
                list_conversations::NAME
            ),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "title": {"type": "string", "description": "One line that says what the goal is."},
                    "description": {"type": "string", "description":
                        "What its agent must always know: the aim, conditions, when it is reached."},
                    "message": {"type": "string", "description":
                        "What its agent should do now, with all it needs: it has not read your conversation. It works \
                         on its own: do not wait for it."},
                    "kind": {"type": "string", "description":
                        "Which kind of conversation, if there are several; the usual one when left out."},
                },
                "required": ["title"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for CreateGoal {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Conversations)
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { title, description, message, kind } = input::read(NAME, input)?;
        let kinds: Vec<&AgentType> = context.reached.iter().filter(|kind| kind.user_creatable()).collect();
        let kind = match kind_of(&kinds, kind.as_deref()) {
            Ok(kind) => kind,
            Err(reason) => {
                return Ok(Plan::Answer(ToolResponse::failure(ToolErrorCode::PermissionDenied, reason)));
            }
        };
        let title = input::line(NAME, "title", title, MAX_TITLE_CHARS)?;
        let description = match description.trim().is_empty() {
            true => String::new(),
            false => input::text(NAME, "description", description, MAX_DESCRIPTION_BYTES)?,
        };
        let message = input::optional_text(NAME, "message", message, MAX_POST_BYTES)?;
        let status = kind.initial_status().map(str::to_owned);
        Ok(Plan::record(Make { kind: kind.kind.clone(), status, title, description, message }))
    }
}

/// The kind with this name, or the first one.
fn kind_of<'k>(kinds: &[&'k AgentType], wanted: Option<&str>) -> Result<&'k AgentType, String> {
    let found = match wanted {
        Some(wanted) => kinds.iter().find(|kind| kind.kind == wanted),
        None => kinds.first(),
    };
    found.copied().ok_or_else(|| match wanted {
        Some(wanted) if !kinds.is_empty() => {
            let names: Vec<&str> = kinds.iter().map(|kind| kind.kind.as_str()).collect();
            let wanted: String = wanted.chars().take(60).collect();
            format!("you cannot create a `{wanted}`; there are: {}", names.join(", "))
        }
        _ => "you cannot create conversations: the file of your kind has no `reaches` with a kind that users create"
            .to_owned(),
    })
}

#[derive(Debug)]
struct Make {
    kind: String,
    status: Option<String>,
    title: String,
    description: String,
    message: Option<String>,
}

impl Record for Make {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async move {
            let Self { kind, status, title, description, message } = self;
            if let Err(refusal) = tx.limits().reach.may_make(&tx.made_counts().await?) {
                return Ok(refused(refusal));
            }
            // Before anything is written: a message that may not be posted leaves no goal behind.
            let post = match message {
                None => None,
                Some(text) => {
                    let (own_kind, counts) = tx.post_counts().await?;
                    match tx.limits().reach.hops(&counts) {
                        Ok(hops) => Some((own_kind, text, hops)),
                        Err(refusal) => return Ok(post_to_conversation::refused(refusal)),
                    }
                }
            };
            let id = AgentableId(tx.ids().row);
            tx.make_conversation(&NewConversation {
                id,
                kind,
                status: status.as_deref(),
                title,
                description,
            })
            .await?;
            let made = format!("Created {}: {title}.", id.public_id(kind));
            let Some((own_kind, text, hops)) = post else {
                return Ok(ToolResponse::success(format!("{made} Its agent waits for a message.")));
            };
            tx.post_to(&own_kind, NewAgentMessage { to: id, text, hops }).await?;
            Ok(ToolResponse::success(format!(
                "{made} Its agent has your message and works on its own: do not wait for it."
            )))
        })
    }
}

/// The response when a limit is reached, with what the model can do instead.
fn refused(refusal: MakeRefusal) -> ToolResponse {
    let text = match refusal {
        MakeRefusal::Run(most) => format!(
            "you have created {most} goals in this run, and no more are allowed: tell your user which others you would \
             create"
        ),
        MakeRefusal::Hour(most) => format!(
            "the agents of your user have created {most} goals within an hour, and no more are allowed: tell your user, \
             or {} to one there is",
            post_to_conversation::NAME
        ),
    };
    ToolResponse::failure(ToolErrorCode::RateLimited, format!("{text}. Nothing was created"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goal_is_of_a_kind_that_users_create() {
        let goal: AgentType = toml::from_str(include_str!("../../../../jobs/agents/goal.toml")).unwrap();
        let project = AgentType { kind: "project".to_owned(), ..goal.clone() };
        let kinds = [&goal, &project];
        assert_eq!(kind_of(&kinds, None).unwrap().kind, "goal");
        assert_eq!(kind_of(&kinds, Some("project")).unwrap().kind, "project");
        assert!(kind_of(&kinds, Some("task")).unwrap_err().contains("there are: goal, project"));
        assert!(kind_of(&[], Some("goal")).unwrap_err().contains("you cannot create conversations"));
    }
}
