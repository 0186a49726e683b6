//! The settings of the process that tests drive runs in.

use houston_domain::agent::limits::Limits;
use houston_domain::budget::Budget;
use houston_domain::image::ContextImages;
use houston_domain::retry::DelayedRetry;
use houston_domain::task::TaskLimits;
use serde::Deserialize;

use crate::config::{Config, ContextConfig, TeamsConfig, WatchdogConfig};

#[derive(Deserialize)]
struct CheckIns {
    limits: houston_domain::check_in::CheckInLimits,
}

/// `[context]` of `jobs/orchestrator.toml`.
fn shipped_context() -> ContextConfig {
    let mut shipped: toml::Table =
        toml::from_str(include_str!("../../../../../jobs/orchestrator.toml")).unwrap();
    shipped.remove("context").unwrap().try_into().unwrap()
}

/// The settings of a process without servers.
pub(super) fn config() -> Config {
    let check_ins: CheckIns =
        toml::from_str(include_str!("../../../../../jobs/agent_check_in.toml")).unwrap();
    Config {
        limits: Limits { max_output_tokens: 1000, ..Limits::USUAL },
        budget: Budget::default(),
        context: ContextConfig {
            max_tool_result_bytes: 262_144,
            max_answer_bytes: 1_000,
            direct_tokens: 5_000,
            images: ContextImages::default(),
            attachments: Default::default(),
            ..shipped_context()
        },
        tasks: TaskLimits::default(),
        reach: houston_domain::reach::ReachLimits::default(),
        plans: houston_domain::plan::Limits::default(),
        check_ins: check_ins.limits,
        delayed: DelayedRetry {
            rate_limited: 5,
            network: 3,
            other: 2,
            base_ms: 50,
            max_ms: 200,
            patience_s: 3600,
        },
        max_crashes: 3,
        max_claims: 20,
        doubt_ms: 500,
        hand_over_ms: 1000,
        watchdog: WatchdogConfig { grace_s: 30 },
        overseer: houston_domain::overseer::Settings::default(),
        teams: TeamsConfig {
            message_chars: 8000,
            earlier_texts: 4,
            earlier_chars: 300,
            timeout_ms: 10_000,
            max_output_tokens: 1000,
            limits: houston_domain::team::TeamLimits::default(),
            rules: houston_domain::team::RuleLimits::default(),
        },
    }
}
