//! The events of a response that is streamed.

use std::borrow::Cow;

use serde::Serialize;

use super::item::{OutputItem, Part};
use super::response::Response;

/// An event with its number.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Numbered<'e> {
    /// What happened.
    #[serde(flatten)]
    pub event: &'e StreamEvent<'e>,
    /// A stream that is opened with `starting_after` and this number continues after this event.
    pub sequence_number: u64,
}

/// Which item an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct At<'e> {
    /// The id of the item.
    pub item_id: Cow<'e, str>,
    /// Its number among the items of the response, from 0.
    pub output_index: u32,
}

/// One event of a stream. The name is also the `event` of the server-sent event.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type")]
pub enum StreamEvent<'e> {
    #[serde(rename = "response.created")]
    Created { response: Box<Response> },
    #[serde(rename = "response.queued")]
    Queued { response: Box<Response> },
    #[serde(rename = "response.in_progress")]
    InProgress { response: Box<Response> },
    #[serde(rename = "response.completed")]
    Completed { response: Box<Response> },
    #[serde(rename = "response.incomplete")]
    Incomplete { response: Box<Response> },
    #[serde(rename = "response.failed")]
    Failed { response: Box<Response> },
    #[serde(rename = "response.output_item.added")]
    ItemAdded { output_index: u32, item: OutputItem },
    #[serde(rename = "response.output_item.done")]
    ItemDone { output_index: u32, item: OutputItem },
    #[serde(rename = "response.content_part.added")]
    PartAdded {
        #[serde(flatten)]
        at: At<'e>,
        content_index: u32,
        part: Part,
    },
    #[serde(rename = "response.content_part.done")]
    PartDone {
        #[serde(flatten)]
        at: At<'e>,
        content_index: u32,
        part: Part,
    },
    #[serde(rename = "response.output_text.delta")]
    TextDelta {
        #[serde(flatten)]
        at: At<'e>,
        content_index: u32,
        delta: Cow<'e, str>,
        logprobs: [(); 0],
    },
    #[serde(rename = "response.output_text.done")]
    TextDone {
        #[serde(flatten)]
        at: At<'e>,
        content_index: u32,
        text: String,
        logprobs: [(); 0],
    },
    #[serde(rename = "response.reasoning_summary_part.added")]
    SummaryPartAdded {
        #[serde(flatten)]
        at: At<'e>,
        summary_index: u32,
        part: Part,
    },
    #[serde(rename = "response.reasoning_summary_part.done")]
    SummaryPartDone {
        #[serde(flatten)]
        at: At<'e>,
        summary_index: u32,
        part: Part,
    },
    #[serde(rename = "response.reasoning_summary_text.delta")]
    SummaryDelta {
        #[serde(flatten)]
        at: At<'e>,
        summary_index: u32,
        delta: Cow<'e, str>,
    },
    #[serde(rename = "response.reasoning_summary_text.done")]
    SummaryDone {
        #[serde(flatten)]
        at: At<'e>,
        summary_index: u32,
        text: String,
    },
    #[serde(rename = "response.mcp_call.in_progress")]
    CallInProgress {
        #[serde(flatten)]
        at: At<'e>,
    },
    #[serde(rename = "response.mcp_call.completed")]
    CallCompleted {
        #[serde(flatten)]
        at: At<'e>,
    },
    #[serde(rename = "response.mcp_call.failed")]
    CallFailed {
        #[serde(flatten)]
        at: At<'e>,
    },
    #[serde(rename = "response.mcp_call_arguments.delta")]
    CallArgumentsDelta {
        #[serde(flatten)]
        at: At<'e>,
        delta: Cow<'e, str>,
    },
    #[serde(rename = "response.mcp_call_arguments.done")]
    CallArgumentsDone {
        #[serde(flatten)]
        at: At<'e>,
        arguments: String,
    },
    #[serde(rename = "response.function_call_arguments.delta")]
    FunctionArgumentsDelta {
        #[serde(flatten)]
        at: At<'e>,
        delta: Cow<'e, str>,
    },
    #[serde(rename = "response.function_call_arguments.done")]
    FunctionArgumentsDone {
        #[serde(flatten)]
        at: At<'e>,
        name: String,
        arguments: String,
    },
}

impl StreamEvent<'_> {
    /// The name of the event, as in its `type`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Created { .. } => "response.created",
            Self::Queued { .. } => "response.queued",
            Self::InProgress { .. } => "response.in_progress",
            Self::Completed { .. } => "response.completed",
            Self::Incomplete { .. } => "response.incomplete",
            Self::Failed { .. } => "response.failed",
            Self::ItemAdded { .. } => "response.output_item.added",
            Self::ItemDone { .. } => "response.output_item.done",
            Self::PartAdded { .. } => "response.content_part.added",
            Self::PartDone { .. } => "response.content_part.done",
            Self::TextDelta { .. } => "response.output_text.delta",
            Self::TextDone { .. } => "response.output_text.done",
            Self::SummaryPartAdded { .. } => "response.reasoning_summary_part.added",
            Self::SummaryPartDone { .. } => "response.reasoning_summary_part.done",
            Self::SummaryDelta { .. } => "response.reasoning_summary_text.delta",
            Self::SummaryDone { .. } => "response.reasoning_summary_text.done",
            Self::CallInProgress { .. } => "response.mcp_call.in_progress",
            Self::CallCompleted { .. } => "response.mcp_call.completed",
            Self::CallFailed { .. } => "response.mcp_call.failed",
            Self::CallArgumentsDelta { .. } => "response.mcp_call_arguments.delta",
            Self::CallArgumentsDone { .. } => "response.mcp_call_arguments.done",
            Self::FunctionArgumentsDelta { .. } => "response.function_call_arguments.delta",
            Self::FunctionArgumentsDone { .. } => "response.function_call_arguments.done",
        }
    }
}
