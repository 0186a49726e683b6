//! [`CallProgress`]: how far a tool call is.

use serde::{Deserialize, Serialize};

use crate::id::MessageId;

/// How far a tool call is, for people who watch: stored nowhere, and it may be lost.
///
/// ```json
/// {"message_id": "msg_0192a3b4c5d67e8f9a0b1c2d3e4f5061", "progress": 3.0, "total": 10.0, "message": "page 3"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallProgress {
    /// The thread message (tool cell) that shows the call.
    pub message_id: MessageId,
    /// So much is done.
    pub progress: f64,
    /// Of so much, if there is a total.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// What is done now, one short line; empty: not said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}
