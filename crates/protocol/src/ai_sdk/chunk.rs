//! The chunks of a stream.

use std::borrow::Cow;

use houston_domain::id::{QuestionId, RunId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agui::EntityId;
#[cfg(feature = "openapi")]
use crate::schema;

/// One chunk: `{"type": "text-delta", "id": "msg_0190…", "delta": "Hello"}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Chunk<'a> {
    /// A message of the assistant starts, or goes on: its id is that of the run.
    #[serde(rename_all = "camelCase")]
    Start {
        #[cfg_attr(feature = "openapi", schema(value_type = schema::RunId))]
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
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
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
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        delta: Cow<'a, str>,
    },
    ReasoningEnd {
        id: EntityId,
    },
    #[serde(rename_all = "camelCase")]
    ToolInputStart {
        tool_call_id: EntityId,
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        tool_name: Cow<'a, str>,
        /// Whether Houston carries out the call, and not the client.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        provider_executed: bool,
    },
    #[serde(rename_all = "camelCase")]
    ToolInputDelta {
        tool_call_id: EntityId,
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        input_text_delta: Cow<'a, str>,
    },
    #[serde(rename_all = "camelCase")]
    ToolInputAvailable {
        tool_call_id: EntityId,
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        tool_name: Cow<'a, str>,
        #[cfg_attr(feature = "openapi", schema(value_type = schema::AnyJson))]
        input: Value,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        provider_executed: bool,
    },
    #[serde(rename_all = "camelCase")]
    ToolOutputAvailable {
        tool_call_id: EntityId,
        #[cfg_attr(feature = "openapi", schema(value_type = schema::AnyJson))]
        output: Value,
    },
    #[serde(rename_all = "camelCase")]
    ToolOutputError {
        tool_call_id: EntityId,
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
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
        #[cfg_attr(feature = "openapi", schema(value_type = schema::QuestionId))]
        approval_id: QuestionId,
        tool_call_id: EntityId,
    },
    /// Another question for which the run waits, as an interrupt of AG-UI. `POST /v1/questions/{id}/answer` answers it.
    #[serde(rename = "data-houston-question")]
    Question {
        #[cfg_attr(feature = "openapi", schema(value_type = schema::QuestionId))]
        id: QuestionId,
        #[cfg_attr(feature = "openapi", schema(value_type = schema::AnyJson))]
        data: Value,
    },
    /// An event of AG-UI for which there is no chunk.
    #[serde(rename = "data-houston")]
    Data {
        #[cfg_attr(feature = "openapi", schema(value_type = schema::AnyJson))]
        data: Value,
        /// Always: no part of the message is made of it.
        transient: bool,
    },
    /// The run ended, or waits.
    #[serde(rename_all = "camelCase")]
    Finish {
        finish_reason: FinishReason,
        /// `{"houston": …}` with the `result` of the run, as in AG-UI.
        #[cfg_attr(feature = "openapi", schema(value_type = schema::AnyJson))]
        message_metadata: Value,
    },
    /// Of a run that was cancelled: what [`Self::Finish`] has.
    #[serde(rename_all = "camelCase")]
    MessageMetadata {
        #[cfg_attr(feature = "openapi", schema(value_type = schema::AnyJson))]
        message_metadata: Value,
    },
    /// The run was cancelled.
    Abort {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
        reason: Option<Cow<'a, str>>,
    },
    /// The run failed.
    #[serde(rename_all = "camelCase")]
    Error {
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
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

#[cfg(test)]
mod tests {
    use serde_json::json;

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
}
