//! The LLM history, read: for a run that begins or is taken over, and for people.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use houston_domain::history::{Block, Entry, Role};
use houston_domain::id::{AgentableId, LearningId, MessageId, NoteId, RunId, TenantId};
use houston_domain::tool_call::ToolResponse;
use sqlx::types::Json;

use crate::error::Result;
use crate::pool::Store;

/// What a run starts from.
#[derive(Debug, Clone, Default)]
pub struct RunContext {
    /// Entries of the open session, without those that were rolled back.
    pub history: Vec<Entry>,
    /// How many of the last ones are the run's own.
    pub of_this_run: usize,
    /// Notes of the agentable, newest first: id and title.
    pub notes: Vec<(NoteId, String)>,
    /// What was learnt, oldest first.
    pub learnings: Vec<(LearningId, String)>,
}

/// An intent that stands, and what is known of its call.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownCall {
    /// The thread message that shows it.
    pub cell: MessageId,
    /// What it answered, when it is back.
    pub response: Option<ToolResponse>,
}

/// An entry with its place, for people.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacedEntry {
    /// From 1, rising; what was rolled back leaves a gap.
    pub position: i64,
    /// The run that wrote it.
    pub run: RunId,
    /// The epoch it was written under.
    pub epoch: i64,
    /// The entry.
    pub entry: Entry,
    /// When it was committed.
    pub created_at: DateTime<Utc>,
}

fn role(name: &str) -> Role {
    if name == "assistant" { Role::Assistant } else { Role::User }
}

impl Store {
    /// What `run` starts from: one round trip. At most `notes` notes and learnings each.
    ///
    /// # Errors
    /// What the database says.
    pub async fn run_context(&self, agentable: AgentableId, run: RunId, notes: i64) -> Result<RunContext> {
        let rows = sqlx::query!(
            r#"-- store::history::context
            (select 'history' as "what!", h.position as "place!", h.role as "text!", h.run_id as "id!",
                    h.content as "content: Json<Vec<Block>>"
               from houston.run_locks l
               join houston.history h on h.agentable_id = l.agentable_id and h.position > l.session_position
                                     and not h.rolled_back
              where l.agentable_id = $1)
            union all
            (select 'note', row_number() over (order by id desc), title, id, null
               from houston.notes where agentable_id = $1 order by id desc limit $2)
            union all
            (select 'learning', row_number() over (order by id), content, id, null
               from houston.learnings where agentable_id = $1 order by id limit $2)
            order by 1, 2"#,
            agentable.0,
            notes
        )
        .fetch_all(&self.pool)
        .await?;
        let mut context = RunContext::default();
        for row in rows {
            match row.what.as_str() {
                "note" => context.notes.push((NoteId(row.id), row.text)),
                "learning" => context.learnings.push((LearningId(row.id), row.text)),
                _ => {
                    context.of_this_run += usize::from(row.id == run.0);
                    let content = row.content.map(|content| content.0).unwrap_or_default();
                    context.history.push(Entry { role: role(&row.text), content });
                }
            }
        }
        Ok(context)
    }

    /// The intents of a run, by call id.
    ///
    /// # Errors
    /// What the database says.
    pub async fn known_calls(&self, run: RunId) -> Result<HashMap<String, KnownCall>> {
        let rows = sqlx::query!(
            r#"-- store::history::known_calls
            select call_id, message_id, response as "response: Json<ToolResponse>"
              from houston.tool_calls where run_id = $1"#,
            run.0
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| {
                let response = row.response.map(|response| response.0);
                (row.call_id, KnownCall { cell: MessageId(row.message_id), response })
            })
            .collect())
    }

    /// Entries of an agentable of the tenant after `after` (a position), oldest first, `limit` at most; without
    /// those of runs that were rolled back.
    ///
    /// # Errors
    /// What the database says.
    pub async fn history(
        &self,
        tenant: TenantId,
        agentable: AgentableId,
        after: i64,
        limit: i64,
    ) -> Result<Vec<PlacedEntry>> {
        let rows = sqlx::query!(
            r#"-- store::history::list
            select position, run_id, epoch, role, content as "content: Json<Vec<Block>>", created_at
              from houston.history
             where tenant_id = $1 and agentable_id = $2 and position > $3 and not rolled_back
             order by position limit $4"#,
            tenant.0,
            agentable.0,
            after,
            limit
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| PlacedEntry {
                position: row.position,
                run: RunId(row.run_id),
                epoch: row.epoch,
                entry: Entry { role: role(&row.role), content: row.content.0 },
                created_at: row.created_at,
            })
            .collect())
    }
}
