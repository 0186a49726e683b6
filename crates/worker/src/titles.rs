//! Titles for agentables created without one: written after the run that requested one, and periodically for those whose
//! worker died. Only a few at a time, because no user waits for them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use houston_domain::id::AgentableId;
use houston_engine::Engine;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

/// Writes titles until stopped.
pub(crate) async fn run(engine: Arc<Engine>, stop: CancellationToken) {
    let config = engine.titles().config();
    let mut sweep = tokio::time::interval(Duration::from_secs(config.sweep_s.max(1)));
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let at_once = usize::try_from(config.batch).unwrap_or(1).max(1);
    loop {
        let requested: Vec<Option<AgentableId>> = tokio::select! {
            () = stop.cancelled() => return,
            _ = sweep.tick() => vec![None],
            requested = engine.titles().requested() => requested.into_iter().map(Some).collect(),
        };
        futures_util::stream::iter(requested)
            .for_each_concurrent(at_once, |agentable| find(&engine, agentable, &stop))
            .await;
    }
}

async fn find(engine: &Engine, agentable: Option<AgentableId>, stop: &CancellationToken) {
    if let Err(error) = engine.titles().write(agentable, stop).await {
        tracing::warn!(%error, "could not set a title; a later sweep does");
    }
}
