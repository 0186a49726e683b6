//! Setups of the agents that tenants create: their texts, tools, limits and models. Built when a run needs them, and cached.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use houston_domain::agentable::AgentType;
use houston_llm::Model;
use houston_store::serving::ServingAgent;

use crate::hook::{RunInfo, RunSetup};
use crate::setup::Setup;
use crate::setup::guards::of_agent;
use crate::setup::kinds::Setups;

/// Creates a model from its name: `provider/model`, a provider alone, or several separated by commas. A model that cannot be
/// used fails each call with the reason.
pub type MakeModel = Arc<dyn Fn(String) -> BoxFuture<'static, Arc<dyn Model>> + Send + Sync>;

/// The use case whose model picks the agents of teams.
pub const ROUTING: &str = "routing";

impl Setups {
    /// The model of a use case; or, where an agent names models instead of a use case, that model.
    pub(crate) async fn model_of(&self, use_case: &str) -> Arc<dyn Model> {
        match self.models.get(use_case) {
            Some(model) => Arc::clone(model),
            None => self.named(use_case).await,
        }
    }

    /// The model of this name, created at its first use.
    async fn named(&self, name: &str) -> Arc<dyn Model> {
        if let Some(cached) = self.by_name.get(&name.to_owned(), |_| true) {
            return cached;
        }
        let model = (self.make_model)(name.to_owned()).await;
        tracing::debug!(name, model = %model.description(), "created a model that an agent names");
        self.by_name.put(name.to_owned(), Arc::clone(&model), 1);
        model
    }

    /// The setup of `agent`, whose kind has the setup `kind`, with the agent's guards.
    pub(crate) async fn of_agent(&self, kind: &Arc<Setup>, agent: &ServingAgent) -> Arc<Setup> {
        let setup = self.without_guards(kind, agent).await;
        let guards = agent.settings.guards.as_ref().map(of_agent);
        self.with_guards(setup, guards.as_slice()).await
    }

    /// The same without the agent's guards: what is compiled of them is kept within bounds elsewhere.
    async fn without_guards(&self, kind: &Arc<Setup>, agent: &ServingAgent) -> Arc<Setup> {
        if let Some((_, cached)) = self.set_up.get(&agent.id, |(version, _)| *version == agent.version) {
            return cached;
        }
        let bounds = (!agent.follows_file).then_some(self.config.limits);
        let mut agent_type = agent.settings.applied_to(&kind.agent_type, bounds);
        // Tools of the tenant's own; or, during a roll-out, of another version of Houston.
        let (of_process, unknown_tools): (Vec<String>, Vec<String>) =
            agent_type.tools.drain(..).partition(|tool| self.tools.get(tool).is_some());
        agent_type.tools = of_process;
        let usual = self.model_of(&agent_type.use_case).await;
        let model = match agent.settings.model_name(&usual.description().provider) {
            None => usual,
            Some(name) => self.named(&name).await,
        };
        let is_kind = agent_type == kind.agent_type && Arc::ptr_eq(&model, &kind.model);
        let setup = if is_kind && unknown_tools.is_empty() {
            Arc::clone(kind)
        } else {
            // Cannot fail: tools that do not exist were removed above, and the kind's guards were compiled before.
            match self.build(agent_type, model) {
                Ok(setup) => Arc::new(Setup {
                    drive: kind.drive.clone(),
                    unknown_tools: unknown_tools.into(),
                    reached: Arc::clone(&kind.reached),
                    makes_plans: kind.makes_plans,
                    ..setup
                }),
                Err(_) => Arc::clone(kind),
            }
        };
        self.set_up.put(agent.id, (agent.version, Arc::clone(&setup)), 1);
        setup
    }

    /// The setup as the hooks change it for a run; the same setup if they change nothing. `run` is called if there are hooks.
    pub(crate) fn hooked(&self, setup: Arc<Setup>, run: impl FnOnce() -> RunInfo) -> Arc<Setup> {
        if self.hooks.is_empty() {
            return setup;
        }
        let before = RunSetup {
            run: run(),
            model: Arc::clone(&setup.model),
            tools: setup.agent_type.tools.clone(),
            role: setup.agent_type.prompt.role.clone(),
            guidelines: setup.agent_type.prompt.guidelines.clone(),
            sections: Vec::new(),
        };
        let mut after = before.clone();
        for hook in &self.hooks {
            hook.before_run(&mut after);
        }
        after.tools.retain(|tool| {
            let exists = self.tools.get(tool).is_some();
            if !exists {
                tracing::warn!(tool, "a hook names a tool that this process does not have");
            }
            exists
        });
        let prompt_is_same = after.role == before.role && after.guidelines == before.guidelines;
        let rest_is_same = after.tools == before.tools && Arc::ptr_eq(&after.model, &before.model);
        if prompt_is_same && rest_is_same && after.sections.is_empty() {
            return setup;
        }
        let mut agent_type = setup.agent_type.clone();
        (agent_type.prompt.role, agent_type.prompt.guidelines) = (after.role, after.guidelines);
        let sections = after.sections.into();
        if rest_is_same {
            return Arc::new(Setup { agent_type, sections, ..Setup::clone(&setup) });
        }
        // The guards stay as they are, and need not be compiled again.
        let guards = agent_type.guards.take();
        agent_type.tools = after.tools;
        // Cannot fail: all tools exist.
        match self.build(agent_type, after.model) {
            Ok(rebuilt) => Arc::new(Setup {
                agent_type: AgentType { guards, ..rebuilt.agent_type },
                guards: Arc::clone(&setup.guards),
                drive: setup.drive.clone(),
                unknown_tools: Arc::clone(&setup.unknown_tools),
                reached: Arc::clone(&setup.reached),
                makes_plans: setup.makes_plans,
                sections,
                ..rebuilt
            }),
            Err(error) => {
                tracing::error!(%error, "the hooks of a run are ignored");
                setup
            }
        }
    }
}
