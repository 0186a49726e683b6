//! With what an agentable would run now, for the header of a trace.

use houston_domain::trace::Snapshot;
use houston_store::RunStore;
use houston_store::agentable::Agentable;

use super::next;
use crate::config::ContextConfig;
use crate::setup::kinds::Setups;

/// Limits and offered tools of the next run of `agentable`.
///
/// # Errors
/// [`houston_store::Error`] when Postgres fails.
pub async fn snapshot(
    store: &RunStore,
    setups: &Setups,
    config: &ContextConfig,
    agentable: &Agentable,
) -> houston_store::Result<Snapshot> {
    let next = next(store, setups, config, agentable).await?;
    let policy = next.setup.policy;
    Ok(Snapshot {
        conversational: policy.conversational,
        reply: policy.reply,
        driver: next.setup.agent_type.driver.clone(),
        limits: policy.limits,
        tools: next.offer.definitions().to_vec(),
    })
}
