//! `list_todos`: lists the todos of the user.

use chrono::{DateTime, Utc};
use houston_domain::capability::Capability;
use houston_domain::id::TodoId;
use houston_domain::knowledge::MAX_QUERY_CHARS;
use houston_domain::todo::{Due, MAX_LIST_CHARS, Priority, TodoStatus};
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use houston_store::record::RecordTx;
use houston_store::todo::{Todo, TodoQuery};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::record::{Record, RecordFuture};
use crate::tool::{CallContext, InvalidInput, Plan, Tool};
use crate::untrusted;

pub(super) const NAME: &str = "list_todos";
/// Todos if the call does not set `limit`.
const DEFAULT_ITEMS: u32 = 20;
/// A page of one line each has about 10 KB.
const MAX_ITEMS: u32 = 100;
/// Characters of details that a list has.
const DETAILS_CHARS: usize = 200;

/// Lists todos.
#[derive(Debug)]
pub(super) struct ListTodos(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    status: Option<TodoStatus>,
    list: Option<String>,
    due_by: Option<String>,
    query: Option<String>,
    #[serde(default)]
    here: bool,
    limit: Option<u32>,
    after: Option<TodoId>,
}

impl Default for ListTodos {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "The user's todos, in their order, with ids and due times.".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "status": {"type": "string", "enum": ["open", "done", "all"], "description": "Default: open."},
                    "list": {"type": "string", "description": "Only those of this list."},
                    "due_by": {"type": "string", "description":
                        "Only those due by then, overdue ones among them: `now`, 2026-12-01 or 2026-12-01T15:00."},
                    "query": {"type": "string", "description": "Only those with this text."},
                    "here": {"type": "boolean", "description": "Only those added in this conversation."},
                    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_ITEMS},
                    "after": {"type": "string", "description": "The last id of the page before."},
                },
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for ListTodos {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Todos)
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { status, list, due_by, query, here, limit, after } = input::read(NAME, input)?;
        let due_by = due_by.map(|text| match text.trim() {
            "now" => Ok(context.now),
            text => Due::parse(text, context.zone).map(|due| due.at),
        });
        let limit = input::limit(NAME, limit, DEFAULT_ITEMS, MAX_ITEMS)?;
        let query = TodoQuery {
            status: status.unwrap_or_default(),
            list: list.map(|list| input::line(NAME, "list", list, MAX_LIST_CHARS)).transpose()?,
            due_by: due_by.transpose().map_err(|error| InvalidInput(format!("{NAME}: `due_by`: {error}")))?,
            text: query.map(|query| input::line(NAME, "query", query, MAX_QUERY_CHARS)).transpose()?,
            written_for: None,
            after,
            limit: i64::from(limit) + 1,
        };
        Ok(Plan::record(Call { query, here, now: context.now }))
    }
}

#[derive(Debug)]
struct Call {
    query: TodoQuery,
    here: bool,
    now: DateTime<Utc>,
}

impl Record for Call {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async move {
            let mut todos = tx.todos(&self.query, self.here).await?;
            let most = usize::try_from(self.query.limit - 1).unwrap_or(usize::MAX);
            let has_more = todos.len() > most;
            todos.truncate(most);
            let mut lines: Vec<String> = todos.iter().map(|todo| line(todo, self.now)).collect();
            if lines.is_empty() {
                lines.push("There are no such todos.".to_owned());
            }
            if has_more {
                lines.push("There are more: ask again with `after` set to the last id here.".to_owned());
            }
            Ok(ToolResponse::success(lines.join("\n")))
        })
    }
}

/// `todo_0190…: Buy milk (high, due 2026-12-01, overdue, list: errands)`, with its details in a line below.
pub(super) fn line(todo: &Todo, now: DateTime<Utc>) -> String {
    let mut facts = Vec::new();
    if todo.done_at.is_some() {
        facts.push("done".to_owned());
    }
    if todo.priority != Priority::Normal {
        facts.push(todo.priority.as_str().to_owned());
    }
    if let Some((local, zone, at)) = &todo.due {
        facts.push(if local.contains('T') { format!("due {local} {zone}") } else { format!("due {local}") });
        if *at <= now && todo.done_at.is_none() {
            facts.push("overdue".to_owned());
        }
    }
    let mut text = todo.title.clone();
    if !todo.list.is_empty() {
        facts.push(format!("list: {}", todo.list));
    }
    if !facts.is_empty() {
        text = format!("{text} ({})", facts.join(", "));
    }
    if !todo.details.is_empty() {
        let short: String = todo.details.chars().take(DETAILS_CHARS).collect();
        let rest = if short.len() < todo.details.len() { "…" } else { "" };
        text = format!("{text}\n  {}{rest}", short.replace('\n', "\n  "));
    }
    let id = todo.id.to_string();
    format!("{id}: {}", untrusted::stored(todo.untrusted, &id, text))
}
