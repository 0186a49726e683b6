//! Usage as reported by OpenAI's two protocols and compatible servers.

use houston_domain::model::Usage;
use rust_decimal::Decimal;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::fields::{Count, lenient};

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
    #[serde(deserialize_with = "lenient")]
    prompt_tokens_details: InputDetails,
    #[serde(deserialize_with = "lenient")]
    completion_tokens_details: OutputDetails,
    #[serde(deserialize_with = "lenient")]
    input_tokens_details: InputDetails,
    #[serde(deserialize_with = "lenient")]
    output_tokens_details: OutputDetails,
    /// DeepSeek.
    prompt_cache_hit_tokens: Count,
    /// Mistral.
    num_cached_tokens: Count,
    #[serde(deserialize_with = "charged")]
    cost: Option<Decimal>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct InputDetails {
    cached_tokens: Count,
    cache_write_tokens: Count,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    reasoning_tokens: Count,
}

/// Converts to Houston's [`Usage`]: a part is never larger than the whole, and reasoning counts as output (xAI
/// reports it separately).
pub(crate) fn normalised(reported: ReportedUsage) -> Usage {
    let input_tokens = reported.prompt_tokens.or(reported.input_tokens).or_zero();
    let completion = reported.completion_tokens.or(reported.output_tokens).or_zero();
    let details = [reported.prompt_tokens_details, reported.input_tokens_details];
    let outputs = [reported.completion_tokens_details, reported.output_tokens_details];
    let reasoning = outputs.map(|details| details.reasoning_tokens.or_zero()).into_iter().max().unwrap_or(0);
    let is_apart = reasoning > 0 && reported.total_tokens.or_zero() == input_tokens + completion + reasoning;
    let output_tokens = completion + if is_apart { reasoning } else { 0 };
    let read = [reported.prompt_cache_hit_tokens, reported.num_cached_tokens]
        .into_iter()
        .chain(details.map(|details| details.cached_tokens))
        .map(Count::or_zero)
        .max()
        .unwrap_or(0)
        .min(input_tokens);
    let written = details.map(|details| details.cache_write_tokens.or_zero()).into_iter().max().unwrap_or(0);
    Usage {
        input_tokens,
        output_tokens,
        cache_read_tokens: read,
        cache_write_tokens: written.min(input_tokens - read),
        long_cache_write_tokens: 0,
        reasoning_tokens: reasoning.min(output_tokens),
        cost: reported.cost,
        billed: None,
    }
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
