//! `list_conversations`: lists the other conversations of the user.

use std::sync::Arc;

use houston_domain::agentable::AgentType;
use houston_domain::capability::Capability;
use houston_domain::id::AgentableId;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use houston_store::reach::ConversationQuery;
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Value, json};

use super::read_conversation;
use crate::record::{Record, RecordFuture};
use crate::tool::{CallContext, InvalidInput, Plan, Tool};
use crate::{input, reach};

pub const NAME: &str = "list_conversations";
/// A page of titles has about 10 KB.
const MAX_ITEMS: u32 = 50;
const DEFAULT_ITEMS: u32 = 20;

/// Lists conversations of the kinds that the agent reaches, newest first.
#[derive(Debug)]
pub(super) struct ListConversations(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    kind: Option<String>,
    #[serde(default)]
    archived: bool,
    limit: Option<u32>,
    before: Option<String>,
}

impl Default for ListConversations {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: format!(
                "Your user's conversations with their other agents (goals and the like), newest first: id, status and \
                 title. {} shows what was said in one.",
                read_conversation::NAME
            ),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "kind": {"type": "string", "description": "Only those of this kind, as in goal."},
                    "archived": {"type": "boolean", "description": "Archived ones as well."},
                    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_ITEMS,
                              "description": format!("How many at max; {DEFAULT_ITEMS} when left out.")},
                    "before": {"type": "string", "description": "An id: only what is older than this one."},
                },
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for ListConversations {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Conversations)
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { kind, archived, limit, before } = input::read(NAME, input)?;
        let reached = &context.reached;
        if reached.is_empty() {
            return Ok(Plan::Answer(reach::nothing_reached()));
        }
        let mut kinds = reach::names(reached);
        if let Some(kind) = kind {
            if !kinds.contains(&kind) {
                let kinds = kinds.join(", ");
                return Err(InvalidInput(format!("{NAME}: `kind` is `{kind}`, but must be one of: {kinds}")));
            }
            kinds = vec![kind];
        }
        let limit = input::limit(NAME, limit, DEFAULT_ITEMS, MAX_ITEMS)?;
        let before = before.map(|before| reach::id(NAME, &before, reached)).transpose()?;
        Ok(Plan::record(List { kinds, archived, limit, before, reached: Arc::clone(reached) }))
    }
}

#[derive(Debug)]
struct List {
    kinds: Vec<String>,
    archived: bool,
    limit: u32,
    before: Option<AgentableId>,
    reached: Arc<[AgentType]>,
}

impl Record for List {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async move {
            let Self { kinds, archived, limit, before, reached } = self;
            let query = ConversationQuery {
                kinds,
                before: *before,
                limit: i64::from(*limit) + 1,
                archived: *archived,
            };
            let mut lines: Vec<String> =
                tx.conversations(&query).await?.iter().map(|one| reach::line(one, reached)).collect();
            if lines.is_empty() {
                let older = if before.is_some() { "older " } else { "" };
                return Ok(ToolResponse::success(format!("There are no {older}conversations.")));
            }
            let most = usize::try_from(*limit).unwrap_or(usize::MAX);
            if lines.len() > most {
                lines.truncate(most);
                lines.push(
                    "There are older ones: ask again with `before` set to the last id here.".to_owned(),
                );
            }
            Ok(ToolResponse::success(lines.join("\n")))
        })
    }
}
