//! What Houston adds to AG-UI's events and messages.

use std::borrow::Cow;

use houston_domain::message::Source;
use houston_domain::run::RunStatus;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::schema;

/// `{"houston": {…}}`: additions stand under their own name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Metadata<'a> {
    #[serde(default)]
    pub houston: HoustonMetadata<'a>,
}

/// The additions; each belongs to some events only.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HoustonMetadata<'a> {
    /// Of a message that no agent wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Source>)]
    pub source: Option<Source>,
    /// The message's own metadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::MessageMetadata>)]
    pub metadata: Option<Cow<'a, Value>>,
    /// The model's own id of a tool call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub call_id: Option<Cow<'a, str>>,
    /// Of a tool call that failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// The task a `SUBAGENT_STARTED` is about, as `task_0190…`: its events are under this id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub task_id: Option<Cow<'a, str>>,
    /// How the task ended; absent while it works.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::RunStatus>)]
    pub status: Option<RunStatus>,
    /// Of a message in a snapshot whose run was rolled back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rolled_back: bool,
}

impl<'a> From<HoustonMetadata<'a>> for Metadata<'a> {
    fn from(houston: HoustonMetadata<'a>) -> Self {
        Self { houston }
    }
}
