//! Which model serves which use case.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use houston_domain::clock::{Clock as _, SystemClock};
use houston_domain::model::ModelError;
use houston_engine::MakeModel;
use houston_llm::{
    Candidate, Choice, Description, Fallback, Guards, Http, Model, Price, Provider, RetryPolicy, Strategy,
    Timeouts, TokenSource, Unavailable, connect_with, detect_all, limits, parse_choice,
};

use crate::azure::AzureTokens;
use crate::config::{AUTO, Loaded, ProviderSettings, Routed, Settings, USE_CASES, Wanted};
use crate::github;

/// The environment, asked for one variable.
pub(crate) fn environment(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "the command line is where the environment is read")]
    let value = std::env::var(name);
    value.ok().filter(|value| !value.is_empty())
}

/// The models by use case, what makes others, and lines about the former that a person can read.
pub(crate) struct Models {
    pub(crate) by_use_case: BTreeMap<String, Arc<dyn Model>>,
    pub(crate) make: MakeModel,
    pub(crate) told: Vec<String>,
}

/// Builds the models of each use case, and those that types of agents name themselves. One that cannot be used is left
/// out; a use case none of whose models can be used fails each of its calls, visibly, with the line that says what to
/// set.
///
/// # Errors
/// When no HTTP client can be built.
pub(crate) async fn build(loaded: &Loaded) -> Result<Models, ModelError> {
    let settings = &loaded.settings;
    let workshop = Arc::new(Workshop::new(settings).await?);
    let named = loaded.kinds.values().map(|kind| kind.agent_type.use_case.as_str());
    let use_cases: BTreeSet<&str> = USE_CASES.into_iter().chain(named).collect();
    let everything = settings.model.clone().map(Wanted::One);
    let make = {
        let workshop = Arc::clone(&workshop);
        Arc::new(move |name: String| -> BoxFuture<'static, Arc<dyn Model>> {
            let workshop = Arc::clone(&workshop);
            Box::pin(async move { workshop.build(&Wanted::One(name).routed()).await.0 })
        })
    };
    let mut models = Models { by_use_case: BTreeMap::new(), make, told: Vec::new() };
    for use_case in use_cases {
        let own = Wanted::One(use_case.to_owned());
        let listed = if USE_CASES.contains(&use_case) { settings.models.serving(use_case) } else { &own };
        let (model, told) = workshop.build(&everything.as_ref().unwrap_or(listed).routed()).await;
        // Agents come first; of the others only what differs is worth a line.
        match models.told.first() {
            None => models.told.extend(told),
            Some(agents) if told.first() == Some(agents) => {}
            Some(_) => models.told.extend(told.into_iter().map(|told| format!("{use_case}: {told}"))),
        }
        models.by_use_case.insert(use_case.to_owned(), model);
    }
    Ok(models)
}

/// What models are made with.
struct Workshop {
    http: Http,
    guards: Guards,
    policy: RetryPolicy,
    tools: Option<bool>,
    quality: BTreeMap<String, u8>,
    /// Where providers are, by name.
    providers: BTreeMap<String, ProviderSettings>,
    /// What is found by itself.
    found: Vec<Choice>,
    azure: Arc<AzureTokens>,
}

impl Workshop {
    async fn new(settings: &Settings) -> Result<Self, ModelError> {
        let orchestrator = &settings.orchestrator;
        let seconds = Duration::from_secs;
        let timeouts = Timeouts {
            connect: seconds(orchestrator.model.connect_timeout_s),
            first_byte: seconds(orchestrator.model.first_byte_timeout_s),
            idle: seconds(orchestrator.model.idle_timeout_s),
            total: seconds(orchestrator.model.total_timeout_s),
            ..Timeouts::default()
        };
        let http = Http::new(timeouts, &environment)?;
        let immediate = orchestrator.retry.immediate;
        let policy = RetryPolicy {
            retries: immediate.attempts,
            delay: Duration::from_millis(immediate.delay_ms),
            longest_wait: Duration::from_millis(immediate.max_wait_ms),
        };
        let guards =
            Guards::new(orchestrator.retry.breaker, orchestrator.retry.budget, Arc::new(SystemClock));
        let found = detect_all(&http, &environment).await;
        Ok(Self {
            http,
            guards,
            policy,
            tools: settings.model_tools,
            quality: settings.models.quality.clone(),
            providers: settings.providers.clone(),
            found,
            azure: Arc::new(AzureTokens::new()),
        })
    }

    /// Several models as one, and the line that says which; then a line for each that was left out.
    async fn build(&self, wanted: &Routed) -> (Arc<dyn Model>, Vec<String>) {
        let mut connected = Vec::new();
        let mut left_out: Vec<(Choice, ModelError)> = Vec::new();
        for name in &wanted.models {
            let choices =
                if name == AUTO { Ok(self.found.clone()) } else { parse_choice(name).map(|one| vec![one]) };
            let (choices, unknown) =
                choices.map_or_else(|error| (Vec::new(), Some(error)), |found| (found, None));
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
        // With another one at hand, nobody waits for the first longer than usual.
        let longest_wait = if several { self.policy.delay } else { self.policy.longest_wait };
        let policy = RetryPolicy { longest_wait: longest_wait.min(self.policy.longest_wait), ..self.policy };
        let guarded = connected.into_iter().map(|model| {
            let candidate = Candidate::known(model.description().clone(), &self.quality, SystemClock.now());
            (candidate, self.guards.guard(model, policy))
        });
        let guarded: Vec<_> = guarded.collect();
        let told = tell(&guarded, wanted);
        let fallback = Fallback::new(wanted.strategy, wanted.needs.clone(), guarded, self.guards.paces());
        match (fallback, left_out.first()) {
            (Some(model), _) => {
                let left_out =
                    left_out.iter().map(|(choice, error)| format!("without {choice}: {}", error.message));
                (Arc::new(model), std::iter::once(told).chain(left_out).collect())
            }
            (None, first) => {
                let (choice, error) = first.cloned().unwrap_or_else(nothing);
                let told = vec![format!("none: {}", error.message)];
                (Arc::new(Unavailable::new(choice.description(), error)), told)
            }
        }
    }

    /// Where tokens come from for a provider of Azure's without a key, if somebody is logged in.
    async fn tokens(&self, choice: &Choice) -> Option<Arc<dyn TokenSource>> {
        let is_azure = matches!(choice.provider.as_str(), "azure" | "foundry");
        if !is_azure || choice.has_key(&environment) || self.azure.token().await.is_none() {
            return None;
        }
        Some(Arc::clone(&self.azure) as Arc<dyn TokenSource>)
    }

    /// The choice with what `jobs/providers.toml` says of its provider.
    async fn configured(&self, choice: Choice) -> Choice {
        let row = Provider::named(&choice.provider).ok();
        let told = self.providers.iter().find(|(name, _)| Provider::named(name).ok() == row);
        let told = told.map(|(_, told)| told.clone()).unwrap_or_default();
        let mut choice = Choice {
            base_url: told.base_url,
            wire: told.wire,
            key: told.key,
            key_variable: told.key_variable,
            tools: self.tools.or(told.tools),
            ..choice
        };
        if choice.provider == "github" && !choice.has_key(&environment) {
            choice.key = github::token().await;
        }
        choice
    }
}

/// No use case is without a model's name: settings are checked.
fn nothing() -> (Choice, ModelError) {
    let code = houston_domain::model::ModelErrorCode::ProviderNotConfigured;
    (Choice::new("none", "none"), ModelError::new(code, "no model is named for this use case"))
}

/// The models in the order in which they were listed.
fn tell(models: &[(Candidate, Arc<dyn Model>)], wanted: &Routed) -> String {
    let found = wanted.models.iter().any(|model| model == AUTO);
    let shown = models.iter().map(|(Candidate { description, .. }, _)| {
        let tools = if description.supports_tools { "" } else { ", without tools" };
        let Description { provider, model, .. } = description;
        let price = match (Price::find(provider, model), limits::nearest(provider, model)) {
            (None, Some(nearest)) => format!(", of unknown price (the nearest known model is {nearest})"),
            (None, None) => ", of unknown price".to_owned(),
            (Some(_), _) => String::new(),
        };
        format!("{description}{tools}{price}")
    });
    let shown: Vec<String> = shown.collect();
    let simulated = models.iter().any(|(candidate, _)| candidate.description.simulated);
    let why = match (simulated, found) {
        (true, true) => {
            " (SIMULATED: rules, no intelligence; set ANTHROPIC_API_KEY, OPENAI_API_KEY, … or start Ollama for a real one)"
        }
        (true, false) => " (SIMULATED: rules, no intelligence)",
        (false, true) => " (found by itself)",
        (false, false) => "",
    };
    match (shown.len(), wanted.strategy) {
        (0 | 1, _) => format!("{}{why}", shown.concat()),
        (_, Strategy::Fallback) => format!("{}{why}", shown.join(", then ")),
        (_, strategy) => format!("the {} of {}{why}", strategy.as_str(), shown.join(", ")),
    }
}
