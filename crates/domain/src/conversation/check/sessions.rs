//! Validation of closed sessions, compressions and large results.

use std::collections::BTreeSet;

use super::{Checked, Conversation, HistoryEntry, invalid, line, text, time};
use crate::conversation::closed_session::{ClosedSession, MAX_SUMMARY_BYTES, SummarySource};
use crate::history::{Block, Fault, validate_complete};

/// Maximum length of a model's name, in characters.
const MAX_NAME_CHARS: usize = 1_000;

impl Conversation {
    /// Checks that the sessions cover the beginning of the history without gaps, and that each is a valid history by
    /// itself.
    pub(super) fn check_sessions(&self) -> Checked {
        let entries = &self.history;
        let mut before: Option<&ClosedSession> = None;
        for (index, session) in self.sessions.iter().enumerate() {
            let at = |field: &str| format!("/sessions/{index}/{field}");
            check_range(&at, session, before, entries.len())?;
            let (first, last) = (session.first_position - 1, session.last_position);
            validate_complete(&entries[first..last]).or_else(|fault| not_alone(&at, session, &fault))?;
            check_summary(&at, session, &entries[first..last])?;
            check_times(&at, session, before)?;
            before = Some(session);
        }
        let Some(last) = before else { return Ok(()) };
        validate_complete(&entries[last.last_position..]).or_else(|_| {
            let detail = format!(
                "is {}, but the entry after it begins with an answer: end the session before the question, or after \
                 the whole turn",
                last.last_position
            );
            invalid(format!("/sessions/{}/last_position", self.sessions.len() - 1), detail)
        })
    }

    /// Checks that the entries after each summary can be sent together with it.
    pub(super) fn check_compressions(&self) -> Checked {
        let count = self.history.len();
        for (index, compression) in self.compressions.iter().enumerate() {
            let at = |field: &str| format!("/compressions/{index}/{field}");
            let through = compression.through_position;
            if through == 0 || through > count {
                let detail =
                    format!("is {through}, but must be a position of the history, from 1 to {count}");
                return invalid(at("through_position"), detail);
            }
            let ends_session =
                self.sessions.binary_search_by_key(&through, |session| session.last_position).is_ok();
            let next = self.history.get(through).filter(|_| !ends_session);
            if next.is_some_and(|next| {
                next.content.iter().any(|block| matches!(block, Block::ToolResult { .. }))
            }) {
                let detail =
                    format!("is {through}, between a tool call and its result: neither can be sent alone");
                return invalid(at("through_position"), detail);
            }
            if compression.summary.trim().is_empty() {
                return invalid(at("summary"), "must not be empty");
            }
            text(&at("summary"), &compression.summary, usize::MAX)?;
            for (field, entries) in
                [("entries_before", compression.entries_before), ("entries_after", compression.entries_after)]
            {
                check_at_most(&at(field), entries.into(), i32::MAX.unsigned_abs().into())?;
            }
            for (field, tokens) in
                [("tokens_before", compression.tokens_before), ("tokens_after", compression.tokens_after)]
            {
                check_at_most(&at(field), tokens, i64::MAX.unsigned_abs())?;
            }
            let model = compression.model.as_deref();
            model.map_or(Ok(()), |model| line(&at("model"), model, MAX_NAME_CHARS))?;
            time(&at("created_at"), compression.created_at)?;
        }
        Ok(())
    }

    /// Checks that each result occurs once, and that a text refers to it.
    pub(super) fn check_results(&self) -> Checked {
        if self.results.is_empty() {
            return Ok(());
        }
        let (named, mut seen) = (self.referenced_results(), BTreeSet::new());
        for (index, result) in self.results.iter().enumerate() {
            let at = |field: &str| format!("/results/{index}/{field}");
            if !named.contains(&result.id) {
                let detail = format!(
                    "is {}, but no entry and no summary refers to it: leave the result out",
                    result.id
                );
                return invalid(at("id"), detail);
            }
            if !seen.insert(result.id) {
                return invalid(
                    at("id"),
                    format!("is {}, which is the id of another result already", result.id),
                );
            }
            text(&at("call_id"), &result.call_id, usize::MAX)?;
            text(&at("tool"), &result.tool, usize::MAX)?;
            text(&at("content"), &result.content, usize::MAX)?;
            time(&at("created_at"), result.created_at)?;
        }
        Ok(())
    }
}

fn check_range(
    at: &impl Fn(&str) -> String,
    session: &ClosedSession,
    before: Option<&ClosedSession>,
    entries: usize,
) -> Checked {
    let ClosedSession { first_position: first, last_position: last, .. } = *session;
    let next = before.map_or(1, |before| before.last_position + 1);
    if first != next {
        let detail = match before {
            None => format!("is {first}, but must be 1: the first session begins with the first entry"),
            Some(before) if first < next => format!(
                "is {first}, but must be {next}: the session before it ends with {}, and no entry belongs to two sessions",
                before.last_position
            ),
            Some(_) => {
                format!("is {first}, but must be {next}: the entries from {next} on belong to no session")
            }
        };
        return invalid(at("first_position"), detail);
    }
    if last < first {
        return invalid(
            at("last_position"),
            format!("is {last}, but must not be less than `first_position`, which is {first}"),
        );
    }
    if last > entries {
        return invalid(
            at("last_position"),
            format!("is {last}, but the history has only {entries} entries"),
        );
    }
    Ok(())
}

/// The error for a session that is not a valid history by itself, although the whole history is valid.
fn not_alone(at: &impl Fn(&str) -> String, session: &ClosedSession, fault: &Fault) -> Checked {
    let ClosedSession { first_position: first, last_position: last, .. } = session;
    match fault {
        Fault::Unanswered { id, .. } => invalid(
            at("last_position"),
            format!(
                "is {last}, but the result of the tool call `{id}` comes after it: include it in the session"
            ),
        ),
        Fault::BeginsWithAssistant => invalid(
            at("first_position"),
            format!("is {first}, an answer: a session must begin with a message of the user"),
        ),
        fault => invalid(
            at("first_position"),
            format!("is {first}, but the session is not a valid history by itself: {fault}"),
        ),
    }
}

fn check_summary(at: &impl Fn(&str) -> String, session: &ClosedSession, entries: &[HistoryEntry]) -> Checked {
    text(&at("summary"), &session.summary, MAX_SUMMARY_BYTES)?;
    if session.pending {
        if session.summary_source == SummarySource::Model {
            return invalid(
                at("summary_source"),
                "is `model`, but must be `extract` while the summary is `pending`",
            );
        }
        let detail = "is written together with the summary: leave it out, or set `pending` to false";
        return match (session.message_count, session.token_count) {
            (None, None) => Ok(()),
            (Some(_), _) => invalid(at("message_count"), detail),
            (None, Some(_)) => invalid(at("token_count"), detail),
        };
    }
    if session.summary.trim().is_empty() {
        return invalid(
            at("summary"),
            "must not be empty unless `pending` is true: then a summary is written after the import",
        );
    }
    let missing = "is missing: it is required unless `pending` is true";
    let Some(messages) = session.message_count else { return invalid(at("message_count"), missing) };
    let Some(tokens) = session.token_count else { return invalid(at("token_count"), missing) };
    let blocks = entries.iter().flat_map(|entry| &entry.content);
    let countable =
        blocks.filter(|block| matches!(block, Block::Text { .. } | Block::ToolUse { .. })).count();
    if usize::try_from(messages).map_or(true, |messages| messages > countable) {
        let detail = format!(
            "is {messages}, but its entries have only {countable} texts and tool calls that can be messages"
        );
        return invalid(at("message_count"), detail);
    }
    check_at_most(&at("token_count"), tokens, i64::MAX.unsigned_abs())
}

fn check_times(
    at: &impl Fn(&str) -> String,
    session: &ClosedSession,
    before: Option<&ClosedSession>,
) -> Checked {
    time(&at("started_at"), session.started_at)?;
    time(&at("completed_at"), session.completed_at)?;
    if session.completed_at < session.started_at {
        return invalid(at("completed_at"), "is before `started_at`");
    }
    match before {
        Some(before) if session.started_at < before.completed_at => {
            invalid(at("started_at"), "is before `completed_at` of the session before it")
        }
        _ => Ok(()),
    }
}

fn check_at_most(pointer: &str, count: u64, most: u64) -> Checked {
    if count <= most { Ok(()) } else { invalid(pointer, format!("is {count}; at most {most} is allowed")) }
}

#[cfg(test)]
mod tests;
