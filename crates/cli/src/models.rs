//! Builds the models of each use case.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use houston_domain::clock::{Clock as _, SystemClock};
use houston_domain::model::{ModelError, ModelErrorCode};
use houston_engine::MakeModel;
use houston_llm::{
    Candidate, Choice, Description, Fallback, Guards, Http, Latencies, Model, Need, Price, Provider,
    RetryPolicy, Strategy, Timeouts, TokenSource, Unavailable, capabilities, connect_with, detect_all,
    parse_choice, profile,
};

use crate::config::{AUTO, Loaded, ModelSelection, Routed, Settings, USE_CASES};
use crate::environment::environment;
use crate::tokens::{self, AzureTokens};

/// The models of a use case.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    pub(crate) strategy: Strategy,
    pub(crate) needs: Vec<Need>,
    /// In the order of the settings.
    pub(crate) candidates: Vec<Candidate>,
}

/// The models of all use cases.
#[derive(Debug, Clone, Default)]
pub(crate) struct Routes {
    pub(crate) by_use_case: BTreeMap<String, Route>,
    pub(crate) latencies: Latencies,
    /// Ranks of models, by the beginnings of their names.
    pub(crate) quality: BTreeMap<String, u8>,
    /// The longest answer of an agent.
    pub(crate) output_tokens: u64,
}

/// The models by use case, a function that builds others, and a summary for a person.
pub(crate) struct Models {
    pub(crate) by_use_case: BTreeMap<String, Arc<dyn Model>>,
    pub(crate) make: MakeModel,
    pub(crate) summary: Vec<String>,
    /// Which models serve which use case, for the API.
    pub(crate) routes: Routes,
}

/// Builds the models of each use case, and those that agent types name directly. A model that cannot be used is left
/// out. If a use case has no usable model, each of its calls fails with an error that says what to set.
///
/// # Errors
/// When the HTTP client cannot be built.
pub(crate) async fn build(loaded: &Loaded) -> Result<Models, ModelError> {
    let settings = &loaded.settings;
    let builder = Arc::new(ModelBuilder::new(loaded).await?);
    let named = loaded.kinds.values().map(|kind| kind.agent_type.use_case.as_str());
    let use_cases: BTreeSet<&str> = USE_CASES.into_iter().chain(named).collect();
    let everything = settings.model.clone().map(ModelSelection::One);
    let make = {
        let builder = Arc::clone(&builder);
        Arc::new(move |name: String| -> BoxFuture<'static, Arc<dyn Model>> {
            let builder = Arc::clone(&builder);
            Box::pin(async move { builder.build(&ModelSelection::One(name).routed()).await.model })
        })
    };
    let routes = Routes {
        latencies: builder.guards.latencies(),
        quality: settings.models.quality.clone(),
        output_tokens: u64::from(settings.orchestrator.limits.max_output_tokens),
        ..Routes::default()
    };
    let mut models = Models { by_use_case: BTreeMap::new(), make, summary: Vec::new(), routes };
    for use_case in use_cases {
        let own = ModelSelection::One(use_case.to_owned());
        let listed = if USE_CASES.contains(&use_case) { settings.models.serving(use_case) } else { &own };
        let selection = everything.as_ref().unwrap_or(listed).routed();
        let Built { model, candidates, lines } = builder.build(&selection).await;
        let Routed { strategy, needs, .. } = selection;
        models.routes.by_use_case.insert(use_case.to_owned(), Route { strategy, needs, candidates });
        // Agents come first; other use cases get a line only if they differ.
        match models.summary.first() {
            None => models.summary.extend(lines),
            Some(agents) if lines.first() == Some(agents) => {}
            Some(_) => models.summary.extend(lines.into_iter().map(|line| format!("{use_case}: {line}"))),
        }
        models.by_use_case.insert(use_case.to_owned(), model);
    }
    Ok(models)
}

/// How a model is reached that is named as `provider/model`; `None`: the first one of agents.
pub(crate) struct Reached {
    pub(crate) choice: Choice,
    pub(crate) http: Http,
    pub(crate) tokens: Option<Arc<dyn TokenSource>>,
}

/// Finds out how a model is reached, with the settings of its provider.
///
/// # Errors
/// When the provider is unknown, or the HTTP client cannot be built.
pub(crate) async fn reach(loaded: &Loaded, name: Option<&str>) -> Result<Reached, ModelError> {
    let builder = ModelBuilder::new(loaded).await?;
    let choice = match name {
        Some(name) => parse_choice(name)?,
        None => {
            let settings = &loaded.settings;
            let everything = settings.model.clone().map(ModelSelection::One);
            let selection = everything.as_ref().unwrap_or(settings.models.serving("agent")).routed();
            let Description { provider, model, .. } =
                builder.build(&selection).await.model.description().clone();
            Choice::new(provider, model)
        }
    };
    let choice = builder.configured(choice).await;
    let tokens = builder.tokens(&choice).await;
    Ok(Reached { choice, http: builder.http, tokens })
}

/// Models that were combined into one.
struct Built {
    model: Arc<dyn Model>,
    /// Those that can be asked, in the order of the settings.
    candidates: Vec<Candidate>,
    /// A line that describes it, and a line for each model left out.
    lines: Vec<String>,
}

/// What building a model needs.
struct ModelBuilder {
    http: Http,
    guards: Guards,
    policy: RetryPolicy,
    settings: Settings,
    /// The models that were detected: by API keys in the environment, and local servers.
    detected: Vec<Choice>,
    azure: Arc<AzureTokens>,
}

impl ModelBuilder {
    async fn new(loaded: &Loaded) -> Result<Self, ModelError> {
        let settings = &loaded.settings;
        let orchestrator = &settings.orchestrator;
        let retry = orchestrator.retry;
        let seconds = Duration::from_secs;
        let timeouts = Timeouts {
            connect: seconds(orchestrator.model.connect_timeout_s),
            first_byte: seconds(orchestrator.model.first_byte_timeout_s),
            idle: seconds(orchestrator.model.idle_timeout_s),
            total: seconds(orchestrator.model.total_timeout_s),
            ..Timeouts::default()
        };
        profile::set_overrides(&settings.models.profiles);
        let http = Http::new(timeouts, &environment)?;
        let immediate = retry.immediate;
        let policy = RetryPolicy {
            retries: immediate.attempts,
            delay: Duration::from_millis(immediate.delay_ms),
            longest_wait: Duration::from_millis(immediate.max_wait_ms),
        };
        let metrics = Arc::clone(&loaded.instruments.metrics);
        let guards = Guards::new(retry.breaker, retry.budget, Arc::new(SystemClock), metrics);
        let detected = detect_all(&http, &environment).await;
        Ok(Self {
            http,
            guards,
            policy,
            settings: settings.clone(),
            detected,
            azure: Arc::new(AzureTokens::new()),
        })
    }

    /// Combines models into one.
    async fn build(&self, selection: &Routed) -> Built {
        let mut connected = Vec::new();
        let mut left_out: Vec<(Choice, ModelError)> = Vec::new();
        for name in &selection.models {
            let choices = if name == AUTO {
                Ok(self.detected.clone())
            } else {
                parse_choice(name).map(|one| vec![one])
            };
            let (choices, unknown) =
                choices.map_or_else(|error| (Vec::new(), Some(error)), |choices| (choices, None));
            left_out.extend(unknown.map(|error| (Choice::new(name, ""), error)));
            for choice in choices {
                let choice = self.configured(choice).await;
                let tokens = self.tokens(&choice).await;
                match connect_with(&choice, &self.http, &environment, tokens) {
                    Ok(model) => connected.push(model),
                    Err(error) => left_out.push((choice, error)),
                }
            }
        }
        let several = connected.len() > 1;
        // With a fallback, a rate-limited first model is not waited for longer than the usual delay.
        let longest_wait = if several { self.policy.delay } else { self.policy.longest_wait };
        let policy = RetryPolicy { longest_wait: longest_wait.min(self.policy.longest_wait), ..self.policy };
        let quality = &self.settings.models.quality;
        let guarded = connected.into_iter().map(|model| {
            let candidate = Candidate::from_tables(model.description().clone(), quality, SystemClock.now());
            (candidate, self.guards.guard(model, policy))
        });
        let guarded: Vec<_> = guarded.collect();
        let candidates = guarded.iter().map(|(candidate, _)| candidate.clone()).collect();
        let line = describe(&guarded, selection);
        let fallback =
            Fallback::new(selection.strategy, selection.needs.clone(), guarded, self.guards.latencies());
        match (fallback, left_out.first()) {
            (Some(model), _) => {
                let left_out =
                    left_out.iter().map(|(choice, error)| format!("without {choice}: {}", error.message));
                Built {
                    model: Arc::new(model),
                    candidates,
                    lines: std::iter::once(line).chain(left_out).collect(),
                }
            }
            (None, first) => {
                let (choice, error) = first.cloned().unwrap_or_else(|| {
                    // Unreachable in practice: settings without a model are refused.
                    let code = ModelErrorCode::ProviderNotConfigured;
                    (Choice::new("none", "none"), ModelError::new(code, "no model is set for this use case"))
                });
                let lines = vec![format!("none: {}", error.message)];
                Built { model: Arc::new(Unavailable::new(choice.description(), error)), candidates, lines }
            }
        }
    }

    /// The source of tokens for an Azure provider without a key; `None` when `az` is not logged in.
    async fn tokens(&self, choice: &Choice) -> Option<Arc<dyn TokenSource>> {
        let is_azure = matches!(choice.provider.as_str(), "azure" | "foundry");
        if !is_azure || choice.has_key(&environment) || self.azure.token().await.is_none() {
            return None;
        }
        Some(Arc::clone(&self.azure) as Arc<dyn TokenSource>)
    }

    /// Adds the settings of `jobs/providers.toml` to a choice.
    async fn configured(&self, choice: Choice) -> Choice {
        let row = Provider::named(&choice.provider).ok();
        let settings = self.settings.providers.iter().find(|(name, _)| Provider::named(name).ok() == row);
        let settings = settings.map(|(_, settings)| settings.clone()).unwrap_or_default();
        let mut choice = Choice {
            base_url: settings.base_url,
            wire: settings.wire,
            key: settings.key,
            key_variable: settings.key_variable,
            tools: self.settings.model_tools.or(settings.tools),
            ..choice
        };
        if choice.provider == "github" && !choice.has_key(&environment) {
            choice.key = tokens::github_token().await;
        }
        choice
    }
}

/// One line: the models in their order, prices that are unknown, and how they were chosen.
fn describe(models: &[(Candidate, Arc<dyn Model>)], selection: &Routed) -> String {
    let detected = selection.models.iter().any(|model| model == AUTO);
    let parts = models.iter().map(|(Candidate { description, .. }, _)| {
        let tools = if description.supports_tools { "" } else { ", without tools" };
        let Description { provider, model, .. } = description;
        let price = match (Price::find(provider, model), capabilities::nearest(provider, model)) {
            (None, Some(nearest)) => format!(", price unknown (nearest known model: {nearest})"),
            (None, None) => ", price unknown".to_owned(),
            (Some(_), _) => String::new(),
        };
        format!("{description}{tools}{price}")
    });
    let parts: Vec<String> = parts.collect();
    let simulated = models.iter().any(|(candidate, _)| candidate.description.simulated);
    let why = match (simulated, detected) {
        (true, true) => {
            " (SIMULATED: rules, no intelligence; for a real model set ANTHROPIC_API_KEY, OPENAI_API_KEY, … or start Ollama)"
        }
        (true, false) => " (SIMULATED: rules, no intelligence)",
        (false, true) => " (detected)",
        (false, false) => "",
    };
    match (parts.len(), selection.strategy) {
        (0 | 1, _) => format!("{}{why}", parts.concat()),
        (_, Strategy::Fallback) => format!("{}{why}", parts.join(", then ")),
        (_, strategy) => format!("the {} of {}{why}", strategy.as_str(), parts.join(", ")),
    }
}
