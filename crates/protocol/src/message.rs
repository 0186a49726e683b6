//! Thread messages: what users and agents write to each other.

use houston_domain::agent::limits::LimitChanges;
use houston_domain::agentable::DoubleTexting;
use houston_domain::answering::{Output, Sampling};
use houston_domain::focus::Focus;
use houston_domain::id::AttachmentId;
use houston_domain::message::Message;
use houston_domain::model_policy::ModelPolicy;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An image that a message is posted with: its bytes, or where they are. PNG, JPEG, WebP or GIF.
///
/// ```json
/// {"data": "iVBORw0KGgo…"}
/// {"url": "https://example.com/plan.png"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct MessageImage {
    /// The bytes in Base64; `data:image/png;base64,` may precede them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// An address on the public internet, from which the image is fetched once, before the message is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// Posts a message: `{"content": "Plan a trip to Rome"}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateMessage {
    /// 1 byte to 256 KiB of UTF-8, without U+0000; it may be empty if there are images or attachments.
    #[cfg_attr(feature = "openapi", schema(max_length = 262144, example = "Plan a trip to Rome"))]
    pub content: String,
    /// Images, four by default. Each is stored once, and the content of the stored message ends with a line for each:
    /// `![image](/v1/images/image_…)`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<MessageImage>,
    /// Files of the user that were posted before, eight by default. The content of the stored message ends with a line for
    /// each: `[report.pdf](/v1/attachments/att_…)`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<AttachmentId>,
    /// Returned with the message and its events; at most 16 KiB as JSON.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::MessageMetadata))]
    pub metadata: Map<String, Value>,
    /// What the message is about, such as what the user looks at: the prompt says so, with what the kind's provider for this
    /// type knows of it.
    pub context: Option<Focus>,
    /// The form of the answer: the run ends with a value that fits, the `result` of its message. The default is set by the
    /// agent and the kind.
    pub output: Option<Output>,
    /// How the model chooses its words, where it differs from the agent; a setting that the model does not accept is refused.
    #[serde(default, skip_serializing_if = "Sampling::is_empty")]
    pub sampling: Sampling,
    /// Limits of the run; those of the agent count if they are lower.
    #[serde(default, skip_serializing_if = "LimitChanges::is_empty")]
    pub limits: LimitChanges,
    /// How the model of the run that answers it is called, and of the tasks that this run creates; what is left out is as the kind
    /// has it.
    #[serde(default, skip_serializing_if = "ModelPolicy::is_unset")]
    pub model_policy: ModelPolicy,
    /// What happens to an open run; the default is set by the kind.
    pub double_texting: Option<DoubleTexting>,
}

/// A message that was stored: the fields of the message, and `events_url`.
///
/// ```json
/// {"id": "msg_0190…", "goal_id": "goal_0190…", "status": "pending", …, "events_url": "/v1/goals/goal_0190…/events?after=0"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AcceptedMessageResponse {
    #[serde(flatten)]
    pub message: Message,
    /// The URL that streams its run, from the first event of the run.
    #[cfg_attr(
        feature = "openapi",
        schema(example = "/v1/goals/goal_019ab3c4d5e67f8091a2b3c4d5e6f708/events?after=0")
    )]
    pub events_url: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn accepted_message_reads_back() {
        let accepted = json!({
            "id": format!("msg_{:032x}", 1), "task_id": format!("task_{:032x}", 2), "source": "user",
            "message_type": "text", "content": "hi", "metadata": {}, "status": "pending",
            "run_id": format!("run_{:032x}", 3), "seq": 2, "created_at": "2026-11-22T09:00:00.000Z",
            "processed_at": null, "events_url": "/v1/tasks/task_1/events?after=0",
        });
        let read: AcceptedMessageResponse = serde_json::from_value(accepted.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), accepted);
    }
}
