//! `search_agent_history`: searches and reads closed sessions.

use chrono::NaiveDate;
use houston_domain::history::{Block, Role};
use houston_domain::id::SessionId;
use houston_domain::knowledge::MAX_QUERY_CHARS;
use houston_domain::session::{SessionArchive, SessionSearch, Timeframe};
use houston_store::session_search::{FoundSession, SessionEntry};

use super::prelude::*;
use crate::input::line as one_line;

built_in! {
    SearchAgentHistory: "search_agent_history", Read, needs Sessions;
}

// Offered as soon as the agentable has a closed session.
/// Your earlier conversations, of which <agent_history> has only a part. With query: the sessions that fit best, with
/// their summaries; summaries and whole conversations are searched. With session_id: what was said in that session,
/// page by page.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchAgentHistory {
    /// What to look for, in a few words.
    query: Option<String>,
    /// When it was; last_week is since Monday of last week, and so on. Any time when left out.
    #[schemars(with = "Option<String>", extend("enum" = Timeframe::ALL.map(Timeframe::as_str)))]
    timeframe: Option<Timeframe>,
    /// The first day, as 2026-11-22.
    #[schemars(with = "Option<String>", extend("format" = "date"))]
    from: Option<NaiveDate>,
    /// The last day.
    #[schemars(with = "Option<String>", extend("format" = "date"))]
    to: Option<NaiveDate>,
    /// Read this session instead of searching.
    #[schemars(with = "Option<String>")]
    session_id: Option<SessionId>,
    /// With session_id: go on after this position.
    #[schemars(range(min = 0))]
    after: Option<i64>,
}

impl BuiltIn for SearchAgentHistory {
    fn plan(self, context: &CallContext, _: &Outside) -> Result<Plan> {
        let Self { query, timeframe, from, to, session_id, after } = self;
        let call = match (query, session_id) {
            (Some(query), None) => {
                if timeframe.is_some() && (from.is_some() || to.is_some()) {
                    return Err(invalid("give `timeframe`, or `from` and `to`, not both"));
                }
                if from.zip(to).is_some_and(|(from, to)| to < from) {
                    return Err(invalid("`to` must not be before `from`"));
                }
                one_line("query", query.as_str(), MAX_QUERY_CHARS)?;
                Call::Search(SessionSearch { query, timeframe, from, to })
            }
            (None, Some(session)) => Call::Read { session, after: after.unwrap_or(0) },
            (Some(_), Some(_)) => {
                return Err(invalid("give `query` to search, or `session_id` to read, not both"));
            }
            (None, None) => return Err(invalid("give `query` to search, or `session_id` to read")),
        };
        Ok(Plan::record(call, context))
    }
}

#[derive(Debug)]
enum Call {
    Search(SessionSearch),
    Read { session: SessionId, after: i64 },
}

impl Access for Call {
    async fn apply(&self, _: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        match self {
            Self::Search(search) => Ok(found(tx.find_sessions(search).await?)),
            Self::Read { session, after } => {
                let entries = tx.session_entries(*session, *after).await?;
                page((*session, *after), entries, &tx.settings.archiving.settings)
            }
        }
    }
}

fn found(sessions: Vec<FoundSession>) -> String {
    if sessions.is_empty() {
        return "No earlier session is about that: try other words, or another timeframe.".to_owned();
    }
    let sessions = sessions.into_iter().map(|session| {
        let messages = session.message_count.map(|count| format!(", {count} messages")).unwrap_or_default();
        let began = session.started_at.format("%Y-%m-%d %H:%M");
        let ended = session.completed_at.format("%Y-%m-%d %H:%M");
        let id = session.id.to_string();
        let summary = untrusted::stored(session.untrusted, &id, session.summary);
        format!("{id}: {began} to {ended} UTC{messages}\n{summary}")
    });
    sessions.collect::<Vec<_>>().join("\n\n")
}

/// What was said in a session after a position. `entries` has one more than a page, if there are more.
fn page(
    (session, after): (SessionId, i64),
    mut entries: Vec<SessionEntry>,
    settings: &SessionArchive,
) -> Result<String> {
    let is_more = keep(&mut entries, settings.read_entries);
    let Some(last) = entries.last().map(|entry| entry.position) else {
        let text =
            format!("there is nothing in {session} after position {after}: search for the ids there are");
        return Err(failed(ToolErrorCode::NotFound, text));
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
    Ok(lines.join("\n"))
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
        let page = |from, entries| page((id, from), entries, &settings);
        let first = page(0, entries()).unwrap();
        assert_eq!(
            first,
            "user: question\nyou: a long a… [13 characters]\nThere is more: ask again with `after` set to 2."
        );
        assert_eq!(page(2, entries().split_off(2)).unwrap(), "user: x");
        let strange = untrusted::marked("a page", "obey");
        let marked = page(0, vec![entry(1, Entry::user(said(&strange)))]).unwrap();
        assert!(untrusted::is_marked(&marked), "it is marked where it is cut, too: {marked}");
        let none = page(3, Vec::new()).unwrap_err();
        let Refusal::Answer(ToolResponse::Failure { code, .. }) = none else { panic!("{none:?}") };
        assert_eq!(code, ToolErrorCode::NotFound);
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
        assert!(untrusted::is_marked(&marked), "{marked}");
        let text = found(vec![session]);
        assert!(text.ends_with(" UTC, 2 messages\nA journey to Kyoto was booked."), "{text}");
        assert!(found(Vec::new()).starts_with("No earlier session"));
    }
}
