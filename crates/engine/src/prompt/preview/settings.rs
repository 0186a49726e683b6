//! The settings of the next run's answers, each with where it comes from.

use houston_domain::agent::limits::LimitChanges;
use houston_domain::agentable::AgentType;
use houston_store::run_context::RunContext;
use serde::Serialize;
use serde_json::{Value, json};

use crate::setup::Setup;

/// A setting of the next run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SettingPreview {
    /// Its name, as in `temperature`.
    pub name: &'static str,
    /// Its value; `null`: what the provider does without one.
    pub value: Value,
    /// `message`, `team`, `agent`, `kind`, `guards`, `installation` or `provider`.
    pub origin: &'static str,
}

/// The settings of `run`. `kind` is the setup of the kind, `agent` that of the agent that answers.
pub(super) fn settings(
    kind: &Setup,
    agent: &Setup,
    run: &Setup,
    context: &RunContext,
) -> Vec<SettingPreview> {
    let client = context.client.as_deref();
    let value = |of: &Setup, field: &str| of_sampling(&of.agent_type, field);
    let mut all: Vec<SettingPreview> = ["temperature", "top_p", "effort", "stop"]
        .into_iter()
        .map(|name| {
            let own = client.is_some_and(|client| !json!(client.sampling)[name].is_null());
            let origin = match value(run, name) {
                Value::Null => "provider",
                _ if own => "message",
                _ => origin(value(agent, name) != value(kind, name)),
            };
            SettingPreview { name, value: value(run, name), origin }
        })
        .collect();
    let limits = |of: &Setup| {
        let limits = of.policy.limits;
        [("max_output_tokens", limits.max_output_tokens), ("max_iterations", limits.max_iterations)]
    };
    let of_kind = changes(&kind.agent_type.limits);
    let rows = limits(kind).into_iter().zip(limits(agent)).zip(limits(run)).zip(of_kind);
    all.extend(rows.map(|((((_, of_kind), (_, of_agent)), (name, limit)), kind_sets)| {
        let origin = match kind_sets {
            _ if limit != of_agent => "message",
            _ if of_agent != of_kind => "agent",
            true => "kind",
            false => "installation",
        };
        SettingPreview { name, value: json!(limit), origin }
    }));
    let autonomy = run.agent_type.autonomy;
    let lowered = autonomy != kind.agent_type.autonomy;
    all.push(SettingPreview {
        name: "autonomy",
        value: json!(autonomy),
        origin: if lowered { "guards" } else { "kind" },
    });
    let wanted = run.wanted.output.as_ref();
    let origin = match wanted {
        None => "kind",
        Some(_) if client.is_some_and(|client| client.output.is_some()) => "message",
        Some(_) if context.serving.output().is_some() => "team",
        Some(_) => origin(agent.agent_type.output != kind.agent_type.output),
    };
    all.push(SettingPreview { name: "output", value: json!(wanted), origin });
    all
}

fn origin(is_agents: bool) -> &'static str {
    if is_agents { "agent" } else { "kind" }
}

fn of_sampling(agent_type: &AgentType, field: &str) -> Value {
    json!(agent_type.sampling).get(field).cloned().unwrap_or_default()
}

/// Whether the kind's file sets them: the longest answer, the number of model calls.
fn changes(limits: &LimitChanges) -> [bool; 2] {
    [limits.max_output_tokens.is_some(), limits.max_iterations.is_some()]
}
