//! Reading the LLM history: for a run that begins or is taken over, and for people.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use houston_domain::frame::FrameMark;
use houston_domain::history::{Block, Entry, Role};
use houston_domain::id::{
    AgentableId, CustomInstructionId, LearningId, MemoryId, MessageId, NoteId, RunId, SessionId, TenantId,
};
use houston_domain::knowledge::{ProfileList, PromptLimits};
use houston_domain::mode::Mode;
use houston_domain::session::SessionArchive;
use houston_domain::tool_call::ToolResponse;
use serde::Deserialize;
use sqlx::types::Json;

use crate::error::{Error, Result};
use crate::excerpt::{Shortened, cut};
use crate::pool::Store;
use crate::serving::Serving;
use crate::stored_block::StoredBlock;

/// What a run starts from.
#[derive(Debug, Clone, Default)]
pub struct RunContext {
    /// The mark of Houston's frames in this session.
    pub mark: FrameMark,
    /// Entries of the open session, without those that were rolled back. Frames are signed with `mark`, which no
    /// user can know.
    pub history: Vec<Entry>,
    /// How many of the last entries belong to this run.
    pub run_entries: usize,
    /// The summary that replaces the beginning of the session, if it was compressed.
    pub summary: Option<String>,
    /// How many of the first entries the summary replaces. Entries of this run are included: it must see what it
    /// did.
    pub summarised_entries: usize,
    /// Whether there are large results that `read_result` can return.
    pub has_results: bool,
    /// Notes of the agentable, newest first: id and title.
    pub notes: Vec<(NoteId, String)>,
    /// Learnings, oldest first.
    pub learnings: Vec<(LearningId, String)>,
    /// What the prompt says about the user.
    pub user: PromptUser,
    /// How the run was started, and for whom.
    pub setting: Setting,
    /// The agent that answers.
    pub serving: Serving,
    /// The last closed sessions, newest first, at most `prompt_summaries`.
    pub sessions: Vec<PromptSession>,
    /// Whether there is any closed session.
    pub has_sessions: bool,
    /// Pending check-ins, the earliest first: time and reason.
    pub check_ins: Vec<(DateTime<Utc>, String)>,
}

/// A closed session as prompts show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptSession {
    /// The session's id.
    pub id: SessionId,
    /// The day on which it began: `YYYY-MM-DD`, UTC.
    pub day: String,
    /// Its summary, shortened.
    pub summary: String,
}

/// How a run was started, and for whom.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Setting {
    /// What started the run; `None`: a user's message.
    pub mode: Option<Mode>,
    /// The tools the agentable may call, out of those of its kind; `None`: all of them.
    pub tools: Option<Vec<String>>,
    /// The agentable that created it, for a task.
    pub parent: Option<Parent>,
}

/// The agentable that created a task.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Parent {
    /// Its kind.
    pub kind: String,
    /// Its title, one line.
    pub title: String,
    /// Its description.
    pub description: String,
}

/// What a prompt says about the user, shortened; the model reads the rest with tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PromptUser {
    /// What agents call them.
    pub name: String,
    /// An IANA name, as in `Europe/Berlin`.
    pub time_zone: String,
    /// Their profile: the lists that are not empty.
    pub profile: Vec<(ProfileList, Shortened<()>)>,
    /// Their custom instructions, oldest first.
    pub custom_instructions: Shortened<CustomInstructionId>,
    /// Their memories, newest first.
    pub memories: Shortened<MemoryId>,
}

impl PromptUser {
    /// Adds one row of the context query.
    fn take(&mut self, limits: &PromptLimits, what: &str, id: uuid::Uuid, text: String) {
        let PromptLimits { custom_instructions, memories, profile_entries, .. } = *limits;
        match what {
            "user" => self.name = text,
            "time_zone" => self.time_zone = text,
            "instruction" => {
                let text = cut(text, limits.custom_instruction_chars);
                self.custom_instructions.push(custom_instructions, CustomInstructionId(id), text);
            }
            "memory" => self.memories.push(memories, MemoryId(id), cut(text, limits.memory_chars)),
            list => {
                let Some(list) = ProfileList::ALL.into_iter().find(|name| name.as_str() == list) else {
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

impl RunContext {
    /// Adds one row of the context query that is not a history entry.
    fn take(
        &mut self,
        limits: &PromptLimits,
        archive: &SessionArchive,
        what: &str,
        id: uuid::Uuid,
        text: String,
    ) {
        match what {
            "note" => self.notes.push((NoteId(id), text)),
            "learning" => self.learnings.push((LearningId(id), cut(text, limits.learning_chars))),
            "session" => self.know(archive, id, &text),
            "result" => self.has_results = true,
            what if Serving::is_of(what) => self.serving.take(what, id, &text),
            other => self.user.take(limits, other, id, text),
        }
    }

    /// Adds a closed session: its day in the first ten characters, then its summary.
    fn know(&mut self, archive: &SessionArchive, id: uuid::Uuid, text: &str) {
        self.has_sessions = true;
        if self.sessions.len() < usize::try_from(archive.prompt_summaries).unwrap_or(0) {
            let (day, summary) = text.split_at_checked(10).unwrap_or((text, ""));
            let summary = cut(summary.to_owned(), archive.prompt_summary_chars);
            self.sessions.push(PromptSession { id: SessionId(id), day: day.to_owned(), summary });
        }
    }
}

/// A committed intent.
#[derive(Debug, Clone, PartialEq)]
pub struct CommittedIntent {
    /// The thread message (tool cell) that shows the call.
    pub cell: MessageId,
    /// The tool's response, once it was committed.
    pub response: Option<ToolResponse>,
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

fn setting(json: &str, run: RunId) -> Result<Setting> {
    serde_json::from_str(json).map_err(|source| Error::Inconsistent {
        table: "runs",
        column: "mode",
        row: run.to_string(),
        source,
    })
}

pub(crate) fn role(name: &str) -> Role {
    if name == "assistant" { Role::Assistant } else { Role::User }
}

impl Store {
    /// Everything `run` starts from, in one round trip: at most `notes` notes and as many learnings, and of the
    /// user's data what `limits` allow.
    ///
    /// # Errors
    /// [`Error::Database`] when Postgres cannot be reached or refuses the statement, [`Error::Inconsistent`] when
    /// the run's setting cannot be decoded.
    #[expect(clippy::too_many_lines, reason = "one statement: what a run starts from is its length")]
    pub async fn run_context(
        &self,
        agentable: AgentableId,
        run: RunId,
        notes: i64,
        limits: &PromptLimits,
    ) -> Result<RunContext> {
        let (archive, mut context) = (self.archiving.settings, RunContext::default());
        // One row and one character more than is shown are read, so that the prompt can say that there is more.
        let rows = sqlx::query!(
            r#"-- store::history::context
            with l as (select agentable_id, session_position, last_position, user_id
                         from houston.run_locks where agentable_id = $1),
            c as (select c.through_position, c.summary, c.run_id, c.run_position from houston.compressions c
                   where c.agentable_id = $1 and c.through_position > (select session_position from l)
                     -- One that tells of what was rolled back is rolled back with it.
                     and (c.through_position < c.run_position
                          or not exists (select from houston.history h where h.agentable_id = $1
                                            and h.position = c.run_position and h.rolled_back))
                   order by c.through_position desc, c.id desc limit 1)
            (select 'history' as "what!", h.position as "place!", h.role as "text!", h.run_id as "id!",
                    h.content as "content: Json<Vec<StoredBlock>>"
               from houston.history h
              where h.agentable_id = $1 and not h.rolled_back
                and h.position > coalesce((select case when c.run_id = $10 then least(c.through_position,
                                                  c.run_position - 1) else c.through_position end from c),
                                          (select session_position from l))
                -- True of every entry: without it the planner takes the open session for a third of the history, and
                -- reads all of it.
                and h.position <= (select last_position from l))
            union all
            (select '#', 0, houston.frame_mark($1, (select session_position from l)), $1, null)
            union all
            (select 'compression', c.through_position, c.summary, c.run_id, null from c)
            union all
            (select 'result', 0, '', $1, null
              where exists (select from houston.tool_results r where r.agentable_id = $1)
                 or exists (select from houston.tool_results r where r.parent_id = $1)
                 or exists (select from houston.tool_results r where r.agentable_id =
                                   (select a.parent_id from houston.agentables a where a.id = $1)))
            union all
            (select 'note', row_number() over (order by id desc), title, id, null
               from houston.notes where agentable_id = $1 order by id desc limit $2)
            union all
            (select 'learning', row_number() over (order by id), left(content, $3 + 1), id, null
               from houston.learnings where agentable_id = $1 order by id limit $2)
            union all
            (select u.what, 0, u.text, id, null
               from houston.users cross join lateral (values ('user', name), ('time_zone', time_zone)) as u (what, text)
              where id = (select user_id from l))
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
            union all
            (select 'session', row_number() over (order by number desc),
                    to_char(started_at, 'YYYY-MM-DD') || left(summary, $12 + 1), id, null
               from houston.sessions where agentable_id = $1 order by number desc limit greatest($11, 1))
            union all
            (select 'check_in', extract(epoch from wanted_at)::bigint, reason, id, null
               from houston.check_ins where agentable_id = $1)
            union all
            (select 'setting', 0,
                    jsonb_build_object('mode', r.mode, 'tools', to_jsonb(a.tools), 'parent', case when p.id is not null then
                        jsonb_build_object('kind', p.kind, 'title', p.title, 'description', p.description) end)::text,
                    r.id, null
               from houston.runs r join houston.agentables a on a.id = r.agentable_id
               left join houston.agentables p on p.id = a.parent_id where r.id = $10)
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
            run.0,
            archive.prompt_summaries,
            archive.prompt_summary_chars
        )
        .fetch_all(&self.pool)
        .await?;
        // Rows are sorted by `what`: mark and compression come before the history.
        let mut through = 0;
        for row in rows {
            if row.what == "#" {
                context.mark = FrameMark::new(&row.text);
                continue;
            }
            if row.what == "compression" {
                (through, context.summary) = (row.place, Some(row.text));
                continue;
            }
            if row.what == "check_in" {
                let wanted_at = DateTime::from_timestamp(row.place, 0).unwrap_or_default();
                context.check_ins.push((wanted_at, row.text));
                continue;
            }
            if row.what == "setting" {
                context.setting = setting(&row.text, run)?;
                continue;
            }
            if row.what == "history" {
                context.summarised_entries += usize::from(row.place <= through);
                context.run_entries += usize::from(row.id == run.0);
                let content = row.content.map_or_else(Vec::new, |content| content.0);
                let content = content.into_iter().map(|block| block.signed(&context.mark)).collect();
                context.history.push(Entry { role: role(&row.text), content });
                continue;
            }
            context.take(limits, &archive, &row.what, row.id, row.text);
        }
        context.user.profile.sort_by_key(|(list, _)| *list);
        Ok(context)
    }

    /// The committed intents of a run, by call id.
    ///
    /// # Errors
    /// [`Error::Database`] when Postgres cannot be reached or refuses the statement.
    pub async fn committed_intents(&self, run: RunId) -> Result<HashMap<String, CommittedIntent>> {
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
                (row.call_id, CommittedIntent { cell: MessageId(row.message_id), response })
            })
            .collect())
    }

    /// Entries of an agentable of the tenant after position `after`, oldest first, at most `limit`; without those
    /// of runs that were rolled back.
    ///
    /// # Errors
    /// [`Error::Database`] when Postgres cannot be reached or refuses the statement.
    pub async fn history(
        &self,
        tenant: TenantId,
        agentable: AgentableId,
        after: i64,
        limit: i64,
    ) -> Result<Vec<StoredEntry>> {
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
            .map(|row| StoredEntry {
                position: row.position,
                run: RunId(row.run_id),
                epoch: row.epoch,
                entry: Entry { role: role(&row.role), content: row.content.0 },
                created_at: row.created_at,
            })
            .collect())
    }
}
