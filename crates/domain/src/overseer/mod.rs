//! The overseer: notices when a run gets nowhere, is refused again and again, or uses more than its work should need.
//!
//! It looks at the turns of a run since the last message that the run read ([`Trace`]), which follow from the history. So
//! nothing is stored for it, and a worker that takes a run over sees the same. [`judge`] compares them with
//! `jobs/overseer.toml` ([`Settings`]):
//!
//! - **warn**: the model reads a note at the end of the last result ([`note`]), once per signal;
//! - **pause**: the run asks a person whether it may go on ([`crate::question::pause`]);
//! - **kill**: the run ends as failed with [`OVERSEER_KILLED`].
//!
//! Besides, the model is warned when most of a budget is spent, and an answer that repeats the same text again and again is cut
//! off while it is being written ([`Repetition`]).
//!
//! Calls are compared with their arguments and results: the same tool with other arguments, or with another result, is
//! work. The oldest rule counts turns that call the same tool, whatever its arguments ([`Streak`]); its limit is
//! `limits.max_same_tool`, which agents may set.

pub mod note;
pub mod repetition;
pub mod settings;

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::history::{Block, Entry};
use crate::inner_call::inner_call;

pub use self::repetition::Repetition;
pub use self::settings::{BudgetWarning, RepeatedText, Settings, Thresholds, Unattended};

/// The error code of a run that the overseer ended.
pub const OVERSEER_KILLED: &str = "OVERSEER_KILLED";

/// The error code of a run that was paused and does not go on: a person said so, no answer came in time, or the run works
/// unattended.
pub const OVERSEER_STOPPED: &str = "OVERSEER_STOPPED";

/// The beginning of the result of a call that a guard refused.
pub const REFUSED: &str = "refused by a guard: ";

/// What is to be done about a signal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Nothing.
    #[default]
    Ok,
    /// The model is warned.
    Warn,
    /// A person is asked.
    Pause,
    /// The run ends.
    Kill,
}

/// A signal that has reached a threshold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The signal.
    pub signal: Signal,
    /// The threshold.
    pub level: Level,
    /// How often it was seen: turns, calls, or tokens.
    pub count: u64,
    /// The tool that was called last.
    pub tool: Option<String>,
}

/// What is counted besides the turns of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Measured {
    /// The tokens that the run has used.
    pub tokens: u64,
    /// Calls of its user within the last minute that reach outside.
    pub external_calls: u64,
    /// Those of them since a person let the run go on ([`Trace::anew`]).
    pub external_calls_anew: u64,
}

/// The gravest signal of a run; of several, the first in the order of [`Signal::ALL`]. `None`: all is well.
pub fn judge(settings: &Settings, trace: &Trace, measured: &Measured) -> Option<Finding> {
    if trace.is_empty() && settings.tokens.is_off() && settings.external_calls.is_off() {
        return None;
    }
    let mut gravest: Option<Finding> = None;
    for signal in Signal::ALL {
        let thresholds = settings.of(signal);
        if thresholds.is_off() {
            continue;
        }
        let (count, all) = match signal {
            Signal::Tokens => (measured.tokens.saturating_sub(trace.anew(signal)), measured.tokens),
            Signal::ExternalCalls => (measured.external_calls_anew, measured.external_calls),
            _ => (trace.count(signal), trace.count_all(signal)),
        };
        let level = thresholds.level(count, all);
        if level > gravest.as_ref().map_or(Level::Ok, |finding| finding.level) {
            let count = if level == Level::Kill { all } else { count };
            gravest = Some(Finding { signal, level, count, tool: trace.last_tool().map(str::to_owned) });
        }
    }
    gravest
}

/// The signals that have reached their first threshold with the last turn: what the model is warned of.
pub fn warnings(settings: &Settings, trace: &Trace) -> Vec<Finding> {
    let mut found = Vec::new();
    for signal in Signal::ALL.into_iter().filter(|signal| signal.is_of_turns()) {
        let thresholds = settings.of(signal);
        let first = [thresholds.warn, thresholds.pause].into_iter().filter(|at| *at > 0).min();
        let Some(first) = first else { continue };
        let count = trace.count(signal);
        if count >= first && trace.count_before_last(signal) < first {
            let level = thresholds.level(count, 0);
            found.push(Finding { signal, level, count, tool: trace.last_tool().map(str::to_owned) });
        }
    }
    found
}

names! {
    /// A sign that a run gets nowhere. A turn is an answer of the model with the tool calls it asks for.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Signal {
        /// Turns in which a guard refused a call, in a row or not: a text that the run has read may be steering it.
        Refusals = "refusals",
        /// Calls of the user's agents within a minute that reach outside, counted by the process.
        ExternalCalls = "external_calls",
        /// Turns in a row with the same calls and the same results.
        Repeats = "repeats",
        /// Turns in a row with the same failing call. Its error text may differ: it may contain a time.
        RepeatedErrors = "repeated_errors",
        /// Turns in a row that alternate between two, with the same calls and results each time.
        Alternation = "alternation",
        /// Turns in a row that brought nothing which an earlier turn has not brought: each call was made before, with the same
        /// result.
        NothingNew = "nothing_new",
        /// Turns in a row in which every call failed.
        Failures = "failures",
        /// Tokens of all model calls of the run.
        Tokens = "tokens",
    }
}

impl Signal {
    /// Whether the signal is seen in the turns of the run.
    pub fn is_of_turns(self) -> bool {
        !matches!(self, Self::ExternalCalls | Self::Tokens)
    }

    /// The smallest count that means anything.
    fn least(self) -> u64 {
        match self {
            Self::Refusals | Self::ExternalCalls | Self::NothingNew | Self::Tokens => 1,
            Self::Repeats | Self::RepeatedErrors | Self::Failures => 2,
            Self::Alternation => 3,
        }
    }
}

/// Counts turns in a row that ask for the same single tool. A run whose count reaches `limits.max_same_tool` ends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Streak {
    tool: Option<String>,
    pub(crate) turns: u32,
}

impl Streak {
    /// A turn asked for these tools.
    pub fn add(&mut self, names: &[&str]) {
        let single = match names {
            [first, rest @ ..] if rest.iter().all(|name| name == first) => Some(*first),
            _ => None,
        };
        self.turns = match single {
            Some(name) if self.tool.as_deref() == Some(name) => self.turns + 1,
            Some(_) => 1,
            None => 0,
        };
        self.tool = single.map(str::to_owned);
    }

    /// A person let the run go on `most` turns ago: earlier ones do not count any more.
    pub fn start_anew(&mut self, most: u32) {
        self.turns = self.turns.min(most);
    }
}

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
                let Block::ToolResult { tool_use_id, content, is_error, .. } = block else { return None };
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
    pub fn anew(&self, signal: Signal) -> u64 {
        self.anew.get(&signal).copied().unwrap_or_default()
    }

    /// How many answers with an entry the run has.
    pub fn answers(&self) -> u64 {
        self.number
    }

    /// The number of the last turn that has its results: where a count starts anew when a person lets the run go on now.
    pub fn last_turn(&self) -> u64 {
        self.turns.last().map_or(self.number, |turn| turn.number)
    }

    /// Whether there is a turn with this number: none that was before the last message.
    pub fn has_turn(&self, number: u64) -> bool {
        self.turns.iter().any(|turn| turn.number == number)
    }

    /// Whether there is no turn.
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// The tool that was called last.
    fn last_tool(&self) -> Option<&str> {
        self.turns.last()?.calls.last().map(|seen| seen.tool.as_str())
    }

    /// How often a signal was seen since a person let the run go on.
    fn count(&self, signal: Signal) -> u64 {
        count(signal, &self.turns, self.anew(signal))
    }

    /// How often a signal was seen since the last message.
    fn count_all(&self, signal: Signal) -> u64 {
        count(signal, &self.turns, 0)
    }

    /// [`Self::count`] before the last turn.
    fn count_before_last(&self, signal: Signal) -> u64 {
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

#[cfg(test)]
mod tests;
