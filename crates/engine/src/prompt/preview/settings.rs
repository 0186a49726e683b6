//! The settings of the next run's answers, each with where it comes from.

use houston_store::run_context::RunContext;
use serde::Serialize;
use serde_json::{Map, Value, json};

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

/// The settings, and where the value of one comes from that nobody has set.
const SETTINGS: [(&str, &str); 10] = [
    ("temperature", "provider"),
    ("top_p", "provider"),
    ("effort", "provider"),
    ("stop", "provider"),
    ("max_output_tokens", "installation"),
    ("max_iterations", "installation"),
    ("cache", "installation"),
    ("latency", "installation"),
    (AUTONOMY, "kind"),
    (OUTPUT, "kind"),
];

const AUTONOMY: &str = "autonomy";
const OUTPUT: &str = "output";

/// The settings of `run`. `kind` is the setup of the kind, `agent` that of the agent that answers.
pub(crate) fn settings(
    kind: &Setup,
    agent: &Setup,
    run: &Setup,
    context: &RunContext,
) -> Vec<SettingPreview> {
    let of_kind = &kind.agent_type;
    let kind_says = by_name([
        json!(of_kind.sampling),
        json!(of_kind.limits),
        json!(of_kind.model_policy),
        json!({AUTONOMY: of_kind.autonomy, OUTPUT: of_kind.output}),
    ]);
    let message_says = context.client.as_deref().map(|offer| {
        let output = json!({OUTPUT: offer.output});
        by_name([json!(offer.sampling), json!(offer.limits), json!(offer.model_policy), output])
    });
    let message_says = message_says.unwrap_or_default();
    let team_says = by_name([json!({OUTPUT: context.serving.output()})]);
    let (kind, agent, mut run_has) = (in_force(kind), in_force(agent), in_force(run));
    run_has.insert(OUTPUT.to_owned(), json!(run.wanted.output));
    let settings = SETTINGS.into_iter().map(|(name, usual)| {
        let value = run_has.get(name).cloned().unwrap_or_default();
        let origin = if message_says.contains_key(name) {
            "message"
        } else if team_says.contains_key(name) {
            "team"
        } else if name == AUTONOMY && run_has.get(name) != kind.get(name) {
            "guards"
        } else if agent.get(name) != kind.get(name) {
            "agent"
        } else if kind_says.contains_key(name) {
            "kind"
        } else {
            usual
        };
        SettingPreview { name, value, origin }
    });
    settings.collect()
}

/// What is in force in a setup.
fn in_force(setup: &Setup) -> Map<String, Value> {
    let (of, limits) = (&setup.agent_type, setup.policy.limits);
    by_name([
        json!(of.sampling),
        json!({"max_output_tokens": limits.max_output_tokens, "max_iterations": limits.max_iterations}),
        json!({
            "cache": of.model_policy.cache.unwrap_or_default(),
            "latency": of.model_policy.latency.unwrap_or_default(),
        }),
        json!({AUTONOMY: of.autonomy, OUTPUT: of.output}),
    ])
}

/// The fields of these objects that are set.
fn by_name(objects: impl IntoIterator<Item = Value>) -> Map<String, Value> {
    let fields = objects.into_iter().filter_map(|object| match object {
        Value::Object(fields) => Some(fields),
        _ => None,
    });
    fields.flatten().filter(|(_, value)| !value.is_null()).collect()
}
