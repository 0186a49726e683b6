//! Closed sessions, and what belongs to them: compressions, long results.

use std::collections::BTreeSet;

use super::{Checked, Conversation, HistoryEntry, line, text, time, wrong};
use crate::conversation::closed_session::{ClosedSession, MAX_SUMMARY_BYTES, SummarySource};
use crate::history::{Block, Fault, validate_complete};

/// Characters of the name of a model.
const MAX_NAME_CHARS: usize = 1_000;

impl Conversation {
    /// That they are the beginning of the history, one after the other, and each can be read alone.
    pub(super) fn check_sessions(&self) -> Checked {
        let entries = &self.history;
        let mut before: Option<&ClosedSession> = None;
        for (index, session) in self.sessions.iter().enumerate() {
            let at = |field: &str| format!("/sessions/{index}/{field}");
            check_range(&at, session, before, entries.len())?;
            let (first, last) = (session.first_position - 1, session.last_position);
            validate_complete(&entries[first..last]).or_else(|fault| cut(&at, session, &fault))?;
            check_summary(&at, session, &entries[first..last])?;
            check_times(&at, session, before)?;
            before = Some(session);
        }
        let Some(last) = before else { return Ok(()) };
        validate_complete(&entries[last.last_position..]).or_else(|_| {
            let told = format!(
                "is {}, and what comes after it begins with an answer: end the session before what was asked, or \
                 behind the whole turn",
                last.last_position
            );
            wrong(format!("/sessions/{}/last_position", self.sessions.len() - 1), told)
        })
    }

    /// That what stays behind each summary can be sent with it.
    pub(super) fn check_compressions(&self) -> Checked {
        let count = self.history.len();
        for (index, compression) in self.compressions.iter().enumerate() {
            let at = |field: &str| format!("/compressions/{index}/{field}");
            let through = compression.through_position;
            if through == 0 || through > count {
                let told = format!("is {through}, and the history has {count} entries: it is one of them");
                return wrong(at("through_position"), told);
            }
            let ends_session =
                self.sessions.binary_search_by_key(&through, |session| session.last_position).is_ok();
            let next = self.history.get(through).filter(|_| !ends_session);
            if next.is_some_and(|next| {
                next.content.iter().any(|block| matches!(block, Block::ToolResult { .. }))
            }) {
                let told =
                    format!("is {through}, between a tool call and its result: neither can be sent alone");
                return wrong(at("through_position"), told);
            }
            if compression.summary.trim().is_empty() {
                return wrong(at("summary"), "may not be empty");
            }
            text(&at("summary"), &compression.summary, usize::MAX)?;
            for (field, entries) in
                [("entries_before", compression.entries_before), ("entries_after", compression.entries_after)]
            {
                most(&at(field), entries.into(), i32::MAX.unsigned_abs().into())?;
            }
            for (field, tokens) in
                [("tokens_before", compression.tokens_before), ("tokens_after", compression.tokens_after)]
            {
                most(&at(field), tokens, i64::MAX.unsigned_abs())?;
            }
            let model = compression.model.as_deref();
            model.map_or(Ok(()), |model| line(&at("model"), model, MAX_NAME_CHARS))?;
            time(&at("created_at"), compression.created_at)?;
        }
        Ok(())
    }

    /// That each is there once, and somebody names it.
    pub(super) fn check_results(&self) -> Checked {
        if self.results.is_empty() {
            return Ok(());
        }
        let (named, mut seen) = (self.named_results(), BTreeSet::new());
        for (index, result) in self.results.iter().enumerate() {
            let at = |field: &str| format!("/results/{index}/{field}");
            if !named.contains(&result.id) {
                let told =
                    format!("is {}, and no entry and no summary names it: leave the result out", result.id);
                return wrong(at("id"), told);
            }
            if !seen.insert(result.id) {
                return wrong(at("id"), format!("is {}, and another result is called so", result.id));
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
        let told = match before {
            None => format!("is {first}: the first session begins with the first entry, which is 1"),
            Some(before) if first < next => format!(
                "is {first}, and the session before it ends with {}: no entry belongs to two, it must be {next}",
                before.last_position
            ),
            Some(_) => {
                format!("is {first}, and the entries from {next} on belong to no session: it must be {next}")
            }
        };
        return wrong(at("first_position"), told);
    }
    if last < first {
        return wrong(at("last_position"), format!("is {last}, before `first_position`, which is {first}"));
    }
    if last > entries {
        return wrong(at("last_position"), format!("is {last}, and the history has {entries} entries"));
    }
    Ok(())
}

/// A session that cannot be read alone, though the whole history can.
fn cut(at: &impl Fn(&str) -> String, session: &ClosedSession, fault: &Fault) -> Checked {
    let ClosedSession { first_position: first, last_position: last, .. } = session;
    match fault {
        Fault::Unanswered { id, .. } => wrong(
            at("last_position"),
            format!("is {last}, and the result of the tool call `{id}` comes after it: they belong together"),
        ),
        Fault::BeginsWithAssistant => wrong(
            at("first_position"),
            format!("is {first}, an answer: a session begins with what was asked"),
        ),
        fault => wrong(at("first_position"), format!("is {first}, and read alone, {fault}")),
    }
}

fn check_summary(at: &impl Fn(&str) -> String, session: &ClosedSession, entries: &[HistoryEntry]) -> Checked {
    text(&at("summary"), &session.summary, MAX_SUMMARY_BYTES)?;
    if session.pending {
        if session.summary_source == SummarySource::Model {
            return wrong(
                at("summary_source"),
                "is `model`, and the summary is `pending`: it must be `extract`",
            );
        }
        let told = "is known only when the summary is written: leave it out, or say `pending`: false";
        return match (session.message_count, session.token_count) {
            (None, None) => Ok(()),
            (Some(_), _) => wrong(at("message_count"), told),
            (None, Some(_)) => wrong(at("token_count"), told),
        };
    }
    if session.summary.trim().is_empty() {
        return wrong(at("summary"), "may not be empty, unless `pending` is true: then one is written");
    }
    let told = "is missing; unless `pending` is true, it must be there";
    let Some(messages) = session.message_count else { return wrong(at("message_count"), told) };
    let Some(tokens) = session.token_count else { return wrong(at("token_count"), told) };
    let blocks = entries.iter().flat_map(|entry| &entry.content);
    let said = blocks.filter(|block| matches!(block, Block::Text { .. } | Block::ToolUse { .. })).count();
    if usize::try_from(messages).map_or(true, |messages| messages > said) {
        let told =
            format!("is {messages}, and its entries have {said} texts and calls: no more can be messages");
        return wrong(at("message_count"), told);
    }
    most(&at("token_count"), tokens, i64::MAX.unsigned_abs())
}

fn check_times(
    at: &impl Fn(&str) -> String,
    session: &ClosedSession,
    before: Option<&ClosedSession>,
) -> Checked {
    time(&at("started_at"), session.started_at)?;
    time(&at("completed_at"), session.completed_at)?;
    if session.completed_at < session.started_at {
        return wrong(at("completed_at"), "is before `started_at`");
    }
    match before {
        Some(before) if session.started_at < before.completed_at => {
            wrong(at("started_at"), "is before the session before it was completed")
        }
        _ => Ok(()),
    }
}

fn most(pointer: &str, count: u64, most: u64) -> Checked {
    if count <= most { Ok(()) } else { wrong(pointer, format!("is {count}; {most} is the most")) }
}

#[cfg(test)]
mod tests;
