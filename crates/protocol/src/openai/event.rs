//! The events of a response that is streamed.

use std::borrow::Cow;

use serde::Serialize;

use super::item::{OutputItem, Part};
use super::response::Response;

/// An event with its number.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Numbered<'e> {
    /// [`StreamEvent::name`].
    #[serde(rename = "type")]
    pub name: &'static str,
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
#[serde(untagged)]
pub enum StreamEvent<'e> {
    Created {
        response: Box<Response>,
    },
    Queued {
        response: Box<Response>,
    },
    InProgress {
        response: Box<Response>,
    },
    Completed {
        response: Box<Response>,
    },
    Incomplete {
        response: Box<Response>,
    },
    Failed {
        response: Box<Response>,
    },
    ItemAdded {
        output_index: u32,
        item: OutputItem,
    },
    ItemDone {
        output_index: u32,
        item: OutputItem,
    },
    PartAdded {
        #[serde(flatten)]
        at: At<'e>,
        content_index: u32,
        part: Part,
    },
    PartDone {
        #[serde(flatten)]
        at: At<'e>,
        content_index: u32,
        part: Part,
    },
    TextDelta {
        #[serde(flatten)]
        at: At<'e>,
        content_index: u32,
        delta: Cow<'e, str>,
        logprobs: [(); 0],
    },
    TextDone {
        #[serde(flatten)]
        at: At<'e>,
        content_index: u32,
        text: String,
        logprobs: [(); 0],
    },
    SummaryPartAdded {
        #[serde(flatten)]
        at: At<'e>,
        summary_index: u32,
        part: Part,
    },
    SummaryPartDone {
        #[serde(flatten)]
        at: At<'e>,
        summary_index: u32,
        part: Part,
    },
    SummaryDelta {
        #[serde(flatten)]
        at: At<'e>,
        summary_index: u32,
        delta: Cow<'e, str>,
    },
    SummaryDone {
        #[serde(flatten)]
        at: At<'e>,
        summary_index: u32,
        text: String,
    },
    CallInProgress(At<'e>),
    CallCompleted(At<'e>),
    CallFailed(At<'e>),
    CallArgumentsDelta {
        #[serde(flatten)]
        at: At<'e>,
        delta: Cow<'e, str>,
    },
    CallArgumentsDone {
        #[serde(flatten)]
        at: At<'e>,
        arguments: String,
    },
    FunctionArgumentsDelta {
        #[serde(flatten)]
        at: At<'e>,
        delta: Cow<'e, str>,
    },
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
            Self::CallInProgress(_) => "response.mcp_call.in_progress",
            Self::CallCompleted(_) => "response.mcp_call.completed",
            Self::CallFailed(_) => "response.mcp_call.failed",
            Self::CallArgumentsDelta { .. } => "response.mcp_call_arguments.delta",
            Self::CallArgumentsDone { .. } => "response.mcp_call_arguments.done",
            Self::FunctionArgumentsDelta { .. } => "response.function_call_arguments.delta",
            Self::FunctionArgumentsDone { .. } => "response.function_call_arguments.done",
        }
    }
}
