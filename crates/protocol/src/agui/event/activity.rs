//! Messages that change in place.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::Timestamp;
use crate::agui::EntityId;
use crate::schema;

/// The complete current state of a message that changes in place.
///
/// ```json
/// {"type": "ACTIVITY_SNAPSHOT", "messageId": "msg_0190…", "activityType": "houston.error",
///  "content": {"text": "The AI model is busy right now.", "code": "RATE_LIMITED", "retryable": true}}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActivitySnapshot<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub timestamp: Timestamp,
    #[schema(value_type = schema::EntityId)]
    pub message_id: EntityId,
    /// [`ERROR_ACTIVITY`](crate::agui::ERROR_ACTIVITY) or [`PLAN_ACTIVITY`](crate::agui::PLAN_ACTIVITY).
    #[schema(value_type = String)]
    pub activity_type: Cow<'a, str>,
    #[schema(value_type = schema::AnyJson)]
    pub content: Cow<'a, Value>,
}

/// What changed in a message of which a snapshot was sent: operations of a JSON Patch (RFC 6902) on its content.
///
/// ```json
/// {"type": "ACTIVITY_DELTA", "messageId": "plan_0190…", "activityType": "houston.plan",
///  "patch": [{"op": "replace", "path": "/steps/0/status", "value": "done"}]}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActivityDelta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub timestamp: Timestamp,
    #[schema(value_type = schema::EntityId)]
    pub message_id: EntityId,
    /// That of the snapshot.
    #[schema(value_type = String)]
    pub activity_type: Cow<'a, str>,
    #[schema(value_type = Vec<schema::AnyJson>)]
    pub patch: Cow<'a, [Value]>,
}
