//! The types of streamed and complete answers.

use std::borrow::Cow;

use houston_domain::model::{StopReason, Tier, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::fields::{Arguments, Count, lenient, null_is_default, text};
use super::super::usage::{ReportedUsage, normalised};

/// An event of a stream; its `type` determines the other fields. Other events use the same field names with other
/// types, so values are parsed when the type is known.
#[derive(Deserialize)]
pub(super) struct StreamEvent<'a> {
    /// Empty if the data is not an event of this wire.
    #[serde(rename = "type", default, borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(default)]
    pub(super) output_index: Count,
    #[serde(default)]
    pub(super) summary_index: Count,
    #[serde(default, borrow)]
    pub(super) delta: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) item: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) response: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) error: Option<&'a RawValue>,
}

/// An answer, complete or partial.
#[derive(Deserialize)]
pub(super) struct Answer<'a> {
    #[serde(default, deserialize_with = "text")]
    pub(super) status: Option<String>,
    #[serde(default, borrow)]
    pub(super) output: Option<Vec<&'a RawValue>>,
    #[serde(default, deserialize_with = "lenient")]
    usage: Option<ReportedUsage>,
    #[serde(default, deserialize_with = "text")]
    service_tier: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) incomplete_details: Option<IncompleteDetails>,
    #[serde(default, borrow)]
    pub(super) error: Option<&'a RawValue>,
}

impl Answer<'_> {
    /// What it used, if that is reported.
    pub(super) fn usage(&self) -> Option<Usage> {
        let tier = self.service_tier.as_deref().and_then(Tier::named);
        self.usage.map(|usage| Usage { tier, ..normalised(usage) })
    }
}

/// Why an answer is incomplete.
#[derive(Deserialize)]
pub(super) struct IncompleteDetails {
    #[serde(default, deserialize_with = "text")]
    reason: Option<String>,
}

impl IncompleteDetails {
    pub(super) fn stop(&self) -> StopReason {
        match self.reason.as_deref() {
            Some("content_filter") => StopReason::Refusal,
            _ => StopReason::MaxTokens,
        }
    }
}

/// The type of an item, which determines its other fields.
#[derive(Deserialize)]
pub(super) struct ItemKind<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
}

/// A call of one of Houston's tools.
#[derive(Deserialize)]
pub(super) struct FunctionCall {
    #[serde(default, deserialize_with = "text")]
    pub(super) call_id: Option<String>,
    #[serde(default, deserialize_with = "text")]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) arguments: Option<Arguments>,
}

/// A message or reasoning.
#[derive(Deserialize)]
pub(super) struct ItemContent<'a> {
    #[serde(default, borrow, deserialize_with = "null_is_default")]
    pub(super) content: Vec<Part<'a>>,
    #[serde(default, borrow, deserialize_with = "null_is_default")]
    pub(super) summary: Vec<Part<'a>>,
    #[serde(default, deserialize_with = "text")]
    pub(super) phase: Option<String>,
    #[serde(default, borrow)]
    pub(super) encrypted_content: Option<&'a RawValue>,
}

/// A part of a message or of reasoning. Its text was usually received in pieces before and is not parsed again.
#[derive(Deserialize)]
pub(super) struct Part<'a> {
    #[serde(default, borrow)]
    text: Option<&'a RawValue>,
    #[serde(default, borrow)]
    refusal: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "null_is_default")]
    pub(super) annotations: Vec<&'a RawValue>,
}

impl Part<'_> {
    /// Whether the model or the provider's filter refused.
    pub(super) fn is_refusal(&self) -> bool {
        self.refusal.is_some_and(|refusal| !matches!(refusal.get(), "null" | "\"\""))
    }

    pub(super) fn text(&self) -> Option<String> {
        serde_json::from_str(self.text.or(self.refusal)?.get()).ok()
    }
}
