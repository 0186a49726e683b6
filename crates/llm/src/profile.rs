//! What requests to a model look like, and what it can do: [`Profile::of`].
//!
//! A profile is made of the limits and features of the vendored table ([`Capabilities`]) and of the rows of
//! `data/profiles.json`, by patterns of provider, model and wire. Every row that fits applies, a later one over an
//! earlier one; then those of the operator ([`set_overrides`]), a longer pattern over a shorter one; then what the
//! choice itself says (its wire), and what the provider has contradicted in this process (`correction`).

pub(crate) mod correction;

use std::collections::BTreeMap;
use std::sync::{LazyLock, PoisonError, RwLock};

use houston_domain::answering::{Effort, Sampling};
use houston_domain::model_policy::Latency;
use serde::{Deserialize, Deserializer, Serialize};

use crate::capabilities::Capabilities;
use crate::model::{Description, Request};
use crate::protocol::Wire;
use crate::provider::Provider;

/// The field that limits the length of an answer (Chat Completions).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputLimit {
    /// `max_tokens`
    MaxTokens,
    /// `max_completion_tokens`
    MaxCompletionTokens,
}

/// How a model is made to call the tool that it must call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForcedTool {
    /// `tool_choice` names it.
    Named,
    /// It is named, and thinking is switched off for that call.
    WithoutThinking,
    /// It is offered alone, and `tool_choice` requires a call.
    Required,
    /// It is offered alone, and the model decides.
    Auto,
}

impl ForcedTool {
    /// What a request says: that the model must call this tool, or any; `None`: nothing.
    pub(crate) fn choice<T>(self, this: T, any: T) -> Option<T> {
        match self {
            Self::Named | Self::WithoutThinking => Some(this),
            Self::Required => Some(any),
            Self::Auto => None,
        }
    }
}

/// How an effort of thinking is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Thinking {
    /// Not at all: the model does not think, or its provider has no setting for it.
    None,
    /// `reasoning_effort` (Chat Completions), `reasoning.effort` (Responses).
    Effort,
    /// `reasoning.effort` in Chat Completions (OpenRouter).
    Reasoning,
    /// `thinking.type` switches it on and off, `reasoning_effort` is its level (DeepSeek, Zhipu).
    Toggle,
    /// `thinking.type: "adaptive"` with `output_config.effort` (Anthropic).
    Adaptive,
    /// A number of tokens (Anthropic, Gemini, Cohere).
    Budget,
    /// `thinkingLevel` (Gemini).
    Level,
    /// `think` (Ollama).
    Think,
}

/// How a provider is made to follow an answer schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemaSupport {
    /// It accepts the schema.
    JsonSchema,
    /// It guarantees a JSON object; the schema is described in the prompt.
    JsonObject,
    /// It guarantees nothing, or not in a stream; the schema is described in the prompt.
    PromptOnly,
}

/// How the end of a chat stream is recognised. If the connection closes earlier, the answer was cut off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerEnd {
    /// By `[DONE]`, as OpenAI documents it: <https://platform.openai.com/docs/api-reference/chat-streaming>.
    #[default]
    DoneMark,
    /// By a finish reason and the end of the connection, for a provider that never sends `[DONE]`.
    FinishReason,
    /// By `[DONE]`; if the server does not send it, by a finish reason, a usage report and the end of the connection.
    /// For servers configured by address only, whose software Houston does not know. Unknown finish reasons count as
    /// a normal end.
    Unknown,
}

/// How a provider is told what it may cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheControl {
    /// Not at all.
    None,
    /// By marks in the request (`cache_control`).
    Marks,
    /// By a key of requests with the same beginning (`prompt_cache_key`).
    Key,
    /// By such a key, and by `prompt_cache_retention` for how long (OpenAI before GPT-5.6).
    Retention,
    /// By such a key, by `prompt_cache_options`, and by marks of its own (OpenAI from GPT-5.6 on).
    Options,
}

/// How a provider takes calls that it answers later: see [`Submitting`](crate::Submitting).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Submits {
    /// Not at all.
    No,
    /// In the background, within a window of two or eight hours (OpenAI Responses).
    Windows,
    /// As a batch, within a day (Anthropic).
    Batches,
}

/// Declares [`Profile`] and [`Changes`] from one list of fields with their defaults.
macro_rules! profile {
    (
        limits { $($(#[$limit_doc:meta])* $limit:ident: $limit_kind:ty,)* }
        $($(#[$doc:meta])* $name:ident: $kind:ty = $default:expr,)*
    ) => {
        /// What requests to a model look like, and what it can do.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Profile {
            /// The protocol.
            pub wire: Wire,
            /// Limits and features.
            pub capabilities: Capabilities,
            $($(#[$doc])* pub $name: $kind,)*
        }

        /// Changes of a [`Profile`]: a row of `data/profiles.json`, or one of the operator. Fields that are left out stay as
        /// they are.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct Changes {
            /// The protocol.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub wire: Option<Wire>,
            $($(#[$limit_doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $limit: Option<$limit_kind>,)*
            $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $name: Option<$kind>,)*
        }

        impl Profile {
            fn default_of(wire: Wire, capabilities: Capabilities) -> Self {
                Self { wire, capabilities, $($name: $default,)* }
            }

            /// The value of the field with this name, as in a row. `null`: it is not known, or there is no such field.
            pub(crate) fn field(&self, name: &str) -> serde_json::Value {
                let value = match name {
                    "wire" => serde_json::to_value(self.wire),
                    "vision" => serde_json::to_value(self.capabilities.vision),
                    $(stringify!($name) => serde_json::to_value(&self.$name),)*
                    _ => Ok(serde_json::Value::Null),
                };
                value.unwrap_or_default()
            }

            fn apply(&mut self, changes: &Changes) {
                let limits = &mut self.capabilities;
                $(limits.$limit = changes.$limit.or(limits.$limit);)*
                $(if let Some(value) = &changes.$name { self.$name = value.clone(); })*
            }
        }

        impl Changes {
            /// Both changes, `later` over these.
            pub(crate) fn then(self, later: Self) -> Self {
                Self {
                    wire: later.wire.or(self.wire),
                    $($limit: later.$limit.or(self.$limit),)*
                    $($name: later.$name.or(self.$name),)*
                }
            }
        }
    };
}

profile! {
    limits {
        /// Most input tokens.
        context_window: u64,
        /// Most output tokens in one answer.
        max_output_tokens: u64,
        /// Whether it supports several tool calls in one answer.
        parallel_tools: bool,
        /// Whether it accepts images as input.
        vision: bool,
        /// Whether it finds deferred tools itself.
        tool_search: bool,
    }
    /// The name of the output limit in Chat Completions.
    output_limit: OutputLimit = OutputLimit::MaxTokens,
    /// Whether it accepts `stream_options` (Chat Completions).
    stream_options: bool = true,
    /// How it is made to call a tool.
    forced_tool: ForcedTool = ForcedTool::Named,
    /// How an effort of thinking is asked for.
    thinking: Thinking = Thinking::None,
    /// The efforts it accepts. `max` is sent as `xhigh` where that is its name.
    efforts: Vec<Effort> = vec![Effort::Low, Effort::Medium, Effort::High],
    /// Whether thinking is counted against the output limit.
    thinking_shares_limit: bool = true,
    /// Whether its thoughts are asked for (Gemini).
    include_thoughts: bool = false,
    /// Whether encrypted reasoning is asked for, to be sent back (Responses).
    encrypted_reasoning: bool = true,
    /// Whether tool calls that another model wrote need a signature (Gemini).
    thought_signatures: bool = false,
    /// Whether it refuses tool calls in the history without `reasoning_content`; an empty one is sent if there is none.
    requires_reasoning_content: bool = false,
    /// Whether it accepts `temperature`.
    temperature: bool = true,
    /// Whether it accepts `top_p`.
    top_p: bool = true,
    /// Whether it accepts both in one request.
    temperature_with_top_p: bool = true,
    /// Whether it accepts texts that end the answer.
    stop: bool = true,
    /// How it is made to follow an answer schema.
    result_schema: SchemaSupport = SchemaSupport::JsonSchema,
    /// Whether schemas that fit are sent as strict (OpenAI).
    strict_schema: bool = true,
    /// Whether it accepts an answer schema together with tools.
    schema_with_tools: bool = true,
    /// Whether it requires call ids of exactly nine letters or digits.
    nine_character_ids: bool = false,
    /// Whether it refuses a user message directly after a tool result; an assistant message (`OK.`) is inserted.
    requires_assistant_after_tool: bool = false,
    /// How it is told what it may cache.
    cache: CacheControl = CacheControl::None,
    /// Whether it is sent PDFs if it sees. Others are sent their text.
    documents: bool = false,
    /// Whether it keeps prompts for a longer time if it is asked to.
    long_cache: bool = true,
    /// The name of its service tier that is cheap and slow. Empty: it has none.
    relaxed_tier: String = String::new(),
    /// The name of its service tier that is dear and fast. Empty: it has none.
    fast_tier: String = String::new(),
    /// How it takes calls that it answers later, for less.
    submits: Submits = Submits::No,
    /// How the end of its stream is recognised (Chat Completions).
    answer_end: AnswerEnd = AnswerEnd::DoneMark,
}

/// A row of the table.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    #[serde(rename = "for")]
    patterns: Vec<Pattern>,
    /// The only wire on which it applies.
    on: Option<Wire>,
    set: Changes,
    /// Where it is documented or was seen.
    #[cfg_attr(not(test), expect(dead_code, reason = "for people who read the table"))]
    #[serde(default)]
    why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    profiles: Vec<Row>,
}

static ROWS: LazyLock<Vec<Row>> =
    LazyLock::new(|| crate::of_data::<File>(include_str!("../data/profiles.json")).profiles);

/// The operator's rows, in the order in which they apply.
static OVERRIDES: RwLock<Vec<Row>> = RwLock::new(Vec::new());

/// Whether `text` is a pattern of models: `provider/model`, in which `*` stands for any characters, or `*` alone.
pub fn is_pattern(text: &str) -> bool {
    Pattern::new(text).is_some()
}

/// Sets the operator's rows for the rest of the process, by pattern (`local/qwen3*`); what [is none](is_pattern) is left out.
/// Called once at the start, before models are connected. See `[profiles]` in `jobs/models.toml`.
pub fn set_overrides(rows: &BTreeMap<String, Changes>) {
    let mut rows: Vec<_> = rows.iter().collect();
    // The longest match counts.
    rows.sort_by_key(|(pattern, _)| pattern.len());
    let rows = rows.into_iter().filter_map(|(pattern, set)| {
        let patterns = vec![Pattern::new(pattern)?];
        Some(Row { patterns, on: None, set: set.clone(), why: String::new() })
    });
    *OVERRIDES.write().unwrap_or_else(PoisonError::into_inner) = rows.collect();
}

impl Row {
    fn is_for(&self, provider: &str, model: &str) -> bool {
        self.patterns.iter().any(|pattern| pattern.is_match(provider, model))
    }
}

impl Profile {
    /// The profile of a model, e.g. `of("openai", "gpt-5-mini")`. Not cheap: store it with the model.
    pub fn of(provider: &str, model: &str) -> Self {
        Self::with(provider, model, &Changes::default())
    }

    /// The same with changes that take precedence over all rows.
    pub(crate) fn with(provider: &str, model: &str, own: &Changes) -> Self {
        let overrides = OVERRIDES.read().unwrap_or_else(PoisonError::into_inner);
        let rows = ROWS.iter().chain(overrides.iter());
        Self::from_rows(provider, model, rows, own)
    }

    fn from_rows<'r>(
        provider: &str,
        model: &str,
        rows: impl Iterator<Item = &'r Row> + Clone,
        own: &Changes,
    ) -> Self {
        let name = model.to_lowercase();
        let fitting = rows.filter(|row| row.is_for(provider, &name));
        let usual = Provider::named(provider).ok().and_then(|row| row.wire).unwrap_or(Wire::OpenAiChat);
        let by_model = fitting.clone().filter_map(|row| row.set.wire).last();
        let wire = own.wire.or(by_model).unwrap_or(usual);
        let capabilities = Capabilities::find(provider, model).unwrap_or_default();
        let mut profile = Self::default_of(wire, capabilities);
        for row in fitting.filter(|row| row.on.is_none_or(|on| on == wire)) {
            profile.apply(&row.set);
        }
        profile.apply(own);
        profile
    }

    /// The service tier that a request asks for, unless it is the usual one.
    pub(crate) fn tier_for(&self, request: &Request<'_>) -> Option<&str> {
        let name = match request.latency {
            Latency::Interactive => return None,
            Latency::Fast => &self.fast_tier,
            Latency::Relaxed | Latency::Batch => &self.relaxed_tier,
        };
        (!name.is_empty()).then_some(name.as_str())
    }

    /// Whether a request is sent with a key of requests with the same beginning.
    pub(crate) fn cache_key_for<'a>(&self, request: &Request<'a>) -> Option<&'a str> {
        let has_key =
            matches!(self.cache, CacheControl::Key | CacheControl::Retention | CacheControl::Options);
        request.cache_key.filter(|_| has_key && self.lifetime(request).is_some())
    }

    /// Whether the model is sent images: unknown counts as blind, as for [`Need::Vision`](crate::routing::router::Need).
    pub fn sees(&self) -> bool {
        self.capabilities.vision == Some(true)
    }

    /// Whether the model is sent PDFs. Others are sent their text.
    pub fn takes_documents(&self) -> bool {
        self.documents && self.sees()
    }
}

impl Description {
    /// Whether the model is sent images.
    pub fn sees(&self) -> bool {
        self.simulated || Profile::of(&self.provider, &self.model).sees()
    }

    /// Whether the model is sent PDFs. Others are sent their text.
    pub fn takes_documents(&self) -> bool {
        self.simulated || Profile::of(&self.provider, &self.model).takes_documents()
    }

    /// The profile of the model.
    pub fn profile(&self) -> Profile {
        Profile::of(&self.provider, &self.model)
    }
}

#[cfg(test)]
impl Profile {
    /// The profile of a model on `wire`.
    pub(crate) fn on(wire: Wire, provider: &str, model: &str) -> Self {
        Self::with(provider, model, &Changes { wire: Some(wire), ..Changes::default() })
    }
}

/// A pattern. `*` alone fits every model. That of the model is compared with the whole name and with what follows its last
/// slash, since gateways put the publisher before it; case is ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern {
    provider: String,
    model: String,
}

impl Pattern {
    /// Parses a pattern; `None` when it has no slash and is not `*`.
    pub(crate) fn new(text: &str) -> Option<Self> {
        let (provider, model) = if text == "*" { ("*", "*") } else { text.split_once('/')? };
        let is_empty = provider.is_empty() || model.is_empty();
        (!is_empty).then(|| Self { provider: provider.to_lowercase(), model: model.to_lowercase() })
    }

    /// Whether it fits a model, whose name is in lower case.
    pub(crate) fn is_match(&self, provider: &str, model: &str) -> bool {
        let published = model.rsplit('/').next().unwrap_or(model);
        is_match(&self.provider, provider)
            && (is_match(&self.model, model) || is_match(&self.model, published))
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::new(&text).ok_or_else(|| serde::de::Error::custom(format!("`{text}` is not `provider/model`")))
    }
}

fn is_match(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut left) = text.strip_prefix(start) else { return false };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return left.ends_with(part);
        }
        // The first place is the best one: what follows has the most room.
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    true
}

/// A setting of a request that a model does not accept. Without the caller's word it is left out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {why}")]
pub struct Unaccepted {
    /// `temperature`, `top_p`, `stop` or `effort`.
    pub setting: &'static str,
    /// Why not, for people.
    pub why: String,
}

impl Description {
    /// The first of these settings that the model does not accept. The simulated model accepts all.
    pub fn refusal(&self, sampling: &Sampling) -> Option<Unaccepted> {
        if self.simulated || sampling.is_empty() {
            return None;
        }
        self.profile().refusal(sampling)
    }
}

impl Profile {
    /// The first of these settings that the model does not accept, for a caller that refuses it. A request is sent without it.
    pub fn refusal(&self, sampling: &Sampling) -> Option<Unaccepted> {
        let Sampling { temperature, top_p, effort, stop } = sampling;
        let (temperature, top_p, effort) = (*temperature, *top_p, *effort);
        let request = Request { temperature, top_p, effort, stop, ..Request::default() };
        self.unaccepted(&request).into_iter().next()
    }

    /// The settings of `request` that the model does not accept.
    fn unaccepted(&self, request: &Request<'_>) -> Vec<Unaccepted> {
        let mut found = Vec::new();
        let mut add = |setting, why: String| found.push(Unaccepted { setting, why });
        if request.temperature.is_some() && self.temperature_for(request).is_none() {
            add("temperature", self.why_no_temperature(request));
        }
        if request.top_p.is_some() && self.top_p_for(request).is_none() {
            let why = if self.top_p { "the model takes one of temperature and top_p" } else { NOT_TAKEN };
            add("top_p", why.to_owned());
        }
        if !request.stop.is_empty() && self.stop_for(request).is_empty() {
            add("stop", NOT_TAKEN.to_owned());
        }
        if let Some(effort) = request.effort.filter(|_| self.effort_for(request).is_none()) {
            add("effort", self.why_no_effort(effort));
        }
        found
    }

    fn why_no_temperature(&self, request: &Request<'_>) -> String {
        if self.temperature && self.is_thinking_asked(request) {
            return "the model takes none while it thinks by request".to_owned();
        }
        NOT_TAKEN.to_owned()
    }

    fn why_no_effort(&self, effort: Effort) -> String {
        if self.thinking == Thinking::None {
            return "the model has no setting for how much it thinks".to_owned();
        }
        let accepted: Vec<&str> = self.efforts.iter().map(|effort| effort.as_str()).collect();
        format!("the model does not take `{}`; it takes {}", effort.as_str(), accepted.join(", "))
    }

    /// Whether an effort of thinking is asked for that excludes a temperature (Anthropic):
    /// <https://platform.claude.com/docs/en/build-with-claude/extended-thinking>.
    fn is_thinking_asked(&self, request: &Request<'_>) -> bool {
        self.wire == Wire::Anthropic && self.effort_for(request).is_some_and(|effort| effort != Effort::None)
    }

    /// The effort that is asked for, if the model accepts it.
    pub(crate) fn effort_for(&self, request: &Request<'_>) -> Option<Effort> {
        request.effort.filter(|effort| self.thinking != Thinking::None && self.efforts.contains(effort))
    }

    /// The temperature, if the model accepts it.
    pub(crate) fn temperature_for(&self, request: &Request<'_>) -> Option<f64> {
        request.temperature.filter(|_| self.temperature && !self.is_thinking_asked(request))
    }

    /// The share of the likeliest words, if the model accepts it, alone or together with a temperature.
    pub(crate) fn top_p_for(&self, request: &Request<'_>) -> Option<f64> {
        let is_alone = self.temperature_for(request).is_none();
        request.top_p.filter(|_| self.top_p && (is_alone || self.temperature_with_top_p))
    }

    /// The texts that end the answer, if the model accepts them.
    pub(crate) fn stop_for<'a>(&self, request: &Request<'a>) -> &'a [String] {
        if self.stop { request.stop } else { &[] }
    }
}

const NOT_TAKEN: &str = "the model does not take it";

#[cfg(test)]
mod pattern_tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_characters() {
        for (pattern, text, expected) in [
            ("gpt-5", "gpt-5", true),
            ("gpt-5", "gpt-5-mini", false),
            ("gpt-5*", "gpt-5", true),
            ("*-pro", "gpt-5-pro", true),
            ("*-pro", "gpt-5-pro-2025", false),
            ("*claude-*-5*", "us.claude-opus-5-5", true),
            ("a*a", "a", false),
            ("*", "", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "acb", false),
        ] {
            assert_eq!(is_match(pattern, text), expected, "{pattern} {text}");
        }
        let fits = |pattern: &str| Pattern::new(pattern).unwrap().is_match("github", "openai/gpt-5-mini");
        assert!(fits("*") && fits("github/gpt-5*") && fits("GitHub/OpenAI/*") && !fits("openai/gpt-5*"));
        assert!(Pattern::new("gpt-5").is_none() && Pattern::new("/x").is_none());
    }
}

#[cfg(test)]
mod tests;
