//! Houston's additions to AG-UI events and messages.

use std::borrow::Cow;

use houston_domain::message::Source;
use houston_domain::run::RunStatus;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[cfg(feature = "openapi")]
use crate::schema;

/// Houston's additions, under a name of their own: `{"houston": {"is_error": true}}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Metadata<'a> {
    #[serde(default)]
    pub houston: HoustonMetadata<'a>,
}

/// The additions. Each field occurs only in some events.
///
/// ```json
/// {"call_id": "call_1", "is_error": true}
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HoustonMetadata<'a> {
    /// For a message that no agent wrote: its source.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Source>))]
    pub source: Option<Source>,
    /// The metadata of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::MessageMetadata>))]
    pub metadata: Option<Cow<'a, Value>>,
    /// The id of a tool call, unique within its run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub call_id: Option<Cow<'a, str>>,
    /// For a tool result: whether the call failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// For `SUBAGENT_STARTED`: the task, as in `task_0190…`. Its own event stream has this id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub task_id: Option<Cow<'a, str>>,
    /// How the task ended; absent while it is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::RunStatus>))]
    pub status: Option<RunStatus>,
    /// For `RUN_ERROR`: the error for developers and operators, with settings and status codes, as in the run's `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub cause: Option<Cow<'a, str>>,
    /// For a message of a snapshot: whether its run was rolled back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rolled_back: bool,
}

impl<'a> From<HoustonMetadata<'a>> for Metadata<'a> {
    fn from(houston: HoustonMetadata<'a>) -> Self {
        Self { houston }
    }
}
