//! Feeds on request.

use houston_domain::id::{MessageId, RunId};
use serde::{Deserialize, Serialize};

use crate::owner::Owner;

/// Requests a feed now. It has no fields: `{}`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct GenerateFeed {}

/// The response to a request for a feed.
///
/// ```json
/// {"status": "accepted", "run_id": "run_0190…", "message_id": "msg_0190…", "user_agent_id": "user_agent_0190…",
///  "events_url": "/v1/user_agents/user_agent_0190…/events?after=0"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum FeedGenerationResponse {
    /// The feed is being written.
    Accepted {
        run_id: RunId,
        /// The message that the agent reads; absent if a feed was being written already.
        #[serde(skip_serializing_if = "Option::is_none")]
        message_id: Option<MessageId>,
        /// The agentable that writes it.
        #[serde(flatten)]
        #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
        owner: Owner,
        /// The URL that streams its run.
        events_url: String,
    },
    /// There was no activity since the latest feed, so none is written.
    NothingHappened,
}
