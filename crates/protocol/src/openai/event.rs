//! The events of a response that is streamed.

use serde::Serialize;
use serde_json::Value;

use super::item::{OutputItem, Part};

/// One event: what events of its name do not have is left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StreamEvent {
    /// As in `response.output_text.delta`; it is also the `event` of the server-sent event.
    #[serde(rename = "type")]
    pub name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item_id: Option<String>,
    /// The number of the item among those of the response, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_index: Option<u32>,
    /// 0: a message has one part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_index: Option<u32>,
    /// 0: reasoning has one part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary_index: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<OutputItem>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delta: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<[(); 0]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// A stream that is opened with `starting_after` and this number continues after this event.
    pub sequence_number: u64,
}
