//! What the guards would say of a call.

use houston_domain::guard::{Call, CompiledGrant, Explanation, Situation, clamp, explain};
use houston_domain::inner_call::inner_call;
use houston_store::RunStore;
use houston_store::agentable::Agentable;
use serde::Serialize;
use serde_json::Value;

use super::next;
use crate::config::ContextConfig;
use crate::setup::guards::{Taint, situation, user_texts};
use crate::setup::kinds::Setups;

/// What the guards would say of a call, and why.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GuardPreview {
    /// The tool.
    pub tool: String,
    /// The arguments, with those lowered that are above a limit.
    pub input: Value,
    /// What the model would read of the lowered arguments.
    pub lowered: Vec<String>,
    /// The verdict, and all that was looked at.
    #[serde(flatten)]
    pub explanation: Explanation,
}

/// What the guards would say of a call of `tool` with the arguments `input` in the next run of `agentable`. Calls of the
/// last minute are not counted.
///
/// # Errors
/// [`houston_store::Error`] when Postgres fails.
pub async fn guard(
    store: &RunStore,
    setups: &Setups,
    config: &ContextConfig,
    agentable: &Agentable,
    tool: String,
    input: Value,
) -> houston_store::Result<GuardPreview> {
    let next = next(store, setups, config, agentable).await?;
    let (tool, input) = match inner_call(&tool, &input) {
        (inner, arguments) if inner != tool => (inner.to_owned(), arguments.into_owned()),
        _ => (tool, input),
    };
    let setup = &*next.setup;
    let facts = next.offer.facts(&tool).or_else(|| setup.off.get(&tool));
    let limits = facts.map(|facts| facts.in_force(&setup.guards, &tool).limits.clone()).unwrap_or_default();
    let (input, lowered) = clamp(&limits, input);
    let taint = Taint::at_start(&next.context, setup);
    let pin = next.offer.get(&tool).and_then(|tool| tool.pin());
    let call = Call { tool: &tool, facts, input: &input, pin, pin_changed: false };
    let user_texts = user_texts(&next.context.history, setup, &next.context.mark);
    let grants = CompiledGrant::of_stored(&store.grants(agentable.id, agentable.user).await?);
    let situation = Situation { grants: &grants, ..situation(setup, taint, 0, &user_texts) };
    let explanation = explain(&setup.guards, &call, &situation);
    Ok(GuardPreview { tool, input, lowered, explanation })
}
