//! The UI message stream of the Vercel AI SDK, version 1: what its `DefaultChatTransport` sends and reads.
//!
//! | what happens | chunks |
//! |---|---|
//! | a run, or the rest of it after a wait | `start` with the id of the run, … `finish`, `abort` or `error`, then `[DONE]` |
//! | a model call and its tools | `start-step` … `finish-step` |
//! | a message of the agent, its reasoning | `text-start`, `text-delta`…, `text-end`; `reasoning-…` |
//! | a tool call of Houston (`providerExecuted`), or of the client | `tool-input-start`, `tool-input-delta`, `tool-input-available` |
//! | its result | `tool-output-available`, `tool-output-error` |
//! | a call that a person must allow | `tool-approval-request` |
//! | any other question | `data-houston-question` |
//! | anything else | `data-houston`, transient: the AG-UI event |

use std::borrow::Cow;
use std::sync::Arc;

use houston_domain::client_offer::{ClientTool, ContextItem};
use houston_domain::id::{QuestionId, RunId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::agui::EntityId;

/// The header with which a stream says what it is, and its value.
pub const STREAM_HEADER: (&str, &str) = ("x-vercel-ai-ui-message-stream", "v1");

/// The text after the last chunk.
pub const DONE: &str = "[DONE]";

/// One chunk: `{"type": "text-delta", "id": "msg_0190…", "delta": "Hello"}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Chunk<'a> {
    /// A message of the assistant starts, or goes on: its id is that of the run.
    #[serde(rename_all = "camelCase")]
    Start {
        message_id: RunId,
    },
    /// A model call starts.
    StartStep {},
    /// The model call and its tools ended.
    FinishStep {},
    TextStart {
        id: EntityId,
    },
    TextDelta {
        id: EntityId,
        delta: Cow<'a, str>,
    },
    TextEnd {
        id: EntityId,
    },
    ReasoningStart {
        id: EntityId,
    },
    ReasoningDelta {
        id: EntityId,
        delta: Cow<'a, str>,
    },
    ReasoningEnd {
        id: EntityId,
    },
    #[serde(rename_all = "camelCase")]
    ToolInputStart {
        tool_call_id: EntityId,
        tool_name: Cow<'a, str>,
        /// Whether Houston carries out the call, and not the client.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        provider_executed: bool,
    },
    #[serde(rename_all = "camelCase")]
    ToolInputDelta {
        tool_call_id: EntityId,
        input_text_delta: Cow<'a, str>,
    },
    #[serde(rename_all = "camelCase")]
    ToolInputAvailable {
        tool_call_id: EntityId,
        tool_name: Cow<'a, str>,
        #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson))]
        input: Value,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        provider_executed: bool,
    },
    #[serde(rename_all = "camelCase")]
    ToolOutputAvailable {
        tool_call_id: EntityId,
        #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson))]
        output: Value,
    },
    #[serde(rename_all = "camelCase")]
    ToolOutputError {
        tool_call_id: EntityId,
        error_text: Cow<'a, str>,
    },
    /// A person did not allow the call.
    #[serde(rename_all = "camelCase")]
    ToolOutputDenied {
        tool_call_id: EntityId,
    },
    /// A person must allow the call. The client's next request answers.
    #[serde(rename_all = "camelCase")]
    ToolApprovalRequest {
        approval_id: QuestionId,
        tool_call_id: EntityId,
    },
    /// Another question for which the run waits, as an interrupt of AG-UI. `POST /v1/questions/{id}/answer` answers it.
    #[serde(rename = "data-houston-question")]
    Question {
        id: QuestionId,
        #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson))]
        data: Value,
    },
    /// An event of AG-UI for which there is no chunk.
    #[serde(rename = "data-houston")]
    Data {
        #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson))]
        data: Value,
        /// Always: no part of the message is made of it.
        transient: bool,
    },
    /// The run ended, or waits.
    #[serde(rename_all = "camelCase")]
    Finish {
        finish_reason: FinishReason,
        /// `{"houston": …}` with the `result` of the run, as in AG-UI.
        #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson))]
        message_metadata: Value,
    },
    /// Of a run that was cancelled: what [`Self::Finish`] has.
    #[serde(rename_all = "camelCase")]
    MessageMetadata {
        #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson))]
        message_metadata: Value,
    },
    /// The run was cancelled.
    Abort {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Cow<'a, str>>,
    },
    /// The run failed.
    #[serde(rename_all = "camelCase")]
    Error {
        error_text: Cow<'a, str>,
    },
}

/// Why a stream ended: `"stop"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FinishReason {
    /// The agent has finished.
    Stop,
    /// Tool calls wait for a person or for the client.
    ToolCalls,
    /// Something else stopped the run, or it waits for something else.
    Other,
}

/// The request of `DefaultChatTransport`. Houston stores the chat itself: of `messages` only the last one is read, a new one of
/// the user or the assistant's with answers to what the run waits for.
///
/// ```json
/// {"id": "chat-1", "messages": [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Delete my notes"}]}],
///  "trigger": "submit-message"}
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChatRequest {
    /// The client's id of the chat, at most 200 characters, or Houston's id of the conversation, as in `goal_…`.
    pub id: String,
    #[serde(default)]
    pub messages: Vec<UiMessage>,
    #[serde(default)]
    pub trigger: Trigger,
    /// The message that is submitted or answered again.
    pub message_id: Option<String>,
    /// Tools that the client carries out, which it adds to the body: a list, or an object with the names as keys.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson))]
    pub tools: Value,
    /// Whose chat it is, if neither the key nor the header `Houston-User` names a user: an id, or an external id. A backend that
    /// passes requests on adds it to the body.
    pub user: Option<String>,
    /// What the client shows its user, which it adds to the body. The model reads it as untrusted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<ContextItem>,
}

/// Why the client asks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    /// There is a new message, or there are answers.
    #[default]
    SubmitMessage,
    /// The last message of the user is to be answered again.
    RegenerateMessage,
}

/// A message as the client has it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UiMessage {
    #[serde(default)]
    pub id: String,
    /// `user` or `assistant`.
    pub role: String,
    /// Texts, images (`file`), tool calls (`tool-…`, `dynamic-tool`), …
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<crate::schema::AnyJson>))]
    pub parts: Vec<Value>,
}

impl ChatRequest {
    /// The tools of the client; `None` if they are neither a list nor an object of tools.
    pub fn client_tools(&self) -> Option<Vec<ClientTool>> {
        match &self.tools {
            Value::Null => Some(Vec::new()),
            Value::Array(tools) => tools.iter().map(|tool| input_tool(None, tool)).collect(),
            Value::Object(tools) => tools.iter().map(|(name, tool)| input_tool(Some(name), tool)).collect(),
            _ => None,
        }
    }
}

/// A tool; its schema is called `parameters` or `inputSchema`.
fn input_tool(name: Option<&str>, tool: &Value) -> Option<ClientTool> {
    let fields = tool.as_object()?;
    let schema = ["parameters", "inputSchema"].into_iter().find_map(|field| fields.get(field));
    Some(ClientTool {
        name: name.or_else(|| fields.get("name")?.as_str())?.to_owned(),
        description: fields.get("description").and_then(Value::as_str).unwrap_or_default().to_owned(),
        parameters: Arc::new(schema.cloned().unwrap_or_else(|| json!({}))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_read_as_they_were_written() {
        let (id, run) = (houston_domain::id::MessageId(uuid::Uuid::nil()), RunId(uuid::Uuid::nil()));
        let (call, text) = (EntityId::Message(id), EntityId::Message(id));
        let chunks = [
            (Chunk::Start { message_id: run }, json!({"type": "start", "messageId": run})),
            (Chunk::StartStep {}, json!({"type": "start-step"})),
            (
                Chunk::TextDelta { id: text, delta: "a".into() },
                json!({"type": "text-delta", "id": text, "delta": "a"}),
            ),
            (
                Chunk::ToolInputAvailable {
                    tool_call_id: call,
                    tool_name: "show_map".into(),
                    input: json!({}),
                    provider_executed: false,
                },
                json!({"type": "tool-input-available", "toolCallId": call, "toolName": "show_map", "input": {}}),
            ),
            (
                Chunk::Data { data: json!(1), transient: true },
                json!({"type": "data-houston", "data": 1, "transient": true}),
            ),
            (
                Chunk::Finish { finish_reason: FinishReason::ToolCalls, message_metadata: json!({}) },
                json!({"type": "finish", "finishReason": "tool-calls", "messageMetadata": {}}),
            ),
        ];
        for (chunk, written) in chunks {
            assert_eq!(serde_json::to_value(&chunk).unwrap(), written);
            assert_eq!(serde_json::from_value::<Chunk<'_>>(written).unwrap(), chunk);
        }
    }

    #[test]
    fn tools_are_a_list_or_an_object() {
        let names = |tools: Value| {
            let request = ChatRequest { tools, ..ChatRequest::default() };
            request
                .client_tools()
                .map(|tools| tools.into_iter().map(|tool| (tool.name, (*tool.parameters).clone())).collect())
        };
        let schema = json!({"type": "object"});
        let map: Vec<(String, Value)> = vec![("show_map".into(), schema.clone())];
        assert_eq!(names(json!([{"name": "show_map", "inputSchema": schema}])), Some(map.clone()));
        assert_eq!(names(json!({"show_map": {"parameters": schema}})), Some(map));
        assert_eq!(names(Value::Null), Some(Vec::new()));
        assert_eq!(names(json!([{"description": "no name"}])), None);
        assert_eq!(names(json!("show_map")), None);
    }
}
