//! [`Trace`]: what a run has done since it last read a message, as far as signals need it.

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::{REFUSED, Signal, note};
use crate::history::{Block, Entry};
use crate::inner_call::inner_call;

/// The turns of a run since the last message it read. It follows from the entries of the history, and from the answers of
/// people who let the run go on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    turns: Vec<Turn>,
    /// The calls of the open turn: id, tool, hash of tool and arguments.
    open: Vec<(String, String, u64)>,
    /// How many answers with an entry the run has, message or not: the number of the open turn.
    number: u64,
    /// Where the count of a signal starts anew: after a turn with this number, above so many tokens, or at a second since
    /// 1970.
    anew: BTreeMap<Signal, u64>,
}

/// A turn with all its results.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Turn {
    /// The number of its answer in the run, from 1.
    number: u64,
    calls: Vec<Seen>,
}

/// A call with its result.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Seen {
    tool: String,
    /// The hash of tool and arguments.
    call: u64,
    /// The hash of the result.
    result: u64,
    outcome: Outcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Outcome {
    Worked,
    Failed,
    Refused,
}

impl Turn {
    /// Whether both have the same calls with the same results, in whatever order.
    fn is_like(&self, other: &Self) -> bool {
        let set = |turn: &Self| turn.calls.iter().cloned().collect::<HashSet<Seen>>();
        set(self) == set(other)
    }

    fn has_failed(&self) -> bool {
        self.calls.iter().all(|seen| seen.outcome != Outcome::Worked)
    }

    fn was_refused(&self) -> bool {
        self.calls.iter().any(|seen| seen.outcome == Outcome::Refused)
    }

    fn has_failing(&self, call: u64) -> bool {
        self.calls.iter().any(|seen| seen.call == call && seen.outcome == Outcome::Failed)
    }
}

impl Trace {
    /// The model has answered with this entry. An answer without an entry is not counted: a worker that takes the run over
    /// does not see it.
    pub fn on_answer(&mut self, answer: &Entry) {
        self.number += 1;
        self.open = answer
            .content
            .iter()
            .filter_map(|block| match block {
                Block::ToolUse { id, name, input, .. } => {
                    let (name, input) = inner_call(name, input);
                    let mut hash = DefaultHasher::new();
                    (name, &*input).hash(&mut hash);
                    Some((id.clone(), name.to_owned(), hash.finish()))
                }
                _ => None,
            })
            .collect();
    }

    /// The calls of the last answer have these results.
    pub fn on_results(&mut self, results: &Entry) {
        let open = std::mem::take(&mut self.open);
        let calls: Vec<Seen> = results
            .content
            .iter()
            .filter_map(|block| {
                let Block::ToolResult { tool_use_id, content, is_error } = block else { return None };
                let (_, tool, call) = open.iter().find(|(id, ..)| id == tool_use_id)?;
                Some(Seen::new(tool, *call, note::removed(content), *is_error))
            })
            .collect();
        if !calls.is_empty() {
            self.turns.push(Turn { number: self.number, calls });
        }
    }

    /// The run has read a message: all counts start anew.
    pub fn on_message(&mut self) {
        self.turns.clear();
    }

    /// A person let the run go on when the count stood `at` this turn, at so many tokens, or at this second since 1970.
    pub fn start_anew(&mut self, signal: Signal, at: u64) {
        let from = self.anew.entry(signal).or_default();
        *from = at.max(*from);
    }

    /// See [`Self::start_anew`].
    #[must_use]
    pub fn anew(&self, signal: Signal) -> u64 {
        self.anew.get(&signal).copied().unwrap_or_default()
    }

    /// How many answers with an entry the run has.
    #[must_use]
    pub fn answers(&self) -> u64 {
        self.number
    }

    /// The number of the last turn that has its results: where a count starts anew when a person lets the run go on now.
    #[must_use]
    pub fn last_turn(&self) -> u64 {
        self.turns.last().map_or(self.number, |turn| turn.number)
    }

    /// Whether there is a turn with this number: none that was before the last message.
    #[must_use]
    pub fn has_turn(&self, number: u64) -> bool {
        self.turns.iter().any(|turn| turn.number == number)
    }

    /// Whether there is no turn.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// The tool that was called last.
    pub(super) fn last_tool(&self) -> Option<&str> {
        self.turns.last()?.calls.last().map(|seen| seen.tool.as_str())
    }

    /// How often a signal was seen since a person let the run go on.
    pub(super) fn count(&self, signal: Signal) -> u64 {
        count(signal, &self.turns, self.anew(signal))
    }

    /// How often a signal was seen since the last message.
    pub(super) fn count_all(&self, signal: Signal) -> u64 {
        count(signal, &self.turns, 0)
    }

    /// [`Self::count`] before the last turn.
    pub(super) fn count_before_last(&self, signal: Signal) -> u64 {
        let before = self.turns.len().saturating_sub(1);
        count(signal, &self.turns[..before], self.anew(signal))
    }
}

impl Seen {
    fn new(tool: &str, call: u64, content: &str, is_error: bool) -> Self {
        let mut result = DefaultHasher::new();
        content.hash(&mut result);
        let outcome = match is_error {
            false => Outcome::Worked,
            true if content.starts_with(REFUSED) => Outcome::Refused,
            true => Outcome::Failed,
        };
        Self { tool: tool.to_owned(), call, result: result.finish(), outcome }
    }
}

/// How often a signal was seen in turns with a number above `after`.
fn count(signal: Signal, turns: &[Turn], after: u64) -> u64 {
    let earlier = turns.iter().take_while(|turn| turn.number <= after).count();
    let (earlier, counted) = turns.split_at(earlier);
    let Some((last, before)) = counted.split_last() else { return 0 };
    let trailing =
        |is_meant: &dyn Fn(&Turn) -> bool| counted.iter().rev().take_while(|turn| is_meant(turn)).count();
    let count = match signal {
        Signal::Refusals => counted.iter().filter(|turn| turn.was_refused()).count(),
        Signal::Repeats if last.has_failed() => 0,
        Signal::Repeats => trailing(&|turn| turn.is_like(last)),
        Signal::RepeatedErrors => {
            let failing = last.calls.iter().filter(|seen| seen.outcome == Outcome::Failed);
            failing.map(|seen| trailing(&|turn| turn.has_failing(seen.call))).max().unwrap_or(0)
        }
        Signal::Alternation => match before.last() {
            Some(other) if !other.is_like(last) => alternating(counted, [last, other]),
            _ => 0,
        },
        Signal::NothingNew => nothing_new(earlier, counted),
        Signal::Failures => trailing(&Turn::has_failed),
        Signal::ExternalCalls | Signal::Tokens => 0,
    };
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// How many of the last turns are alternately like the two.
fn alternating(turns: &[Turn], two: [&Turn; 2]) -> usize {
    let wanted = two.into_iter().cycle();
    turns.iter().rev().zip(wanted).take_while(|(turn, wanted)| turn.is_like(wanted)).count()
}

/// How many of the last turns brought nothing that the turns before have not brought.
fn nothing_new(earlier: &[Turn], turns: &[Turn]) -> usize {
    let mut seen: HashSet<&Seen> = earlier.iter().flat_map(|turn| &turn.calls).collect();
    let mut count = 0;
    for turn in turns {
        let is_new = turn.calls.iter().filter(|call| seen.insert(call)).count() > 0;
        count = if is_new { 0 } else { count + 1 };
    }
    count
}
