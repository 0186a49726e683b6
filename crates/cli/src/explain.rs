//! Explains what the engine would do with an agentable (its prompt, its tools), for the API and for commands. Uses the
//! setups of this process's worker, or builds the same ones from the settings.

use std::sync::Arc;

use houston_api::{Explain, ExplainError, ExplainTopic};
use houston_domain::clock::{Clock, SystemClock};
use houston_engine::prompt::preview::NextRun;
use houston_engine::{Config as EngineConfig, OwnToolsParts, SetupError, Setups};
use houston_store::RunStore;
use houston_tools::Registry;
use serde_json::json;
use tokio::sync::OnceCell;

use crate::config::{Loaded, Settings};
use crate::failure::{Failure, Result};
use crate::models::{self, Models, Routes};

/// Computes prompts and tool lists without calling a model.
pub(crate) struct Explainer {
    loaded: Loaded,
    registry: Registry,
    /// Built when first needed, so that a server without a worker does not look for providers.
    setups: OnceCell<(Setups, Routes)>,
}

impl std::fmt::Debug for Explainer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Explainer")
    }
}

/// The engine's part of the settings.
pub(crate) fn engine_config(settings: &Settings) -> EngineConfig {
    let orchestrator = &settings.orchestrator;
    EngineConfig {
        limits: orchestrator.limits,
        budget: orchestrator.budget,
        context: orchestrator.context,
        tasks: orchestrator.tasks,
        reach: orchestrator.reach,
        plans: settings.plans,
        check_ins: settings.agent_check_in.limits,
        delayed: orchestrator.retry.delayed,
        max_crashes: orchestrator.lease.max_crashes,
        max_claims: orchestrator.lease.max_claims,
        doubt_ms: orchestrator.lease.doubt_ms,
        hand_over_ms: orchestrator.worker.hand_over_ms,
        watchdog: orchestrator.watchdog,
        overseer: settings.overseer,
        teams: settings.teams,
    }
}

/// What the tools of tenants' own need: a client for the public internet only, and the keys of their secrets.
pub(crate) fn own_tools(loaded: &Loaded) -> OwnToolsParts {
    OwnToolsParts {
        web: Arc::new(loaded.settings.web.public()),
        keys: loaded.secret_keys.clone(),
        servers: Some(Arc::new(loaded.mcp.own.clone())),
    }
}

/// The setups of this process, without drivers and hooks.
pub(crate) fn setups(loaded: &Loaded, registry: &Registry, models: &Models) -> Result<Setups, SetupError> {
    let config = engine_config(&loaded.settings);
    let types = loaded.agent_types().into_values().collect();
    let (by_use_case, make) = (models.by_use_case.clone(), Arc::clone(&models.make));
    let setups = Setups::new(types, config, registry.clone(), by_use_case, make, Arc::clone(&loaded.guards))?;
    Ok(setups.with_own_tools(own_tools(loaded)))
}

impl Explainer {
    pub(crate) fn new(loaded: Loaded, registry: Registry) -> Self {
        Self { loaded, registry, setups: OnceCell::new() }
    }

    /// Uses the models of this process's worker.
    pub(crate) fn with_models(self, models: &Models) -> Result<Self> {
        let setups = setups(&self.loaded, &self.registry, models).map_err(Failure::usage)?;
        Ok(Self { setups: OnceCell::new_with(Some((setups, models.routes.clone()))), ..self })
    }

    async fn built(&self) -> Result<&(Setups, Routes), ExplainError> {
        let make = || async {
            let models = models::build(&self.loaded).await.map_err(setup_failed)?;
            let setups = setups(&self.loaded, &self.registry, &models).map_err(setup_failed)?;
            Ok((setups, models.routes))
        };
        self.setups.get_or_try_init(make).await
    }

    /// Which models serve which use case.
    pub(crate) async fn routes(&self) -> Result<&Routes, ExplainError> {
        self.built().await.map(|(_, routes)| routes)
    }

    /// As the function that the API takes, for the agentables of a store.
    pub(crate) fn explain(self: &Arc<Self>, store: &RunStore) -> Explain {
        let (explainer, store) = (Arc::clone(self), store.clone());
        Explain::new(move |topic, agentable| {
            let (explainer, store) = (Arc::clone(&explainer), store.clone());
            Box::pin(async move {
                let config = &explainer.loaded.settings.orchestrator.context;
                let next = NextRun::read(&store, &explainer.built().await?.0, config, &agentable).await?;
                Ok(match topic {
                    ExplainTopic::Prompt => json!(next.preview(SystemClock.now())),
                    ExplainTopic::Guard { tool, input } => json!(next.guard(&store, tool, input).await?),
                    ExplainTopic::Snapshot => json!(next.snapshot()),
                    ExplainTopic::Tools => json!({"data": next.tools(&explainer.registry)}),
                })
            })
        })
    }
}

fn setup_failed(error: impl std::error::Error + Send + Sync + 'static) -> ExplainError {
    ExplainError::SetUp(Box::new(error))
}
