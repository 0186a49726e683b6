//! [`Engine`]: everything that driving runs needs, built once per process.

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

/// An agent type with the tools, model and limits it refers to.
#[derive(Clone)]
pub struct Setup {
    /// The agent type.
    pub agent_type: AgentType,
    /// The limits of its runs, and how they reply.
    pub policy: RunPolicy,
    /// The tools it may call, without `read_result`.
    pub offer: Offer,
    /// The same with `read_result`, for runs that have large results.
    pub offer_with_results: Offer,
    /// Tokens of one request, and how they are divided.
    pub tokens: TokenBudget,
    /// The model's context window in tokens, if known.
    pub window: Option<u64>,
    /// The model it calls.
    pub model: Arc<dyn Model>,
    /// Prices of the models that may answer.
    pub prices: Prices,
}

/// An agent type that cannot be set up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// The agent type names a tool that does not exist.
    #[error("jobs/agents/{kind}.toml: tools: {source}")]
    Tool {
        /// The kind, which is also the name of its file.
        kind: String,
        /// The name of the tool, and those that exist.
        source: houston_tools::registry::UnknownTool,
    },
    /// The agent type names a use case without a model.
    #[error("jobs/agents/{kind}.toml: use_case `{use_case}` has no model; there are: {known}")]
    UseCase {
        /// The kind, which is also the name of its file.
        kind: String,
        /// The use case it names.
        use_case: String,
        /// The use cases that exist, separated by commas.
        known: String,
    },
}

/// Drives runs: see [`Engine::drive`]. One per process; the state of a single run is in `RunDriver`.
pub struct Engine {
    pub(crate) store: Store,
    pub(crate) bus: DeltaBus,
    pub(crate) hints: HintSender,
    pub(crate) ids: Arc<Ids>,
    pub(crate) config: Config,
    pub(crate) setups: Setups,
    pub(crate) live: LiveRuns,
    /// The model that summarises sessions and their beginnings.
    pub(crate) summaries: Option<SideModel>,
    /// The model that writes titles.
    pub(crate) title_model: Option<SideModel>,
    pub(crate) titles: Titles,
}

/// What [`Engine::new`] needs.
pub struct Parts {
    /// The handle to Postgres.
    pub store: Store,
    /// Publishes deltas and committed events to streams.
    pub bus: DeltaBus,
    /// Sends hints to workers.
    pub hints: HintSender,
    /// Generates ids, and has the clock.
    pub ids: Arc<Ids>,
    /// Limits and time-outs, from `jobs/`.
    pub config: Config,
    /// The agent types, from `jobs/agents/`.
    pub agent_types: Vec<AgentType>,
    /// All tools of the process; agent types choose from them.
    pub tools: Registry,
    /// The models, by use case.
    pub models: BTreeMap<String, Arc<dyn Model>>,
    /// Creates the models that agents name.
    pub make_model: MakeModel,
}

impl Engine {
    /// Sets up every agent type.
    ///
    /// # Errors
    /// [`SetupError`] when an agent type names a tool or use case that does not exist.
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

    /// The runs this process drives now.
    #[must_use]
    pub fn live(&self) -> &LiveRuns {
        &self.live
    }

    /// The urgency of each kind's runs, which decides their lane.
    #[must_use]
    pub fn urgencies(&self) -> BTreeMap<String, Urgency> {
        self.setups.kinds().iter().map(|(kind, setup)| (kind.clone(), setup.agent_type.urgency)).collect()
    }

    /// The agent types.
    pub fn agent_types(&self) -> impl Iterator<Item = &AgentType> {
        self.setups.kinds().values().map(|setup| &setup.agent_type)
    }

    /// When attempts are cut off.
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
    build_setup(agent_type, model, config, tools)
}

/// Builds the setup of `agent_type` with `model`.
///
/// # Errors
/// [`SetupError::Tool`] when it names a tool that does not exist.
pub(crate) fn build_setup(
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

/// How an agent with these tools replies: one that cannot call `send_message` replies with its text.
pub(crate) fn reply_of(reply: Reply, offer: &Offer) -> Reply {
    if offer.get(SEND_MESSAGE).is_some() { reply } else { Reply::Text }
}

/// The tools of these names and `read_result`. `None` when there are no tools, or `read_result` is among them.
fn with_results(tools: &Registry, names: &[String]) -> Option<Offer> {
    if names.is_empty() || names.iter().any(|name| name == READ_RESULT) {
        return None;
    }
    // Last, so that the definitions before it stay the same and cached.
    let names: Vec<String> = names.iter().cloned().chain([READ_RESULT.to_owned()]).collect();
    tools.offer(&names).ok()
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("kinds", &self.setups.kinds().keys()).finish_non_exhaustive()
    }
}
