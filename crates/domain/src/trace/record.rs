//! Making a trace from what a run has committed.

use std::collections::HashMap;

use chrono::{DateTime, Utc};

use super::{Header, Line, Trace};
use crate::error_message::CONTENT_FILTER;
use crate::event::{Committed, Event};
use crate::history::{Block, Entry, Role};
use crate::id::CompressionId;
use crate::message::Source;
use crate::model::{StopReason, Usage};
use crate::overseer::note;
use crate::run::RunStatus;
use crate::tool_call::{ToolCall, ToolErrorCode, ToolResponse};

/// An entry of the session of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedEntry {
    /// Whether the run wrote it; else it is older.
    pub is_own: bool,
    /// When it was committed.
    pub at: DateTime<Utc>,
    /// The entry.
    pub entry: Entry,
}

/// A model call as it was counted.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedCall {
    /// The iteration, from 1.
    pub iteration: u32,
    /// The model, as `provider/model`.
    pub model: String,
    /// Tokens and cost.
    pub usage: Usage,
}

/// What a run has committed.
#[derive(Debug, Clone, PartialEq)]
pub struct Committing {
    /// The first line; `expects_reply` is set by [`trace`].
    pub header: Header,
    /// The session up to the last entry of the run.
    pub history: Vec<RecordedEntry>,
    /// The events of the run.
    pub events: Vec<Committed>,
    /// Its model calls.
    pub calls: Vec<RecordedCall>,
    /// Summaries of its compressions.
    pub summaries: HashMap<CompressionId, String>,
    /// The lines of its plan ([`plan`](super::plan)), in order; empty: it has none.
    pub plan: Vec<Line>,
}

/// A line with what orders it: the time, and what comes first at the same time.
type Placed = (DateTime<Utc>, u8, Line);

/// The trace of what was committed.
pub fn trace(committed: Committing) -> Trace {
    let Committing { mut header, history, events, calls, summaries, plan } = committed;
    header.expects_reply = events.iter().any(is_of_user);
    let end = events.iter().rev().find_map(|placed| match &placed.event {
        Event::RunFinished { status, code, .. } => Some((placed.at, *status, code.clone())),
        _ => None,
    });
    let returned = returned(&events);
    let (mut lines, mut placed): (Vec<Line>, Vec<Placed>) = (Vec::new(), Vec::new());
    let mut answers = Answers { calls, end, asked: Vec::new(), count: 0 };
    let mut last = None;
    for RecordedEntry { is_own, at, entry } in history {
        if !is_own {
            lines.push(Line::Before(entry));
            continue;
        }
        last = Some(entry.role);
        let of_entry = answers.lines(entry, at, &returned);
        placed.extend(of_entry.into_iter().map(|line| (at, 1, line)));
    }
    placed.extend(answers.silent(last));
    answers.set_last_stop(&mut placed);
    placed.extend(events.into_iter().flat_map(|committed| of_event(committed, &summaries)));
    placed.extend(plan.into_iter().filter_map(|line| Some((line.at()?, 2, line))));
    placed.sort_by_key(|(at, rank, _)| (*at, *rank));
    lines.extend(placed.into_iter().map(|(_, _, line)| line));
    Trace { header, lines }
}

fn is_of_user(placed: &Committed) -> bool {
    matches!(placed.event, Event::MessagePosted { .. })
        && placed.body.as_ref().is_some_and(|body| body.source == Source::User)
}

/// What a tool call was answered.
struct Returned {
    content: String,
    /// How long it took.
    ms: Option<u64>,
}

/// What the tool calls were answered, by their ids.
fn returned(events: &[Committed]) -> HashMap<String, Returned> {
    let mut called: HashMap<&str, DateTime<Utc>> = HashMap::new();
    let mut returned = HashMap::new();
    for placed in events {
        match &placed.event {
            Event::ToolCalled { call_id, .. } => {
                called.entry(call_id).or_insert(placed.at);
            }
            Event::ToolReturned { call_id, content, .. } => {
                let took = called.get(call_id.as_str()).map(|since| placed.at - *since);
                let ms = took.and_then(|took| u64::try_from(took.num_milliseconds()).ok());
                returned.insert(call_id.clone(), Returned { content: content.clone(), ms });
            }
            _ => {}
        }
    }
    returned
}

fn of_event(committed: Committed, summaries: &HashMap<CompressionId, String>) -> Vec<Placed> {
    let Committed { seq, at, event, .. } = committed;
    let rank = match event {
        Event::RunQueued {} | Event::AttemptStarted { .. } | Event::QuestionClosed(_) => 0,
        Event::RunFinished { .. } => 3,
        _ => 2,
    };
    let mut placed = Vec::new();
    if let Event::ContextCompressed { compression_id, entries_after, .. } = &event {
        let summary = summaries.get(compression_id).cloned().unwrap_or_default();
        let remaining = entries_after.saturating_sub(1);
        placed.push((at, rank, Line::Compressed { at, summary, remaining }));
    }
    placed.push((at, rank, Line::Event { seq, at, event: Box::new(event) }));
    placed
}

/// Turns the entries of a run into lines.
struct Answers {
    calls: Vec<RecordedCall>,
    end: Option<(DateTime<Utc>, RunStatus, Option<String>)>,
    /// The calls of the last answer.
    asked: Vec<ToolCall>,
    count: u32,
}

impl Answers {
    fn lines(&mut self, entry: Entry, at: DateTime<Utc>, returned: &HashMap<String, Returned>) -> Vec<Line> {
        let content = entry.content;
        if entry.role == Role::Assistant {
            self.asked = content.iter().filter_map(Block::call).collect();
            let stop = if self.asked.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse };
            return vec![self.answer(content, stop, at)];
        }
        let mut lines = Vec::new();
        for block in &content {
            let Block::ToolResult { tool_use_id, content, is_error, code } = block else { continue };
            let result = returned.get(tool_use_id);
            // A result may be cut or replaced on its way to the history: what the history has counts.
            let text = match result {
                Some(answer) if content.starts_with(&answer.content) => answer.content.clone(),
                _ => note::removed(content).to_owned(),
            };
            let response = match is_error {
                true => ToolResponse::failure(code.unwrap_or(ToolErrorCode::Unknown), text),
                false => ToolResponse::success(text),
            };
            let asked = self.asked.iter().find(|call| call.id == *tool_use_id).cloned();
            let Some(ToolCall { id, name, input, .. }) = asked else { continue };
            let ms = result.and_then(|answer| answer.ms);
            lines.push(Line::Tool { at, call_id: id, name, input, response, ms });
        }
        let has_results = !lines.is_empty();
        lines.push(if has_results { Line::Results { at, content } } else { Line::Message { at, content } });
        lines
    }

    fn answer(&mut self, content: Vec<Block>, stop: StopReason, at: DateTime<Utc>) -> Line {
        self.count += 1;
        let call = self.calls.iter().rfind(|call| call.iteration == self.count);
        let usage = call.map(|call| call.usage).unwrap_or_default();
        Line::Answer { at, content, stop, usage, model: call.map(|call| call.model.clone()) }
    }

    /// The last answer, if it had neither text nor calls: it has no entry.
    fn silent(&mut self, last: Option<Role>) -> Option<Placed> {
        let (at, status, _) = self.end.clone()?;
        let is_silent = status == RunStatus::Completed && last == Some(Role::User);
        is_silent.then(|| (at, 1, self.answer(Vec::new(), StopReason::EndTurn, at)))
    }

    /// Why the last answer stopped, as the end of the run says.
    fn set_last_stop(&self, placed: &mut [Placed]) {
        let Some((_, status, code)) = &self.end else { return };
        let reason = match status {
            RunStatus::MaxTokens => StopReason::MaxTokens,
            RunStatus::Completed if code.as_deref() == Some(CONTENT_FILTER) => StopReason::Refusal,
            _ => return,
        };
        let last = placed.iter_mut().rev().find_map(|(_, _, line)| match line {
            Line::Answer { stop, .. } => Some(stop),
            _ => None,
        });
        if let Some(stop) = last {
            *stop = reason;
        }
    }
}
