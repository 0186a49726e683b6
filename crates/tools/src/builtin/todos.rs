//! The todos of the user.

use chrono::{DateTime, Utc};
use houston_domain::id::TodoId;
use houston_domain::knowledge::{MAX_QUERY_CHARS, MAX_TITLE_CHARS};
use houston_domain::todo::{Due, MAX_ADDED_TODOS, MAX_DETAILS_BYTES, MAX_LIST_CHARS, Priority, TodoStatus};
use houston_store::todo::{Todo, TodoChange, TodoQuery};

use super::prelude::*;

built_in! {
    ManageTodos: "manage_todos", Idempotent, capability Todos;
    ListTodos: "list_todos", Read, capability Todos;
}

/// What takes away the time at which a todo is due.
const NO_DUE: &str = "none";

/// Changes the user's todos. Written with the step: exactly once.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(description = format!(
    "The user's todos. add: one for each of titles, with the other fields. update: sets the given fields of ids. \
     complete, reopen, delete: those of ids ({}).",
    ListTodos::NAME
))]
pub(super) struct ManageTodos {
    action: Action,
    /// One line each; for update, one.
    #[serde(default)]
    #[schemars(length(max = MAX_ADDED_TODOS))]
    titles: Vec<String>,
    #[serde(default)]
    #[schemars(with = "Vec<String>", length(max = MAX_ADDED_TODOS))]
    ids: Vec<TodoId>,
    details: Option<String>,
    /// 2026-12-01, 2026-12-01T15:00 in the user's time zone, or with an offset; none removes it.
    due: Option<String>,
    #[schemars(with = "Option<String>", extend("enum" = ["low", "normal", "high"]))]
    priority: Option<Priority>,
    /// The name of a list, such as shopping.
    list: Option<String>,
    /// For update of one: moves it before this id.
    #[schemars(with = "Option<String>")]
    before: Option<TodoId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    Add,
    Update,
    Complete,
    Reopen,
    Delete,
}

impl ManageTodos {
    /// What an added todo has, or what is set of those that are changed.
    fn change(&self, context: &CallContext) -> Result<TodoChange> {
        let due = self.due.as_deref().map(|text| match text.trim() {
            "" | NO_DUE => Ok(None),
            text => Due::parse(text, context.zone).map(Some),
        });
        // What is empty takes a value away.
        let given = |value: &Option<String>| match value.as_deref().map(str::trim) {
            Some("") => Some(String::new()),
            _ => value.clone(),
        };
        let (details, list) = (given(&self.details), given(&self.list));
        text("details", details.as_deref().filter(|text| !text.is_empty()), MAX_DETAILS_BYTES)?;
        let due = due.transpose().map_err(|error| invalid(format!("`due`: {error}")))?;
        line("list", list.as_deref().filter(|text| !text.is_empty()), MAX_LIST_CHARS)?;
        let (title, done) = match self.action {
            Action::Complete => return Ok(TodoChange { done: Some(true), ..TodoChange::default() }),
            Action::Reopen => return Ok(TodoChange { done: Some(false), ..TodoChange::default() }),
            Action::Update => (self.titles.first().cloned(), None),
            Action::Add | Action::Delete => (None, None),
        };
        Ok(TodoChange { list, title, details, priority: self.priority, due, done })
    }
}

impl Access for ManageTodos {
    fn check(&self, context: &CallContext) -> Result<()> {
        let Self { action, titles, ids, before, .. } = self;
        if *action == Action::Add && titles.is_empty() {
            return Err(invalid("`add` needs `titles`"));
        }
        if *action != Action::Add && ids.is_empty() {
            return Err(invalid("this action needs `ids`"));
        }
        if titles.len().max(ids.len()) > MAX_ADDED_TODOS {
            return Err(invalid(format!("at most {MAX_ADDED_TODOS} todos at a time")));
        }
        let is_of_one = before.is_some() || !titles.is_empty();
        if *action == Action::Update && is_of_one && (ids.len(), titles.len() <= 1) != (1, true) {
            return Err(invalid(
                "`titles` and `before` of `update` are for one of `ids` only, with one title",
            ));
        }
        let change = self.change(context)?;
        if matches!(action, Action::Add | Action::Update) {
            titles.iter().try_for_each(|title| line("titles", title.as_str(), MAX_TITLE_CHARS))?;
        }
        if *action == Action::Update && change == TodoChange::default() && before.is_none() {
            let reason = "nothing to change: give `titles`, `details`, `due`, `priority`, `list` or `before`";
            return Err(invalid(reason));
        }
        Ok(())
    }

    async fn apply(&self, context: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let (Self { action, titles, ids, .. }, change) = (self, self.change(context)?);
        match action {
            Action::Add => {
                let new = |(id, title): (uuid::Uuid, &String)| {
                    (TodoId(id), TodoChange { title: Some(title.clone()), ..change.clone() })
                };
                let new: Vec<_> = tx.ids.rows(titles.len()).zip(titles).map(new).collect();
                tx.knowledge().create_todos(&new, None).await?;
                let line = |((id, _), title): (&(TodoId, _), &String)| format!("Added {id}: {title}");
                Ok(new.iter().zip(titles).map(line).collect::<Vec<_>>().join("\n"))
            }
            Action::Update | Action::Complete | Action::Reopen => {
                if let (Action::Update, Some(next), [id]) = (action, self.before, ids.as_slice())
                    && !tx.knowledge().put_todo_before(*id, next).await?
                {
                    return Err(missing(2));
                }
                let changed = tx.knowledge().change_todos(ids, &change).await?;
                let lines: Vec<String> = changed.iter().map(|todo| described(todo, context.now)).collect();
                answer(ids.len(), lines.len(), lines.join("\n"))
            }
            Action::Delete => {
                let gone = usize::try_from(tx.knowledge().delete_todos(ids).await?).unwrap_or(usize::MAX);
                answer(ids.len(), gone, format!("Deleted {gone}."))
            }
        }
    }
}

fn missing(count: usize) -> Refusal {
    let these = if count == 1 { "there is no such todo" } else { "one of these todos does not exist" };
    let text = format!("{these}: {} shows the ids there are", ListTodos::NAME);
    failed(ToolErrorCode::NotFound, text)
}

/// What the model reads when `done` of `asked` todos existed.
fn answer(asked: usize, done: usize, text: String) -> Result<String> {
    match asked.saturating_sub(done) {
        0 => Ok(text),
        _ if done == 0 => Err(missing(asked)),
        left => Ok(format!("{text}\n{left} of the ids do not exist: see {}.", ListTodos::NAME)),
    }
}

/// Todos if the call does not set `limit`.
const DEFAULT_ITEMS: u32 = 20;
/// A page of one line each has about 10 KB.
const MAX_ITEMS: u32 = 100;
/// Characters of details that a list has.
const DETAILS_CHARS: usize = 200;

/// The user's todos, in their order, with ids and due times.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListTodos {
    /// Default: open.
    #[schemars(with = "Option<String>", extend("enum" = ["open", "done", "all"]))]
    status: Option<TodoStatus>,
    /// Only those of this list.
    list: Option<String>,
    /// Only those due by then, overdue ones among them: `now`, 2026-12-01 or 2026-12-01T15:00.
    due_by: Option<String>,
    /// Only those with this text.
    query: Option<String>,
    /// Only those added in this conversation.
    #[serde(default)]
    here: bool,
    #[schemars(range(min = 1, max = MAX_ITEMS))]
    limit: Option<u32>,
    /// The last id of the page before.
    #[schemars(with = "Option<String>")]
    after: Option<TodoId>,
}

impl ListTodos {
    fn query(&self, context: &CallContext) -> Result<TodoQuery> {
        let due_by = self.due_by.as_deref().map(|text| match text.trim() {
            "now" => Ok(context.now),
            text => Due::parse(text, context.zone).map(|due| due.at),
        });
        let limit = limit(self.limit, DEFAULT_ITEMS, MAX_ITEMS)?;
        line("list", self.list.as_deref(), MAX_LIST_CHARS)?;
        let due_by = due_by.transpose().map_err(|error| invalid(format!("`due_by`: {error}")))?;
        line("query", self.query.as_deref(), MAX_QUERY_CHARS)?;
        Ok(TodoQuery {
            status: self.status.unwrap_or_default(),
            list: self.list.clone(),
            due_by,
            text: self.query.clone(),
            after: self.after,
            limit: i64::from(limit) + 1,
        })
    }
}

impl Access for ListTodos {
    fn check(&self, context: &CallContext) -> Result<()> {
        self.query(context).map(drop)
    }

    async fn apply(&self, context: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let query = self.query(context)?;
        let mut todos = tx.knowledge().todos(&query, self.here).await?;
        let most = usize::try_from(query.limit - 1).unwrap_or(usize::MAX);
        let has_more = todos.len() > most;
        todos.truncate(most);
        let mut lines: Vec<String> = todos.iter().map(|todo| described(todo, context.now)).collect();
        if lines.is_empty() {
            lines.push("There are no such todos.".to_owned());
        }
        if has_more {
            lines.push("There are more: ask again with `after` set to the last id here.".to_owned());
        }
        Ok(lines.join("\n"))
    }
}

/// `todo_0190…: Buy milk (high, due 2026-12-01, overdue, list: errands)`, with its details in a line below.
fn described(todo: &Todo, now: DateTime<Utc>) -> String {
    let mut facts = Vec::new();
    if todo.done_at.is_some() {
        facts.push("done".to_owned());
    }
    if todo.priority != Priority::Normal {
        facts.push(todo.priority.as_str().to_owned());
    }
    if let (Some(local), Some(zone), Some(at)) = (&todo.due, &todo.time_zone, todo.due_at) {
        facts.push(if local.contains('T') { format!("due {local} {zone}") } else { format!("due {local}") });
        if at.0 <= now && todo.done_at.is_none() {
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
