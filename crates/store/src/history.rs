//! The LLM history, read: for a run that begins or is taken over, and for people.

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
    /// What Houston's frames carry in this session.
    pub mark: FrameMark,
    /// Entries of the open session, without those that were rolled back. Frames are signed with `mark`, and nothing else
    /// holds it.
    pub history: Vec<Entry>,
    /// How many of the last ones are the run's own.
    pub of_this_run: usize,
    /// What stands for the beginning of the session, when it was compressed.
    pub summary: Option<String>,
    /// How many of the first entries it stands for, too: those of the run, which must know what it did.
    pub folded: usize,
    /// Whether there are long results it may read on in.
    pub has_results: bool,
    /// Notes of the agentable, newest first: id and title.
    pub notes: Vec<(NoteId, String)>,
    /// What was learnt, oldest first.
    pub learnings: Vec<(LearningId, String)>,
    /// What is known of the user.
    pub user: KnownUser,
    /// What the run stands in.
    pub setting: Setting,
    /// Who answers.
    pub serving: Serving,
    /// The last closed sessions, newest first, as many as prompts have.
    pub sessions: Vec<KnownSession>,
    /// Whether there is any closed session.
    pub has_sessions: bool,
    /// When it wakes itself, and why, the next first: as many as may be set.
    pub check_ins: Vec<(DateTime<Utc>, String)>,
}

/// A closed session as a prompt has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownSession {
    /// Its id.
    pub id: SessionId,
    /// The day on which it began, UTC.
    pub day: String,
    /// Its summary, shortened.
    pub summary: String,
}

/// What a run stands in, beside its own agentable.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Setting {
    /// Why it was opened, when nobody's message did.
    pub mode: Option<Mode>,
    /// The tools its agentable may call, of those of its kind; all of them when not said.
    pub tools: Option<Vec<String>>,
    /// What its agentable works for.
    pub parent: Option<Parent>,
}

/// The agentable that a task works for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Parent {
    /// The name of its agent type.
    pub kind: String,
    /// One line.
    pub title: String,
    /// What it is about.
    pub description: String,
}

/// What a prompt says of the user, shortened; tools read the rest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownUser {
    /// What agents call them.
    pub name: String,
    /// Where they live: an IANA name.
    pub time_zone: String,
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
            "time_zone" => self.time_zone = text,
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

impl RunContext {
    /// Takes one row of the context that is no entry.
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

    /// Takes a session of the context: ten characters of its day, then its summary.
    fn know(&mut self, archive: &SessionArchive, id: uuid::Uuid, text: &str) {
        self.has_sessions = true;
        if self.sessions.len() < usize::try_from(archive.prompt_summaries).unwrap_or(0) {
            let (day, summary) = text.split_at_checked(10).unwrap_or((text, ""));
            let summary = cut(summary.to_owned(), archive.prompt_summary_chars);
            self.sessions.push(KnownSession { id: SessionId(id), day: day.to_owned(), summary });
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
    /// What `run` starts from: one round trip. At most `notes` notes and learnings each, and of the user what
    /// `limits` allow.
    ///
    /// # Errors
    /// What the database says.
    #[expect(clippy::too_many_lines, reason = "one statement: what a run starts from is its length")]
    pub async fn run_context(
        &self,
        agentable: AgentableId,
        run: RunId,
        notes: i64,
        limits: &PromptLimits,
    ) -> Result<RunContext> {
        let (archive, mut context) = (self.archiving.settings, RunContext::default());
        // Of each sort one more than is shown, and of each text one character: what is missing is told.
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
        // Mark and compression come before the history: rows are sorted by what they are.
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
                context.folded += usize::from(row.place <= through);
                context.of_this_run += usize::from(row.id == run.0);
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
