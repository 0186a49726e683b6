//! Whether a failed step is repeated, and when.

use chrono::{DateTime, TimeDelta, Utc};

use super::document::{Action, Retry, Step};
use super::state::{Failure, States, Status};
use crate::tool_call::EffectClass;

/// Codes of failures after which the same may succeed: those of tools, and those of models.
const RETRYABLE: [&str; 4] = ["TIMEOUT", "IO_ERROR", "RATE_LIMITED", "NETWORK_ERROR"];
/// Maximum delay before a repetition, in ms.
const MAX_MS: u64 = 60_000;

impl Retry {
    /// No repetition.
    pub const NEVER: Self = Self { max: 0, base_ms: 1_000 };
    /// What a model, an executor, or a tool without an effect is repeated.
    pub const TWICE: Self = Self { max: 2, base_ms: 1_000 };

    /// The default for a tool of this class. What acted outside Houston may have succeeded, so it is not repeated.
    #[must_use]
    pub fn of(class: EffectClass) -> Self {
        match class {
            EffectClass::Read | EffectClass::Idempotent => Self::TWICE,
            EffectClass::Checkable | EffectClass::Effect => Self::NEVER,
        }
    }
}

/// Circumstances of a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attempt {
    /// The current time.
    pub now: DateTime<Utc>,
    /// A random number from 0 to 1.
    pub jitter: f64,
    /// Repetitions of a step whose document says nothing about them.
    pub retry: Retry,
    /// How long the other side asked to wait.
    pub retry_after: Option<TimeDelta>,
}

/// Records the failure of a running step: it is repeated, or has failed. `jitter` is a random number from 0 to 1. A tool is
/// not repeated unless its step says so, as its class is not in the document: see [`fail_attempt`].
/// Returns false, and changes nothing, if it does not run.
pub fn fail(
    step: &Step,
    states: &mut States,
    path: &str,
    error: Failure,
    now: DateTime<Utc>,
    jitter: f64,
) -> bool {
    let is_tool = matches!(step.action, Action::Tool { .. });
    let retry = if is_tool { Retry::NEVER } else { Retry::TWICE };
    fail_attempt(step, states, path, error, Attempt { now, jitter, retry, retry_after: None })
}

/// Records the failure of a running step, as [`fail`] does, with the defaults of the caller.
pub fn fail_attempt(step: &Step, states: &mut States, path: &str, error: Failure, attempt: Attempt) -> bool {
    let Some(state) = states.get_mut(path).filter(|state| state.status == Status::Running) else {
        return false;
    };
    let retry = step.retry.unwrap_or(attempt.retry);
    state.due = None;
    if RETRYABLE.contains(&error.code.as_str()) && state.attempt <= retry.max {
        let doubled = retry.base_ms.saturating_mul(1 << state.attempt.saturating_sub(1).min(6));
        let ms = doubled.min(MAX_MS) as f64 * attempt.jitter.clamp(0.0, 1.0);
        let delay = TimeDelta::milliseconds(ms as i64).max(attempt.retry_after.unwrap_or_default());
        state.due = Some(attempt.now + delay);
        state.status = Status::Retrying;
    } else {
        state.status = Status::Failed;
    }
    state.error = Some(error);
    true
}
