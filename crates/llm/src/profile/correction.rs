//! What a refusal says about the profile of a model: a pure function from a provider's error to the change that it asks for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::marks;
use crate::model::Description;
use crate::profile::{CacheControl, Changes, ForcedTool, OutputLimit, Profile, SchemaSupport, Thinking};
use crate::protocol::Wire;
use houston_domain::answering::Effort;

/// How a profile is to be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Correction {
    pub(crate) changes: Changes,
    /// What is so, for the log: `it takes max_completion_tokens, not max_tokens`.
    pub(crate) what: String,
}

/// What providers have contradicted in this process, by address and model. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Learned(Arc<Mutex<BTreeMap<(String, String), Known>>>);

/// All that is learned of a model, and its profile with that.
pub(crate) type Known = (Changes, Arc<Profile>);

impl Learned {
    /// What is known of a model at an address.
    pub(crate) fn get(&self, address: &str, model: &str) -> Option<Known> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&(address.to_owned(), model.to_owned())).cloned()
    }

    /// Remembers corrections whose request was accepted, and logs each.
    pub(crate) fn remember(
        &self,
        address: &str,
        model: &Description,
        (changes, profile): Known,
        corrections: &[String],
    ) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.insert((address.to_owned(), model.model.clone()), (changes.clone(), profile));
        drop(known);
        if before.is_some_and(|(before, _)| before == changes) {
            return;
        }
        for what in corrections {
            tracing::warn!(%model, "profile of {model} is out of date: {what}");
        }
    }
}

/// How much of an error is read, in bytes. Some quote the request after it.
const LONGEST: usize = 2000;

/// The change that a refusal asks for; `None` when it says nothing about the profile. `names_no_model`: whether the error is
/// not about the model's name. The refusal of a second request may ask for another change.
pub(crate) fn correction(
    profile: &Profile,
    status: u16,
    names_no_model: bool,
    body: &[u8],
) -> Option<Correction> {
    if !matches!(status, 400 | 404 | 405 | 422) {
        return None;
    }
    let text = String::from_utf8_lossy(&body[..body.len().min(LONGEST)]).to_lowercase();
    let refusal = Refusal { text: text.replace("\\\"", "\""), status, names_no_model };
    let checks = [wire, forced_tool, output_limit, schema, thinking, sampling, optional_fields, history];
    checks.into_iter().find_map(|check| check(profile, &refusal))
}

/// A refusal, in lower case.
struct Refusal {
    text: String,
    status: u16,
    names_no_model: bool,
}

impl Refusal {
    fn says(&self, words: &str) -> bool {
        self.text.contains(words)
    }

    fn says_any(&self, words: &[impl AsRef<str>]) -> bool {
        words.iter().any(|words| self.says(words.as_ref()))
    }

    /// Whether it refuses something.
    fn refuses(&self) -> bool {
        self.says_any(&marks().refusing.phrases)
    }

    /// Whether it refuses the field `name`.
    fn refuses_field(&self, name: &str) -> bool {
        self.refuses() && self.names(name)
    }

    /// Whether it has `name` as a word of its own.
    fn names(&self, name: &str) -> bool {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        self.text.match_indices(name).any(|(at, _)| {
            let bytes = self.text.as_bytes();
            !bytes[..at].last().is_some_and(is_part) && !bytes.get(at + name.len()).is_some_and(is_part)
        })
    }

    /// Whether it has `name` between quotation marks, for names that are ordinary words.
    fn quotes(&self, name: &str) -> bool {
        ['\'', '"', '`'].iter().any(|mark| self.says(&format!("{mark}{name}{mark}")))
    }
}

fn change(set: impl FnOnce(&mut Changes), what: impl Into<String>) -> Option<Correction> {
    let mut changes = Changes::default();
    set(&mut changes);
    Some(Correction { changes, what: what.into() })
}

/// Chat Completions and Responses are two protocols of the same servers.
fn wire(profile: &Profile, refusal: &Refusal) -> Option<Correction> {
    let to = |wire, what: &str| change(|to| to.wire = Some(wire), what);
    match profile.wire {
        Wire::OpenAiChat => {
            let asks = refusal.says("v1/responses") && refusal.says("chat/completions")
                || refusal.says_any(&["use /v1/responses", "use the responses api", "use v1/responses"])
                || refusal.says("not supported in the v1/chat/completions endpoint");
            to(Wire::OpenAiResponses, "it is served by Responses, not by Chat Completions").filter(|_| asks)
        }
        Wire::OpenAiResponses => {
            let is_absent = matches!(refusal.status, 404 | 405) && refusal.names_no_model;
            let is_refused = refusal.refuses() && refusal.says_any(&["v1/responses", "responses api"]);
            to(Wire::OpenAiChat, "it is served by Chat Completions, not by Responses")
                .filter(|_| is_absent || is_refused)
        }
        _ => None,
    }
}

fn forced_tool(profile: &Profile, refusal: &Refusal) -> Option<Correction> {
    let names = refusal.says_any(&["tool_choice", "tool choice", "toolchoice", "tool_config", "toolconfig"]);
    // vLLM cannot parse calls at all: another choice does not help.
    if !names || !refusal.refuses() || refusal.says("--enable-auto-tool-choice") {
        return None;
    }
    let by_thinking = refusal.says("thinking") || refusal.says("reasoning");
    let (forced, what) = match profile.forced_tool {
        ForcedTool::Named if by_thinking && profile.thinking == Thinking::Toggle => {
            (ForcedTool::WithoutThinking, "it takes a forced tool only without thinking")
        }
        _ => (ForcedTool::Auto, "it takes no forced tool"),
    };
    change(|to| to.forced_tool = Some(forced), what)
}

fn output_limit(profile: &Profile, refusal: &Refusal) -> Option<Correction> {
    let (now, other, next) = match profile.output_limit {
        OutputLimit::MaxTokens => ("max_tokens", "max_completion_tokens", OutputLimit::MaxCompletionTokens),
        OutputLimit::MaxCompletionTokens => ("max_completion_tokens", "max_tokens", OutputLimit::MaxTokens),
    };
    if profile.wire != Wire::OpenAiChat || !refusal.refuses_field(now) {
        return None;
    }
    change(|to| to.output_limit = Some(next), format!("it takes {other}, not {now}"))
}

fn schema(profile: &Profile, refusal: &Refusal) -> Option<Correction> {
    if !refusal.says_any(&marks().schema.phrases) {
        return None;
    }
    if profile.strict_schema && refusal.says_any(&["invalid schema for response_format", "strict"]) {
        return change(|to| to.strict_schema = Some(false), "it refuses a schema as strict");
    }
    if !refusal.refuses() {
        return None;
    }
    if profile.schema_with_tools
        && refusal.says_any(&["function calling", "tool/function", "with tools", "with tool"])
    {
        return change(|to| to.schema_with_tools = Some(false), "it takes no schema together with tools");
    }
    let (next, what) = match (profile.wire, profile.result_schema) {
        (_, SchemaSupport::PromptOnly) => return None,
        (Wire::OpenAiChat, SchemaSupport::JsonSchema) => {
            (SchemaSupport::JsonObject, "it takes no json_schema")
        }
        _ => (SchemaSupport::PromptOnly, "it takes no schema of the answer"),
    };
    change(|to| to.result_schema = Some(next), what)
}

fn thinking(profile: &Profile, refusal: &Refusal) -> Option<Correction> {
    if refusal.refuses() && refusal.says("encrypted content") {
        return change(|to| to.encrypted_reasoning = Some(false), "it has no encrypted reasoning");
    }
    let names_it = refusal.says_any(&["thinking", "reasoning", "effort", "think value", "include_thoughts"]);
    if !names_it || !refusal.refuses() {
        return None;
    }
    let to = |thinking, what: &str| change(|to| to.thinking = Some(thinking), what);
    if let Some(efforts) = supported_efforts(&refusal.text) {
        let names: Vec<&str> = efforts.iter().map(|effort| effort.as_str()).collect();
        let what = format!("it takes the efforts {}", names.join(", "));
        return change(|to| to.efforts = Some(efforts), what);
    }
    match profile.thinking {
        Thinking::Budget if refusal.says("adaptive") => {
            to(Thinking::Adaptive, "it thinks adaptively, not by a number of tokens")
        }
        Thinking::Adaptive if refusal.says("adaptive") => {
            to(Thinking::Budget, "it thinks by a number of tokens, not adaptively")
        }
        Thinking::Level if refusal.says("level") => {
            to(Thinking::Budget, "it thinks by a number of tokens, not by level")
        }
        Thinking::Budget if refusal.says("budget") && profile.wire == Wire::Gemini => {
            to(Thinking::Level, "it thinks by level, not by a number of tokens")
        }
        Thinking::None if !profile.include_thoughts => None,
        _ => {
            let none = |to: &mut Changes| {
                (to.thinking, to.include_thoughts) = (Some(Thinking::None), Some(false));
            };
            change(none, "it has no setting for how much it thinks")
        }
    }
}

/// The efforts listed after `supported values are:`.
fn supported_efforts(text: &str) -> Option<Vec<Effort>> {
    const NAMES: [(&str, Effort); 7] = [
        ("'none'", Effort::None),
        ("'minimal'", Effort::Minimal),
        ("'low'", Effort::Low),
        ("'medium'", Effort::Medium),
        ("'high'", Effort::High),
        ("'xhigh'", Effort::Max),
        ("'max'", Effort::Max),
    ];
    let (_, list) = text.split_once("supported values are").or_else(|| text.split_once("must be one of"))?;
    let list = list.split(['.', '}']).next()?;
    let mut found: Vec<Effort> =
        NAMES.iter().filter(|(name, _)| list.contains(name)).map(|(_, effort)| *effort).collect();
    found.dedup();
    (!found.is_empty()).then_some(found)
}

fn sampling(profile: &Profile, refusal: &Refusal) -> Option<Correction> {
    if !refusal.refuses() {
        return None;
    }
    let (temperature, top_p) =
        (refusal.names("temperature"), refusal.names("top_p") || refusal.names("topp"));
    if temperature && top_p && refusal.says("both") && profile.temperature_with_top_p {
        return change(|to| to.temperature_with_top_p = Some(false), "it takes one of temperature and top_p");
    }
    if temperature || top_p {
        let neither = |to: &mut Changes| {
            (to.temperature, to.top_p) = (temperature.then_some(false), top_p.then_some(false));
        };
        return change(neither, if temperature { "it takes no temperature" } else { "it takes no top_p" });
    }
    let stops = refusal.quotes("stop") || refusal.says_any(&["stop_sequences", "stopsequences"]);
    if stops && profile.stop {
        return change(|to| to.stop = Some(false), "it takes no texts that end the answer");
    }
    None
}

fn optional_fields(profile: &Profile, refusal: &Refusal) -> Option<Correction> {
    if profile.stream_options && refusal.refuses_field("stream_options") {
        return change(|to| to.stream_options = Some(false), "it takes no stream_options");
    }
    cache(profile, refusal).or_else(|| tier(profile, refusal))
}

/// What is said about the cache is given up piece by piece: the longer time, then all but the key, then everything.
fn cache(profile: &Profile, refusal: &Refusal) -> Option<Correction> {
    let is_refused = |name: &&str| refusal.names(name) && (refusal.refuses() || refusal.says("invalid"));
    const TIMES: [&str; 4] = ["ttl", "prompt_cache_options.ttl", "prompt_cache_retention", "1h"];
    let can_last = !matches!(profile.cache, CacheControl::None | CacheControl::Key);
    if profile.long_cache && can_last && TIMES.iter().any(is_refused) {
        return change(|to| to.long_cache = Some(false), "it keeps prompts for one time only");
    }
    const OPTIONS: [&str; 3] = ["prompt_cache_options", "prompt_cache_breakpoint", "prompt_cache_retention"];
    let has_options = matches!(profile.cache, CacheControl::Retention | CacheControl::Options);
    if has_options && OPTIONS.iter().any(is_refused) {
        return change(|to| to.cache = Some(CacheControl::Key), "it takes no options of its cache but a key");
    }
    if profile.cache != CacheControl::None && ["prompt_cache_key", "cache_control"].iter().any(is_refused) {
        return change(|to| to.cache = Some(CacheControl::None), "it takes no settings of its cache");
    }
    None
}

/// If the refusal does not say which tier it is about, it is about all.
fn tier(profile: &Profile, refusal: &Refusal) -> Option<Correction> {
    let Profile { relaxed_tier, fast_tier, .. } = profile;
    let has_any = !(relaxed_tier.is_empty() && fast_tier.is_empty());
    let names_it = refusal.says_any(&["service_tier", "service tier", "servicetier"]);
    if !has_any || !names_it || !(refusal.refuses() || refusal.says("invalid")) {
        return None;
    }
    let names = |tier: &String| !tier.is_empty() && refusal.quotes(tier);
    let (relaxed, fast) = (names(relaxed_tier), names(fast_tier));
    let is_none = |this: bool, other: bool| (this || !other).then(String::new);
    let none = |to: &mut Changes| {
        (to.relaxed_tier, to.fast_tier) = (is_none(relaxed, fast), is_none(fast, relaxed));
    };
    change(none, "it does not have this service tier")
}

/// What the history must look like.
fn history(profile: &Profile, refusal: &Refusal) -> Option<Correction> {
    if !profile.nine_character_ids && refusal.says("length of 9") {
        return change(
            |to| to.nine_character_ids = Some(true),
            "it takes call ids of nine letters or digits",
        );
    }
    let is_user_after_tool = refusal.says("unexpected role 'user' after role 'tool'");
    if !profile.requires_assistant_after_tool && is_user_after_tool {
        return change(
            |to| to.requires_assistant_after_tool = Some(true),
            "it takes no user message directly after a tool result",
        );
    }
    let is_missing = refusal.says_any(&["must be passed back", "missing"]);
    if !profile.requires_reasoning_content && is_missing && refusal.says("reasoning_content") {
        return change(
            |to| to.requires_reasoning_content = Some(true),
            "it takes no call without its reasoning",
        );
    }
    if !profile.thought_signatures && is_missing && refusal.says("thought_signature") {
        return change(|to| to.thought_signatures = Some(true), "it takes no call without a signature");
    }
    None
}

#[cfg(test)]
mod tests;
