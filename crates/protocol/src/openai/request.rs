//! The bodies of requests. What becomes of parameters that have no field here says [`parameters`](super::parameters).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

/// The id of a conversation: a text, or `{"id": …}`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum ConversationParam {
    /// The id.
    Id(String),
    /// The id in an object.
    Object {
        /// The id.
        id: String,
    },
}

impl ConversationParam {
    /// The id.
    pub fn id(&self) -> &str {
        match self {
            Self::Id(id) | Self::Object { id } => id,
        }
    }
}

/// `POST /responses`.
#[derive(Debug, Clone, Deserialize)]
pub struct CreateResponse {
    /// A kind, or an agent by name or id, with or without `agent/`.
    pub model: String,
    /// A text or items.
    #[serde(default)]
    pub input: Value,
    /// Whether events are streamed.
    #[serde(default, deserialize_with = "or_default")]
    pub stream: bool,
    /// Whether the response does not wait for the end.
    #[serde(default, deserialize_with = "or_default")]
    pub background: bool,
    /// The response that the conversation goes on after.
    pub previous_response_id: Option<String>,
    /// The conversation.
    pub conversation: Option<ConversationParam>,
    /// Texts for the agent.
    pub instructions: Option<Value>,
    /// Returned with the response.
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: BTreeMap<String, String>,
    /// The user in the client's words.
    pub user: Option<String>,
    /// The newer name of `user`.
    pub safety_identifier: Option<String>,
    /// Functions of the client.
    #[serde(default, deserialize_with = "or_default")]
    pub tools: Vec<Value>,
    /// All others.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// `POST /chat/completions`.
#[derive(Debug, Clone, Deserialize)]
pub struct CreateCompletion {
    /// A kind, or an agent by name or id, with or without `agent/`.
    pub model: String,
    /// What was said; the last message of the user is posted.
    pub messages: Vec<Value>,
    /// Whether chunks are streamed.
    #[serde(default, deserialize_with = "or_default")]
    pub stream: bool,
    /// Whether the last chunk has the usage.
    #[serde(default, deserialize_with = "or_default")]
    pub stream_options: StreamOptions,
    /// `conversation`: the client's name for the thread.
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: BTreeMap<String, String>,
    /// The user in the client's words.
    pub user: Option<String>,
    /// The newer name of `user`.
    pub safety_identifier: Option<String>,
    /// Functions of the client.
    #[serde(default, deserialize_with = "or_default")]
    pub tools: Vec<Value>,
    /// All others.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// `{"include_usage": true}`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct StreamOptions {
    /// Whether the last chunk has the usage.
    #[serde(default, deserialize_with = "or_default")]
    pub include_usage: bool,
}

/// `POST /conversations`.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct CreateConversation {
    /// The kind or the agent; also as `metadata.model`. Without it, the usual kind.
    pub model: Option<String>,
    /// The user in the client's words; also as `metadata.user`.
    pub user: Option<String>,
    /// The newer name of `user`.
    pub safety_identifier: Option<String>,
    /// Kept, and returned with the conversation. See `model` and `user`, too.
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: BTreeMap<String, String>,
    /// What was said before.
    #[serde(default, deserialize_with = "or_default")]
    pub items: Vec<Value>,
}

/// `POST /conversations/{id}`.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct ChangeConversation {
    /// Replaces what there is.
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: BTreeMap<String, String>,
}

/// `POST /conversations/{id}/items`.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct CreateItems {
    /// The items, in order.
    #[serde(default, deserialize_with = "or_default")]
    pub items: Vec<Value>,
}

/// Reads `null` as the default.
fn or_default<'de, D: serde::Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn null_means_left_out() {
        let body = json!({"model": "goal", "input": "hi", "stream": null, "metadata": null, "tools": null,
                          "conversation": {"id": "conv_1"}, "temperature": 1});
        let read: CreateResponse = serde_json::from_value(body).unwrap();
        assert!(!read.stream && read.metadata.is_empty() && read.others.contains_key("temperature"));
        assert_eq!(read.conversation.unwrap().id(), "conv_1");
    }
}
