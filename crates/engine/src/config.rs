//! The engine's settings, from `jobs/orchestrator.toml`, `jobs/overseer.toml` and `jobs/teams.toml`. Reasons for the values are in these files.

use houston_domain::agent::limits::Limits;
use houston_domain::agent::token_budget::TokenBudget;
use houston_domain::agentable::MAX_TITLE_CHARS;
use houston_domain::attachment::ContextAttachments;
use houston_domain::budget::Budget;
use houston_domain::check_in::CheckInLimits;
use houston_domain::image::ContextImages;
use houston_domain::knowledge::PromptLimits;
use houston_domain::overseer;
use houston_domain::plan::Limits as PlanLimits;
use houston_domain::reach::ReachLimits;
use houston_domain::retry::DelayedRetry;
use houston_domain::setting::{WrongSetting, positive, within};
use houston_domain::task::TaskLimits;
use houston_domain::team::{RuleLimits, TeamLimits};
use houston_domain::tool_result::ResultLimits;
use serde::{Deserialize, Serialize};

/// Settings for driving runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// Limits of a run, before its agent type overrides them.
    pub limits: Limits,
    /// Budgets, in US dollars.
    pub budget: Budget,
    /// Limits of prompt and history.
    pub context: ContextConfig,
    /// Limits of tasks.
    pub tasks: TaskLimits,
    /// Limits of what agents post to other conversations.
    pub reach: ReachLimits,
    /// The numbers of plans.
    pub plans: PlanLimits,
    /// Limits of check-ins.
    pub check_ins: CheckInLimits,
    /// Retries of runs after failures.
    pub delayed: DelayedRetry,
    /// Deaths of workers in a row, without a committed step between, after which a message is given up.
    pub max_crashes: i32,
    /// Claims in a row without a committed step after which a message is given up, even if no worker died.
    pub max_claims: i32,
    /// Milliseconds such a message waits for a worker that was taken for dead but is alive.
    pub doubt_ms: u64,
    /// Milliseconds after SIGTERM within which a model call, or tools that may be repeated, may end.
    pub hand_over_ms: u64,
    /// When an attempt is cut off.
    pub watchdog: WatchdogConfig,
    /// When a run that seems to get nowhere pauses or ends: `jobs/overseer.toml`.
    pub overseer: overseer::Settings,
    /// Limits of teams and their routers.
    pub teams: TeamsConfig,
}

/// `jobs/teams.toml`: how many teams there may be, and limits of their routers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TeamsConfig {
    /// Characters of a message that rules and the router's model read; regular expressions read fewer.
    #[serde(deserialize_with = "positive")]
    pub message_chars: usize,
    /// Texts of the conversation before that message which the router's model reads, the last ones.
    pub earlier_texts: usize,
    /// Characters of each of these texts, and of a role that stands in for a missing description.
    #[serde(deserialize_with = "positive")]
    pub earlier_chars: usize,
    /// Milliseconds the model may take to pick; after that the default agent answers.
    #[serde(deserialize_with = "positive")]
    pub timeout_ms: u64,
    /// Tokens the model may write to pick.
    #[serde(deserialize_with = "positive")]
    pub max_output_tokens: u32,
    /// How many agents, teams and rules there may be.
    pub limits: TeamLimits,
    /// Limits of evaluating rules.
    pub rules: RuleLimits,
}

/// When an attempt is cut off in the middle of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchdogConfig {
    /// Seconds beyond `max_duration_s` after which an attempt is cut off.
    pub grace_s: u64,
}

/// `[context]` of `jobs/orchestrator.toml`: limits of prompt and history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextConfig {
    /// Note titles in the prompt, and as many learnings.
    pub notes: i64,
    /// Characters of the prompt: of the sections before and after the history.
    pub prompt_chars: usize,
    /// Other items in the prompt, and characters of each.
    pub prompt: PromptLimits,
    /// Bytes of one tool result that are stored.
    pub max_tool_result_bytes: usize,
    /// Tool calls of one turn that are executed.
    pub max_tool_calls: usize,
    /// Bytes of one model answer: text, thinking and arguments together.
    pub max_answer_bytes: usize,
    /// Tokens of one request, before its agent type overrides them.
    pub budget_tokens: TokenBudget,
    /// Tokens of an agent's tool definitions up to which a model is sent all of them, before its agent type overrides it. With
    /// more, the model searches for most tools.
    pub direct_tokens: u64,
    /// How a longer history is compressed.
    pub compression: CompressionConfig,
    /// How much of a large tool result is in the history.
    pub results: ResultLimits,
    /// Titles that Houston writes.
    pub titles: TitleConfig,
    /// Approvals of tool calls.
    pub approvals: ApprovalConfig,
    /// Images of the history that a model is sent.
    pub images: ContextImages,
    /// Files of the history that a model is sent.
    pub attachments: ContextAttachments,
    /// What is kept about the focuses of messages.
    pub focus: FocusConfig,
}

impl ContextConfig {
    /// Checks that parts are not larger than their whole.
    ///
    /// # Errors
    /// [`WrongSetting`] at the first that is.
    pub fn check(&self) -> Result<(), WrongSetting> {
        let budget = &self.budget_tokens;
        if let Some(share) = budget.oversized_share() {
            let reason = format!("must be at most total ({}), of which it is a part", budget.total);
            return Err(WrongSetting::new(format!("/budget_tokens/{share}"), reason));
        }
        if u64::from(self.compression.summary_tokens) * 4 > budget.history {
            let reason = format!("must be at most a quarter of budget_tokens.history ({})", budget.history);
            return Err(WrongSetting::new("/compression/summary_tokens", reason));
        }
        self.results.check().map_err(|wrong| wrong.below("/results"))
    }
}

/// What context providers say about the focuses of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FocusConfig {
    /// Milliseconds for which a run waits for a provider.
    #[serde(deserialize_with = "positive")]
    pub wait_ms: u64,
    /// Seconds for which an answer is used without asking again.
    pub fresh_s: u64,
}

/// Approvals of tool calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalConfig {
    /// Seconds until a call that nobody has decided is refused.
    #[serde(deserialize_with = "positive")]
    pub expire_after_s: u64,
}

/// How a history that is too long is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompressionConfig {
    /// Last turns that are kept word for word. A turn is a user message with everything up to the next one.
    #[serde(deserialize_with = "positive")]
    pub keep_turns: usize,
    /// Size of the history after a compression, in percent of its budget.
    #[serde(deserialize_with = "within::<10, 90, _, _>")]
    pub target_percent: u64,
    /// Tokens of a summary.
    #[serde(deserialize_with = "positive")]
    pub summary_tokens: u32,
    /// Characters of each text or result that the summarising model reads.
    pub read_chars: usize,
    /// Seconds until an extract is used instead of a summary.
    pub timeout_s: u64,
}

/// Titles for agentables created without one, in kinds with `titles = true`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TitleConfig {
    /// Characters of a title that Houston writes.
    #[serde(deserialize_with = "within::<1, { MAX_TITLE_CHARS as u64 }, _, _>")]
    pub max_chars: usize,
    /// Messages of the user after which a title is written.
    #[serde(deserialize_with = "positive")]
    pub after_messages: u32,
    /// Messages of the thread that the model reads, the first ones.
    #[serde(deserialize_with = "positive")]
    pub read_messages: u32,
    /// Characters of each.
    pub read_chars: u32,
    /// Tokens of the model's answer, thinking included.
    pub max_output_tokens: u32,
    /// Seconds until the first words of the user become the title instead.
    pub timeout_s: u64,
    /// Seconds between two searches for titles left behind by a worker that died.
    pub sweep_s: u64,
    /// Titles that one search takes.
    #[serde(deserialize_with = "positive")]
    pub batch: u32,
}
