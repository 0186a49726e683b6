//! The types of an answer. A chunk of a stream has a `delta`, a complete answer a `message`; both are read into the
//! same type.

use houston_domain::model::{Tier, Usage};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::fields::{Arguments, Count, Pieces, lenient, null_is_default, text};
use super::super::usage::{ReportedUsage, normalised};

/// A chunk, or a complete answer.
#[derive(Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(default, borrow, deserialize_with = "null_is_default")]
    pub(super) choices: Vec<Choice<'a>>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) usage: Option<ReportedUsage>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) x_groq: Option<Groq>,
    #[serde(default, deserialize_with = "text")]
    service_tier: Option<String>,
    #[serde(default, borrow)]
    pub(super) error: Option<&'a RawValue>,
    /// `error` in a flat error (vLLM).
    #[serde(default, deserialize_with = "text")]
    pub(super) object: Option<String>,
}

impl Chunk<'_> {
    /// Usage, wherever the server reports it.
    pub(super) fn usage(&self) -> Option<Usage> {
        let in_choice = || self.choices.iter().find_map(|choice| choice.usage);
        let usage = self.usage.or_else(|| self.x_groq.as_ref()?.usage).or_else(in_choice);
        let tier = self.service_tier.as_deref().and_then(Tier::named);
        usage.map(|usage| Usage { tier, ..normalised(usage) })
    }
}

/// A choice. Only the first one is read. Perplexity sends `delta` as well as the accumulated `message`, in chunks and
/// in complete answers.
#[derive(Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(default)]
    index: Count,
    #[serde(default, borrow)]
    pub(super) delta: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) message: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "text")]
    pub(super) finish_reason: Option<String>,
    /// Moonshot.
    #[serde(default, deserialize_with = "lenient")]
    usage: Option<ReportedUsage>,
    /// Error of the provider behind OpenRouter.
    #[serde(default, borrow)]
    pub(super) error: Option<&'a RawValue>,
}

impl Choice<'_> {
    /// Whether it is the first choice; Houston requests only one.
    pub(super) fn is_first(&self) -> bool {
        self.index.or_zero() == 0
    }
}

/// New content of the answer.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta {
    pub(super) content: Option<Content>,
    #[serde(deserialize_with = "text")]
    pub(super) refusal: Option<String>,
    #[serde(deserialize_with = "text")]
    pub(super) reasoning_content: Option<String>,
    #[serde(deserialize_with = "text")]
    pub(super) reasoning: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) reasoning_details: Option<Vec<Value>>,
    pub(super) tool_calls: Pieces<CallDelta>,
}

/// A piece of a tool call.
#[derive(Deserialize)]
pub(super) struct CallDelta {
    #[serde(default)]
    pub(super) index: Count,
    #[serde(default, deserialize_with = "text")]
    pub(super) id: Option<String>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) function: FunctionDelta,
    /// Signature of the call, sent by Google's own endpoint.
    #[serde(default)]
    pub(super) extra_content: Option<Box<RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct FunctionDelta {
    #[serde(deserialize_with = "text")]
    pub(super) name: Option<String>,
    pub(super) arguments: Option<Arguments>,
}

/// Groq's extra fields of a chunk.
#[derive(Deserialize)]
pub(super) struct Groq {
    #[serde(default, deserialize_with = "lenient")]
    usage: Option<ReportedUsage>,
    #[serde(default, deserialize_with = "text")]
    pub(super) error: Option<String>,
}

/// Text, or text and reasoning as a list of parts (Mistral).
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) text: String,
    pub(super) thinking: String,
}

impl Content {
    fn add(&mut self, part: Part) {
        self.text.push_str(&part.text.unwrap_or_default());
        self.thinking.push_str(&part.thinking.map(|content| content.text).unwrap_or_default());
    }
}

#[derive(Deserialize)]
struct Part {
    #[serde(default, deserialize_with = "text")]
    text: Option<String>,
    /// A string, or a list of parts.
    #[serde(default)]
    thinking: Option<Box<Content>>,
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = <&RawValue>::deserialize(deserializer)?.get();
        let mut content = Self::default();
        let pieces: Vec<Piece> = match json.as_bytes().first() {
            Some(b'"') => {
                content.text = serde_json::from_str(json).map_err(Error::custom)?;
                return Ok(content);
            }
            Some(b'[') => serde_json::from_str(json).map_err(Error::custom)?,
            Some(b'{') => vec![Piece::Part(serde_json::from_str(json).map_err(Error::custom)?)],
            Some(b'0'..=b'9' | b'-') => vec![Piece::Text(json.to_owned())],
            _ => Vec::new(),
        };
        for piece in pieces {
            match piece {
                Piece::Text(text) => content.text.push_str(&text),
                Piece::Part(part) => content.add(part),
                Piece::Other => {}
            }
        }
        Ok(content)
    }
}

/// An element of a content list.
enum Piece {
    Text(String),
    Part(Part),
    Other,
}

impl<'de> Deserialize<'de> for Piece {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = <&RawValue>::deserialize(deserializer)?.get();
        let part = match json.as_bytes().first() {
            Some(b'"') => serde_json::from_str(json).map(Self::Text),
            Some(b'{') => serde_json::from_str(json).map(Self::Part),
            _ => Ok(Self::Other),
        };
        part.map_err(Error::custom)
    }
}
