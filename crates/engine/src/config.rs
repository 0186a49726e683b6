//! The engine's share of `jobs/orchestrator.toml`.

use houston_domain::agent::budget::Budget;
use houston_domain::agent::limits::Limits;
use houston_domain::check_in::CheckInLimits;
use houston_domain::knowledge::PromptLimits;
use houston_domain::retry::DelayedRetry;
use houston_domain::task::TaskLimits;
use serde::{Deserialize, Serialize};

/// How runs are driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// The bounds of a run, before its agent type changes them.
    pub limits: Limits,
    /// What may be spent.
    pub budget: Budget,
    /// What enters the prompt and the history.
    pub context: ContextConfig,
    /// How many tasks there may be.
    pub tasks: TaskLimits,
    /// How many check-ins, and when.
    pub check_ins: CheckInLimits,
    /// Retries across attempts.
    pub delayed: DelayedRetry,
    /// Workers that die in a row with a run, without a committed step between, before its message is given up.
    pub max_crashes: i32,
    /// Claims in a row without a committed step before a message is given up, whatever became of the workers.
    pub max_claims: i32,
    /// How long such a message waits for a worker that was taken for dead and lives, in ms.
    pub doubt_ms: u64,
    /// How long a model call, or tools that may be repeated, may go on once the process was told to stop, in ms.
    pub hand_over_ms: u64,
    /// What cuts an attempt off.
    pub watchdog: WatchdogConfig,
}

/// What cuts an attempt off in the middle of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchdogConfig {
    /// Seconds an attempt may take beyond its limit before whatever is in flight is cut off.
    pub grace_s: u64,
}

/// What enters the prompt and the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextConfig {
    /// Titles of notes, and learnings, in the prompt.
    pub notes: i64,
    /// What else stands in the prompt, and how much of each text.
    pub prompt: PromptLimits,
    /// Bytes of one tool result.
    pub max_tool_result_bytes: usize,
    /// Tool calls of one turn that are carried out.
    pub max_tool_calls: usize,
    /// Bytes of one answer of the model: text, thinking and arguments together.
    pub max_answer_bytes: usize,
}
