//! The agents of tenants, set up as runs meet them: with their texts, tools and limits, and the model they name.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use houston_domain::id::AgentId;
use houston_llm::Model;
use houston_store::serving::ServingAgent;
use houston_tools::Registry;

use crate::config::Config;
use crate::engine::{Setup, put_together};
use crate::rules::RuleRunner;

/// Makes the model of a name (`provider/model`, a provider alone, several with commas between them). One that cannot
/// be used fails each of its calls, and says why.
pub type MakeModel = Arc<dyn Fn(String) -> BoxFuture<'static, Arc<dyn Model>> + Send + Sync>;

/// The use case whose model picks the agents of teams.
pub const ROUTING: &str = "routing";

/// Agents, teams and models that are kept; one more, and all are made anew.
const MOST_KEPT: usize = 1_000;

/// What was made, by what it was made of.
pub(crate) struct Kept<K, V>(Mutex<HashMap<K, V>>);

impl<K: Eq + Hash, V: Clone> Kept<K, V> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(HashMap::new()))
    }

    pub(crate) fn get(&self, key: &K, is_fresh: impl Fn(&V) -> bool) -> Option<V> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(key).filter(|kept| is_fresh(kept)).cloned()
    }

    pub(crate) fn put(&self, key: K, made: V) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MOST_KEPT {
            kept.clear();
        }
        kept.insert(key, made);
    }
}

/// What agents are set up from, and those that are.
pub(crate) struct Agents {
    tools: Registry,
    /// By use case.
    models: BTreeMap<String, Arc<dyn Model>>,
    make_model: MakeModel,
    by_name: Kept<String, Arc<dyn Model>>,
    /// Each of one version.
    set_up: Kept<AgentId, (i64, Arc<Setup>)>,
    pub(crate) rules: RuleRunner,
}

impl Agents {
    pub(crate) fn new(
        tools: Registry,
        models: BTreeMap<String, Arc<dyn Model>>,
        make_model: MakeModel,
    ) -> Self {
        let (by_name, set_up, rules) = (Kept::new(), Kept::new(), RuleRunner::default());
        Self { tools, models, make_model, by_name, set_up, rules }
    }

    /// The model that serves a use case, or those that stand in its place.
    pub(crate) async fn serving(&self, use_case: &str) -> Arc<dyn Model> {
        match self.models.get(use_case) {
            Some(model) => Arc::clone(model),
            None => self.named(use_case).await,
        }
    }

    /// The model of a name, made when it is first asked for.
    async fn named(&self, name: &str) -> Arc<dyn Model> {
        if let Some(known) = self.by_name.get(&name.to_owned(), |_| true) {
            return known;
        }
        let made = (self.make_model)(name.to_owned()).await;
        tracing::debug!(name, model = %made.description(), "a model that an agent names");
        self.by_name.put(name.to_owned(), Arc::clone(&made));
        made
    }

    /// `agent`, whose kind is set up as `kind`, as runs need it.
    pub(crate) async fn set_up(
        &self,
        kind: &Arc<Setup>,
        agent: &ServingAgent,
        config: &Config,
    ) -> Arc<Setup> {
        if let Some((_, known)) = self.set_up.get(&agent.id, |(version, _)| *version == agent.version) {
            return known;
        }
        let bounds = (!agent.follows_file).then_some(config.limits);
        let mut agent_type = agent.settings.applied_to(&kind.agent_type, bounds);
        // During a roll-out, workers of two ages serve the same agents.
        agent_type.tools.retain(|tool| {
            let known = self.tools.get(tool).is_some();
            if !known {
                tracing::warn!(agent = %agent.id, tool, "an agent names a tool this worker does not have");
            }
            known
        });
        let usual = self.serving(&agent_type.use_case).await;
        let model = match agent.settings.model_name(&usual.description().provider) {
            None => usual,
            Some(name) => self.named(&name).await,
        };
        let setup = if agent_type == kind.agent_type && Arc::ptr_eq(&model, &kind.model) {
            Arc::clone(kind)
        } else {
            // All its tools are known: see above.
            match put_together(agent_type, model, config, &self.tools) {
                Ok(setup) => Arc::new(setup),
                Err(_) => Arc::clone(kind),
            }
        };
        self.set_up.put(agent.id, (agent.version, Arc::clone(&setup)));
        setup
    }
}
