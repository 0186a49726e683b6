//! The LLM history, read: for a run that begins or is taken over, and for people.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use houston_domain::history::{Block, Entry, Role};
use houston_domain::id::{
    AgentableId, CustomInstructionId, LearningId, MemoryId, MessageId, NoteId, RunId, TenantId,
};
use houston_domain::knowledge::{ProfileList, PromptLimits};
use houston_domain::tool_call::ToolResponse;
use sqlx::types::Json;

use crate::error::Result;
use crate::excerpt::{Shortened, cut};
use crate::pool::Store;
use crate::serving::Serving;

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
    /// What is known of the user.
    pub user: KnownUser,
    /// Who answers.
    pub serving: Serving,
}

/// What a prompt says of the user, shortened; tools read the rest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownUser {
    /// What agents call them.
    pub name: String,
    /// Their profile: the lists that have entries.
    pub profile: Vec<(ProfileList, Shortened<()>)>,
    /// Their rules, oldest first.
    pub custom_instructions: Shortened<CustomInstructionId>,
    /// What agents remembered of them, newest first.
    pub memories: Shortened<MemoryId>,
}

impl KnownUser {
    /// Takes one row of the context.
    fn take(&mut self, limits: &PromptLimits, what: &str, id: uuid::Uuid, text: String) {
        let PromptLimits { custom_instructions, memories, profile_entries, .. } = *limits;
        match what {
            "user" => self.name = text,
            "instruction" => {
                let text = cut(text, limits.custom_instruction_chars);
                self.custom_instructions.push(custom_instructions, CustomInstructionId(id), text);
            }
            "memory" => self.memories.push(memories, MemoryId(id), cut(text, limits.memory_chars)),
            list => {
                let Some(list) = ProfileList::ALL.into_iter().find(|known| known.as_str() == list) else {
                    return;
                };
                let text = cut(text, limits.profile_chars);
                if self.profile.last().is_none_or(|(last, _)| *last != list) {
                    self.profile.push((list, Shortened::default()));
                }
                if let Some((_, entries)) = self.profile.last_mut() {
                    entries.push(profile_entries, (), text);
                }
            }
        }
    }
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
    /// What `run` starts from: one round trip. At most `notes` notes and learnings each, and of the user what
    /// `limits` allow.
    ///
    /// # Errors
    /// What the database says.
    #[expect(clippy::too_many_lines, reason = "one statement: its text is its length")]
    pub async fn run_context(
        &self,
        agentable: AgentableId,
        run: RunId,
        notes: i64,
        limits: &PromptLimits,
    ) -> Result<RunContext> {
        // Of each sort one more than is shown, and of each text one character: what is missing is told.
        let rows = sqlx::query!(
            r#"-- store::history::context
            with l as (select agentable_id, session_position, user_id from houston.run_locks where agentable_id = $1)
            (select 'history' as "what!", h.position as "place!", h.role as "text!", h.run_id as "id!",
                    h.content as "content: Json<Vec<Block>>"
               from houston.history h
              where h.agentable_id = $1 and h.position > (select session_position from l) and not h.rolled_back)
            union all
            (select 'note', row_number() over (order by id desc), title, id, null
               from houston.notes where agentable_id = $1 order by id desc limit $2)
            union all
            (select 'learning', row_number() over (order by id), left(content, $3 + 1), id, null
               from houston.learnings where agentable_id = $1 order by id limit $2)
            union all
            (select 'user', 0, name, id, null from houston.users where id = (select user_id from l))
            union all
            (select p.name, e.place, left(e.entry, $5 + 1), user_id, null
               from houston.profiles cross join lateral (values ('facts', facts), ('preferences', preferences),
                    ('communication_style', communication_style), ('interests', interests), ('aims', aims))
                    as p (name, entries)
              cross join lateral unnest(p.entries[:$4 + 1]) with ordinality as e (entry, place)
              where user_id = (select user_id from l))
            union all
            (select 'instruction', row_number() over (order by id), left(content, $7 + 1), id, null
               from houston.custom_instructions where user_id = (select user_id from l) order by id limit $6 + 1)
            union all
            (select 'memory', row_number() over (order by id desc), left(content, $9 + 1), id, null
               from houston.memories where user_id = (select user_id from l) order by id desc limit $8 + 1)
            union all
            (select what, place, definition, id, null from houston.serving($1, $10))
            order by 1, 2"#,
            agentable.0,
            notes,
            limits.learning_chars,
            limits.profile_entries,
            limits.profile_chars,
            limits.custom_instructions,
            limits.custom_instruction_chars,
            limits.memories,
            limits.memory_chars,
            run.0
        )
        .fetch_all(&self.pool)
        .await?;
        let mut context = RunContext::default();
        for row in rows {
            match row.what.as_str() {
                "note" => context.notes.push((NoteId(row.id), row.text)),
                "learning" => {
                    context.learnings.push((LearningId(row.id), cut(row.text, limits.learning_chars)));
                }
                "history" => {
                    context.of_this_run += usize::from(row.id == run.0);
                    let content = row.content.map(|content| content.0).unwrap_or_default();
                    context.history.push(Entry { role: role(&row.text), content });
                }
                what if Serving::is_of(what) => context.serving.take(what, row.id, &row.text),
                other => context.user.take(limits, other, row.id, row.text),
            }
        }
        context.user.profile.sort_by_key(|(list, _)| *list);
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
