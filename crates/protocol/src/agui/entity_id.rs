//! Ids and names inside a thread.

use std::fmt;
use std::str::FromStr;

use houston_domain::id::{MessageId, parse_prefixed};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The id of something in a thread. A tool call has the id of the message that shows it, so that it is the same
/// in the stream and in the list of messages; what providers call it repeats from run to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntityId {
    /// A thread message, or the tool call it shows: `msg_0190…`.
    Message(MessageId),
    /// The reasoning that came before that message: `reasoning_0190…`.
    Reasoning(MessageId),
    /// What the call shown by that message returned: `result_0190…`.
    Result(MessageId),
}

/// A text that is no id of something in a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an id of the form msg_, reasoning_ or result_<32 hex digits>")]
pub struct InvalidEntityId;

impl fmt::Display for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message(id) => id.fmt(f),
            Self::Reasoning(id) => write!(f, "reasoning_{}", id.0.simple()),
            Self::Result(id) => write!(f, "result_{}", id.0.simple()),
        }
    }
}

impl FromStr for EntityId {
    type Err = InvalidEntityId;

    fn from_str(text: &str) -> Result<Self, InvalidEntityId> {
        let id = |prefix| parse_prefixed(prefix, text).map(MessageId);
        id(MessageId::PREFIX)
            .map(Self::Message)
            .or_else(|_| id("reasoning").map(Self::Reasoning))
            .or_else(|_| id("result").map(Self::Result))
            .map_err(|_| InvalidEntityId)
    }
}

impl Serialize for EntityId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for EntityId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// The name of a step: `iteration 3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepName(pub u32);

impl Serialize for StepName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("iteration {}", self.0))
    }
}

impl<'de> Deserialize<'de> for StepName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let number = text.strip_prefix("iteration ").and_then(|number| number.parse().ok());
        number.map(Self).ok_or_else(|| D::Error::custom("not a step name of the form `iteration <number>`"))
    }
}
