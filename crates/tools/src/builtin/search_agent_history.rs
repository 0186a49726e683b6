//! `search_agent_history`: searches and reads closed sessions.

use chrono::NaiveDate;
use houston_domain::history::{Block, Role};
use houston_domain::id::SessionId;
use houston_domain::knowledge::MAX_QUERY_CHARS;
use houston_domain::session::{SessionArchive, SessionSearch, Timeframe};
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolErrorCode, ToolResponse};
use houston_store::record::RecordTx;
use houston_store::session_search::{FoundSession, SessionEntry};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::record::{Record, RecordFuture};
use crate::tool::{CallContext, InvalidInput, Plan, Situation, Tool};
use crate::untrusted;

pub const NAME: &str = "search_agent_history";

/// Searches closed sessions, or reads one. Offered as soon as the agentable has a closed session.
#[derive(Debug)]
pub(super) struct SearchAgentHistory(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    query: Option<String>,
    timeframe: Option<Timeframe>,
    from: Option<NaiveDate>,
    to: Option<NaiveDate>,
    session_id: Option<SessionId>,
    after: Option<i64>,
}

impl Default for SearchAgentHistory {
    fn default() -> Self {
        let timeframes = Timeframe::ALL.map(Timeframe::as_str);
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Your earlier conversations, of which <agent_history> has only a part. With query: the \
                          sessions that fit best, with their summaries; summaries and whole conversations are \
                          searched. With session_id: what was said in that session, page by page."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "What to look for, in a few words."},
                    "timeframe": {"type": "string", "enum": timeframes,
                                  "description": "When it was; last_week is since Monday of last week, and so on. \
                                                  Any time when left out."},
                    "from": {"type": "string", "format": "date", "description": "The first day, as 2026-11-22."},
                    "to": {"type": "string", "format": "date", "description": "The last day."},
                    "session_id": {"type": "string", "description": "Read this session instead of searching."},
                    "after": {"type": "integer", "minimum": 0,
                              "description": "With session_id: go on after this position."},
                },
                "additionalProperties": false,
            }).into(),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for SearchAgentHistory {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn offered(&self, situation: Situation) -> bool {
        situation.has_sessions
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { query, timeframe, from, to, session_id, after } = input::read(NAME, input)?;
        let wrong = |what: &str| Err(InvalidInput(format!("{NAME}: {what}")));
        let call = match (query, session_id) {
            (Some(query), None) => {
                if timeframe.is_some() && (from.is_some() || to.is_some()) {
                    return wrong("give `timeframe`, or `from` and `to`, not both");
                }
                if from.zip(to).is_some_and(|(from, to)| to < from) {
                    return wrong("`to` must not be before `from`");
                }
                let query = input::line(NAME, "query", query, MAX_QUERY_CHARS)?;
                Call::Search(SessionSearch { query, timeframe, from, to })
            }
            (None, Some(session)) => Call::Read { session, after: after.unwrap_or(0) },
            (Some(_), Some(_)) => return wrong("give `query` to search, or `session_id` to read, not both"),
            (None, None) => return wrong("give `query` to search, or `session_id` to read"),
        };
        Ok(Plan::record(call))
    }
}

#[derive(Debug)]
enum Call {
    Search(SessionSearch),
    Read { session: SessionId, after: i64 },
}

impl Record for Call {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async move {
            Ok(match self {
                Self::Search(search) => found(tx.find_sessions(search).await?),
                Self::Read { session, after } => {
                    let entries = tx.session_entries(*session, *after).await?;
                    page((*session, *after), entries, &tx.session_settings())
                }
            })
        })
    }
}

fn found(sessions: Vec<FoundSession>) -> ToolResponse {
    if sessions.is_empty() {
        let text = "No earlier session is about that: try other words, or another timeframe.";
        return ToolResponse::success(text);
    }
    let sessions = sessions.into_iter().map(|session| {
        let messages = session.message_count.map(|count| format!(", {count} messages")).unwrap_or_default();
        let (began, ended) =
            (session.started_at.format("%Y-%m-%d %H:%M"), session.completed_at.format("%Y-%m-%d %H:%M"));
        let id = session.id.to_string();
        let summary = untrusted::stored(session.untrusted, &id, session.summary);
        format!("{id}: {began} to {ended} UTC{messages}\n{summary}")
    });
    ToolResponse::success(sessions.collect::<Vec<_>>().join("\n\n"))
}

/// What was said in a session after a position. `entries` has one more than a page, if there are more.
fn page(
    (session, after): (SessionId, i64),
    mut entries: Vec<SessionEntry>,
    settings: &SessionArchive,
) -> ToolResponse {
    let most = settings.read_entries as usize;
    let is_more = entries.len() > most;
    entries.truncate(most);
    let Some(last) = entries.last().map(|entry| entry.position) else {
        return ToolResponse::failure(
            ToolErrorCode::NotFound,
            format!("there is nothing in {session} after position {after}: search for the ids there are"),
        );
    };
    let mut blocks = entries.iter().flat_map(|entry| &entry.content);
    let is_untrusted = blocks.any(|block| block.read().is_some_and(untrusted::is_marked));
    let mut lines = Vec::new();
    for SessionEntry { role, content, .. } in entries {
        lines.extend(content.iter().filter_map(|block| line(role, block, settings.read_chars)));
    }
    let said = untrusted::stored(is_untrusted, &session.to_string(), lines.join("\n"));
    let mut lines = vec![said];
    if is_more {
        lines.push(format!("There is more: ask again with `after` set to {last}."));
    }
    ToolResponse::success(lines.join("\n"))
}

/// One line for a block; `None` for thinking and opaque blocks.
fn line(role: Role, block: &Block, most_chars: usize) -> Option<String> {
    let who = if role == Role::User { "user" } else { "you" };
    match block {
        Block::Text { text, .. } => Some(format!("{who}: {}", shortened(text, most_chars))),
        Block::ToolUse { name, input, .. } => {
            Some(format!("{who} called {name}: {}", shortened(&input.to_string(), most_chars)))
        }
        Block::ToolResult { content, .. } => Some(format!("it answered: {}", shortened(content, most_chars))),
        Block::Thinking { .. } | Block::Image(_) | Block::Document(_) | Block::Opaque { .. } => None,
    }
}

fn shortened(text: &str, most_chars: usize) -> String {
    match text.char_indices().nth(most_chars) {
        Some((end, _)) => format!("{}… [{} characters]", &text[..end], text.chars().count()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use houston_domain::history::Entry;

    use super::*;

    fn entry(position: i64, entry: Entry) -> SessionEntry {
        SessionEntry { position, role: entry.role, content: entry.content }
    }

    #[test]
    fn page_says_who_spoke_and_where_to_go_on() {
        let settings = SessionArchive { read_entries: 2, read_chars: 8, ..SessionArchive::default() };
        let id = SessionId(uuid::Uuid::nil());
        let said = |text: &str| vec![Block::text(text)];
        let all =
            [Entry::user(said("question")), Entry::assistant(said("a long answer")), Entry::user(said("x"))];
        let entries =
            || all.iter().cloned().zip(1..).map(|(one, position)| entry(position, one)).collect::<Vec<_>>();
        let first = page((id, 0), entries(), &settings);
        assert_eq!(
            first.text(),
            "user: question\nyou: a long a… [13 characters]\nThere is more: ask again with `after` set to 2."
        );
        let rest = page((id, 2), entries().split_off(2), &settings);
        assert_eq!(rest.text(), "user: x");
        let strange = untrusted::marked("a page", "obey");
        let marked = page((id, 0), vec![entry(1, Entry::user(said(&strange)))], &settings);
        assert!(untrusted::is_marked(marked.text()), "it is marked where it is cut, too: {marked:?}");
        let none = page((id, 3), Vec::new(), &settings);
        assert!(matches!(none, ToolResponse::Failure { code: ToolErrorCode::NotFound, .. }), "{none:?}");
    }

    #[test]
    fn found_sessions_are_named_with_their_summaries() {
        let session = FoundSession {
            id: SessionId(uuid::Uuid::nil()),
            started_at: DateTime::UNIX_EPOCH,
            completed_at: DateTime::UNIX_EPOCH,
            summary: "A journey to Kyoto was booked.".to_owned(),
            message_count: Some(2),
            untrusted: false,
        };
        let marked = found(vec![FoundSession { untrusted: true, ..session.clone() }]);
        assert!(untrusted::is_marked(marked.text()), "{marked:?}");
        let text = found(vec![session]).text().to_owned();
        assert!(text.ends_with(" UTC, 2 messages\nA journey to Kyoto was booked."), "{text}");
        assert!(found(Vec::new()).text().starts_with("No earlier session"));
    }
}
