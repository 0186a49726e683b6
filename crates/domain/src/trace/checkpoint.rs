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
    history: Vec<Entry>,
    own: usize,
    compressed: Option<(usize, Entry)>,
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
        let mut reading = Reading::of(&self.header);
        let mut rest = self.lines.len();
        for (at, line) in self.lines.iter().enumerate() {
            let begins = match position {
                Some(position) => reading.next_position() > position,
                None => matches!(line, Line::Answer { .. }),
            };
            // What belongs to the entry before is still read: events say nothing here, a compression does.
            if begins && !matches!(line, Line::Event { .. } | Line::Compressed { .. }) {
                rest = at;
                break;
            }
            reading.read(line);
        }
        let (_, rest) = self.lines.split_at(rest);
        let mut checkpoint = reading.checkpoint;
        checkpoint.add_rest(rest);
        checkpoint.rest = Way::of_lines(rest);
        if position.is_none() {
            checkpoint.rest.cost = checkpoint.rest.cost.or(self.header.cost);
        }
        Ok(checkpoint)
    }

    /// What the model was sent for its answer `nth` (the first one is 1): entries from before the run and of the run, with a
    /// summary in the place of what was compressed. `None`: there is no such answer. A trace has neither the system prompt nor
    /// what is sent after the history.
    #[must_use]
    pub fn history_before_answer(&self, nth: usize) -> Option<Vec<Entry>> {
        let mut answers = (0..).zip(&self.lines).filter(|(_, line)| matches!(line, Line::Answer { .. }));
        let (at, _) = answers.nth(nth.checked_sub(1)?)?;
        let mut reading = Reading::of(&self.header);
        self.lines[..at].iter().for_each(|line| reading.read(line));
        let Checkpoint { mut history, compressed, .. } = reading.checkpoint;
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
    #[must_use]
    pub fn run(&self, policy: RunPolicy, header: &Header, now: DateTime<Utc>) -> AgentRun {
        let mut run = AgentRun::resume(policy, self.history.clone(), self.own, now).overseen(header.overseer);
        if let Some((entries, summary)) = &self.compressed {
            run.replace_prefix_with_summary(*entries, summary.clone());
        }
        run
    }

    fn add_rest(&mut self, lines: &[Line]) {
        for line in lines {
            match line {
                Line::Message { content, .. } => {
                    let texts = content.iter().filter_map(Block::read).map(str::to_owned);
                    self.messages.push_back(texts.collect());
                }
                Line::Tool { name, input, response, .. } => {
                    let call = Called { name: name.clone(), input: input.clone() };
                    self.calls.push((call, response.clone()));
                }
                _ => {}
            }
        }
    }
}

/// The entry in the place of those that were compressed.
fn summary(text: &str) -> Entry {
    Entry::user(vec![Block::text(text)])
}

/// The lines up to the checkpoint.
struct Reading {
    first: i64,
    checkpoint: Checkpoint,
}

impl Reading {
    fn of(header: &Header) -> Self {
        let checkpoint = Checkpoint {
            rest: Way::default(),
            calls: Vec::new(),
            earlier: Vec::new(),
            messages: VecDeque::new(),
            history: Vec::new(),
            own: 0,
            compressed: header.compressed.as_ref().map(|of| (of.entries, summary(&of.summary))),
        };
        Self { first: header.position, checkpoint }
    }

    /// The position of the entry that comes next.
    fn next_position(&self) -> i64 {
        self.first.saturating_add(i64::try_from(self.checkpoint.history.len()).unwrap_or(i64::MAX))
    }

    fn read(&mut self, line: &Line) {
        let to = &mut self.checkpoint;
        match line {
            Line::Before(entry) => to.history.push(entry.clone()),
            Line::Message { content, .. } | Line::Results { content, .. } => {
                to.history.push(Entry::user(content.clone()));
                to.own += 1;
            }
            Line::Answer { content, .. } if !content.is_empty() => {
                to.history.push(Entry::assistant(content.clone()));
                to.own += 1;
            }
            Line::Tool { name, input, response, .. } => {
                let call = Called { name: name.clone(), input: input.clone() };
                to.earlier.push((call, response.clone()));
            }
            Line::Compressed { summary, remaining, .. } => {
                to.compressed = Some((to.history.len().saturating_sub(*remaining), self::summary(summary)));
            }
            _ => {}
        }
    }
}
