//! The output items of a response.

use serde::{Deserialize, Serialize};

/// The `server_label` of the tools that Houston itself carries out.
pub const SERVER_LABEL: &str = "houston";

/// Whether an item is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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

/// Who wrote a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The agent.
    Assistant,
    /// The user.
    User,
    /// Houston.
    System,
}

/// One item of the output.
///
/// ```json
/// {"type": "message", "id": "msg_0190…", "status": "completed", "role": "assistant",
///  "content": [{"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}]}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum OutputItem {
    /// A message of the agent.
    Message {
        /// `msg_…`, the id of the message in the thread.
        id: String,
        /// Whether it is complete.
        status: ItemStatus,
        /// Always the assistant.
        role: Role,
        /// Its text.
        content: Vec<Part>,
    },
    /// The model's reasoning.
    Reasoning {
        /// `reasoning_…`.
        id: String,
        /// Its text.
        summary: Vec<Part>,
        /// Whether it is complete.
        status: ItemStatus,
    },
    /// A tool that Houston carries out, with its result. No client has to do anything about it.
    McpCall {
        /// `mcp_…`.
        id: String,
        /// [`SERVER_LABEL`].
        server_label: String,
        /// The name of the tool.
        name: String,
        /// A JSON object as text.
        arguments: String,
        /// What the model reads.
        output: Option<String>,
        /// The same, if the call failed.
        error: Option<String>,
        /// Whether it has its result.
        status: ItemStatus,
        /// The item that asked for its approval.
        approval_request_id: Option<String>,
    },
    /// A person must decide whether a tool is carried out, or something else is done.
    McpApprovalRequest {
        /// `mcpr_…`, made from the id of the question.
        id: String,
        /// [`SERVER_LABEL`].
        server_label: String,
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
        /// Whether its arguments are complete.
        status: ItemStatus,
    },
}

impl OutputItem {
    /// The item's id.
    #[must_use]
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

    /// The text of a message; `None` for other items.
    #[must_use]
    pub fn message_text(&self) -> Option<&str> {
        match self {
            Self::Message { content, .. } => Some(content.first().map_or("", Part::text)),
            _ => None,
        }
    }
}

/// A part of a message or of reasoning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Text of the agent.
    OutputText {
        /// Markdown.
        text: String,
        /// Always empty.
        annotations: [(); 0],
        /// Always empty.
        logprobs: [(); 0],
    },
    /// Text of the user.
    InputText {
        /// Markdown.
        text: String,
    },
    /// Reasoning.
    SummaryText {
        /// Plain text.
        text: String,
    },
}

impl Part {
    /// Text of the agent.
    #[must_use]
    pub fn output(text: String) -> Self {
        Self::OutputText { text, annotations: [], logprobs: [] }
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::OutputText { text, .. } | Self::InputText { text } | Self::SummaryText { text } => text,
        }
    }
}
