//! The output items of a response.

use serde::Serialize;

/// The `server_label` of the tools that Houston itself carries out.
pub const SERVER_LABEL: &str = "houston";

/// Whether an item is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemStatus {
    /// It is being written, or waits for its result.
    InProgress,
    /// Nothing is missing.
    Completed,
    /// It broke off.
    Incomplete,
    /// The tool failed.
    Failed,
}

/// One item of the output.
///
/// ```json
/// {"type": "message", "id": "msg_0190…", "status": "completed", "role": "assistant",
///  "content": [{"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}]}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum OutputItem {
    /// A message of the agent.
    Message {
        /// `msg_…`, the id of the message in the thread.
        id: String,
        status: ItemStatus,
        /// `assistant`.
        role: &'static str,
        content: Vec<Part>,
    },
    /// The model's reasoning.
    Reasoning {
        /// `reasoning_…`.
        id: String,
        summary: Vec<Part>,
        status: ItemStatus,
    },
    /// A tool that Houston carries out, with its result. No client has to do anything about it.
    McpCall {
        /// `mcp_…`.
        id: String,
        /// [`SERVER_LABEL`].
        server_label: &'static str,
        /// The name of the tool.
        name: String,
        /// A JSON object as text.
        arguments: String,
        /// What the model reads.
        output: Option<String>,
        /// The same, if the call failed.
        error: Option<String>,
        status: ItemStatus,
        /// The item that asked for its approval.
        approval_request_id: Option<String>,
    },
    /// A person must decide whether a tool is carried out, or something else is done.
    McpApprovalRequest {
        /// `mcpr_…`, made from the id of the question.
        id: String,
        /// [`SERVER_LABEL`].
        server_label: &'static str,
        /// The name of the tool; `question` if it is about something else.
        name: String,
        /// A JSON object as text.
        arguments: String,
    },
    /// Something that the client, or a person there, must answer with a `function_call_output`.
    FunctionCall {
        /// `fc_…`.
        id: String,
        /// What the answer refers to.
        call_id: String,
        /// The name of the function.
        name: String,
        /// A JSON object as text.
        arguments: String,
        status: ItemStatus,
    },
}

impl OutputItem {
    /// The item's id.
    pub fn id(&self) -> &str {
        match self {
            Self::Message { id, .. }
            | Self::Reasoning { id, .. }
            | Self::McpCall { id, .. }
            | Self::McpApprovalRequest { id, .. }
            | Self::FunctionCall { id, .. } => id,
        }
    }

    /// Sets the status of an item that has one.
    pub fn set_status(&mut self, new: ItemStatus) {
        match self {
            Self::Message { status, .. }
            | Self::Reasoning { status, .. }
            | Self::McpCall { status, .. }
            | Self::FunctionCall { status, .. } => *status = new,
            Self::McpApprovalRequest { .. } => {}
        }
    }

    /// The text of a message or of reasoning: one part, or none while it is only announced.
    pub fn parts(&mut self) -> Option<&mut Vec<Part>> {
        match self {
            Self::Message { content: parts, .. } | Self::Reasoning { summary: parts, .. } => Some(parts),
            _ => None,
        }
    }
}

/// The text of a message or of reasoning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// `output_text`, or `summary_text` of reasoning.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Markdown.
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<[(); 0]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<[(); 0]>,
}

impl Part {
    /// Text of the agent.
    pub fn output(text: String) -> Self {
        Self { kind: "output_text", text, annotations: Some([]), logprobs: Some([]) }
    }

    /// Reasoning.
    pub fn summary(text: String) -> Self {
        Self { kind: "summary_text", text, annotations: None, logprobs: None }
    }
}
