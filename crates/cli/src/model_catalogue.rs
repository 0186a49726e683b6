//! The models of the settings for the API, which calls none. They are built when they are first needed.

use std::collections::BTreeMap;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use houston_api::{ExplainError, ModelCatalogue, RefusedSetting};
use houston_domain::answering::Sampling;
use houston_domain::clock::{Clock as _, SystemClock};
use houston_domain::model::Usage;
use houston_llm::routing::router::{Needs, order};
use houston_llm::{Candidate, Price, Strategy, parse_choice, tokens};
use houston_protocol::model::{
    EstimateModels, EstimatedModel, EstimatedStrategy, ModelCapabilities, ModelEstimate, ModelLimits,
    ModelPrice, ModelResponse, ModelRoute, ModelsResponse,
};
use houston_protocol::problem::FieldError;
use rust_decimal::Decimal;

use crate::explain::Explainer;
use crate::models::{Route, Routes};

/// The use case of agents whose type names no other.
const AGENT: &str = "agent";

impl ModelCatalogue for Explainer {
    fn models(&self) -> BoxFuture<'_, Result<ModelsResponse, ExplainError>> {
        async { Ok(self.routes().await?.response()) }.boxed()
    }

    fn refusal(
        &self,
        model: String,
        sampling: Sampling,
    ) -> BoxFuture<'_, Result<Option<RefusedSetting>, ExplainError>> {
        async move { Ok(self.routes().await?.refusal(&model, &sampling)) }.boxed()
    }

    fn estimate(
        &self,
        asked: EstimateModels,
        own_model: Option<String>,
    ) -> BoxFuture<'_, Result<Result<ModelEstimate, FieldError>, ExplainError>> {
        async move { Ok(self.routes().await?.estimate(&asked, own_model.as_deref())) }.boxed()
    }
}

impl Routes {
    fn response(&self) -> ModelsResponse {
        let mut data: BTreeMap<String, ModelResponse> = BTreeMap::new();
        for (use_case, route) in &self.by_use_case {
            for candidate in &route.candidates {
                let model = data
                    .entry(candidate.description.to_string())
                    .or_insert_with(|| model_response(candidate));
                model.use_cases.push(use_case.clone());
            }
        }
        let route = |(use_case, route): (&String, &Route)| ModelRoute {
            use_case: use_case.clone(),
            strategy: route.strategy,
            needs: route.needs.clone(),
            models: route.candidates.iter().map(|of| of.description.to_string()).collect(),
        };
        ModelsResponse {
            data: data.into_values().collect(),
            routes: self.by_use_case.iter().map(route).collect(),
        }
    }

    /// The route that is asked about.
    fn route(&self, use_case: &str, pointer: &str) -> Result<Route, FieldError> {
        if let Some(route) = self.by_use_case.get(use_case) {
            return Ok(route.clone());
        }
        // An agent may name a model in place of a use case.
        let choice = parse_choice(use_case).ok().filter(|_| pointer != "/use_case").ok_or_else(|| {
            let all: Vec<&str> = self.by_use_case.keys().map(String::as_str).collect();
            FieldError::at(pointer, format!("is no use case; there are: {}", all.join(", ")))
        })?;
        let candidate = Candidate::from_tables(choice.description(), &self.quality, SystemClock.now());
        Ok(Route { strategy: Strategy::Fallback, needs: Vec::new(), candidates: vec![candidate] })
    }

    /// What the first model of a route does not accept. A model that is not known is left to its provider.
    fn refusal(&self, model: &str, sampling: &Sampling) -> Option<RefusedSetting> {
        let route = self.route(model, "").ok()?;
        let description = &route.candidates.first()?.description;
        let refused = description.refusal(sampling)?;
        let why = format!("{description}: {}", refused.why);
        Some(RefusedSetting { setting: refused.setting, why })
    }

    fn estimate(&self, asked: &EstimateModels, own_model: Option<&str>) -> Result<ModelEstimate, FieldError> {
        let pointer = match own_model {
            Some(_) if asked.agent_id.is_some() => "/agent_id",
            Some(_) => "/kind",
            None => "/use_case",
        };
        let use_case = own_model.or(asked.use_case.as_deref()).unwrap_or(AGENT);
        let mut route = self.route(use_case, pointer)?;
        route.strategy = asked.strategy.unwrap_or(route.strategy);
        for need in asked.needs.iter().copied() {
            if !route.needs.contains(&need) {
                route.needs.push(need);
            }
        }
        let estimated = || asked.messages.iter().map(|text| tokens::estimate(text)).sum();
        let input_tokens = asked.input_tokens.unwrap_or_else(estimated);
        let cached_tokens = asked.cached_tokens;
        if cached_tokens > input_tokens {
            let detail = format!("must be at most {input_tokens}, the tokens that are sent");
            return Err(FieldError::at("/cached_tokens", detail));
        }
        let output_tokens = asked.output_tokens.unwrap_or(self.output_tokens);
        let tokens = [input_tokens, cached_tokens, output_tokens];
        let needs = Needs { always: &route.needs, input_tokens, output_tokens, ..Needs::default() };
        let ordered =
            |strategy| order(strategy, &needs, &route.candidates, &|model| self.latencies.expected(model));
        let own = ordered(route.strategy);
        let estimated = |index: usize, position: Option<u32>, skipped: Option<String>| {
            let candidate = &route.candidates[index];
            EstimatedModel {
                id: candidate.description.to_string(),
                cost: cost(candidate, tokens),
                position,
                skipped,
                simulated: candidate.description.simulated,
            }
        };
        let asked = own.asked.iter().zip(1..).map(|(index, nth)| estimated(*index, Some(nth), None));
        let skipped =
            own.skipped.iter().map(|(index, reason)| estimated(*index, None, Some(reason.to_string())));
        let candidates = asked.chain(skipped).collect();
        let strategies = Strategy::ALL.into_iter().map(|strategy| {
            let asked = ordered(strategy).asked;
            let of = |index: &usize| &route.candidates[*index];
            EstimatedStrategy {
                strategy,
                models: asked.iter().map(|index| of(index).description.to_string()).collect(),
                cost: asked.first().and_then(|index| cost(of(index), tokens)),
            }
        });
        Ok(ModelEstimate {
            use_case: use_case.to_owned(),
            strategy: route.strategy,
            needs: route.needs.clone(),
            input_tokens,
            cached_tokens,
            output_tokens,
            candidates,
            strategies: strategies.collect(),
        })
    }
}

/// What a call would cost at present: by the price list, or by what is assumed of models without one.
fn cost(candidate: &Candidate, [input, cached, output]: [u64; 3]) -> Option<Decimal> {
    let usage = Usage {
        input_tokens: input,
        cache_read_tokens: cached,
        output_tokens: output.min(candidate.capabilities.max_output_tokens.unwrap_or(u64::MAX)),
        ..Usage::default()
    };
    let description = &candidate.description;
    let listed = match Price::find(&description.provider, &description.model) {
        Some(price) => price.cost(&usage, SystemClock.now()),
        // A model of one's own machine costs nothing.
        None => candidate
            .rates
            .filter(|rates| rates.input.is_zero() && rates.output.is_zero())
            .map(|_| Decimal::ZERO),
    };
    listed.map(|cost| cost.normalize())
}

/// The price of a million tokens, as for a request of ordinary length.
fn price(candidate: &Candidate) -> Option<ModelPrice> {
    const ORDINARY: u64 = 1_000;
    let rates = candidate.rates?;
    let description = &candidate.description;
    let listed = Price::find(&description.provider, &description.model);
    let of = |usage: Usage| {
        let cost = listed.as_ref()?.cost(&usage, SystemClock.now())?;
        let per_million = (cost * Decimal::from(1_000_000 / ORDINARY)).normalize();
        // Without a price of its own it costs what other input does.
        (per_million != rates.input.normalize()).then_some(per_million)
    };
    let sent = Usage { input_tokens: ORDINARY, ..Usage::default() };
    Some(ModelPrice {
        input: rates.input.normalize(),
        output: rates.output.normalize(),
        cache_read: of(Usage { cache_read_tokens: ORDINARY, ..sent }),
        cache_write: of(Usage { cache_write_tokens: ORDINARY, ..sent }),
    })
}

fn model_response(candidate: &Candidate) -> ModelResponse {
    let (description, able) = (&candidate.description, &candidate.capabilities);
    ModelResponse {
        id: description.to_string(),
        provider: description.provider.clone(),
        model: description.model.clone(),
        use_cases: Vec::new(),
        simulated: description.simulated,
        price: price(candidate),
        limits: ModelLimits {
            context_window: able.context_window,
            max_output_tokens: able.max_output_tokens,
        },
        capabilities: ModelCapabilities {
            tools: able.tools,
            parallel_tools: able.parallel_tools,
            vision: able.vision,
            json_schema: able.json_schema,
            reasoning: able.reasoning,
            prompt_caching: able.prompt_caching,
        },
        quality: candidate.quality,
        retires_on: able.retires.map(|day| day.to_string()),
        measured: None,
    }
}

#[cfg(test)]
mod tests;
