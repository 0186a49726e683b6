//! What an AG-UI client posts to run an agent.

use houston_domain::client_offer::{ClientTool, ContextItem};
use houston_domain::id::QuestionId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::MessageImage;

/// The request of an AG-UI client. Houston stores the thread itself: of `messages` only a new last one of the user is read, and
/// results of calls that wait for the client. `forwardedProps` is ignored.
///
/// ```json
/// {"threadId": "goal_0190…", "runId": "1", "messages": [{"id": "m1", "role": "user", "content": "Delete my notes"}]}
/// {"threadId": "goal_0190…", "runId": "2", "messages": [],
///  "resume": [{"interruptId": "question_0190…", "status": "resolved", "payload": {"decision": "approve"}}]}
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunAgentInput {
    /// At `/ag-ui/{target}`: the client's own id of the conversation, at most 200 characters, or Houston's, as in `goal_…`.
    pub thread_id: Option<String>,
    /// Tools that the client carries out, for the run that reads the message: at most 64, together 64 KiB.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ClientTool>,
    /// What the client shows its user, for the run that reads the message: at most 32 items, together 32 KiB. The model reads it
    /// as untrusted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<ContextItem>,
    /// The state that the client shares with the agent: it becomes the state before the run, if the kind declares one and it
    /// matches its schema. `null` and `{}`, which clients send that have none, change nothing; for a kind without a state, every
    /// value is ignored.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson))]
    pub state: Value,
    /// The client's own id of the run: a request that is repeated under it does not set the state again.
    pub run_id: Option<String>,
    #[serde(default)]
    pub messages: Vec<InputMessage>,
    /// Answers to the interrupts of the thread.
    #[serde(default)]
    pub resume: Vec<ResumeEntry>,
}

/// A message as the client has it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct InputMessage {
    pub id: String,
    /// `user`, `assistant`, `tool`, …
    pub role: String,
    /// A text, or parts: `{"type": "text", "text": "…"}`, `{"type": "image", "source": {"type": "data", "value": "<Base64>",
    /// "mimeType": "image/png"}}`, `{"type": "image", "source": {"type": "url", "value": "https://…"}}`.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson))]
    pub content: Value,
    /// Of a message of the role `tool`: the call whose result it is.
    pub tool_call_id: Option<String>,
    /// Of a message of the role `tool`: why the call failed.
    pub error: Option<String>,
}

/// An answer to one interrupt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ResumeEntry {
    pub interrupt_id: QuestionId,
    pub status: ResumeStatus,
    /// The answer, if `resolved`: a JSON value that matches the interrupt's `responseSchema`.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson))]
    pub payload: Value,
}

/// Whether the person answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ResumeStatus {
    /// With `payload`.
    Resolved,
    /// The person does not want what was asked about.
    Cancelled,
}

impl InputMessage {
    /// The text and the images; `None` if there are other parts.
    pub fn parts(&self) -> Option<(String, Vec<MessageImage>)> {
        let parts = match &self.content {
            Value::String(text) => return Some((text.clone(), Vec::new())),
            Value::Array(parts) => parts,
            _ => return None,
        };
        let (mut text, mut images) = (String::new(), Vec::new());
        for part in parts {
            match part["type"].as_str()? {
                "text" => text.push_str(part["text"].as_str()?),
                "image" => images.push(image(&part["source"])?),
                // AG-UI before 1.0.
                "binary" => images.push(MessageImage {
                    data: part["data"].as_str().map(str::to_owned),
                    url: part["url"].as_str().map(str::to_owned),
                }),
                _ => return None,
            }
        }
        Some((text, images))
    }

    /// The content of a message of the role `tool`: the text, if it has only text.
    pub fn result(&self) -> Value {
        match self.parts() {
            Some((text, images)) if images.is_empty() => Value::String(text),
            _ => self.content.clone(),
        }
    }
}

/// The image of a part; `None` if its source is neither data nor a URL.
fn image(source: &Value) -> Option<MessageImage> {
    let value = Some(source["value"].as_str()?.to_owned());
    match source["type"].as_str()? {
        "data" => Some(MessageImage { data: value, url: None }),
        "url" => Some(MessageImage { data: None, url: value }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_are_texts_and_images() {
        let parts = |content: Value| {
            InputMessage { id: "m".into(), role: "user".into(), content, ..Default::default() }.parts()
        };
        let data = |data: &str| MessageImage { data: Some(data.into()), url: None };
        let url = MessageImage { data: None, url: Some("https://a.example/b".into()) };
        assert_eq!(parts(json!("hi")), Some(("hi".into(), vec![])));
        let read = parts(json!([
            {"type": "text", "text": "Compare "}, {"type": "text", "text": "these"},
            {"type": "image", "source": {"type": "data", "value": "AAAA", "mimeType": "image/png"}},
            {"type": "image", "source": {"type": "url", "value": "https://a.example/b"}},
            {"type": "binary", "mimeType": "image/png", "data": "BBBB"},
        ]));
        assert_eq!(read, Some(("Compare these".into(), vec![data("AAAA"), url, data("BBBB")])));
        for other in [
            json!([{"type": "audio", "source": {"type": "data", "value": "A"}}]),
            json!([{"type": "image", "source": {"type": "file", "value": "file_1"}}]),
            json!([{"text": "t"}]),
            json!(7),
        ] {
            assert_eq!(parts(other), None);
        }
    }
}
