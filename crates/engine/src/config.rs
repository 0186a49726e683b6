//! The engine's share of `jobs/orchestrator.toml`.

use houston_domain::agent::budget::Budget;
use houston_domain::agent::limits::Limits;
use houston_domain::knowledge::PromptLimits;
use houston_domain::retry::DelayedRetry;
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
    /// How teams pick.
    pub teams: TeamsConfig,
}

/// `jobs/teams.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TeamsConfig {
    /// Characters of a message that rules and the router's model look at.
    pub message_chars: usize,
    /// How long the model may take to pick, in ms.
    pub timeout_ms: u64,
    /// Tokens it may write.
    pub max_output_tokens: u32,
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
    /// Characters of the system prompt.
    pub prompt_chars: usize,
    /// What else stands in the prompt, and how much of each text.
    pub prompt: PromptLimits,
    /// Bytes of one tool result.
    pub max_tool_result_bytes: usize,
    /// Tool calls of one turn that are carried out.
    pub max_tool_calls: usize,
    /// Bytes of one answer of the model: text, thinking and arguments together.
    pub max_answer_bytes: usize,
}
