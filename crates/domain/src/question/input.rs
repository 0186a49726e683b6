//! Input that a tool call needs in its middle: what a person answers, and what the model reads without an answer.
//!
//! The question's subject is [`PREFIX`] and the id of the call. The words are those of the Model Context Protocol.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Choice, NewQuestion, one_of};
use crate::tool_call::{ToolErrorCode, ToolResponse};

/// The beginning of the subjects.
pub const PREFIX: &str = "houston:input:";
/// The beginning of the subjects of questions about calls of clients' tools: the client answers with their results.
pub const CLIENT_PREFIX: &str = "houston:client:";

/// What a person answers.
///
/// ```json
/// {"action": "accept", "content": {"name": "Ada"}}
/// {"action": "accept"}
/// {"action": "decline"}
/// {"action": "cancel"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
pub enum InputAnswer {
    /// Here it is.
    Accept {
        /// What was asked for; `None`: nothing was, the person has done something elsewhere.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<Value>,
    },
    /// The person gives no input; the tool may go on without it.
    Decline {},
    /// The person wants the call to end.
    Cancel {},
}

impl InputAnswer {
    /// Parses an answer that matches [`answer_schema`]; `None` if it does not match.
    pub fn from_value(answer: &Value) -> Option<Self> {
        Self::deserialize(answer).ok()
    }
}

/// The subject of a question about a call.
pub fn subject(call: &str) -> String {
    format!("{PREFIX}{call}")
}

/// The JSON Schema of the answers. `content`: the schema of what is asked for; `None`: nothing is.
pub fn answer_schema(content: Option<&Value>) -> Value {
    let choices = [
        Choice::new("Answer", "accept").with("content", content, true),
        Choice::new("Give no answer", "decline"),
        Choice::new("End the call", "cancel"),
    ];
    one_of("action", &choices)
}

/// The names of the fields that a question asks for, with whether each is required; empty if it asks for none.
pub fn fields(schema: &Value) -> Vec<(&str, bool)> {
    let content = &schema["oneOf"][0]["properties"]["content"];
    let required = content["required"].as_array();
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|of| of == name));
    let properties = content["properties"].as_object().into_iter().flatten();
    properties.map(|(name, _)| (name.as_str(), is_required(name))).collect()
}

impl NewQuestion {
    /// Whether a tool call needs input, be it the result that a client's tool is to have.
    pub fn is_input(&self) -> bool {
        self.is_client_call() || self.begins_with(PREFIX)
    }

    /// Whether the client is to carry out a call of one of its own tools.
    pub fn is_client_call(&self) -> bool {
        self.begins_with(CLIENT_PREFIX)
    }
}

/// The response of a call that did not get its input.
pub fn expired() -> ToolResponse {
    unfinished("it needs input of a person, and no answer came in time")
}

/// The response of a call whose user wrote a message instead of the input.
pub fn superseded() -> ToolResponse {
    unfinished("your user wrote a message instead of the input that it needs. Read the message first")
}

/// The response of a call whose question was closed in another way.
pub fn closed() -> ToolResponse {
    unfinished("the input that it needs is not asked for any more")
}

fn unfinished(why: &str) -> ToolResponse {
    ToolResponse::failure(ToolErrorCode::PermissionDenied, format!("begun, but not finished: {why}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::question::schema::check;

    #[test]
    fn answers_of_the_schema_are_parsed() {
        let form =
            json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
        let (with, without) = (answer_schema(Some(&form)), answer_schema(None));
        let accepted = json!({"action": "accept", "content": {"name": "Ada"}});
        assert_eq!(check(&with, &accepted), Ok(()));
        assert_eq!(
            InputAnswer::from_value(&accepted),
            Some(InputAnswer::Accept { content: Some(json!({"name": "Ada"})) })
        );
        assert_eq!(check(&without, &json!({"action": "accept"})), Ok(()));
        for schema in [&with, &without] {
            for action in ["decline", "cancel"] {
                assert_eq!(check(schema, &json!({"action": action})), Ok(()));
            }
        }
        for (schema, answer, pointer) in [
            (&with, json!({"action": "accept"}), "/content"),
            (&with, json!({"action": "accept", "content": {"name": 1}}), "/content/name"),
            (&without, json!({"action": "accept", "content": {}}), "/content"),
            (&with, json!({"action": "decline", "content": {}}), "/content"),
            (&with, json!({"action": "later"}), "/action"),
        ] {
            assert_eq!(check(schema, &answer).unwrap_err().pointer, pointer, "{answer}");
        }
        assert_eq!(fields(&with), [("name", true)]);
        assert_eq!(fields(&without), []);
    }
}
