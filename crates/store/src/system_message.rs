//! Houston tells an agent something: a message of the source `system`, which is read like a user's and is nobody's
//! words.

use houston_domain::id::{AgentableId, MessageId, RunId};
use houston_domain::mode::Mode;
use serde_json::Value;
use sqlx::PgConnection;

use crate::error::Result;
use crate::fairness::Fairness;

/// What an agent is told, in a run of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewSystemMessage<'a> {
    /// Whom.
    pub(crate) agentable: AgentableId,
    /// The id of the message.
    pub(crate) message: MessageId,
    /// The run it opens.
    pub(crate) run: RunId,
    /// Why.
    pub(crate) mode: Mode,
    /// What it reads.
    pub(crate) content: &'a str,
    /// For clients.
    pub(crate) metadata: &'a Value,
}

/// Tells it, in the caller's transaction; a worker hears of it at commit. `false`, and nothing happened: a run of the
/// agentable is open.
pub(crate) async fn post_system_message(
    connection: &mut PgConnection,
    message: &NewSystemMessage<'_>,
    fairness: Fairness,
) -> Result<bool> {
    let told = sqlx::query!(
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
    Ok(told.is_some())
}
