//! A thread as the model reads it: the system prompt, and the entries of its history.

use askama::Template;
use axum::extract::Path;
use chrono::{DateTime, Utc};
use futures_util::future::join;
use houston_domain::history::{Block, Role};
use houston_domain::scope::Scope;
use houston_protocol::page::Page;
use houston_protocol::session::HistoryEntryResponse;
use serde_json::Value;

use crate::failure::{Answer, html};
use crate::query::{Place, Query};
use crate::shell::{Shell, THREADS};
use crate::show::{self, When, plural, segment, with_query};
use crate::threads;
use crate::viewer::Viewer;

/// The most characters of a text.
const MAX_TEXT: usize = 20_000;

#[derive(Template)]
#[template(path = "history.html")]
struct History {
    shell: Shell,
    thread_href: String,
    id: String,
    prompt: Prompt,
    entries: Vec<Entry>,
    next: String,
    first: String,
}

/// What a model would be sent around the entries if a run began now. All empty: it is not known, or not for this viewer.
#[derive(Debug, Default)]
pub(crate) struct Prompt {
    pub(crate) model: String,
    pub(crate) tokens: String,
    pub(crate) system: String,
    pub(crate) tools: String,
    /// What is sent after the entries.
    pub(crate) context: String,
}

/// What `entries.html` shows of an entry.
pub(crate) struct Entry {
    pub(crate) position: String,
    pub(crate) look: &'static str,
    pub(crate) from: &'static str,
    /// Empty: a trace has no times of entries.
    pub(crate) at: When,
    pub(crate) run_href: String,
    pub(crate) parts: Vec<Part>,
}

/// A block of an entry.
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// `GET {prefix}/threads/{kind}/{id}/history`.
pub(crate) async fn show(
    viewer: Viewer,
    Path((kind, id)): Path<(String, String)>,
    Query(Place { cursor }): Query<Place>,
) -> Answer {
    let owner = format!("/v1/{}/{}", plural(&kind), segment(&id));
    let path = with_query(&format!("{owner}/history"), &[("limit", "50"), ("cursor", &cursor)]);
    let (page, prompt) = join(viewer.api.get(&path), prompt(&viewer, &owner, &cursor)).await;
    let page: Page<HistoryEntryResponse> = match page {
        Ok(page) => page,
        Err(refused) => return Err(threads::refused(&viewer, &kind, refused).await),
    };
    let now = viewer.console.now();
    let thread_href = viewer.path(&format!("/threads/{}/{}", segment(&kind), segment(&id)));
    let here = format!("{thread_href}/history");
    Ok(html(&History {
        shell: viewer.shell(THREADS, "As the model reads it"),
        prompt,
        entries: page.data.into_iter().map(|of| entry(&viewer, of, now)).collect(),
        next: page.next_cursor.map(|next| with_query(&here, &[("cursor", &next)])).unwrap_or_default(),
        first: if cursor.is_empty() { String::new() } else { here },
        thread_href,
        id,
    }))
}

/// The prompt of the agentable at `path`, on the first page.
pub(crate) async fn prompt(viewer: &Viewer, path: &str, cursor: &str) -> Prompt {
    if !cursor.is_empty() || !viewer.may(Scope::Operate) {
        return Prompt::default();
    }
    let Ok(of) = viewer.api.get::<Value>(&format!("{path}/prompt")).await else { return Prompt::default() };
    let all = |list: &Value, name: &str| -> Vec<String> {
        let texts = list.as_array().into_iter().flatten().filter_map(|of| of[name].as_str());
        texts.map(str::to_owned).collect()
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().chars().take(MAX_TEXT).collect::<String>();
    Prompt {
        model: text(&of["model"]),
        tokens: show::count(of["tokens"]["total"].as_u64().unwrap_or_default()),
        system: all(&of["system"], "text").concat().chars().take(MAX_TEXT).collect(),
        tools: all(&of["tools"], "name").join(", "),
        context: text(&of["system_context"]),
    }
}

fn entry(viewer: &Viewer, of: HistoryEntryResponse, now: DateTime<Utc>) -> Entry {
    let (look, from) = sides(of.role, &of.content);
    Entry {
        position: of.position.to_string(),
        look,
        from,
        at: show::when(of.created_at, now),
        run_href: viewer.path(&format!("/runs/{}", of.run_id)),
        parts: parts(&of.content),
    }
}

/// The class of an entry in the stylesheet, and whose it is.
pub(crate) fn sides(role: Role, content: &[Block]) -> (&'static str, &'static str) {
    let is_result = content.iter().any(|block| matches!(block, Block::ToolResult { .. }));
    match (role, is_result) {
        (_, true) => ("tool", "results of tools"),
        (Role::User, _) => ("user", "user"),
        (Role::Assistant, _) => ("agent", "model"),
    }
}

pub(crate) fn parts(content: &[Block]) -> Vec<Part> {
    content.iter().filter_map(part).collect()
}

fn part(block: &Block) -> Option<Part> {
    let (name, text) = match block {
        Block::Text { text, .. } => (String::new(), text.clone()),
        Block::Thinking { text, .. } if text.is_empty() => return None,
        Block::Thinking { text, .. } => ("reasoning".to_owned(), text.clone()),
        Block::ToolUse { name, input, .. } => {
            (format!("calls {name}"), serde_json::to_string_pretty(input).unwrap_or_default())
        }
        Block::ToolResult { content, is_error: false, .. } => ("result".to_owned(), content.clone()),
        Block::ToolResult { content, .. } => ("error".to_owned(), content.clone()),
        _ => ("a block of the provider".to_owned(), String::new()),
    };
    Some(Part { name, text: text.chars().take(MAX_TEXT).collect() })
}
