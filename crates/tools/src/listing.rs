//! Arguments and texts of tools that return a list page by page, shortened; other tools read a complete item.
//!
//! ```json
//! {"query": "hotel", "limit": 10, "before": "note_0190…"}
//! ```

use std::fmt::Display;

use houston_domain::knowledge::{KnowledgeKind, ListQuery, MAX_QUERY_CHARS};
use houston_domain::tool_call::ToolResponse;
use houston_store::excerpt::Excerpt;
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::input;
use crate::tool::InvalidInput;
use crate::untrusted;

/// Items of a page if the call does not set `limit`.
const DEFAULT_ITEMS: u32 = 10;

/// Arguments of a tool that lists.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input<Id> {
    query: Option<String>,
    limit: Option<u32>,
    before: Option<Id>,
}

/// The JSON Schema of the arguments, with pages of at most `max` items.
pub(crate) fn schema(max: u32) -> Value {
    json!({
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Only what has one of these words, or one like it."},
            "limit": {"type": "integer", "minimum": 1, "maximum": max,
                      "description": format!("How many at max; {DEFAULT_ITEMS} when left out.")},
            "before": {"type": "string", "description": "An id: only what is older than this one."},
        },
        "additionalProperties": false,
    })
}

/// One item of a list. A shortened text gives its length, and the tool `reads` that returns it whole.
pub(crate) fn line<Id: From<Uuid> + Display>(excerpt: Excerpt, reads: &str, most_chars: i32) -> String {
    let Excerpt { id, title, text, chars, untrusted } = excerpt;
    let id = Id::from(id);
    let text = title.map(|title| format!("{title}\n{text}")).unwrap_or(text);
    let text = untrusted::stored(untrusted, &id.to_string(), text);
    let rest = if chars > most_chars { format!("… [{chars} characters: {reads}]") } else { String::new() };
    format!("{id}: {text}{rest}")
}

/// A page of a list of documents, shortened.
pub(crate) async fn documents<Id: Copy + From<Uuid> + Into<Uuid> + Display>(
    mut tx: RecordTx<'_>,
    kind: KnowledgeKind,
    listing: &ListQuery<Id>,
    reads: &str,
) -> houston_store::Result<ToolResponse> {
    let chars = tx.knowledge_limits().excerpt_chars;
    let found = tx.excerpts(kind, listing, chars).await?;
    let lines = found.into_iter().map(|found| line::<Id>(found, reads, chars)).collect();
    Ok(page(lines, listing, kind))
}

/// A page of a list; `rows` has one row more than asked for, if there are more.
pub(crate) fn page<Id>(mut rows: Vec<String>, listing: &ListQuery<Id>, kind: KnowledgeKind) -> ToolResponse {
    let what = kind.rules().plural;
    if rows.is_empty() {
        return ToolResponse::success(match (&listing.query, &listing.before) {
            (Some(_), _) => format!("There are no {what} like that."),
            (None, Some(_)) => format!("There are no older {what}."),
            (None, None) => format!("There are no {what} yet."),
        });
    }
    let most = usize::try_from(listing.limit).unwrap_or(usize::MAX);
    if rows.len() > most {
        rows.truncate(most);
        rows.push(format!("There are older {what}: ask again with `before` set to the last id here."));
    }
    ToolResponse::success(rows.join("\n\n"))
}

/// Parses the arguments.
pub(crate) fn read<Id: serde::de::DeserializeOwned>(
    tool: &str,
    input: &Value,
    max: u32,
) -> Result<ListQuery<Id>, InvalidInput> {
    let Input { query, limit, before } = input::read(tool, input)?;
    let query = query.map(|query| input::line(tool, "query", query, MAX_QUERY_CHARS)).transpose()?;
    Ok(ListQuery { query, limit: input::limit(tool, limit, DEFAULT_ITEMS, max)?, before })
}
