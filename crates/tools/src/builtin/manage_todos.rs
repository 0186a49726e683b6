//! `manage_todos`: adds, changes, completes and deletes todos of the user.

use chrono::{DateTime, Utc};
use houston_domain::capability::Capability;
use houston_domain::id::TodoId;
use houston_domain::knowledge::MAX_TITLE_CHARS;
use houston_domain::todo::{Due, MAX_ADDED_TODOS, MAX_DETAILS_BYTES, MAX_LIST_CHARS, Priority};
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolErrorCode, ToolResponse};
use houston_store::record::RecordTx;
use houston_store::todo::{NewTodo, TodoChange};
use serde::Deserialize;
use serde_json::{Value, json};

use super::list_todos;
use crate::input;
use crate::record::{Record, RecordFuture, created};
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

const NAME: &str = "manage_todos";
/// What takes away the time at which a todo is due.
const NO_DUE: &str = "none";

/// Changes the user's todos. Written with the step: exactly once.
#[derive(Debug)]
pub(super) struct ManageTodos(ToolDefinition);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Add,
    Update,
    Complete,
    Reopen,
    Delete,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    action: Action,
    #[serde(default)]
    titles: Vec<String>,
    #[serde(default)]
    ids: Vec<TodoId>,
    details: Option<String>,
    due: Option<String>,
    priority: Option<Priority>,
    list: Option<String>,
    before: Option<TodoId>,
}

impl Default for ManageTodos {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: format!(
                "The user's todos. add: one for each of titles, with the other fields. update: sets the given fields of \
                 ids. complete, reopen, delete: those of ids ({}).",
                list_todos::NAME
            ),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "action": {"type": "string", "enum": ["add", "update", "complete", "reopen", "delete"]},
                    "titles": {"type": "array", "items": {"type": "string"}, "maxItems": MAX_ADDED_TODOS,
                               "description": "One line each; for update, one."},
                    "ids": {"type": "array", "items": {"type": "string"}, "maxItems": MAX_ADDED_TODOS},
                    "details": {"type": "string"},
                    "due": {"type": "string", "description":
                        "2026-12-01, 2026-12-01T15:00 in the user's time zone, or with an offset; none removes it."},
                    "priority": {"type": "string", "enum": ["low", "normal", "high"]},
                    "list": {"type": "string", "description": "The name of a list, such as shopping."},
                    "before": {"type": "string", "description": "For update of one: moves it before this id."},
                },
                "required": ["action"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for ManageTodos {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Todos)
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let input: Input = input::read(NAME, input)?;
        let action = input.action;
        let invalid = |text: &str| Err(InvalidInput(format!("{NAME}: {text}")));
        if action == Action::Add && input.titles.is_empty() {
            return invalid("`add` needs `titles`");
        }
        if action != Action::Add && input.ids.is_empty() {
            return invalid("this action needs `ids`");
        }
        if input.titles.len().max(input.ids.len()) > MAX_ADDED_TODOS {
            return invalid(&format!("at most {MAX_ADDED_TODOS} todos at a time"));
        }
        let is_of_one = input.before.is_some() || !input.titles.is_empty();
        if action == Action::Update && is_of_one && (input.ids.len(), input.titles.len() <= 1) != (1, true) {
            return invalid("`titles` and `before` of `update` are for one of `ids` only, with one title");
        }
        let fields = input.fields(context)?;
        Ok(Plan::record(match action {
            Action::Add => Call::Add { fields, titles: lines(input.titles)? },
            Action::Update => {
                let title = lines(input.titles)?.pop();
                let change = TodoChange { title, ..fields.change() };
                if change == TodoChange::default() && input.before.is_none() {
                    return invalid(
                        "nothing to change: give `titles`, `details`, `due`, `priority`, `list` or `before`",
                    );
                }
                Call::Change { ids: input.ids, change, before: input.before, now: context.now }
            }
            Action::Complete | Action::Reopen => {
                let change = TodoChange { done: Some(action == Action::Complete), ..TodoChange::default() };
                Call::Change { ids: input.ids, change, before: None, now: context.now }
            }
            Action::Delete => Call::Delete(input.ids),
        }))
    }
}

fn lines(titles: Vec<String>) -> Result<Vec<String>, InvalidInput> {
    titles.into_iter().map(|title| input::line(NAME, "titles", title, MAX_TITLE_CHARS)).collect()
}

/// What a call sets besides titles.
#[derive(Debug)]
struct Fields {
    details: Option<String>,
    due: Option<Option<Due>>,
    priority: Option<Priority>,
    list: Option<String>,
}

impl Input {
    fn fields(&self, context: &CallContext) -> Result<Fields, InvalidInput> {
        let due = self.due.as_deref().map(|text| match text.trim() {
            "" | NO_DUE => Ok(None),
            text => Due::parse(text, context.zone).map(Some),
        });
        let details = self.details.clone().map(|details| match details.trim() {
            "" => Ok(String::new()),
            _ => input::text(NAME, "details", details, MAX_DETAILS_BYTES),
        });
        let list = self.list.clone().map(|list| match list.trim() {
            "" => Ok(String::new()),
            _ => input::line(NAME, "list", list, MAX_LIST_CHARS),
        });
        Ok(Fields {
            details: details.transpose()?,
            due: due.transpose().map_err(|error| InvalidInput(format!("{NAME}: `due`: {error}")))?,
            priority: self.priority,
            list: list.transpose()?,
        })
    }
}

impl Fields {
    fn change(self) -> TodoChange {
        let Self { details, due, priority, list } = self;
        TodoChange { list, title: None, details, priority, due, done: None }
    }
}

#[derive(Debug)]
enum Call {
    Add { fields: Fields, titles: Vec<String> },
    Change { ids: Vec<TodoId>, change: TodoChange, before: Option<TodoId>, now: DateTime<Utc> },
    Delete(Vec<TodoId>),
}

impl Record for Call {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async move {
            match self {
                Self::Add { fields, titles } => {
                    let ids = tx.ids().rows(titles.len());
                    let new: Vec<NewTodo> =
                        titles.iter().zip(ids).map(|(title, id)| fields.todo(id, title)).collect();
                    let done = tx.create_todos(&new).await;
                    let line = |todo: &NewTodo| format!("Added {}: {}", todo.id, todo.title);
                    created(done, || new.iter().map(line).collect::<Vec<_>>().join("\n"))
                }
                Self::Change { ids, change, before, now } => {
                    if let (Some(next), [id]) = (before, ids.as_slice())
                        && !tx.put_todo_before(*id, *next).await?
                    {
                        return Ok(missing(2));
                    }
                    let changed = tx.change_todos(ids, change).await?;
                    let lines: Vec<String> =
                        changed.iter().map(|todo| list_todos::line(todo, *now)).collect();
                    Ok(answer(ids.len(), lines.len(), &lines.join("\n")))
                }
                Self::Delete(ids) => {
                    let gone = usize::try_from(tx.delete_todos(ids).await?).unwrap_or(usize::MAX);
                    Ok(answer(ids.len(), gone, &format!("Deleted {gone}.")))
                }
            }
        })
    }
}

impl Fields {
    fn todo(&self, id: uuid::Uuid, title: &str) -> NewTodo {
        NewTodo {
            id: TodoId(id),
            list: self.list.clone().unwrap_or_default(),
            title: title.to_owned(),
            details: self.details.clone().unwrap_or_default(),
            priority: self.priority.unwrap_or_default(),
            due: self.due.clone().flatten(),
        }
    }
}

fn missing(count: usize) -> ToolResponse {
    let these = if count == 1 { "there is no such todo" } else { "one of these todos does not exist" };
    let text = format!("{these}: {} shows the ids there are", list_todos::NAME);
    ToolResponse::failure(ToolErrorCode::NotFound, text)
}

/// What the model reads when `done` of `asked` todos existed.
fn answer(asked: usize, done: usize, text: &str) -> ToolResponse {
    match asked.saturating_sub(done) {
        0 => ToolResponse::success(text),
        _ if done == 0 => missing(asked),
        left => ToolResponse::success(format!(
            "{text}\n{left} of the ids do not exist: see {}.",
            list_todos::NAME
        )),
    }
}
