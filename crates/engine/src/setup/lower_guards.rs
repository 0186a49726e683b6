//! The guards of agents, tenants, users and agentables: compiled once per text, and added to the setups of runs.

use std::sync::Arc;

use houston_domain::guard::{GuardError, GuardSettings, Layer, LayerKind};
use houston_store::guards::StoredGuards;
use tokio::task::spawn_blocking;

use crate::setup::Setup;
use crate::setup::cache::Cache;

/// Compiled layers, by their settings.
pub(crate) struct LowerGuards {
    compiled: Cache<StoredGuards, Arc<Layer>>,
}

impl LowerGuards {
    pub(crate) fn new() -> Self {
        Self { compiled: Cache::new() }
    }

    /// The setup with these layers below its own. Without layers it is the same setup.
    pub(crate) async fn add(&self, setup: Arc<Setup>, lower: &[StoredGuards]) -> Arc<Setup> {
        if lower.is_empty() {
            return setup;
        }
        let mut layers = setup.guards.to_vec();
        for stored in lower {
            match self.layer(stored).await {
                Some(layer) => layers.push(layer),
                // Without layers, no tool may be called.
                None => layers.clear(),
            }
            if layers.is_empty() {
                break;
            }
        }
        Arc::new(Setup { guards: layers.into(), ..Setup::clone(&setup) })
    }

    /// The compiled layer. Settings that this version cannot read deny every tool. `None` when the runtime shuts down.
    async fn layer(&self, stored: &StoredGuards) -> Option<Arc<Layer>> {
        if let Some(layer) = self.compiled.get(stored, |_| true) {
            return Some(layer);
        }
        // Compiling many patterns takes too long for a thread of the runtime.
        let text = stored.clone();
        let compiled = spawn_blocking(move || compile(&text).or_else(|error| closed(&text, &error))).await;
        let layer = Arc::new(compiled.ok()?.ok()?);
        self.compiled.put(stored.clone(), Arc::clone(&layer));
        Some(layer)
    }
}

fn compile(stored: &StoredGuards) -> Result<Layer, GuardError> {
    let settings = GuardSettings::from_json(stored.layer, &stored.settings)?;
    Layer::compile(stored.layer, stored.layer.as_str(), &settings)
}

fn closed(stored: &StoredGuards, error: &GuardError) -> Result<Layer, GuardError> {
    tracing::error!(%error, "stored guards cannot be read; a newer Houston may have written them: every tool is denied");
    let name = format!("{} (unreadable)", stored.layer);
    Layer::compile(stored.layer, name, &GuardSettings::closed())
}

/// The guards in the settings of an agent.
pub(crate) fn of_agent(guards: &GuardSettings) -> StoredGuards {
    // Cannot fail: the keys of its tables are texts. If it did, the text could not be read, and denies every tool.
    let settings = serde_json::to_string(guards).unwrap_or_default();
    StoredGuards { layer: LayerKind::Agent, settings }
}
