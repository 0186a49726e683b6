//! What OpenAI's two protocols and compatible servers share: usage as they report it, definitions of tools, and how long
//! prompts are kept.

use houston_domain::model::{PricedApart, Usage};
use houston_domain::tool_call::ToolDefinition;
use rust_decimal::Decimal;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::fields::{Count, Lenient};
use super::identifier::tool_name;
use super::object::Object;
use super::tool_schema::Rules;
use crate::cache::Lifetime;
use crate::model::Request;
use crate::profile::{CacheControl, Profile};

/// Usage as reported.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ReportedUsage {
    prompt_tokens: Count,
    completion_tokens: Count,
    /// Responses; a few servers send both names in Chat Completions.
    input_tokens: Count,
    output_tokens: Count,
    total_tokens: Count,
    prompt_tokens_details: Lenient<InputDetails>,
    completion_tokens_details: Lenient<OutputDetails>,
    input_tokens_details: Lenient<InputDetails>,
    output_tokens_details: Lenient<OutputDetails>,
    /// DeepSeek.
    prompt_cache_hit_tokens: Count,
    /// Mistral, which also writes `prompt_token_details` in place of `prompt_tokens_details`.
    num_cached_tokens: Count,
    prompt_token_details: Lenient<InputDetails>,
    /// Moonshot.
    cached_tokens: Count,
    /// litellm, with Anthropic's names.
    cache_read_input_tokens: Count,
    cache_creation_input_tokens: Count,
    /// Perplexity.
    num_search_queries: Count,
    #[serde(deserialize_with = "charged")]
    cost: Option<Decimal>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct InputDetails {
    cached_tokens: Count,
    cache_write_tokens: Count,
    audio_tokens: Count,
    image_tokens: Count,
    cached_tokens_details: Lenient<CachedDetails>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct CachedDetails {
    audio_tokens: Count,
    image_tokens: Count,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    reasoning_tokens: Count,
    audio_tokens: Count,
    image_tokens: Count,
}

/// Converts to Houston's [`Usage`]: a part is never larger than the whole, and reasoning counts as output (xAI
/// reports it separately).
pub(crate) fn normalised(reported: ReportedUsage) -> Usage {
    let input_tokens = reported.prompt_tokens.or(reported.input_tokens).or_zero();
    let completion = reported.completion_tokens.or(reported.output_tokens).or_zero();
    let inputs =
        [reported.prompt_tokens_details, reported.prompt_token_details, reported.input_tokens_details];
    let inputs = inputs.map(|Lenient(details)| details);
    let outputs =
        [reported.completion_tokens_details, reported.output_tokens_details].map(|Lenient(details)| details);
    let reasoning = largest(outputs.map(|details| details.reasoning_tokens));
    let is_apart = reasoning > 0 && reported.total_tokens.or_zero() == input_tokens + completion + reasoning;
    let output_tokens = completion + if is_apart { reasoning } else { 0 };
    let read = [
        reported.prompt_cache_hit_tokens,
        reported.num_cached_tokens,
        reported.cached_tokens,
        reported.cache_read_input_tokens,
    ];
    let read = largest(read).max(largest(inputs.map(|details| details.cached_tokens))).min(input_tokens);
    let written = largest(inputs.map(|details| details.cache_write_tokens))
        .max(reported.cache_creation_input_tokens.or_zero());
    let input_of = |kind: fn(InputDetails) -> Count| small(largest(inputs.map(kind)));
    let output_of = |kind: fn(OutputDetails) -> Count| small(largest(outputs.map(kind)));
    let cached_of = |kind: fn(CachedDetails) -> Count| {
        small(largest(inputs.map(|details| kind(details.cached_tokens_details.0))))
    };
    let apart = PricedApart {
        input_audio_tokens: input_of(|details| details.audio_tokens),
        cached_audio_tokens: cached_of(|details| details.audio_tokens),
        output_audio_tokens: output_of(|details| details.audio_tokens),
        input_image_tokens: input_of(|details| details.image_tokens),
        cached_image_tokens: cached_of(|details| details.image_tokens),
        output_image_tokens: output_of(|details| details.image_tokens),
        web_searches: small(reported.num_search_queries.or_zero()),
    };
    clamped(Usage {
        input_tokens,
        output_tokens,
        cache_read_tokens: read,
        cache_write_tokens: written.min(input_tokens - read),
        long_cache_write_tokens: 0,
        reasoning_tokens: reasoning.min(output_tokens),
        cost: reported.cost,
        billed: None,
        tier: None,
        apart,
    })
}

/// The largest of several reports of the same count.
fn largest<const N: usize>(counts: [Count; N]) -> u64 {
    counts.map(Count::or_zero).into_iter().max().unwrap_or(0)
}

/// A count of what is priced apart.
pub(crate) fn small(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The same without parts that are larger than the whole.
pub(crate) fn clamped(mut usage: Usage) -> Usage {
    let Usage { input_tokens, output_tokens, cache_read_tokens, apart, .. } = &mut usage;
    let (input, output, cached) = (small(*input_tokens), small(*output_tokens), small(*cache_read_tokens));
    apart.input_audio_tokens = apart.input_audio_tokens.min(input);
    apart.input_image_tokens = apart.input_image_tokens.min(input - apart.input_audio_tokens);
    apart.cached_audio_tokens = apart.cached_audio_tokens.min(apart.input_audio_tokens).min(cached);
    let cached_images = cached - apart.cached_audio_tokens;
    apart.cached_image_tokens = apart.cached_image_tokens.min(apart.input_image_tokens).min(cached_images);
    apart.output_audio_tokens = apart.output_audio_tokens.min(output);
    apart.output_image_tokens = apart.output_image_tokens.min(output - apart.output_audio_tokens);
    usage
}

/// A report after an earlier one of the same answer. Counts only grow: a later 0 says that the server does not know.
pub(crate) fn merged(earlier: Option<Usage>, later: Option<Usage>) -> Option<Usage> {
    let (Some(earlier), Some(mut later)) = (earlier, later) else { return later.or(earlier) };
    if later.input_tokens == 0 {
        later.input_tokens = earlier.input_tokens;
        later.cache_read_tokens = earlier.cache_read_tokens;
        later.cache_write_tokens = earlier.cache_write_tokens;
    }
    if later.output_tokens == 0 {
        later.output_tokens = earlier.output_tokens;
        later.reasoning_tokens = earlier.reasoning_tokens;
    }
    if later.apart.is_nothing() {
        later.apart = earlier.apart;
    }
    later.cost = later.cost.or(earlier.cost);
    later.tier = later.tier.or(earlier.tier);
    Some(later)
}

/// The charge reported by the provider: a number (OpenRouter), or an object with the total (Perplexity). An
/// implausible charge is ignored.
fn charged<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Decimal>, D::Error> {
    #[derive(Deserialize)]
    struct Itemised<'a> {
        #[serde(borrow)]
        total_cost: &'a RawValue,
    }
    let cost = <&RawValue>::deserialize(deserializer)?;
    let total = serde_json::from_str::<Itemised<'_>>(cost.get()).map_or(cost, |cost| cost.total_cost);
    let text = total.get().trim_matches('"');
    let cost = text.parse().or_else(|_| Decimal::from_scientific(text)).ok();
    Ok(cost.filter(Usage::is_plausible_cost))
}

/// The definition of a tool; `None` if its schema cannot be sent.
pub(crate) fn function_tool(tool: &ToolDefinition, rules: &'static Rules) -> Option<Vec<u8>> {
    let function = Object::new().with("name", &tool.name).with("description", &tool.description);
    let function = function.with("parameters", rules.parameters(tool)?);
    Some(Object::typed("function").nested("function", function).end())
}

/// A call of a tool in the history. The id is one that the provider accepts; `extra`: data that it must get back with it.
pub(crate) fn tool_call(id: &str, name: &str, input: &Value, extra: Option<&RawValue>) -> Vec<u8> {
    // The arguments are a JSON object, encoded as a string.
    let function = Object::new().with("name", tool_name(name)).with("arguments", input.to_string());
    let call = Object::new().with("id", id).with("type", "function").nested("function", function);
    call.maybe("extra_content", extra).end()
}

/// `prompt_cache_options` of a request: <https://developers.openai.com/api/docs/guides/prompt-caching>. `has_marks`: it has marks
/// of its own if anything is kept. Without marks of its own the provider sets one. Writing costs more than plain input.
pub(crate) fn cache_options(profile: &Profile, request: &Request<'_>, has_marks: bool) -> Object {
    if profile.cache != CacheControl::Options {
        return Object::new();
    }
    let lifetime = profile.lifetime(request);
    let ttl = (lifetime == Some(Lifetime::Long)).then_some("12h");
    let mode = match lifetime {
        Some(_) if !has_marks && ttl.is_none() => return Object::new(),
        Some(_) if !has_marks => "implicit",
        _ => "explicit",
    };
    Object::new().with("mode", mode).maybe("ttl", ttl)
}

/// `prompt_cache_retention`, for models before `prompt_cache_options`.
pub(crate) fn retention(profile: &Profile, request: &Request<'_>) -> Option<&'static str> {
    let is_long = profile.lifetime(request) == Some(Lifetime::Long);
    (profile.cache == CacheControl::Retention && is_long).then_some("24h")
}
