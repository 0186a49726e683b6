//! Two ways through the same task, side by side: tool calls, answer, iterations, tokens, cost.

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Line, Trace};
use crate::agent::SEND_MESSAGE;
use crate::history::Block;
use crate::run::RunStatus;

/// The most calls of a way that are aligned; a run has fewer.
const MOST_CALLS: usize = 1_000;

/// A tool call of a way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Called {
    /// The name of the tool.
    pub name: String,
    /// Its arguments.
    pub input: Value,
}

/// What a run did, as far as ways are compared.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Way {
    /// Its tool calls, in order.
    pub calls: Vec<Called>,
    /// The last text for the user.
    pub answer: String,
    /// Model calls.
    pub iterations: u32,
    /// Tokens sent.
    pub input_tokens: u64,
    /// Tokens received.
    pub output_tokens: u64,
    /// Cost in US dollars; `None` if it is unknown.
    pub cost: Option<Decimal>,
    /// How the run ended.
    pub status: Option<RunStatus>,
}

impl Way {
    /// The way of a recorded run.
    pub fn of(trace: &Trace) -> Self {
        let way = Self::of_lines(&trace.lines);
        Self { cost: way.cost.or(trace.header.cost), ..way }
    }

    /// The way of a part of a recorded run.
    pub fn of_lines(lines: &[Line]) -> Self {
        let mut way = Self::default();
        for line in lines {
            match line {
                Line::Answer { content, usage, .. } => way.answered(content, usage),
                Line::Tool { name, input, .. } => {
                    way.calls.push(Called { name: name.clone(), input: input.clone() });
                }
                Line::Event { event, .. } => {
                    if let crate::event::Event::RunFinished { status, .. } = &**event {
                        way.status = Some(*status);
                    }
                }
                _ => {}
            }
        }
        way
    }

    /// Counts an answer of the model; its calls are counted when they are answered.
    pub fn answered(&mut self, content: &[Block], usage: &crate::model::Usage) {
        self.iterations = self.iterations.saturating_add(1);
        self.input_tokens = self.input_tokens.saturating_add(usage.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(usage.output_tokens);
        self.cost = self.cost.into_iter().chain(usage.cost).reduce(Decimal::saturating_add);
        for block in content {
            match block {
                Block::Text { text, .. } => self.answer.clone_from(text),
                Block::ToolUse { name, input, .. } if name == SEND_MESSAGE => {
                    input["content"].as_str().unwrap_or_default().clone_into(&mut self.answer);
                }
                _ => {}
            }
        }
    }
}

/// A line of two aligned ways.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Aligned {
    /// Both made this call.
    Same {
        /// The call.
        call: Called,
    },
    /// Both called something here, but not the same.
    Changed {
        /// The recorded call.
        recorded: Called,
        /// The other one.
        replayed: Called,
    },
    /// Only the record has it.
    Removed {
        /// The recorded call.
        call: Called,
    },
    /// Only the other way has it.
    Added {
        /// The other call.
        call: Called,
    },
}

/// How two ways differ.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// How many calls must be changed, added or removed to make one way of the other.
    pub distance: usize,
    /// The calls, aligned.
    pub calls: Vec<Aligned>,
    /// Whether the answers are the same.
    pub same_answer: bool,
    /// The recorded way.
    pub recorded: Way,
    /// The other one.
    pub replayed: Way,
}

/// Compares two ways. Of a longer one the first thousand calls are compared.
pub fn compare(recorded: Way, replayed: Way) -> Comparison {
    let one = &recorded.calls[..recorded.calls.len().min(MOST_CALLS)];
    let two = &replayed.calls[..replayed.calls.len().min(MOST_CALLS)];
    // costs[i][j]: of making the calls of `two` from j on of those of `one` from i on.
    let mut costs = vec![vec![0_usize; two.len() + 1]; one.len() + 1];
    for i in (0..=one.len()).rev() {
        for j in (0..=two.len()).rev() {
            costs[i][j] = if i == one.len() || j == two.len() {
                one.len() - i + (two.len() - j)
            } else {
                let changed = costs[i + 1][j + 1] + usize::from(one[i] != two[j]);
                changed.min(costs[i + 1][j] + 1).min(costs[i][j + 1] + 1)
            };
        }
    }
    let (mut calls, mut i, mut j) = (Vec::new(), 0, 0);
    while i < one.len() || j < two.len() {
        let is_pair = i < one.len() && j < two.len();
        let changed = usize::from(is_pair && one[i] != two[j]);
        if is_pair && costs[i][j] == costs[i + 1][j + 1] + changed {
            let (recorded, replayed) = (one[i].clone(), two[j].clone());
            calls.push(match changed {
                0 => Aligned::Same { call: recorded },
                _ => Aligned::Changed { recorded, replayed },
            });
            (i, j) = (i + 1, j + 1);
        } else if i < one.len() && costs[i][j] == costs[i + 1][j] + 1 {
            calls.push(Aligned::Removed { call: one[i].clone() });
            i += 1;
        } else {
            calls.push(Aligned::Added { call: two[j].clone() });
            j += 1;
        }
    }
    let same_answer = recorded.answer == replayed.answer;
    Comparison { distance: costs[0][0], calls, same_answer, recorded, replayed }
}
