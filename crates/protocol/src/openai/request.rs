//! The bodies of requests. Parameters that would change what the answer is are refused; the others are ignored.

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
    #[must_use]
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
    #[serde(default)]
    pub previous_response_id: Option<String>,
    /// The conversation.
    #[serde(default)]
    pub conversation: Option<ConversationParam>,
    /// Texts for the agent.
    #[serde(default)]
    pub instructions: Option<Value>,
    /// Returned with the response.
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: BTreeMap<String, String>,
    /// The user in the client's words.
    #[serde(default)]
    pub user: Option<String>,
    /// The newer name of `user`.
    #[serde(default)]
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
    #[serde(default)]
    pub user: Option<String>,
    /// The newer name of `user`.
    #[serde(default)]
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
    /// The kind or the agent; also as `metadata.model`.
    #[serde(default)]
    pub model: Option<String>,
    /// The user in the client's words; also as `metadata.user`.
    #[serde(default)]
    pub user: Option<String>,
    /// See `model` and `user`.
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: BTreeMap<String, String>,
    /// Must be empty.
    #[serde(default, deserialize_with = "or_default")]
    pub items: Vec<Value>,
}

/// Reads `null` as the default.
fn or_default<'de, D: serde::Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// A parameter that is refused, and why.
pub type Refused = (&'static str, &'static str);

const NOT_STORED: &str = "false is not possible: the thread is what the agent remembers. Leave it out, and delete the conversation \
                          afterwards";
const ONE_FORMAT: &str = "must be `text`: the agent's own instructions say how it answers";
const OWN_TOOLS: &str = "must be `auto`: the agent chooses among its tools";

/// The first of a request's other parameters that would change what the answer is. `null` is like leaving it out.
#[must_use]
pub fn refused(others: &Map<String, Value>) -> Option<Refused> {
    let given = |name: &str| others.get(name).filter(|value| !value.is_null());
    let number = |name: &str| given(name).and_then(Value::as_f64);
    let is_text = |format: &Value| format.is_null() || format["type"] == "text";
    let checks: [(&'static str, bool, &'static str); 11] = [
        ("store", given("store") == Some(&Value::Bool(false)), NOT_STORED),
        ("n", number("n").is_some_and(|n| n != 1.0), "must be 1: a run has one answer"),
        (
            "logprobs",
            given("logprobs") == Some(&Value::Bool(true)),
            "is not supported: models' probabilities are not kept",
        ),
        (
            "top_logprobs",
            number("top_logprobs").is_some_and(|n| n > 0.0),
            "must be 0: models' probabilities are not kept",
        ),
        ("text", given("text").is_some_and(|text| !is_text(&text["format"])), ONE_FORMAT),
        ("response_format", given("response_format").is_some_and(|format| !is_text(format)), ONE_FORMAT),
        ("prompt", given("prompt").is_some(), "is not supported: an agent has its own instructions"),
        ("tool_choice", given("tool_choice").is_some_and(|choice| choice != "auto"), OWN_TOOLS),
        ("functions", given("functions").is_some(), "is not supported; use `tools`"),
        ("audio", given("audio").is_some(), "is not supported: answers are text"),
        ("stop", given("stop").is_some(), "is not supported: the agent ends its message itself"),
    ];
    checks.into_iter().find(|(_, is_refused, _)| *is_refused).map(|(name, _, why)| (name, why))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_that_change_the_answer_are_refused() {
        let of = |others: Value| refused(others.as_object().unwrap()).map(|(name, _)| name);
        assert_eq!(
            of(json!({"temperature": 0.2, "store": true, "n": 1, "tool_choice": "auto", "stop": null})),
            None
        );
        assert_eq!(of(json!({"text": {"format": {"type": "text"}, "verbosity": "low"}})), None);
        for (name, value) in [
            ("store", json!(false)),
            ("n", json!(2)),
            ("logprobs", json!(true)),
            ("top_logprobs", json!(3)),
            ("text", json!({"format": {"type": "json_object"}})),
            ("response_format", json!({"type": "json_schema"})),
            ("tool_choice", json!("required")),
            ("stop", json!(["x"])),
        ] {
            assert_eq!(of(json!({name: value})), Some(name));
        }
    }

    #[test]
    fn null_means_left_out() {
        let body = json!({"model": "goal", "input": "hi", "stream": null, "metadata": null, "tools": null,
                          "conversation": {"id": "conv_1"}, "temperature": 1});
        let read: CreateResponse = serde_json::from_value(body).unwrap();
        assert!(!read.stream && read.metadata.is_empty() && read.others.contains_key("temperature"));
        assert_eq!(read.conversation.unwrap().id(), "conv_1");
    }
}
