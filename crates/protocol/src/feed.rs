//! Feeds on demand.

use houston_domain::id::{MessageId, RunId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::owner::Owner;
use crate::schema;

/// Asks for a feed now. There is nothing to say beside that.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GenerateFeed {}

/// What became of the request for a feed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum FeedGenerationResponse {
    /// It is being written.
    Accepted {
        #[schema(value_type = schema::RunId)]
        run_id: RunId,
        /// What its agent was told; absent when a feed was being written already.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<schema::MessageId>)]
        message_id: Option<MessageId>,
        /// The agent that writes it.
        #[serde(flatten)]
        #[schema(value_type = BTreeMap<String, String>)]
        owner: Owner,
        /// Where it is streamed.
        events_url: String,
    },
    /// Nothing happened since the latest feed, and nothing is written.
    NothingHappened,
}
