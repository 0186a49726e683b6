//! Reading the LLM history for people, and the tool calls of a run; blocks of it as stored, and their conversion to what a model is
//! sent.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use houston_domain::frame::{FrameMark, MessageBlock};
use houston_domain::history::{Block, Entry, Role};
use houston_domain::id::{AgentableId, MessageId, RunId};
use houston_domain::tool_call::{PausedCall, ToolResponse};
use serde::{Deserialize, Serialize};
use sqlx::types::Json;

use crate::error::Result;
use crate::handle::{RunStore, TenantStore};

/// A committed intent.
#[derive(Debug, Clone, PartialEq)]
pub struct CommittedIntent {
    /// The thread message (tool cell) that shows the call.
    pub cell: MessageId,
    /// The tool's response, once it was committed.
    pub response: Option<ToolResponse>,
    /// Why it has none yet, if it goes on later.
    pub paused: Option<PausedCall>,
}

/// A history entry with its position, for people.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredEntry {
    /// From 1, ascending; entries that were rolled back leave gaps.
    pub position: i64,
    /// The run that wrote it.
    pub run: RunId,
    /// The epoch it was written under.
    pub epoch: i64,
    /// Role and content.
    pub entry: Entry,
    /// When it was committed.
    pub created_at: DateTime<Utc>,
}

pub(crate) fn role(name: &str) -> Role {
    Role::from_name(name).unwrap_or(Role::User)
}

impl RunStore {
    /// The committed intents of a run, by call id.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement, or has a pause that cannot be read.
    pub async fn committed_intents(&self, run: RunId) -> Result<HashMap<String, CommittedIntent>> {
        let rows = sqlx::query!(
            r#"-- store::history::known_calls
            select call_id, message_id, response as "response: Json<ToolResponse>", paused
              from houston.tool_calls where run_id = $1"#,
            run.0
        )
        .fetch_all(&self.pool)
        .await?;
        rows.into_iter()
            .map(|row| {
                let response = row.response.map(|response| response.0);
                let paused = row.paused.as_deref().map(serde_json::from_str).transpose();
                let paused = paused.map_err(|error| sqlx::Error::Decode(error.into()))?;
                Ok((row.call_id, CommittedIntent { cell: MessageId(row.message_id), response, paused }))
            })
            .collect()
    }
}

impl TenantStore<'_> {
    /// Entries of an agentable of the tenant after position `after`, oldest first, at most `limit`; without those
    /// of runs that were rolled back.
    pub async fn history(self, agentable: AgentableId, after: i64, limit: i64) -> Result<Vec<StoredEntry>> {
        let rows = sqlx::query!(
            r#"-- store::history::list
            select position as "position!", run_id as "run_id!", epoch as "epoch!", role as "role!",
                   content as "content!: Json<Vec<Block>>", created_at as "created_at!"
              from houston.entries
             where tenant_id = $1 and agentable_id = $2 and position > $3 and not rolled_back
             order by position limit $4"#,
            self.tenant.0,
            agentable.0,
            after,
            limit
        )
        .map(|row| StoredEntry {
            position: row.position,
            run: RunId(row.run_id),
            epoch: row.epoch,
            entry: Entry { role: role(&row.role), content: row.content.0 },
            created_at: row.created_at,
        });
        Ok(rows.fetch_all(&self.pool).await?)
    }
}

/// A stored block; `frame` marks text of Houston's own.
#[derive(Debug, Deserialize)]
pub(crate) struct StoredBlock {
    #[serde(flatten)]
    block: Block,
    #[serde(default)]
    frame: bool,
}

/// A text block to be stored.
#[derive(Debug, Serialize)]
pub(crate) struct NewText<'a> {
    pub(crate) r#type: &'static str,
    pub(crate) text: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) frame: bool,
}

impl<'a> NewText<'a> {
    /// A message as a block of the history.
    pub(crate) fn of(message: &'a MessageBlock) -> Self {
        Self { r#type: "text", text: &message.text, frame: message.frame }
    }
}

impl StoredBlock {
    /// The block as a model is sent it, with Houston's frames signed. A block that a model wrote is unchanged,
    /// since its provider may have signed it.
    pub(crate) fn signed(self, mark: &FrameMark) -> Block {
        match self.block {
            Block::Text { text, raw: None } => {
                Block::text(MessageBlock { text, frame: self.frame }.signed(mark))
            }
            Block::ToolResult { tool_use_id, content, is_error, code } => {
                let content = MessageBlock { text: content, frame: false }.signed(mark);
                Block::ToolResult { tool_use_id, content, is_error, code }
            }
            block => block,
        }
    }
}
