//! [`Services`]: what driving runs needs of the process, besides their storage.

use std::collections::BTreeMap;
use std::sync::Arc;

use houston_domain::fallback::Fallbacks;
use houston_domain::id::{AgentableId, Ids};
use houston_metrics::Metrics;
use houston_queue::{DeltaBus, HintSender, Lane};
use houston_spans::Spans;
use houston_tools::PdfReader;
use tokio::sync::mpsc::UnboundedSender;

use crate::background::side_model::SideModel;
use crate::config::Config;
use crate::live::LiveRuns;
use crate::observer::Observers;
use crate::prompt::focus::Providers;
use crate::rates::Rates;
use crate::setup::Setup;
use crate::setup::kinds::Setups;

/// What driving runs needs of the process. One per engine.
pub(crate) struct Services {
    pub(crate) bus: DeltaBus,
    pub(crate) hints: HintSender,
    pub(crate) ids: Arc<Ids>,
    pub(crate) config: Config,
    pub(crate) setups: Setups,
    pub(crate) live: LiveRuns,
    /// Takes the agentables that need a title.
    pub(crate) titles: UnboundedSender<AgentableId>,
    /// The model that summarises the beginning of a long history.
    pub(crate) summaries: Option<SideModel>,
    /// The models that tools ask, by use case.
    pub(crate) side_models: BTreeMap<&'static str, SideModel>,
    /// Calls of tools whose number is limited.
    pub(crate) rates: Rates,
    /// What is called in the place of tools that failed.
    pub(crate) fallbacks: Fallbacks,
    /// Reads PDFs for models that take none.
    pub(crate) pdf: PdfReader,
    /// The context providers that are being asked.
    pub(crate) providers: Providers,
    /// What is called when runs do something.
    pub(crate) observers: Observers,
    /// Counts runs and calls of tools.
    pub(crate) metrics: Arc<Metrics>,
    /// Begins spans, if traces are exported.
    pub(crate) spans: Spans,
}

impl Services {
    /// The setup of a kind.
    pub(crate) fn setup(&self, kind: &str) -> Option<&Arc<Setup>> {
        self.setups.kinds().get(kind)
    }

    /// The lane of a kind's hints.
    pub(crate) fn lane(&self, kind: &str) -> Lane {
        self.setup(kind).map(|setup| setup.agent_type.urgency).unwrap_or_default().into()
    }

    /// A random number from 0 to 1, for jitter.
    pub(crate) fn random_fraction(&self) -> f64 {
        let mut random = [0; 4];
        self.ids.fill(&mut random);
        f64::from(u32::from_le_bytes(random)) / f64::from(u32::MAX)
    }
}
