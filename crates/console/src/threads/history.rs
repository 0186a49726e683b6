//! A thread as the model reads it: the entries of its history.

use askama::Template;
use axum::extract::Path;
use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, Utc};
use houston_domain::history::{Block, Role};
use houston_protocol::page::Page;
use houston_protocol::session::HistoryEntryResponse;
use serde::Deserialize;

use super::list;
use crate::query::Query;
use crate::shell::{Section, Shell, html};
use crate::show::{self, When, plural, segment, with_query};
use crate::viewer::Viewer;

/// The most characters of a text.
const MAX_TEXT: usize = 20_000;

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Place {
    #[serde(default)]
    cursor: String,
}

#[derive(Template)]
#[template(path = "history.html")]
struct History {
    shell: Shell,
    thread_href: String,
    id: String,
    entries: Vec<Entry>,
    next: String,
    first: String,
}

struct Entry {
    position: String,
    look: &'static str,
    from: &'static str,
    at: When,
    run_href: String,
    parts: Vec<Part>,
}

/// A block of an entry.
struct Part {
    name: String,
    text: String,
}

/// `GET {prefix}/threads/{kind}/{id}/history`.
pub(crate) async fn show(
    viewer: Viewer,
    Path((kind, id)): Path<(String, String)>,
    Query(Place { cursor }): Query<Place>,
) -> Response {
    let path = format!("/v1/{}/{}/history", plural(&kind), segment(&id));
    let path = with_query(&path, &[("limit", "50"), ("cursor", &cursor)]);
    let page: Page<HistoryEntryResponse> = match viewer.api.get(&path).await {
        Ok(page) => page,
        Err(refused) => return viewer.failed(list::refused(&viewer, &kind, refused).await).into_response(),
    };
    let now = viewer.console.now();
    let thread_href = viewer.path(&format!("/threads/{}/{}", segment(&kind), segment(&id)));
    let here = format!("{thread_href}/history");
    html(&History {
        shell: viewer.shell(Section::Threads, "As the model reads it"),
        entries: page.data.into_iter().map(|of| entry(&viewer, of, now)).collect(),
        next: page.next_cursor.map(|next| with_query(&here, &[("cursor", &next)])).unwrap_or_default(),
        first: if cursor.is_empty() { String::new() } else { here },
        thread_href,
        id,
    })
}

fn entry(viewer: &Viewer, of: HistoryEntryResponse, now: DateTime<Utc>) -> Entry {
    let is_result = of.content.iter().any(|block| matches!(block, Block::ToolResult { .. }));
    let (look, from) = match (of.role, is_result) {
        (_, true) => ("tool", "results of tools"),
        (Role::User, _) => ("user", "user"),
        (Role::Assistant, _) => ("agent", "model"),
    };
    Entry {
        position: of.position.to_string(),
        look,
        from,
        at: show::when(of.created_at, now),
        run_href: viewer.path(&format!("/runs/{}", of.run_id)),
        parts: of.content.iter().filter_map(part).collect(),
    }
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
