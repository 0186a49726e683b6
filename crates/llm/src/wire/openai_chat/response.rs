//! The shapes of an answer. A chunk of a stream holds a `delta`, an answer in one piece a `message`; they are
//! read as the same.

use houston_domain::model::{StopReason, Usage};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// A chunk, or a whole answer.
#[derive(Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) choices: Vec<Choice>,
    #[serde(default)]
    pub(super) usage: Option<ReportedUsage>,
    #[serde(default)]
    pub(super) x_groq: Option<Groq>,
    #[serde(default, borrow)]
    pub(super) error: Option<&'a RawValue>,
    /// `error` in a flat error (vLLM).
    #[serde(default)]
    pub(super) object: Option<String>,
}

/// One of the answers asked for. Only the first is read.
#[derive(Deserialize)]
pub(super) struct Choice {
    #[serde(default)]
    pub(super) index: u32,
    #[serde(default, alias = "message", deserialize_with = "null_is_default")]
    pub(super) delta: Delta,
    #[serde(default)]
    pub(super) finish_reason: Option<String>,
}

/// What is new.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta {
    pub(super) content: Option<Content>,
    pub(super) refusal: Option<String>,
    pub(super) reasoning_content: Option<String>,
    pub(super) reasoning: Option<String>,
    pub(super) reasoning_details: Option<Vec<Value>>,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) tool_calls: Vec<CallDelta>,
}

/// A piece of a tool call.
#[derive(Deserialize)]
pub(super) struct CallDelta {
    #[serde(default)]
    pub(super) index: Option<u64>,
    #[serde(default)]
    pub(super) id: Option<String>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) function: FunctionDelta,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct FunctionDelta {
    pub(super) name: Option<String>,
    pub(super) arguments: Option<Arguments>,
}

/// Groq's own corner of a chunk.
#[derive(Deserialize)]
pub(super) struct Groq {
    #[serde(default)]
    pub(super) usage: Option<ReportedUsage>,
    #[serde(default)]
    pub(super) error: Option<String>,
}

/// Text, or text and reasoning in parts (Mistral).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) text: String,
    pub(super) thinking: String,
}

/// Arguments as text; a few servers send the object itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Arguments(pub(super) String);

#[derive(Deserialize)]
struct Part {
    #[serde(default)]
    text: String,
    #[serde(default)]
    thinking: Vec<Self>,
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Content;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("text or a list of parts")
            }
            fn visit_str<E>(self, text: &str) -> Result<Content, E> {
                Ok(Content { text: text.to_owned(), thinking: String::new() })
            }
            fn visit_string<E>(self, text: String) -> Result<Content, E> {
                Ok(Content { text, thinking: String::new() })
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut parts: A) -> Result<Content, A::Error> {
                let mut content = Content { text: String::new(), thinking: String::new() };
                while let Some(part) = parts.next_element::<Part>()? {
                    content.text.push_str(&part.text);
                    part.thinking.iter().for_each(|thought| content.thinking.push_str(&thought.text));
                }
                Ok(content)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl<'de> Deserialize<'de> for Arguments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Arguments;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("JSON, as text or as it is")
            }
            fn visit_str<E>(self, text: &str) -> Result<Arguments, E> {
                Ok(Arguments(text.to_owned()))
            }
            fn visit_string<E>(self, text: String) -> Result<Arguments, E> {
                Ok(Arguments(text))
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<Arguments, A::Error> {
                let map = serde::de::value::MapAccessDeserializer::new(map);
                Value::deserialize(map).map(|value| Arguments(value.to_string()))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// Usage as reported, in the spellings seen.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct ReportedUsage {
    #[serde(deserialize_with = "null_is_default")]
    prompt_tokens: u64,
    #[serde(deserialize_with = "null_is_default")]
    completion_tokens: u64,
    #[serde(deserialize_with = "null_is_default")]
    total_tokens: u64,
    #[serde(deserialize_with = "null_is_default")]
    prompt_tokens_details: InputDetails,
    #[serde(deserialize_with = "null_is_default")]
    completion_tokens_details: OutputDetails,
    /// DeepSeek.
    #[serde(deserialize_with = "null_is_default")]
    prompt_cache_hit_tokens: u64,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct InputDetails {
    #[serde(deserialize_with = "null_is_default")]
    cached_tokens: u64,
    #[serde(deserialize_with = "null_is_default")]
    cache_write_tokens: u64,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    #[serde(deserialize_with = "null_is_default")]
    reasoning_tokens: u64,
}

impl ReportedUsage {
    /// In our terms: a part is never more than the whole, and reasoning counts as output (xAI leaves it out).
    pub(super) fn normalised(self) -> Usage {
        let input_tokens = self.prompt_tokens;
        let reasoning = self.completion_tokens_details.reasoning_tokens;
        let apart = reasoning > 0 && self.total_tokens == input_tokens + self.completion_tokens + reasoning;
        let output_tokens = self.completion_tokens + if apart { reasoning } else { 0 };
        let read =
            self.prompt_tokens_details.cached_tokens.max(self.prompt_cache_hit_tokens).min(input_tokens);
        Usage {
            input_tokens,
            output_tokens,
            cache_read_tokens: read,
            cache_write_tokens: self.prompt_tokens_details.cache_write_tokens.min(input_tokens - read),
            reasoning_tokens: reasoning.min(output_tokens),
            ..Usage::default()
        }
    }
}

/// `None` when the provider gave up instead of finishing.
pub(super) fn stop_reason(finish_reason: &str) -> Option<StopReason> {
    match finish_reason {
        "tool_calls" | "function_call" => Some(StopReason::ToolUse),
        "length" | "model_length" | "max_tokens" => Some(StopReason::MaxTokens),
        "content_filter" | "refusal" => Some(StopReason::Refusal),
        "error" => None,
        _ => Some(StopReason::EndTurn),
    }
}

fn null_is_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
