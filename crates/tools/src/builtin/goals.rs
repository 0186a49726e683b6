//! Conversations of the user that an agent makes or changes.

use houston_domain::agentable::{AgentType, MAX_DESCRIPTION_BYTES, MAX_TITLE_CHARS};
use houston_domain::field::Entity;
use houston_domain::id::AgentableId;
use houston_domain::reach::{MAX_POST_BYTES, MakeRefusal};
use houston_store::reach::ConversationChange;

use super::conversations::{ListConversations, Named, PostToConversation, ids, post_refused};
use super::prelude::*;

built_in! {
    CreateGoal: "create_goal", Idempotent, capability Conversations, needs Reach;
    UpdateGoal: "update_goal", Idempotent, capability Conversations, needs Reach, changes Goal;
}

/// Makes a conversation, with a first message to its agent if one is given. Written with the step: exactly once. How many
/// there may be is checked when it is written.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(description = format!(
    "Create a goal for your user: a conversation of its own about one aim, with its own agent. See with {} first that \
     there is none for it yet. Without a message, its agent waits until your user writes there.",
    ListConversations::NAME
))]
pub(super) struct CreateGoal {
    /// One line that says what the goal is.
    title: String,
    /// What its agent must always know: the aim, conditions, when it is reached.
    #[serde(default)]
    description: String,
    /// What its agent should do now, with all it needs: it has not read your conversation. It works on its own: do not wait
    /// for it.
    message: Option<String>,
    /// Which kind of conversation, if there are several; the usual one when left out.
    kind: Option<String>,
}

impl BuiltIn for CreateGoal {
    fn plan(self, context: &CallContext, _: &Outside) -> Result<Plan, Refusal> {
        let Self { title, mut description, message, kind } = self;
        let kinds: Vec<&AgentType> = context.reached.iter().filter(|kind| kind.user_creatable()).collect();
        let kind = kind_of(&kinds, kind.as_deref())
            .map_err(|reason| ToolResponse::failure(ToolErrorCode::PermissionDenied, reason))?;
        line("title", title.as_str(), MAX_TITLE_CHARS)?;
        if description.trim().is_empty() {
            description.clear();
        } else {
            text("description", description.as_str(), MAX_DESCRIPTION_BYTES)?;
        }
        text("message", message.as_deref(), MAX_POST_BYTES)?;
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

impl Access for Make {
    async fn apply(&self, mut tx: RecordTx<'_>) -> Result<ToolResponse> {
        let Self { kind, status, title, description, message } = self;
        let made = tx.made_counts().await?;
        if let Err(refusal) = tx.limits.reach.may_make(&made) {
            return Ok(refused(refusal));
        }
        // Before anything is written: a message that may not be posted leaves no goal behind.
        let mut post = None;
        if let Some(text) = message {
            let (own_kind, counts) = tx.post_counts().await?;
            match tx.limits.reach.hops(&counts) {
                Ok(hops) => post = Some((own_kind, text, hops)),
                Err(refusal) => return Ok(post_refused(refusal)),
            }
        }
        let id = AgentableId(tx.ids.row);
        tx.make_conversation((kind, status.as_deref()), title, description).await?;
        let made = format!("Created {}: {title}.", id.public_id(kind));
        let Some((own_kind, text, hops)) = post else {
            return Ok(ToolResponse::success(format!("{made} Its agent waits for a message.")));
        };
        tx.post_to(&own_kind, id, text, hops).await?;
        Ok(ToolResponse::success(format!(
            "{made} Its agent has your message and works on its own: do not wait for it."
        )))
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
            PostToConversation::NAME
        ),
    };
    ToolResponse::failure(ToolErrorCode::RateLimited, format!("{text}. Nothing was created"))
}

/// Change title, description or status of one of your user's goals. An archived one is closed: its run and tasks end,
/// its check-ins are deleted. What you leave out stays as it is.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UpdateGoal {
    #[schemars(description = ids())]
    conversation_id: String,
    title: Option<String>,
    description: Option<String>,
    status: Option<String>,
}

impl BuiltIn for UpdateGoal {
    fn plan(self, context: &CallContext, _: &Outside) -> Result<Plan, Refusal> {
        let Self { conversation_id, title, mut description, status } = self;
        let (of, kind) = Named::with_kind(conversation_id, context)?;
        line("title", title.as_deref(), MAX_TITLE_CHARS)?;
        if description.as_deref().is_some_and(|text| text.trim().is_empty()) {
            description = Some(String::new());
        } else {
            text("description", description.as_deref(), MAX_DESCRIPTION_BYTES)?;
        }
        let status = status.map(|status| kind.set_status(&status)).transpose();
        let status = status.map_err(|reason| invalid(format!("`status` {reason}")))?;
        let change = ConversationChange { title, description, status };
        if change == ConversationChange::default() {
            return Err(invalid("give at least one of `title`, `description`, `status`"));
        }
        Ok(Plan::record(Update { of, change }))
    }
}

#[derive(Debug)]
struct Update {
    of: Named,
    change: ConversationChange,
}

impl Access for Update {
    async fn apply(&self, mut tx: RecordTx<'_>) -> Result<ToolResponse> {
        if self.of.find(&mut tx).await?.is_none() {
            return Ok(self.of.missing());
        }
        tx.change_conversation(self.of.id, &self.change).await?;
        Ok(match self.of.find(&mut tx).await? {
            Some(changed) => ToolResponse::success(format!("Changed {}", self.of.line(&changed))),
            None => self.of.missing(),
        })
    }
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
