//! Which model serves which use case.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use houston_domain::clock::SystemClock;
use houston_domain::model::ModelError;
use houston_llm::{
    Choice, Description, Guards, Http, Model, Price, RetryPolicy, Timeouts, Unavailable, connect, detect,
    limits, parse_choice,
};

use crate::config::Settings;

/// The environment, asked for one variable.
pub(crate) fn environment(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "the command line is where the environment is read")]
    let value = std::env::var(name);
    value.ok().filter(|value| !value.is_empty())
}

/// The models by use case, and a line for each that a person can read.
pub(crate) struct Models {
    pub(crate) by_use_case: BTreeMap<String, Arc<dyn Model>>,
    pub(crate) told: Vec<String>,
}

/// Builds the model of each use case. One that cannot be used fails each of its calls, visibly, with the line
/// that says what to set.
///
/// # Errors
/// When no HTTP client can be built.
pub(crate) async fn build(settings: &Settings) -> Result<Models, ModelError> {
    let orchestrator = &settings.orchestrator;
    let seconds = Duration::from_secs;
    let timeouts = Timeouts {
        connect: seconds(orchestrator.model.connect_timeout_s),
        first_byte: seconds(orchestrator.model.first_byte_timeout_s),
        idle: seconds(orchestrator.model.idle_timeout_s),
        ..Timeouts::default()
    };
    let http = Http::new(timeouts, &environment)?;
    let immediate = orchestrator.retry.immediate;
    let policy = RetryPolicy {
        retries: immediate.attempts,
        delay: Duration::from_millis(immediate.delay_ms),
        longest_wait: Duration::from_millis(immediate.max_wait_ms),
    };
    let guards = Guards::new(orchestrator.retry.breaker, orchestrator.retry.budget, Arc::new(SystemClock));
    let mut models = Models { by_use_case: BTreeMap::new(), told: Vec::new() };
    for (use_case, wanted) in &settings.models {
        let wanted = settings.model.as_deref().unwrap_or(wanted);
        let (model, told) = one(wanted, settings.model_tools, &http).await;
        models.told.push(told);
        models.by_use_case.insert(use_case.clone(), guards.guard(model, policy));
    }
    models.told.dedup();
    Ok(models)
}

async fn one(wanted: &str, tools: Option<bool>, http: &Http) -> (Arc<dyn Model>, String) {
    let found = wanted == "auto";
    let choice = if found { Ok(detect(http, &environment).await) } else { parse_choice(wanted) };
    let connected = choice.and_then(|choice| connect(&Choice { tools, ..choice }, http, &environment));
    match connected {
        Ok(model) => {
            let told = tell(model.as_ref(), found);
            (model, told)
        }
        Err(error) => {
            let told = format!("none: {}", error.message);
            let (provider, name) = wanted.split_once('/').unwrap_or((wanted, ""));
            let description = Choice::new(provider, name).description();
            (Arc::new(Unavailable::new(description, error)), told)
        }
    }
}

fn tell(model: &dyn Model, found: bool) -> String {
    let description = model.description();
    let why = match (description.simulated, found) {
        (true, true) => {
            " (SIMULATED: rules, no intelligence; set ANTHROPIC_API_KEY, OPENAI_API_KEY, … or start Ollama for a real one)"
        }
        (true, false) => " (SIMULATED: rules, no intelligence)",
        (false, true) => " (found by itself)",
        (false, false) => "",
    };
    let tools = if description.supports_tools { "" } else { ", without tools" };
    let Description { provider, model, .. } = description;
    let price = match (Price::find(provider, model), limits::nearest(provider, model)) {
        (None, Some(nearest)) => format!(", of unknown price (the nearest known model is {nearest})"),
        (None, None) => ", of unknown price".to_owned(),
        (Some(_), _) => String::new(),
    };
    format!("{description}{tools}{price}{why}")
}
