//! [`Setup`]: an agent type with its tools, model and limits; and the setups of a process.

pub(crate) mod agents;
mod cache;
pub(crate) mod client;
pub(crate) mod guards;
pub(crate) mod kinds;
pub(crate) mod own_tools;
pub(crate) mod rules;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use chrono::{DateTime, Utc};
use houston_domain::agent::token_budget::TokenBudget;
use houston_domain::agent::{Reply, RunPolicy, SEND_MESSAGE};
use houston_domain::agentable::AgentType;
use houston_domain::analysis::Vocabulary;
use houston_domain::answering::Output;
use houston_domain::focus::check_providers;
use houston_domain::guard::{Layer, LayerKind, ToolFacts, switched_off};
use houston_domain::model::{Tier, Usage};
use houston_domain::model_policy::{CachePolicy, CachePrices, Latency, ModelPolicy};
use houston_domain::skill::{BundledSkill, USE_SKILL};
use houston_domain::snippet::SnippetTool;
use houston_domain::tool_call::ToolDefinition;
use houston_llm::cache::{cache_prices, resolved};
use houston_llm::{AnswerSchema, Description, Model, Price, metered, tokens};
use houston_store::run_context::Setting;
use houston_tools::Offer;
use houston_tools::builtin::READ_RESULT;
use rust_decimal::Decimal;

use crate::driver::Driver;
use crate::hook::PromptSection;
use crate::setup::kinds::Setups;

/// Safety margin on estimated input tokens, in percent: see `houston_llm::context_budget`.
const RESERVE_PERCENT: u64 = 10;

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
    /// Which files they take.
    pub takes: Takes,
    /// What the agent may do with its tools: the layers of the installation, of the kind and of the agent; in the setup of a run,
    /// also those of the tenant, the user and the agentable.
    pub guards: Arc<[Arc<Layer>]>,
    /// Tools that its agent lists and this process does not have: they may be the tenant's own.
    pub unknown_tools: Arc<[String]>,
    /// The tools that the guards switch off: they are not offered. Guards judge calls of them by these facts.
    pub off: Arc<BTreeMap<String, ToolFacts>>,
    /// The skills that come with the installation, if the agent has the tools for skills.
    pub skills: Arc<[BundledSkill]>,
    /// The kinds whose conversations it reaches.
    pub reached: Arc<[AgentType]>,
    /// Whether it creates plans.
    pub makes_plans: bool,
    /// The words of its tools, once a message was analysed.
    pub(crate) vocabulary: Arc<OnceLock<Vocabulary>>,
    /// What says what its runs do next.
    pub drive: Drive,
    /// Sections of the prompt that hooks added; only in the setup of a run.
    pub sections: Arc<[PromptSection]>,
    /// What the client wants of the answer; only in the setup of a run.
    pub wanted: Wanted,
}

impl Setup {
    /// Offers other tools: `with_results`, and of those without `read_result` what `change` makes. If tools are searched,
    /// `read_result` is sent from the start, so that what is sent stays the same within a session.
    fn offer_all(&mut self, with_results: Offer, change: impl FnOnce(&Offer) -> Offer) {
        self.offer = if with_results.is_searched() { with_results.clone() } else { change(&self.offer) };
        self.offer_with_results = with_results;
        self.policy.reply = reply_of(self.policy.reply, &self.offer);
    }

    /// Changes both offers in the same way.
    fn change_offers(&mut self, change: impl Fn(&Offer) -> Offer) {
        self.offer = change(&self.offer);
        self.offer_with_results = change(&self.offer_with_results);
    }

    /// Adds a section to the prompt.
    fn add_section(&mut self, name: &str, text: String) {
        let section = PromptSection { name: name.to_owned(), text };
        self.sections = self.sections.iter().cloned().chain([section]).collect();
    }
}

/// Which files the models take that may answer. Looked up once: a profile is found among many rows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Takes {
    /// One of them sees.
    pub images: bool,
    /// One of them takes PDFs.
    pub documents: bool,
    /// All of them do: the text is not needed.
    pub all_documents: bool,
}

impl Takes {
    fn of(model: &dyn Model) -> Self {
        let models = model.candidates();
        Self {
            images: models.iter().any(|model| model.sees()),
            documents: models.iter().any(|model| model.takes_documents()),
            all_documents: models.iter().all(|model| model.takes_documents()),
        }
    }
}

/// What a client wants of the answer.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// What it must be. `None`: text.
    pub output: Option<Output>,
    /// The client's tools of which one must be called. Empty: the model decides.
    pub must_call: Vec<String>,
    /// The client's tools of which at most one is called at once.
    pub one_call_of: Vec<String>,
}

/// What says what runs do next.
#[derive(Clone)]
pub enum Drive {
    /// The agent loop, with its model.
    ModelLoop,
    /// The graph of a plan's steps.
    PlanGraph,
    /// A driver that the kind names.
    Custom(Arc<dyn Driver>),
}

/// An agent type that cannot be set up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("jobs/agents/{kind}.toml: {reason}")]
pub struct SetupError {
    /// The kind, which is also the name of its file.
    pub kind: String,
    /// Which setting is wrong, and what is allowed.
    pub reason: String,
}

impl SetupError {
    pub(crate) fn new(agent_type: &AgentType, reason: String) -> Self {
        Self { kind: agent_type.kind.clone(), reason }
    }
}

impl Setups {
    /// The setup of a kind.
    fn set_up(&self, agent_type: AgentType) -> Result<Setup, SetupError> {
        let use_case = &agent_type.use_case;
        let model = self.models.get(use_case).cloned().ok_or_else(|| {
            let known = self.models.keys().cloned().collect::<Vec<_>>().join(", ");
            SetupError::new(&agent_type, format!("use_case `{use_case}` has no model; there are: {known}"))
        })?;
        let effect = |tool: &str| Some(self.tools.get(tool)?.definition().effect);
        check_providers(&agent_type.context_providers, effect)
            .map_err(|reason| SetupError::new(&agent_type, format!("context_providers: {reason}")))?;
        check_answering(&agent_type, &*model)?;
        self.build(agent_type, model)
    }

    /// Builds the setup of `agent_type` with `model`.
    ///
    /// # Errors
    /// It names a tool that does not exist, or its guards are wrong.
    fn build(&self, agent_type: AgentType, model: Arc<dyn Model>) -> Result<Setup, SetupError> {
        let model = metered(model);
        let able = model.description().supports_tools;
        let names: &[String] = if able { &agent_type.tools } else { &[] };
        let wrong = |unknown| SetupError::new(&agent_type, format!("tools: {unknown}"));
        let offer = self.tools.offer(names).map_err(wrong)?;
        let offer_with_results = self.with_results(names).unwrap_or_else(|| offer.clone());
        let in_mode = |offer: Offer| if agent_type.code_mode { offer.in_code_mode() } else { offer };
        let offer = in_mode(offer);
        let offer_with_results = self.searched(in_mode(offer_with_results), &agent_type);
        // If tools are searched, `read_result` is sent from the start, so that what is sent stays the same within a session.
        let offer = if offer_with_results.is_searched() { offer_with_results.clone() } else { offer };
        let window = model.description().profile().capabilities.context_window;
        let policy = RunPolicy {
            conversational: agent_type.conversational,
            expects_reply: true,
            reply: reply_of(agent_type.reply, &offer),
            limits: self.config.limits.with(agent_type.limits),
        };
        let (prices, takes) = (Prices::of(&*model), Takes::of(&*model));
        let skills = if has_skill_tools(&offer) { Arc::clone(self.tools.skills()) } else { Arc::default() };
        let budget = self.config.context.budget_tokens.with(agent_type.budget_tokens);
        let guards = self.layers(&agent_type)?;
        let drive = if agent_type.is_plan() { Drive::PlanGraph } else { Drive::ModelLoop };
        Ok(guards::without_switched_off(Setup {
            agent_type,
            policy,
            offer,
            offer_with_results,
            tokens: budget,
            window,
            model,
            prices,
            takes,
            guards,
            unknown_tools: Arc::default(),
            off: Arc::default(),
            skills,
            reached: Arc::new([]),
            makes_plans: false,
            vocabulary: Arc::default(),
            drive,
            sections: Arc::default(),
            wanted: Wanted::default(),
        }))
    }

    /// The offer; searched, if it is too large for an agent of this type.
    fn searched(&self, offer: Offer, agent_type: &AgentType) -> Offer {
        let most = agent_type.direct_tokens.unwrap_or(self.config.context.direct_tokens);
        let size = |tool: &ToolDefinition| tokens::of_tools(std::slice::from_ref(tool));
        offer.searched_above(most, &agent_type.direct, size)
    }

    /// The guards of the installation and of the kind.
    fn layers(&self, agent_type: &AgentType) -> Result<Arc<[Arc<Layer>]>, SetupError> {
        let mut layers = vec![Arc::clone(&self.guards)];
        if let Some(guards) = &agent_type.guards {
            let layer = Layer::compile(LayerKind::Kind, &agent_type.kind, guards)
                .map_err(|wrong| SetupError::new(agent_type, format!("guards: {wrong}")))?;
            layers.push(Arc::new(layer));
        }
        Ok(layers.into())
    }

    /// The tools of these names and `read_result`. `None` when there are no tools, or `read_result` is among them.
    fn with_results(&self, names: &[String]) -> Option<Offer> {
        if names.is_empty() || names.iter().any(|name| name == READ_RESULT) {
            return None;
        }
        // Last, so that the definitions before it stay the same and cached.
        let names: Vec<String> = names.iter().cloned().chain([READ_RESULT.to_owned()]).collect();
        self.tools.offer(&names).ok()
    }
}

/// Checks what the file of a kind wants of answers, and that its model accepts it.
fn check_answering(agent_type: &AgentType, model: &dyn Model) -> Result<(), SetupError> {
    let AgentType { sampling, output, .. } = agent_type;
    let refuse = |setting, reason| Err(SetupError::new(agent_type, format!("{setting}: {reason}")));
    let checked = sampling.check().map_err(|wrong| wrong.below("/sampling"));
    let checked = checked
        .and_then(|()| output.as_ref().map_or(Ok(()), Output::check).map_err(|wrong| wrong.below("/output")));
    if let Err(refused) = checked {
        return refuse(refused.key(), refused.reason);
    }
    match model.description().refusal(sampling) {
        Some(refused) => refuse(
            format!("sampling.{}", refused.setting),
            format!("{}: {}", model.description(), refused.why),
        ),
        None => Ok(()),
    }
}

/// The form of an answer, for a model.
pub(crate) fn answer_schema(output: &Output) -> AnswerSchema<'_> {
    AnswerSchema { name: &output.name, schema: &output.schema, strict: output.strict }
}

/// Whether an agent with these tools can read skills. Others are not offered any.
pub(crate) fn has_skill_tools(offer: &Offer) -> bool {
    offer.get(USE_SKILL).is_some()
}

/// How an agent with these tools replies: one that cannot call `send_message` replies with its text.
pub(crate) fn reply_of(reply: Reply, offer: &Offer) -> Reply {
    if offer.get(SEND_MESSAGE).is_some() { reply } else { Reply::Text }
}

/// The setup of this run: limited to the agentable's own tools if it has some (a task), and without the need to reply if no
/// user message opened the run.
fn for_run(setup: &Arc<Setup>, setting: &Setting) -> Arc<Setup> {
    if setting.tools.is_none() && setting.mode.is_none() {
        return Arc::clone(setup);
    }
    let mut setup = Setup::clone(setup);
    if let Some(tools) = &setting.tools {
        limit(&mut setup, tools);
    }
    setup.policy.expects_reply = setting.mode.is_none();
    Arc::new(setup)
}

/// The setup with those snippets of the user that are tools and that its guards do not switch off. Without snippets it is the
/// same setup.
fn with_snippets(setup: Arc<Setup>, snippets: &[SnippetTool]) -> Arc<Setup> {
    if snippets.is_empty() {
        return setup;
    }
    let is_on = |snippet: &&SnippetTool| {
        switched_off(&setup.guards, &snippet.tool_name(), &ToolFacts::default()).is_none()
    };
    let snippets: Vec<SnippetTool> = snippets.iter().filter(is_on).cloned().collect();
    let mut setup = Setup::clone(&setup);
    setup.change_offers(|offer| offer.with_snippets(&snippets));
    Arc::new(setup)
}

/// Limits a setup to the tools with these names.
fn limit(setup: &mut Setup, tools: &[String]) {
    // Large results can always be read.
    let with_results: Vec<String> = tools.iter().cloned().chain([READ_RESULT.to_owned()]).collect();
    setup.offer_all(setup.offer_with_results.limited_to(&with_results), |offer| offer.limited_to(tools));
}

/// The price of each model that may answer, if known.
#[derive(Debug, Clone)]
pub struct Prices {
    models: Vec<Option<Price>>,
    /// What the providers take for what they keep.
    caches: Vec<Option<CachePrices>>,
    /// Whether requests may be kept for the longer time, and be answered by a fast lane. Both cost more.
    may_last: bool,
    may_be_fast: bool,
}

impl Prices {
    /// The prices of `model` and its fallbacks.
    pub(crate) fn of(model: &dyn Model) -> Self {
        let priced = |one: &Description| Price::find(&one.provider, &one.model);
        let models = model.candidates().into_iter().map(priced).collect();
        let caches = model.candidates().into_iter().map(cache_prices).collect();
        Self { models, caches, may_last: false, may_be_fast: false }
    }

    /// The prices for runs with this policy, after these pauses. `None`: they are the same.
    pub(crate) fn with_policy(&self, policy: ModelPolicy, pauses: &[u32]) -> Option<Self> {
        let cache = policy.cache.unwrap_or_default();
        let lasts =
            |prices: &Option<CachePrices>| resolved(cache, pauses, prices.as_ref()) == CachePolicy::Long;
        let may_last = match cache {
            CachePolicy::Auto if pauses.is_empty() => false,
            CachePolicy::Auto | CachePolicy::Long => self.caches.iter().any(lasts),
            CachePolicy::Off | CachePolicy::Short => false,
        };
        let may_be_fast = policy.latency == Some(Latency::Fast);
        (may_last || may_be_fast).then(|| Self { may_last, may_be_fast, ..self.clone() })
    }

    /// The most that a call may cost, in US dollars: with about `tokens` of input and up to `answer` tokens of output. With
    /// `all`, `None` unless the price of each model that may answer is known.
    pub(crate) fn max_cost(&self, tokens: u64, answer: u32, at: DateTime<Utc>, all: bool) -> Option<Decimal> {
        let plain = Usage {
            input_tokens: tokens.saturating_add(tokens / 100 * RESERVE_PERCENT),
            output_tokens: u64::from(answer),
            tier: self.may_be_fast.then_some(Tier::Priority),
            ..Usage::default()
        };
        // Writing to the provider's cache may cost more than plain input.
        let long_cache_write_tokens = if self.may_last { plain.input_tokens } else { 0 };
        let written = Usage { cache_write_tokens: plain.input_tokens, long_cache_write_tokens, ..plain };
        self.highest_cost(&plain, at, all).max(self.highest_cost(&written, at, all))
    }

    /// What the most expensive model takes for `usage`; with `all`, `None` unless each price is known.
    fn highest_cost(&self, usage: &Usage, at: DateTime<Utc>, all: bool) -> Option<Decimal> {
        let costs = || self.models.iter().map(|price| price.as_ref().and_then(|price| price.cost(usage, at)));
        if all && costs().any(|cost| cost.is_none()) {
            return None;
        }
        costs().flatten().max()
    }
}
