//! [`Engine`]: everything that driving runs needs, built once per process.

use std::sync::Arc;

use houston_domain::fallback::Fallbacks;
use houston_domain::id::Ids;
use houston_metrics::Metrics;
use houston_queue::{DeltaBus, HintSender};
use houston_spans::Spans;
use houston_store::RunStore;
use houston_store::claim::Trial;
use houston_tools::PdfReader;
use houston_tools::ask::{TOOLS, VISION};
use tokio::sync::mpsc;

use crate::background::sessions::Sessions;
use crate::background::side_model::{SideModel, Writer};
use crate::background::titles::Titles;
use crate::config::WatchdogConfig;
use crate::live::LiveRuns;
use crate::observer::{Observer, Observers};
use crate::prompt::focus::Providers;
use crate::rates::Rates;
use crate::run::services::Services;
use crate::setup::Setup;
use crate::setup::kinds::Setups;

/// Drives runs: see [`Engine::drive`]. One per process; the state of a single run is in `RunDriver`.
pub struct Engine {
    pub(crate) store: RunStore,
    pub(crate) services: Services,
    pub(crate) trial: Trial,
    /// The titles of agentables whose runs have ended.
    pub titles: Titles,
    /// The sessions that have been quiet for long.
    pub sessions: Sessions,
}

/// What [`Engine::new`] needs.
pub struct Parts {
    /// The handle to Postgres.
    pub store: RunStore,
    /// Publishes deltas and committed events to streams.
    pub bus: DeltaBus,
    /// Sends hints to workers.
    pub hints: HintSender,
    /// Generates ids, and has the clock.
    pub ids: Arc<Ids>,
    /// The setups of all kinds, with the drivers, hooks and own tools that runs have.
    pub setups: Setups,
    /// What is called in the place of tools that failed, from `jobs/tools.toml`.
    pub fallbacks: Fallbacks,
    /// Observe its runs.
    pub observers: Vec<Arc<dyn Observer>>,
    /// Reads PDFs for models that take none; that of `default()` does not, and these models read that there is one.
    pub pdf: PdfReader,
    /// Counts runs and calls of tools.
    pub metrics: Arc<Metrics>,
    /// Begins spans, if traces are exported.
    pub spans: Spans,
    /// Whether a run that enough workers died with can be tried in a process of its own: [`Engine::drive`] claims none then.
    pub trial: Trial,
}

impl Engine {
    /// The engine of a process.
    pub fn new(parts: Parts) -> Self {
        let side = |use_case: &str| SideModel::of_use_case(parts.setups.models.get(use_case)?);
        let (summaries, title_model) = (side("summaries"), side("titles"));
        let asked = [TOOLS, VISION].into_iter();
        let side_models = asked.filter_map(|use_case| Some((use_case, side(use_case)?))).collect();
        let Parts { store, bus, hints, ids, setups, .. } = parts;
        let config = setups.config;
        let writer = |model| {
            let (store, ids, budget) = (store.clone(), Arc::clone(&ids), config.budget);
            Writer { store, ids, budget, model }
        };
        let (requests, requested) = mpsc::unbounded_channel();
        let titles = Titles::new(writer(title_model), bus.clone(), config.context.titles, requested);
        let sessions = Sessions::new(writer(summaries.clone()));
        let services = Services {
            bus,
            hints,
            ids,
            config,
            setups,
            live: LiveRuns::default(),
            titles: requests,
            summaries,
            side_models,
            rates: Rates::default(),
            fallbacks: parts.fallbacks,
            pdf: parts.pdf,
            providers: Providers::default(),
            observers: Observers::new(parts.observers),
            metrics: parts.metrics,
            spans: parts.spans,
        };
        Self { store, services, trial: parts.trial, titles, sessions }
    }

    /// The runs this process drives now.
    pub fn live(&self) -> &LiveRuns {
        &self.services.live
    }

    /// The setups of all kinds, sorted by kind.
    pub fn setups(&self) -> impl Iterator<Item = &Setup> {
        self.services.setups.kinds().values().map(|setup| &**setup)
    }

    /// When attempts are cut off.
    pub fn watchdog(&self) -> WatchdogConfig {
        self.services.config.watchdog
    }
}
