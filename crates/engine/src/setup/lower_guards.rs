//! The guards of agents, tenants, users and agentables: compiled once per text, and added to the setups of runs, which
//! lose the tools that these switch off.

use std::sync::Arc;

use houston_domain::guard::{GuardError, GuardSettings, Layer, LayerKind};
use houston_store::guards::StoredGuards;
use tokio::task::spawn_blocking;

use crate::setup::cache::Cache;
use crate::setup::{Setup, switches};

/// Length of the settings of all layers that are kept compiled. The most expensive ones found take 120 times
/// as much memory.
const MAX_CACHED_BYTES: usize = 512 * 1024;

/// Compiled layers, by their settings.
pub(crate) struct LowerGuards {
    compiled: Cache<StoredGuards, Arc<Layer>>,
}

impl LowerGuards {
    pub(crate) fn new() -> Self {
        Self { compiled: Cache::weighing(MAX_CACHED_BYTES, |stored| stored.settings.len()) }
    }

    /// The setup with these layers below its own. Without layers it is the same setup.
    pub(crate) async fn add(&self, setup: Arc<Setup>, lower: &[StoredGuards]) -> Arc<Setup> {
        if lower.is_empty() {
            return setup;
        }
        let mut layers = setup.guards.to_vec();
        for stored in lower {
            let Some(layer) = self.layer(stored).await else {
                // Without layers, no tool may be called.
                layers.clear();
                break;
            };
            layers.push(layer);
        }
        Arc::new(switches::applied(Setup { guards: layers.into(), ..Setup::clone(&setup) }))
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
