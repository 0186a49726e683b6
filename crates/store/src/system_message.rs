//! System messages: thread messages with source `system` that Houston posts (a check-in is due, a feed is to be
//! written). An agent reads them like a user's message.

use houston_domain::id::{AgentableId, MessageId, RunId};
use houston_domain::mode::Mode;
use serde_json::Value;
use sqlx::PgConnection;

use crate::error::Result;
use crate::fairness::Fairness;

/// A system message about to be posted. It opens a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewSystemMessage<'a> {
    /// The agentable that reads it.
    pub(crate) agentable: AgentableId,
    /// The message's id.
    pub(crate) message: MessageId,
    /// The id of the run it opens.
    pub(crate) run: RunId,
    /// Why the run is opened.
    pub(crate) mode: Mode,
    /// The text the model reads.
    pub(crate) content: &'a str,
    /// Metadata for clients, a JSON object.
    pub(crate) metadata: &'a Value,
}

/// Posts the message in the caller's transaction; workers are notified at commit. Returns `false`, and changes
/// nothing, when a run of the agentable is already open.
pub(crate) async fn post_system_message(
    connection: &mut PgConnection,
    message: &NewSystemMessage<'_>,
    fairness: Fairness,
) -> Result<bool> {
    let posted = sqlx::query!(
        "-- store::system_message::post_system_message
        select run_id from houston.tell($1, $2, $3, $4, $5, null, $6, $7)",
        message.agentable.0,
        message.message.0,
        message.run.0,
        message.content,
        message.metadata,
        message.mode.as_str(),
        fairness.running()
    )
    .fetch_optional(connection)
    .await?;
    Ok(posted.is_some())
}
