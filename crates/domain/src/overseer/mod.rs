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
mod signal;
mod streak;
#[cfg(test)]
mod tests;
mod trace;

pub use self::repetition::Repetition;
pub use self::settings::{BudgetWarning, RepeatedText, Settings, Thresholds, Unattended};
pub use self::signal::Signal;
pub use self::streak::Streak;
pub use self::trace::Trace;

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
#[must_use]
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
#[must_use]
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
