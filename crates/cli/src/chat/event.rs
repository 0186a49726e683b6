//! The events of a stream, as far as a conversation shows them. Others are passed over.

use chrono::{DateTime, Utc};
use serde::Deserialize;

/// One AG-UI event.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE", rename_all_fields = "camelCase")]
pub(crate) enum Event {
    RunStarted {
        run_id: String,
    },
    RunFinished {
        run_id: String,
        outcome: Option<Outcome>,
    },
    RunError {
        message: String,
        code: Option<String>,
    },
    TextMessageStart {
        message_id: String,
    },
    TextMessageContent {
        message_id: String,
        delta: String,
    },
    TextMessageEnd {
        message_id: String,
    },
    ReasoningMessageStart {
        message_id: String,
    },
    ReasoningMessageContent {
        message_id: String,
        delta: String,
    },
    ReasoningMessageEnd {
        message_id: String,
    },
    ToolCallStart {
        tool_call_id: String,
        tool_call_name: String,
    },
    ToolCallResult {
        tool_call_id: String,
        content: String,
        #[serde(default)]
        metadata: Metadata,
    },
    MessagesSnapshot {
        messages: Vec<Spoken>,
    },
    Custom(Custom),
    #[serde(other)]
    Other,
}

/// How a run ended that did not fail.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Outcome {
    #[serde(rename = "type")]
    pub(crate) name: String,
}

/// What Houston adds to an event.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Metadata {
    #[serde(default)]
    pub(crate) houston: Added,
}

/// See [`Metadata`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Added {
    #[serde(default)]
    pub(crate) is_error: bool,
}

/// A message of a snapshot. Its content is no text where a client brought pictures.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Spoken {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) content: serde_json::Value,
}

/// Facts of the queue.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "name", content = "value")]
pub(crate) enum Custom {
    #[serde(rename = "houston.message.posted")]
    Posted { message: Posted },
    #[serde(rename = "houston.attempt.started")]
    Attempt { attempt: u32 },
    #[serde(rename = "houston.retry.scheduled")]
    Retry { attempt: u32, of: u32, retry_at: DateTime<Utc>, message: String },
    #[serde(rename = "houston.run.handed_over")]
    HandedOver {},
    #[serde(other)]
    Other,
}

/// A message of a person, or of Houston itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Posted {
    pub(crate) content: String,
    #[serde(default)]
    pub(crate) source: String,
    #[serde(default)]
    pub(crate) metadata: serde_json::Value,
}

impl Posted {
    /// Whether Houston says it, and nobody typed it.
    pub(crate) fn is_notice(&self) -> bool {
        self.source == "system"
    }
}

impl Event {
    /// Reads the data of a frame. What is no event that is known is [`Event::Other`]: newer servers say more.
    pub(crate) fn read(data: &str) -> Self {
        serde_json::from_str(data).unwrap_or(Self::Other)
    }

    /// Whether it ends a run.
    pub(crate) fn ends_run(&self) -> bool {
        matches!(self, Self::RunFinished { .. } | Self::RunError { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_and_unknown_ones_passed_over() {
        let retry = r#"{"type":"CUSTOM","timestamp":1,"name":"houston.retry.scheduled","value":{"attempt":1,"of":5,"retry_at":"2026-11-22T09:00:10.5Z","code":"RATE_LIMITED","message":"slow down"}}"#;
        assert!(matches!(
            Event::read(retry),
            Event::Custom(Custom::Retry { attempt: 1, of: 5, message, .. }) if message == "slow down"
        ));
        let result = r#"{"type":"TOOL_CALL_RESULT","messageId":"r","toolCallId":"t","content":"no","role":"tool","metadata":{"houston":{"is_error":true}}}"#;
        assert!(
            matches!(Event::read(result), Event::ToolCallResult { metadata, .. } if metadata.houston.is_error)
        );
        let finished = r#"{"type":"RUN_FINISHED","threadId":"g","runId":"r","result":{"status":"cancelled"},"outcome":{"type":"cancelled"}}"#;
        assert!(
            matches!(Event::read(finished), Event::RunFinished { outcome: Some(o), .. } if o.name == "cancelled")
        );
        for other in [
            r#"{"type":"CUSTOM","name":"houston.plan.created","value":{"steps":[1]}}"#,
            r#"{"type":"STEP_STARTED","stepName":"iteration 1"}"#,
            // The retry that is told of beside it says the same.
            r#"{"type":"ACTIVITY_SNAPSHOT","messageId":"msg_1","activityType":"houston.error","content":{"text":"no"}}"#,
            r#"{"type":"BRAND_NEW","x":1}"#,
            "no json",
        ] {
            assert!(matches!(Event::read(other), Event::Other | Event::Custom(Custom::Other)), "{other}");
        }
        let attempt =
            r#"{"type":"CUSTOM","name":"houston.attempt.started","value":{"attempt":2,"iteration":1}}"#;
        assert_eq!(Event::read(attempt), Event::Custom(Custom::Attempt { attempt: 2 }));
        let posted = r#"{"type":"CUSTOM","name":"houston.message.posted","value":{"message":{"id":"msg_1","source":"user","content":"hi"}}}"#;
        assert!(
            matches!(Event::read(posted), Event::Custom(Custom::Posted { message }) if message.content == "hi")
        );
    }
}
