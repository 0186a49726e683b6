//! Where a replay with a model begins: at the start of the run, or after an entry of its history.

use std::collections::VecDeque;

use chrono::{DateTime, Utc};

use super::compare::{Called, Way};
use super::{Header, Line, Trace};
use crate::agent::{AgentRun, RunPolicy};
use crate::history::{Block, Entry};
use crate::tool_call::ToolResponse;

/// The state of a run at an entry of its history, and what the record has after it.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// What the record has after it: calls, answer, tokens.
    pub rest: Way,
    /// The recorded calls after it, with what they were answered.
    pub calls: Vec<(Called, ToolResponse)>,
    /// Those before it.
    pub earlier: Vec<(Called, ToolResponse)>,
    /// The messages after it, one list for each time that the run read some.
    pub messages: VecDeque<Vec<String>>,
    past: Past,
}

/// The history of a run, from the lines of its record.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Past {
    /// The whole history of the session, and how many of its entries the run wrote.
    pub(super) history: Vec<Entry>,
    pub(super) own: usize,
    /// How many entries, from the first, the last compression replaced, and by what.
    pub(super) compressed: Option<(usize, Entry)>,
}

/// The trace has no entry at this position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the run has entries from position {first} to {last}; there is none at {given}")]
pub struct InvalidPosition {
    /// The given position.
    pub given: i64,
    /// The position of the first entry that the run wrote.
    pub first: i64,
    /// The position of the last one.
    pub last: i64,
}

impl Trace {
    /// The state after the entry at this position of the history; `None`: as the run began.
    ///
    /// # Errors
    /// [`InvalidPosition`] unless the run wrote an entry there.
    pub fn checkpoint(&self, position: Option<i64>) -> Result<Checkpoint, InvalidPosition> {
        let (first, last) = self.positions();
        if let Some(given) = position.filter(|given| !(first..=last).contains(given)) {
            return Err(InvalidPosition { given, first, last });
        }
        let mut past = Past::of(&self.header);
        let mut rest = self.lines.len();
        for (at, line) in self.lines.iter().enumerate() {
            let begins = match position {
                Some(position) => past.next_position(&self.header) > position,
                None => matches!(line, Line::Answer { .. }),
            };
            // What belongs to the entry before is still read: events say nothing here, a compression does.
            if begins && !matches!(line, Line::Event { .. } | Line::Compressed { .. }) {
                rest = at;
                break;
            }
            past.read(line);
        }
        let (before, after) = self.lines.split_at(rest);
        let mut rest = Way::of_lines(after);
        if position.is_none() {
            rest.cost = rest.cost.or(self.header.cost);
        }
        let calls = |lines: &[Line]| lines.iter().filter_map(called).collect();
        let messages = after.iter().filter_map(|line| match line {
            Line::Message { content, .. } => {
                Some(content.iter().filter_map(Block::read).map(str::to_owned).collect())
            }
            _ => None,
        });
        Ok(Checkpoint {
            rest,
            calls: calls(after),
            earlier: calls(before),
            messages: messages.collect(),
            past,
        })
    }

    /// What the model was sent for its answer `nth` (the first one is 1): entries from before the run and of the run, with a
    /// summary in the place of what was compressed. `None`: there is no such answer. A trace has neither the system prompt nor
    /// what is sent after the history.
    pub fn history_before_answer(&self, nth: usize) -> Option<Vec<Entry>> {
        let mut answers = (0..).zip(&self.lines).filter(|(_, line)| matches!(line, Line::Answer { .. }));
        let (at, _) = answers.nth(nth.checked_sub(1)?)?;
        let mut past = Past::of(&self.header);
        self.lines[..at].iter().for_each(|line| past.read(line));
        let Past { mut history, compressed, .. } = past;
        if let Some((entries, summary)) = compressed {
            history.splice(..entries.min(history.len()), [summary]);
        }
        Some(history)
    }

    /// The positions of the first and the last entry that the run wrote.
    fn positions(&self) -> (i64, i64) {
        let count = |is_meant: fn(&Line) -> bool| {
            let count = self.lines.iter().filter(|line| is_meant(line)).count();
            i64::try_from(count).unwrap_or(i64::MAX)
        };
        let before = count(|line| matches!(line, Line::Before(_)));
        let own = count(|line| match line {
            Line::Message { .. } | Line::Results { .. } => true,
            Line::Answer { content, .. } => !content.is_empty(),
            _ => false,
        });
        let first = self.header.position.saturating_add(before);
        (first, first.saturating_add(own - 1))
    }
}

impl Checkpoint {
    /// The run, going on from here.
    pub fn run(&self, policy: RunPolicy, header: &Header, now: DateTime<Utc>) -> AgentRun {
        self.past.run(policy, header, now)
    }
}

/// A call, with what it was answered.
fn called(line: &Line) -> Option<(Called, ToolResponse)> {
    let Line::Tool { name, input, response, .. } = line else { return None };
    Some((Called { name: name.clone(), input: input.clone() }, response.clone()))
}

/// The entry in the place of those that were compressed.
fn summary(text: &str) -> Entry {
    Entry::user(vec![Block::text(text)])
}

impl Past {
    fn of(header: &Header) -> Self {
        let compressed = header.compressed.as_ref().map(|of| (of.entries, summary(&of.summary)));
        Self { compressed, ..Self::default() }
    }

    /// The position of the entry that comes next.
    pub(super) fn next_position(&self, header: &Header) -> i64 {
        header.position.saturating_add(i64::try_from(self.history.len()).unwrap_or(i64::MAX))
    }

    /// The run, going on from here.
    pub(super) fn run(&self, policy: RunPolicy, header: &Header, now: DateTime<Utc>) -> AgentRun {
        let mut run = AgentRun::resume(policy, self.history.clone(), self.own, now).overseen(header.overseer);
        if let Some((entries, summary)) = &self.compressed {
            run.replace_prefix_with_summary(*entries, summary.clone());
        }
        run
    }

    /// Adds an entry that the run wrote.
    pub(super) fn push(&mut self, entry: Entry) {
        self.history.push(entry);
        self.own += 1;
    }

    pub(super) fn read(&mut self, line: &Line) {
        match line {
            Line::Before(entry) => self.history.push(entry.clone()),
            Line::Message { content, .. } | Line::Results { content, .. } => {
                self.push(Entry::user(content.clone()));
            }
            Line::Answer { content, .. } if !content.is_empty() => {
                self.push(Entry::assistant(content.clone()));
            }
            Line::Compressed { summary, remaining, .. } => {
                let replaced = self.history.len().saturating_sub(*remaining);
                self.compressed = Some((replaced, self::summary(summary)));
            }
            _ => {}
        }
    }
}
