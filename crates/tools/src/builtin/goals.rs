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
#[derive(Debug, Deserialize, JsonSchema)]
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

/// The kind with this name of those that users create, or the first one.
fn kind_of<'k>(reached: &'k [AgentType], wanted: Option<&str>) -> Result<&'k AgentType> {
    let mut kinds = reached.iter().filter(|kind| kind.user_creatable());
    let names: Vec<&str> = kinds.clone().map(|kind| kind.kind.as_str()).collect();
    let found = match wanted {
        Some(wanted) => kinds.find(|kind| kind.kind == wanted),
        None => kinds.next(),
    };
    found.ok_or_else(|| {
        let reason = match wanted {
            Some(wanted) if !names.is_empty() => {
                let wanted: String = wanted.chars().take(60).collect();
                format!("you cannot create a `{wanted}`; there are: {}", names.join(", "))
            }
            _ => "you cannot create conversations: the file of your kind has no `reaches` with a kind that users create"
                .to_owned(),
        };
        failed(ToolErrorCode::PermissionDenied, reason)
    })
}

/// Checks a description. A blank one is allowed: it removes the description.
fn check_description(description: Option<&str>) -> Result<()> {
    text("description", description.filter(|text| !text.trim().is_empty()), MAX_DESCRIPTION_BYTES)
}

/// A description as it is stored: empty if it is blank.
fn stored(description: &str) -> &str {
    if description.trim().is_empty() { "" } else { description }
}

impl Access for CreateGoal {
    fn check(&self, context: &CallContext) -> Result<()> {
        kind_of(&context.reached, self.kind.as_deref())?;
        line("title", self.title.as_str(), MAX_TITLE_CHARS)?;
        check_description(Some(&self.description))?;
        text("message", self.message.as_deref(), MAX_POST_BYTES)
    }

    async fn apply(&self, context: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let Self { title, description, message, kind } = self;
        let kind = kind_of(&context.reached, kind.as_deref())?;
        let made = tx.made_counts().await?;
        tx.limits.reach.may_make(&made).map_err(refused)?;
        // Before anything is written: a message that may not be posted leaves no goal behind.
        let mut post = None;
        if let Some(text) = message {
            let (own_kind, counts) = tx.post_counts().await?;
            post = Some((own_kind, text, tx.limits.reach.hops(&counts).map_err(post_refused)?));
        }
        let id = AgentableId(tx.ids.row);
        let (status, description) = (kind.initial_status(), stored(description));
        let kind = &kind.kind;
        tx.make_conversation((kind, status), title, description).await?;
        let made = format!("Created {}: {title}.", id.public_id(kind));
        let Some((own_kind, text, hops)) = post else {
            return Ok(format!("{made} Its agent waits for a message."));
        };
        tx.post_to(&own_kind, id, text, hops).await?;
        Ok(format!("{made} Its agent has your message and works on its own: do not wait for it."))
    }
}

/// The response when a limit is reached, with what the model can do instead.
fn refused(refusal: MakeRefusal) -> Refusal {
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
    failed(ToolErrorCode::RateLimited, format!("{text}. Nothing was created"))
}

/// Change title, description or status of one of your user's goals. An archived one is closed: its run and tasks end,
/// its check-ins are deleted. What you leave out stays as it is.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UpdateGoal {
    #[schemars(description = ids())]
    conversation_id: String,
    title: Option<String>,
    description: Option<String>,
    status: Option<String>,
}

impl UpdateGoal {
    fn change(&self, kind: &AgentType) -> Result<ConversationChange> {
        let Self { title, description, status, .. } = self;
        line("title", title.as_deref(), MAX_TITLE_CHARS)?;
        check_description(description.as_deref())?;
        let status = status.as_deref().map(|status| kind.set_status(status)).transpose();
        let status = status.map_err(|reason| invalid(format!("`status` {reason}")))?;
        let description = description.as_deref().map(|text| stored(text).to_owned());
        let change = ConversationChange { title: title.clone(), description, status };
        if change == ConversationChange::default() {
            return Err(invalid("give at least one of `title`, `description`, `status`"));
        }
        Ok(change)
    }
}

impl Access for UpdateGoal {
    fn check(&self, context: &CallContext) -> Result<()> {
        let of = Named::parse(&self.conversation_id, context)?;
        self.change(of.kind).map(drop)
    }

    async fn apply(&self, context: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let of = Named::parse(&self.conversation_id, context)?;
        of.find(&mut tx).await?;
        tx.change_conversation(of.id, &self.change(of.kind)?).await?;
        let changed = of.find(&mut tx).await?;
        Ok(format!("Changed {}", of.line(&changed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goal_is_of_a_kind_that_users_create() {
        let goal: AgentType = toml::from_str(include_str!("../../../../jobs/agents/goal.toml")).unwrap();
        let project = AgentType { kind: "project".to_owned(), ..goal.clone() };
        let kinds = [goal, project];
        assert_eq!(kind_of(&kinds, None).unwrap().kind, "goal");
        assert_eq!(kind_of(&kinds, Some("project")).unwrap().kind, "project");
        let refused = |kinds, wanted| format!("{:?}", kind_of(kinds, Some(wanted)).unwrap_err());
        assert!(refused(&kinds, "task").contains("there are: goal, project"));
        assert!(refused(&[], "goal").contains("you cannot create conversations"));
    }
}
