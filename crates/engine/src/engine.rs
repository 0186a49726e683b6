//! [`Engine`]: everything a run needs, built once and shared.

use std::collections::BTreeMap;
use std::sync::Arc;

use houston_domain::agent::token_budget::TokenBudget;
use houston_domain::agent::{RunPolicy, SEND_MESSAGE};
use houston_domain::agentable::{AgentType, Reply, Urgency};
use houston_domain::id::Ids;
use houston_llm::{Capabilities, Description, Model};
use houston_queue::{DeltaBus, HintSender};
use houston_store::Store;
use houston_tools::builtin::READ_RESULT;
use houston_tools::{Offer, Registry};

use crate::agents::MakeModel;
use crate::config::{Config, WatchdogConfig};
use crate::live::LiveRuns;
use crate::setups::Setups;
use crate::side_model::SideModel;
use crate::spending::Prices;
use crate::title::Titles;

/// One agent type with all it refers to.
#[derive(Clone)]
pub struct Setup {
    /// The type.
    pub agent_type: AgentType,
    /// What its runs are bound by.
    pub policy: RunPolicy,
    /// The tools it may call.
    pub offer: Offer,
    /// The same, once there are long results to read on in.
    pub offer_with_results: Offer,
    /// How many tokens its requests may have.
    pub tokens: TokenBudget,
    /// How many the model takes, if that is known.
    pub window: Option<u64>,
    /// The model it asks.
    pub model: Arc<dyn Model>,
    /// What its calls cost, if anybody knows.
    pub prices: Prices,
}

/// An agent type that cannot be set up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// It names a tool that does not exist.
    #[error("jobs/agents/{kind}.toml: tools: {source}")]
    Tool {
        /// Which type.
        kind: String,
        /// Which tool.
        source: houston_tools::registry::UnknownTool,
    },
    /// It names a use case no model serves.
    #[error("jobs/agents/{kind}.toml: use_case `{use_case}` has no model; there are: {known}")]
    UseCase {
        /// Which type.
        kind: String,
        /// Which use case.
        use_case: String,
        /// The use cases there are.
        known: String,
    },
}

/// Drives runs. Shared by all of them; holds nothing of any.
pub struct Engine {
    pub(crate) store: Store,
    pub(crate) bus: DeltaBus,
    pub(crate) hints: HintSender,
    pub(crate) ids: Arc<Ids>,
    pub(crate) config: Config,
    pub(crate) setups: Setups,
    pub(crate) live: LiveRuns,
    /// Who summarises, sessions and beginnings of them, and who finds titles.
    pub(crate) summaries: Option<SideModel>,
    pub(crate) title_model: Option<SideModel>,
    pub(crate) titles: Titles,
}

/// What an engine is built from.
pub struct Parts {
    /// Postgres.
    pub store: Store,
    /// Where deltas and committed events go.
    pub bus: DeltaBus,
    /// Where hints go.
    pub hints: HintSender,
    /// Ids and the clock.
    pub ids: Arc<Ids>,
    /// How runs are driven.
    pub config: Config,
    /// The agent types.
    pub agent_types: Vec<AgentType>,
    /// All tools of the process.
    pub tools: Registry,
    /// The models, by use case.
    pub models: BTreeMap<String, Arc<dyn Model>>,
    /// Makes those that agents name.
    pub make_model: MakeModel,
}

impl Engine {
    /// Sets up every agent type.
    ///
    /// # Errors
    /// [`SetupError`]: which file names what does not exist.
    pub fn new(parts: Parts) -> Result<Self, SetupError> {
        let side = |use_case: &str| parts.models.get(use_case).cloned().map(SideModel::new);
        let (summaries, title_model) = (side("summaries"), side("titles"));
        let setups =
            Setups::new(parts.agent_types, parts.config, parts.tools, parts.models, parts.make_model)?;
        Ok(Self {
            store: parts.store,
            bus: parts.bus,
            hints: parts.hints,
            ids: parts.ids,
            config: parts.config,
            setups,
            live: LiveRuns::default(),
            summaries,
            title_model,
            titles: Titles::default(),
        })
    }

    /// The runs this process drives.
    #[must_use]
    pub fn live(&self) -> &LiveRuns {
        &self.live
    }

    /// How urgent the runs of each kind are.
    #[must_use]
    pub fn urgencies(&self) -> BTreeMap<String, Urgency> {
        self.setups.kinds().iter().map(|(kind, setup)| (kind.clone(), setup.agent_type.urgency)).collect()
    }

    /// The agent types.
    pub fn agent_types(&self) -> impl Iterator<Item = &AgentType> {
        self.setups.kinds().values().map(|setup| &setup.agent_type)
    }

    /// What cuts an attempt off.
    #[must_use]
    pub fn watchdog(&self) -> WatchdogConfig {
        self.config.watchdog
    }

    /// The setup of a kind.
    #[must_use]
    pub fn setup(&self, kind: &str) -> Option<&Arc<Setup>> {
        self.setups.kinds().get(kind)
    }
}

pub(crate) fn set_up(
    agent_type: AgentType,
    config: &Config,
    tools: &Registry,
    models: &BTreeMap<String, Arc<dyn Model>>,
) -> Result<Setup, SetupError> {
    let model = models.get(&agent_type.use_case).cloned().ok_or_else(|| SetupError::UseCase {
        kind: agent_type.kind.clone(),
        use_case: agent_type.use_case.clone(),
        known: models.keys().cloned().collect::<Vec<_>>().join(", "),
    })?;
    put_together(agent_type, model, config, tools)
}

/// `agent_type` with `model` and its tools.
///
/// # Errors
/// [`SetupError::Tool`].
pub(crate) fn put_together(
    agent_type: AgentType,
    model: Arc<dyn Model>,
    config: &Config,
    tools: &Registry,
) -> Result<Setup, SetupError> {
    let able = model.description().supports_tools;
    let names: &[String] = if able { &agent_type.tools } else { &[] };
    let offer =
        tools.offer(names).map_err(|source| SetupError::Tool { kind: agent_type.kind.clone(), source })?;
    let offer_with_results = with_results(tools, names).unwrap_or_else(|| offer.clone());
    let Description { provider, model: name, .. } = model.description();
    let window = Capabilities::find(provider, name).and_then(|known| known.context_window);
    let policy = RunPolicy {
        conversational: agent_type.conversational,
        expects_reply: true,
        reply: reply_of(agent_type.reply, &offer),
        limits: config.limits.with(agent_type.limits),
    };
    let prices = Prices::of(&*model);
    let tokens = config.context.budget_tokens.with(agent_type.budget_tokens);
    Ok(Setup { agent_type, policy, offer, offer_with_results, tokens, window, model, prices })
}

/// Who cannot call send_message, because its model takes no tools or it was given others, replies with its text.
pub(crate) fn reply_of(reply: Reply, offer: &Offer) -> Reply {
    if offer.get(SEND_MESSAGE).is_some() { reply } else { Reply::Text }
}

/// The tools of these names and the one that reads on in their results; `None` when there is nothing to read.
fn with_results(tools: &Registry, names: &[String]) -> Option<Offer> {
    if names.is_empty() || names.iter().any(|name| name == READ_RESULT) {
        return None;
    }
    // Last, so that what comes before it stays the same.
    let names: Vec<String> = names.iter().cloned().chain([READ_RESULT.to_owned()]).collect();
    tools.offer(&names).ok()
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("kinds", &self.setups.kinds().keys()).finish_non_exhaustive()
    }
}
