//! All setups of a process: one per kind, and those of tenants' agents.

use std::collections::BTreeMap;
use std::sync::Arc;

use houston_domain::agentable::AgentType;
use houston_domain::guard::Layer;
use houston_domain::id::AgentId;
use houston_domain::tool_source::SourceSummary;
use houston_llm::Model;
use houston_store::guards::StoredGuards;
use houston_store::run_context::RunContext;
use houston_store::serving::Serving;
use houston_tools::Registry;

use crate::config::Config;
use crate::driver::{Driver, Drivers};
use crate::hook::RunHook;
use crate::setup::agents::MakeModel;
use crate::setup::cache::{Cache, MAX_CACHED};
use crate::setup::client::{with_client, with_output};
use crate::setup::guards::MAX_CACHED_BYTES;
use crate::setup::own_tools::{OwnTools, OwnToolsParts, Tools};
use crate::setup::rules::RuleRunner;
use crate::setup::{Drive, Setup, SetupError, for_run, with_snippets};

/// The setups of a process, for its engine and for previews of prompts.
pub struct Setups {
    kinds: BTreeMap<String, Arc<Setup>>,
    pub(super) tools: Registry,
    /// The models of use cases.
    pub(crate) models: BTreeMap<String, Arc<dyn Model>>,
    pub(super) make_model: MakeModel,
    pub(super) by_name: Cache<String, Arc<dyn Model>>,
    /// Of agents, each with the agent's version that it was built from.
    pub(super) set_up: Cache<AgentId, (i64, Arc<Setup>)>,
    pub(crate) rules: RuleRunner,
    /// Compiled layers of agents, tenants, users and agentables, by their settings.
    pub(super) lower_guards: Cache<StoredGuards, Arc<Layer>>,
    /// The guards of the installation.
    pub(super) guards: Arc<Layer>,
    pub(crate) own_tools: OwnTools,
    pub(crate) config: Config,
    /// What changes the setups of runs, in order.
    pub hooks: Vec<Arc<dyn RunHook>>,
}

impl Setups {
    /// Sets up every agent type, with its tools and the model of its use case. `make_model` creates models that agents name;
    /// `guards` is the layer of the installation.
    ///
    /// # Errors
    /// [`SetupError`] when an agent type names a tool or use case that does not exist.
    pub fn new(
        agent_types: Vec<AgentType>,
        config: Config,
        tools: Registry,
        models: BTreeMap<String, Arc<dyn Model>>,
        make_model: MakeModel,
        guards: Arc<Layer>,
    ) -> Result<Self, SetupError> {
        let mut setups = Self {
            kinds: BTreeMap::new(),
            tools,
            models,
            make_model,
            by_name: Cache::of(MAX_CACHED),
            set_up: Cache::of(MAX_CACHED),
            rules: RuleRunner::default(),
            lower_guards: Cache::of(MAX_CACHED_BYTES),
            guards,
            own_tools: OwnTools::new(OwnToolsParts::default()),
            config,
            hooks: Vec::new(),
        };
        for agent_type in agent_types {
            let setup = setups.set_up(agent_type)?;
            setups.kinds.insert(setup.agent_type.kind.clone(), Arc::new(setup));
        }
        add_created(&mut setups.kinds);
        Ok(setups)
    }

    /// The same with what the tools of tenants' own need.
    #[must_use]
    pub fn with_own_tools(self, parts: OwnToolsParts) -> Self {
        Self { own_tools: OwnTools::new(parts), ..self }
    }

    /// The same with the drivers that agent types name, for a process that drives runs.
    ///
    /// # Errors
    /// [`SetupError`] when an agent type names a driver that does not exist.
    pub fn with_drivers(mut self, drivers: &Drivers) -> Result<Self, SetupError> {
        for setup in self.kinds.values_mut() {
            if let Some(driver) = driver_of(&setup.agent_type, drivers)? {
                *setup = Arc::new(Setup { drive: Drive::Custom(driver), ..Setup::clone(setup) });
            }
        }
        Ok(self)
    }

    #[cfg(test)]
    pub(crate) fn set_driver(&mut self, kind: &str, driver: Arc<dyn crate::driver::Driver>) {
        if let Some(setup) = self.kinds.get_mut(kind) {
            *setup = Arc::new(Setup { drive: Drive::Custom(driver), ..Setup::clone(setup) });
        }
    }

    #[cfg(test)]
    pub(crate) fn set_policy(
        &mut self,
        kind: &str,
        change: impl FnOnce(&mut houston_domain::agent::RunPolicy),
    ) {
        if let Some(setup) = self.kinds.get_mut(kind) {
            change(&mut Arc::make_mut(setup).policy);
        }
    }

    /// The setups of agent types, by kind.
    pub fn kinds(&self) -> &BTreeMap<String, Arc<Setup>> {
        &self.kinds
    }

    /// Whether a kind has context providers.
    pub(crate) fn has_providers(&self) -> bool {
        self.kinds.values().any(|setup| !setup.agent_type.context_providers.is_empty())
    }

    /// The setup of the agent that answers for an agentable of this kind. `None` when this process does not have the kind. For
    /// a team whose router has not picked yet, the setup of the kind.
    pub async fn serving(&self, kind: &str, serving: &Serving) -> Option<Arc<Setup>> {
        let kind = self.kinds.get(kind)?;
        match serving {
            Serving::Agent(agent) | Serving::Routed(agent) => Some(self.of_agent(kind, agent).await),
            Serving::File | Serving::Team(_) | Serving::Unreadable(_) => Some(Arc::clone(kind)),
        }
    }

    /// The setup for a run that starts from `context`, with tools of these sources. After [`Self::hooked`], so that hooks cannot
    /// add what the agentable's own tools and guards leave out.
    pub(crate) async fn for_run(
        &self,
        setup: &Arc<Setup>,
        context: &RunContext,
        sources: &[(&SourceSummary, Tools)],
    ) -> Arc<Setup> {
        let setup = self.extended(setup, sources);
        let setup = for_run(&setup, &context.setting);
        let setup = self.with_guards(setup, &context.guards).await;
        let setup = with_snippets(setup, &context.snippet_tools);
        let setup = with_client(setup, context.client.as_deref());
        with_output(setup, context)
    }
}

/// Gives each setup the kinds that it reaches, and whether it creates plans.
fn add_created(kinds: &mut BTreeMap<String, Arc<Setup>>) {
    let types: BTreeMap<String, AgentType> =
        kinds.iter().map(|(kind, setup)| (kind.clone(), setup.agent_type.clone())).collect();
    for setup in kinds.values_mut() {
        let AgentType { reaches, creates, .. } = &setup.agent_type;
        let makes_plans = creates.iter().filter_map(|kind| types.get(kind)).any(AgentType::is_plan);
        if makes_plans || !reaches.is_empty() {
            let reached = reaches.iter().filter_map(|kind| types.get(kind).cloned()).collect();
            *setup = Arc::new(Setup { reached, makes_plans, ..Setup::clone(setup) });
        }
    }
}

/// The driver of an agent type, if it names one.
pub(crate) fn driver_of(
    agent_type: &AgentType,
    drivers: &Drivers,
) -> Result<Option<Arc<dyn Driver>>, SetupError> {
    // Plans are driven by the engine itself.
    let Some(name) = agent_type.driver.as_ref().filter(|_| !agent_type.is_plan()) else { return Ok(None) };
    drivers.get(name).cloned().map(Some).ok_or_else(|| {
        let known = drivers.keys().cloned().collect::<Vec<_>>().join(", ");
        SetupError::new(agent_type, format!("there is no driver `{name}`; there are: {known}"))
    })
}
