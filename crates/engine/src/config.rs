//! The engine's share of `jobs/orchestrator.toml`.

use houston_domain::agent::budget::Budget;
use houston_domain::agent::limits::Limits;
use houston_domain::agent::token_budget::TokenBudget;
use houston_domain::check_in::CheckInLimits;
use houston_domain::knowledge::PromptLimits;
use houston_domain::retry::DelayedRetry;
use houston_domain::task::TaskLimits;
use houston_domain::team::{RuleLimits, TeamLimits};
use houston_domain::tool_result::ResultLimits;
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
    /// How teams pick.
    pub teams: TeamsConfig,
}

/// `jobs/teams.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TeamsConfig {
    /// Characters of a message that rules and the router's model look at; regular expressions look at fewer.
    pub message_chars: usize,
    /// Texts of the conversation before that message which the router's model reads, the last ones.
    pub earlier_texts: usize,
    /// Characters of each of these texts, and of a role that stands in for a missing description.
    pub earlier_chars: usize,
    /// How long the model may take to pick, in ms.
    pub timeout_ms: u64,
    /// Tokens it may write.
    pub max_output_tokens: u32,
    /// How many agents, teams and rules there may be.
    pub limits: TeamLimits,
    /// What rules may cost.
    pub rules: RuleLimits,
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
    /// Characters of the prompt: of the sections before the history and after it.
    pub prompt_chars: usize,
    /// What else stands in the prompt, and how much of each text.
    pub prompt: PromptLimits,
    /// Bytes of one tool result.
    pub max_tool_result_bytes: usize,
    /// Tool calls of one turn that are carried out.
    pub max_tool_calls: usize,
    /// Bytes of one answer of the model: text, thinking and arguments together.
    pub max_answer_bytes: usize,
    /// How many tokens a request may have, before its agent type changes them.
    pub budget_tokens: TokenBudget,
    /// What happens to a history that has more.
    pub compression: CompressionConfig,
    /// What of a long result of a tool enters the history.
    pub results: ResultLimits,
    /// Titles that nobody gave.
    pub titles: TitleConfig,
}

/// What happens to a history that has become too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompressionConfig {
    /// Turns that stay word for word, the last ones: a message of the user and all that follows up to the next.
    pub keep_turns: usize,
    /// How much of its room the history has after a compression, at most, in percent.
    pub target_percent: u64,
    /// Tokens of a summary.
    pub summary_tokens: u32,
    /// Characters of one text or result that whoever summarises reads.
    pub read_chars: usize,
    /// Seconds until an extract is made instead.
    pub timeout_s: u64,
}

impl Default for CompressionConfig {
    fn default() -> Self {
        Self { keep_turns: 4, target_percent: 50, summary_tokens: 700, read_chars: 2_000, timeout_s: 45 }
    }
}

/// Titles of agentables that were made without one, in kinds that say `titles = true`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TitleConfig {
    /// Characters of a title that Houston writes.
    pub max_chars: usize,
    /// Messages of the user after which there is one.
    pub after_messages: u32,
    /// Messages of the thread that whoever finds a title reads, the first ones.
    pub read_messages: u32,
    /// Characters of each.
    pub read_chars: u32,
    /// Tokens of the answer; those who think before they answer need most of them for that.
    pub max_output_tokens: u32,
    /// Seconds until the first words of the user are taken instead.
    pub timeout_s: u64,
    /// How often titles are looked for whose worker died, in seconds.
    pub sweep_s: u64,
    /// How many of these one worker takes at a time.
    pub batch: u32,
}

impl Default for TitleConfig {
    fn default() -> Self {
        Self {
            max_chars: 50,
            after_messages: 3,
            read_messages: 6,
            read_chars: 600,
            max_output_tokens: 200,
            timeout_s: 30,
            sweep_s: 60,
            batch: 20,
        }
    }
}
