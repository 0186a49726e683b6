//! A2A 1.0: the official types, and what Houston reads of a message a client sends.
//!
//! The official types say how the wire looks; they decode files of messages at once, which Houston leaves to who checks them:
//! so [`SendRequest`] is its own.

pub mod update;

use std::collections::HashMap;

use houston_domain::id::RunId;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

pub use a2a::{
    A2AError, AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Artifact, AuthenticationInfo,
    CancelTaskRequest, DeleteTaskPushNotificationConfigRequest, FieldViolation,
    GetTaskPushNotificationConfigRequest, GetTaskRequest, HttpAuthSecurityScheme, JsonRpcId, JsonRpcResponse,
    ListTaskPushNotificationConfigsRequest, ListTaskPushNotificationConfigsResponse, ListTasksRequest,
    ListTasksResponse, Message, PROTOCOL_DOMAIN, Part, Role, SVC_PARAM_VERSION, SecurityScheme,
    SendMessageConfiguration, SendMessageResponse, StreamResponse, SubscribeToTaskRequest,
    TRANSPORT_PROTOCOL_HTTP_JSON, TRANSPORT_PROTOCOL_JSONRPC, Task, TaskArtifactUpdateEvent,
    TaskPushNotificationConfig, TaskState, TaskStatus, TaskStatusUpdateEvent, TypedDetail, VERSION,
    error_code, error_reason, methods,
};

/// The media type of bodies over HTTP.
pub const MEDIA_TYPE: &str = "application/a2a+json";

/// The headers with the token of a push notification: the specification names none, and the official libraries for Python and for
/// Go read one of these each.
pub const PUSH_TOKEN_HEADERS: [&str; 2] = ["x-a2a-notification-token", "a2a-notification-token"];

/// What is sent with each push notification, so that its receiver knows the sender: sealed in the store.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct PushSecrets {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorization: Option<String>,
}

impl std::fmt::Debug for PushSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PushSecrets")
    }
}

impl PushSecrets {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.token.is_none() && self.authorization.is_none()
    }

    /// What they are sealed for.
    pub fn purpose(run: RunId, push_id: &str) -> String {
        format!("{run} {push_id}")
    }

    /// The headers that have them.
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        let tokens = self.token.iter().flat_map(|token| PUSH_TOKEN_HEADERS.map(|name| (name, token.clone())));
        let authorization = self.authorization.iter().map(|value| ("authorization", value.clone()));
        tokens.chain(authorization).collect()
    }
}

/// Houston's additions to tasks and updates.
pub type Metadata = HashMap<String, Value>;

/// A request over JSON-RPC; its parameters are read after its method.
///
/// ```json
/// {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "run_0190…"}}
/// ```
#[derive(Debug, Deserialize)]
pub struct RpcRequest {
    #[serde(default)]
    pub jsonrpc: String,
    pub id: Option<JsonRpcId>,
    pub method: String,
    pub params: Option<Box<RawValue>>,
}

/// Sends a message.
///
/// ```json
/// {"message": {"messageId": "1", "role": "ROLE_USER", "contextId": "trip", "parts": [{"text": "Plan a trip to Rome"}]}}
/// ```
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendRequest {
    pub message: SentMessage,
    pub configuration: Option<SendMessageConfiguration>,
    /// Whom it is for, if the key is not of one user.
    pub tenant: Option<String>,
}

/// A message of a client.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SentMessage {
    /// Made by the client. A message with the same id in the same context is the same message.
    pub message_id: String,
    /// The conversation; absent or empty: a new one, or that of the task.
    pub context_id: Option<String>,
    /// The task that it continues.
    pub task_id: Option<String>,
    #[serde(default)]
    pub role: Role,
    #[serde(default)]
    pub parts: Vec<SentPart>,
    pub metadata: Option<Map<String, Value>>,
}

/// A part of a message: one of `text`, `raw` (Base64), `url` and `data`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SentPart {
    pub text: Option<String>,
    pub raw: Option<String>,
    pub url: Option<String>,
    pub data: Option<Value>,
    pub media_type: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_of_official_clients_are_read() {
        let sent = json!({
            "message": {"messageId": "1", "role": "ROLE_USER", "contextId": "", "extensions": [], "parts": [
                {"text": "Look:", "mediaType": ""}, {"raw": "aGk=", "mediaType": "image/png", "filename": "a.png"},
            ]},
            "configuration": {"acceptedOutputModes": [], "historyLength": 0, "returnImmediately": true},
        });
        let read: SendRequest = serde_json::from_value(sent.clone()).unwrap();
        assert_eq!(read.message.parts[1].raw.as_deref(), Some("aGk="));
        assert_eq!(read.configuration.unwrap().return_immediately, Some(true));
        // The official type reads the same.
        assert!(serde_json::from_value::<a2a::SendMessageRequest>(sent).is_ok());
    }

    #[test]
    fn parameters_are_kept_as_they_came() {
        let text = r#"{"jsonrpc": "2.0", "id": "a", "method": "GetTask", "params": {"id" : "run_1"}}"#;
        let request: RpcRequest = serde_json::from_str(text).unwrap();
        assert_eq!(request.id, Some(JsonRpcId::String("a".to_owned())));
        assert_eq!(request.params.unwrap().get(), r#"{"id" : "run_1"}"#);
    }
}
