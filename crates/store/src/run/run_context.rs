//! What a run starts from: the history of the open session, and what the prompt says about the agentable and its user.
//! One statement reads the contexts of many runs.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use houston_domain::client_offer::ClientOffer;
use houston_domain::frame::FrameMark;
use houston_domain::history::{Entry, Role};
use houston_domain::id::{
    AgentableId, CustomInstructionId, LearningId, MemoryId, NoteId, RunId, SessionId, TenantId,
};
use houston_domain::knowledge::PromptLimits;
use houston_domain::mode::Mode;
use houston_domain::profile::ProfileList;
use houston_domain::session::SessionArchive;
use houston_domain::skill::{SkillSource, SkillSummary};
use houston_domain::snippet::SnippetTool;
use houston_domain::tool_source::SourceSummary;
use serde::Deserialize;
use serde_json::value::RawValue;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use crate::batcher::Batch;
use crate::error::{Error, Result};
use crate::excerpt::{Shortened, cut};
use crate::guards::StoredGuards;
use crate::handle::RunStore;
use crate::history::{StoredBlock, role};
use crate::reach::{PromptConversations, Reach};
use crate::serving::Serving;

/// How much of what may be long a context has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ContextLimits {
    /// Notes, and as many learnings.
    pub notes: i64,
    /// Of the user's data.
    pub prompt: PromptLimits,
}

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
    /// The pauses between answers and what followed them, in seconds, as far as the history above has them.
    pub pauses: Vec<u32>,
    /// When the last entry was written, if it is an answer.
    pub answered_at: Option<DateTime<Utc>>,
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
    /// The snippets of the user that are tools, in the order of their names.
    pub snippet_tools: Vec<SnippetTool>,
    /// How the run was started, and for whom.
    pub setting: Setting,
    /// The guards of the tenant, the user, the agentable and, for a task, those above it; in the order of layers.
    pub guards: Vec<StoredGuards>,
    /// Where tools of the tenant's own, and then of the user's own, come from; `None`: nowhere.
    pub sources: Option<(TenantId, Vec<SourceSummary>)>,
    /// The agent that answers.
    pub serving: Serving,
    /// The last closed sessions, newest first, at most `prompt_summaries`.
    pub sessions: Vec<PromptSession>,
    /// Whether there is any closed session.
    pub has_sessions: bool,
    /// Stored skills of the tenant and of the user, enabled or not.
    pub skills: Vec<SkillSummary>,
    /// The other conversations of the user, if the kind reaches any.
    pub conversations: PromptConversations,
    /// Pending check-ins, the earliest first: time and reason.
    pub check_ins: Vec<(DateTime<Utc>, String)>,
    /// What the client of its latest message offers; boxed, because most have none.
    pub client: Option<Box<ClientOffer>>,
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
    /// Whether what strangers wrote was read in it.
    pub untrusted: bool,
}

/// How a run was started, and for whom.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Setting {
    /// What started the run; `None`: a user's message.
    pub mode: Option<Mode>,
    /// The tools the agentable may call, out of those of its kind; `None`: all of them.
    pub tools: Option<Vec<String>>,
    /// Whether what the prompt has (the title, the summary, notes, learnings, memories), or the instructions of the task, was
    /// written after reading what strangers wrote.
    #[serde(default)]
    pub untrusted: bool,
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
    /// Whether a session wrote an entry of their profile which had read what strangers wrote.
    pub untrusted: bool,
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
                let list = list.strip_suffix(UNTRUSTED).inspect(|_| self.untrusted = true).unwrap_or(list);
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

/// Seconds from one time to another.
fn pause(from: DateTime<Utc>, to: DateTime<Utc>) -> u32 {
    u32::try_from((to - from).num_seconds().max(0)).unwrap_or(u32::MAX)
}

impl RunContext {
    /// The pauses between answers and what followed them, in seconds, with the one that ends `now`.
    pub fn pauses_until(&mut self, now: DateTime<Utc>) -> Vec<u32> {
        let mut pauses = std::mem::take(&mut self.pauses);
        pauses.extend(self.answered_at.map(|answered| pause(answered, now)));
        pauses
    }
}

/// What follows the day of a session in which something untrusted was read, and the names of the lists of a profile with an
/// entry that such a session wrote.
const UNTRUSTED: &str = "!";

impl RunStore {
    /// Everything `run` starts from, in one round trip: at most `notes` notes and as many learnings, and of the
    /// user's data what `limits` allow.
    ///
    /// # Errors
    /// [`Error::Inconsistent`](crate::Error::Inconsistent) when a row cannot be decoded.
    pub async fn run_context(
        &self,
        agentable: AgentableId,
        run: RunId,
        notes: i64,
        limits: &PromptLimits,
    ) -> Result<RunContext> {
        let request = ContextRequest { agentable, run, notes, limits: *limits };
        if let Some(context) = self.batchers.contexts.submit(request).await {
            return context;
        }
        let contexts = &self.batchers.contexts.batch;
        let mut connection = self.pool.acquire().await?;
        let context = contexts.write(&mut connection, &mut [request]).await?.pop().flatten();
        context.unwrap_or_else(|| Ok(RunContext::default()))
    }
}

/// A run whose context is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ContextRequest {
    pub(crate) agentable: AgentableId,
    pub(crate) run: RunId,
    pub(crate) notes: i64,
    pub(crate) limits: PromptLimits,
}

/// How contexts are read.
#[derive(Debug, Clone)]
pub(crate) struct Contexts {
    pub(crate) archive: SessionArchive,
    pub(crate) reach: Arc<Reach>,
}

impl Batch for Contexts {
    type Item = ContextRequest;
    type Done = Result<RunContext>;
    type Key = ();

    /// Reads the contexts of runs whose limits are those of the first; `None` for the others.
    async fn write(
        &self,
        connection: &mut PgConnection,
        items: &mut [ContextRequest],
    ) -> Result<Vec<Option<Result<RunContext>>>> {
        let Some(ContextRequest { notes, limits, .. }) = items.first() else { return Ok(Vec::new()) };
        let same = |item: &&ContextRequest| item.notes == *notes && item.limits == *limits;
        let (agentables, runs): (Vec<Uuid>, Vec<Uuid>) =
            items.iter().filter(same).map(|item| (item.agentable.0, item.run.0)).unzip();
        let rows = query_with_context!(
            r#"-- store::run_context::batch::read
            with i as materialized (
                select i.n, i.run_id, k.agentable_id, k.session_position, k.last_position, k.user_id, a.tenant_id, a.kind,
                       a.parent_id, a.depth, a.agent_id, a.team_id, a.tools, a.guards, a.untrusted
                  from unnest($1::uuid[], $2::uuid[]) with ordinality as i (agentable_id, run_id, n)
                 cross join lateral (select * from houston.run_locks k where k.agentable_id = i.agentable_id) k
                 cross join lateral (select * from houston.agentables a where a.id = k.agentable_id) a)
            select i.n as "n!", p.what as "what!", p.place as "place!", p.text as "text!", p.id as "id!",
                   p.content as "content: Json<Box<RawValue>>"
              from i"#,
            "order by 1, 2, 3",
            [&agentables, &runs],
            *notes,
            limits,
            self.archive,
            self.reach
        )
        .fetch_all(connection)
        .await?;
        let mut rows = rows.into_iter().peekable();
        let mut n = 0;
        Ok(items
            .iter()
            .map(|item| {
                if !same(&item) {
                    return None;
                }
                n += 1;
                let mut reading = Ok(Reading::new((item.agentable, item.run), limits, &self.archive));
                while let Some(row) = rows.next_if(|row| row.n == n) {
                    let content = row.content.map(|content| content.0);
                    let row =
                        ContextRow { what: row.what, place: row.place, text: row.text, id: row.id, content };
                    reading = reading.and_then(|mut reading| reading.take(row).map(|()| reading));
                }
                Some(reading.map(Reading::context))
            })
            .collect())
    }
}

/// A query with the rows of contexts between two parts of its text. The first part ends with a `from` list in which `i` is a
/// run: `agentable_id`, `run_id`, `session_position`, `last_position`, `user_id`, `tenant_id`, `kind`, `parent_id`, `agent_id`,
/// `team_id`, `tools`, `guards` and `untrusted`. The rows are `p (what, place, text, id, content)`; sorted by the first three, [`Reading`] reads them.
/// Its parameters are two of the first part, 13 of the context, and more of the first part.
macro_rules! query_with_context {
    ($before:literal, $after:literal, [$first:expr, $second:expr], $notes:expr, $limits:expr, $archive:expr, $reach:expr
     $(, $more:expr)* $(,)?) => {
        sqlx::query!($before + r#"
             left join lateral (
                   select c.through_position, c.summary, c.run_id, c.untrusted,
                          case when c.run_id = i.run_id then least(c.through_position, c.run_position - 1)
                               else c.through_position end as after_position
                     from houston.compressions c
                    where c.agentable_id = i.agentable_id and c.through_position > i.session_position
                      -- A summary of what was rolled back is rolled back with it.
                      and (c.through_position < c.run_position
                           or not exists (select from houston.history h where h.agentable_id = i.agentable_id
                                             and h.position = c.run_position and h.rolled_back))
                    order by c.through_position desc, c.id desc limit 1) c on true
            -- One row and one character more than is shown are read, so that the prompt can say that there is more.
            cross join lateral (
            (select 'history' as what, h.position as place,
                    h.role || ' ' || extract(epoch from h.created_at)::bigint as text, h.run_id as id, h.content
               from houston.entries h
              where h.agentable_id = i.agentable_id and not h.rolled_back and h.position > coalesce(c.after_position, i.session_position)
                -- True of every entry: without it the planner takes the open session for a third of the history, and
                -- reads all of it.
                and h.position <= i.last_position)
            union all
            -- The mark of frames: 64 bits that cannot be guessed, derived from a secret that does not leave the database. The same
            -- for a whole session, so that the prompt cache of a provider stays valid.
            (select '#', 0, left(encode(sha256(n.frame_secret || sha256(n.frame_secret || uuid_send(i.agentable_id)
                                                                        || int8send(i.session_position))), 'hex'), 16),
                    i.agentable_id, null
               from houston.installation n)
            union all
            (select 'compression', c.through_position, c.summary, c.run_id, null
              where c.through_position is not null)
            union all
            (select 'result', 0, '', i.agentable_id, null
              where exists (select from houston.tool_results r where r.agentable_id = i.agentable_id)
                 or exists (select from houston.tool_results r where r.parent_id = i.agentable_id)
                 or exists (select from houston.tool_results r where r.agentable_id = i.parent_id))
            union all
            (select 'note', row_number() over (order by o.id desc), o.title, o.id, null
               from houston.knowledge_items o where o.owner_id = i.agentable_id and o.kind = 'note'
              order by o.id desc limit $3)
            union all
            (select 'learning', row_number() over (order by o.id), left(o.content, $4 + 1), o.id, null
               from houston.knowledge_items o where o.owner_id = i.agentable_id and o.kind = 'learning'
              order by o.id limit $3)
            union all
            (select v.what, v.place, v.text, case v.what when 'sources' then u.tenant_id else u.id end, null
               from houston.users u
              cross join lateral (values ('user', 0, u.name), ('time_zone', 0, u.time_zone),
                                         ('guards', 1, u.guards::text),
                                         ('sources', 1, u.tool_sources::text)) as v (what, place, text)
              where u.id = i.user_id and v.text is not null)
            union all
            (select v.what, 0, v.text, o.id, null
               from houston.tenants o
              cross join lateral (values ('guards', o.guards::text), ('sources', o.tool_sources::text)) as v (what, text)
              where o.id = i.tenant_id and v.text is not null)
            union all
            (select 'guards', 2 + i.depth, i.guards::text, i.agentable_id, null where i.guards is not null)
            union all
            -- A task has those of the agentables above it.
            (with recursive above as (
                 select o.id, o.parent_id, o.depth, o.guards from houston.agentables o where o.id = i.parent_id
                 union all
                 select o.id, o.parent_id, o.depth, o.guards
                   from above b join houston.agentables o on o.id = b.parent_id)
             select 'guards', 2 + b.depth, b.guards::text, b.id, null
               from above b where i.parent_id is not null and b.guards is not null)
            union all
            (select v.name || case when o.untrusted = '{}' then '' else '!' end, e.place, left(e.entry, $6 + 1), o.user_id, null
               from houston.profiles o cross join lateral (values ('facts', o.facts), ('preferences', o.preferences),
                    ('communication_style', o.communication_style), ('interests', o.interests), ('aims', o.aims))
                    as v (name, entries)
              cross join lateral unnest(v.entries[:$5 + 1]) with ordinality as e (entry, place)
              where o.user_id = i.user_id)
            union all
            (select 'instruction', row_number() over (order by o.id), left(o.content, $8 + 1), o.id, null
               from houston.knowledge_items o where o.owner_id = i.user_id and o.kind = 'custom_instruction'
              order by o.id limit $7 + 1)
            union all
            (select 'memory', row_number() over (order by o.id desc), left(o.content, $10 + 1), o.id, null
               from houston.knowledge_items o where o.owner_id = i.user_id and o.kind = 'memory'
              order by o.id desc limit $9 + 1)
            union all
            (select 'snippet_tool', row_number() over (order by o.name),
                    jsonb_build_object('name', o.name, 'description', o.description, 'input_schema', o.input_schema,
                                       'pin', o.pin, 'untrusted', o.untrusted)::text, o.user_id, null
               from houston.snippets o where o.user_id = i.user_id and o.pin is not null)
            union all
            (select 'agent', 0, (to_jsonb(a) || jsonb_build_object('follows_file', a.is_default and not a.changed))::text, a.id, null
               from houston.agents a where i.team_id is null and a.id = i.agent_id)
            union all
            (select 'agent', 0, (to_jsonb(a) || jsonb_build_object('follows_file', a.is_default and not a.changed))::text, a.id, null
               from houston.agents a
              where i.team_id is null and i.agent_id is null and a.tenant_id = i.tenant_id and a.kind = i.kind
                and a.is_default)
            union all
            -- Of a team, the agent that its router picked for this run, from the run's events; or the team and its agents, if it has
            -- not picked yet. The team's output is apart from the agent's settings: those are cached by the version of the agent.
            (select s.what, s.place, s.text, s.id, null
               from (select (select replace(e.data->>'agent_id', 'agent_', '')::uuid
                               from houston.runs r join houston.events e on e.agentable_id = r.agentable_id and e.seq >= r.first_seq
                                                                        and e.run_id = r.id and e.data->>'type' = 'team_routed'
                              where r.id = i.run_id order by e.seq limit 1) as agent_id
                      where i.team_id is not null) picked
              cross join lateral (
                    select 'routed' as what, 0 as place,
                           (to_jsonb(a) || jsonb_build_object('follows_file', a.is_default and not a.changed, 'team_output', (
                               select t.output from houston.teams t where t.id = i.team_id)))::text as text, a.id
                      from houston.agents a where a.id = picked.agent_id
                    union all
                    select 'team', 0,
                           jsonb_build_object('name', t.name, 'version', t.version, 'router', t.router, 'output', t.output,
                                              'fallback', (select m.position from houston.team_agents m
                                                            where m.team_id = t.id and m.is_fallback))::text, t.id
                      from houston.teams t where t.id = i.team_id and picked.agent_id is null
                    union all
                    select 'team_agent', m.position, (to_jsonb(a) || jsonb_build_object('follows_file', a.is_default and not a.changed))::text, a.id
                      from houston.team_agents m join houston.agents a on a.id = m.agent_id
                     where m.team_id = i.team_id and picked.agent_id is null) s)
            union all
            (select 'session', row_number() over (order by o.number desc),
                    to_char(o.started_at, 'YYYY-MM-DD') || case when o.untrusted then '!' else ' ' end
                        || left(o.summary, $12 + 1), o.id, null
               from houston.sessions o where o.agentable_id = i.agentable_id order by o.number desc limit greatest($11, 1))
            union all
            -- The other conversations of its user, for kinds that reach some. Of each kind the newest 100 are read.
            (select 'conversations', 0, o.found, i.agentable_id, null
               from (select where i.kind = any ($13::text[])) w
              cross join lateral (
                    select json_build_object(
                               'newest', coalesce(json_agg(json_build_object('id', a.id, 'kind', a.kind, 'title', a.title,
                                                                            'status', a.status, 'untrusted', a.untrusted,
                                                                            'run', r.status) order by a.nth)
                                                     filter (where a.open and a.nth <= $15), '[]'),
                               'open', count(*) filter (where a.open),
                               'archived', count(*) filter (where not a.open))::text as found
                      from (select a.*, row_number() over (partition by a.open order by a.id desc) as nth
                              from (select v.reached from unnest($13::text[], $14::text[]) as v (kind, reached)
                                     where v.kind = i.kind) v
                             cross join lateral (
                                   select a.id, a.kind, a.title, a.status, a.untrusted,
                                          a.status is distinct from 'archived' as open
                                     from houston.agentables a
                                    where a.user_id = i.user_id and a.kind = v.reached and a.tenant_id = i.tenant_id
                                      and a.id <> i.agentable_id
                                    order by a.id desc limit 100) a) a
                      left join lateral (
                            select r.status from houston.run_locks k join houston.runs r on r.id = k.run_id
                             where k.agentable_id = a.id and a.open and a.nth <= $15) r on true) o)
            union all
            -- That of the latest message with an offer, if this run is to read it.
            (select 'client', 0, case when o.last_focus is null then o.offer
                                    else o.offer || jsonb_build_object('last_focus', o.last_focus) end::text, o.message_id, null
               from houston.client_offers o join houston.messages m on m.id = o.message_id
              where o.agentable_id = i.agentable_id and m.run_id = i.run_id)
            union all
            (select 'check_in', extract(epoch from o.wanted_at)::bigint, o.reason, o.id, null
               from houston.check_ins o where o.agentable_id = i.agentable_id)
            union all
            (select 'skill', case when o.user_id is null then 0 else 1 end, o.summary::text, o.owner_id, null
               from houston.skills o where o.owner_id in (i.tenant_id, i.user_id))
            union all
            (select 'setting', 0,
                    jsonb_build_object('mode', r.mode, 'tools', to_jsonb(i.tools),
                        'untrusted', coalesce(c.untrusted, false)
                            or i.untrusted
                            or exists (
                            select from houston.knowledge_items k where k.owner_id in (i.agentable_id, i.user_id)
                               and k.kind in ('note', 'learning', 'memory') and k.untrusted),
                        'parent', case when o.id is not null then
                        jsonb_build_object('kind', o.kind, 'title', o.title, 'description', o.description) end)::text,
                    i.agentable_id, null
               from (values (true)) as v
               left join lateral (select r.mode from houston.runs r where r.id = i.run_id) r on true
               left join lateral (select * from houston.agentables o where o.id = i.parent_id) o on true)) p
            "# + $after,
            $first,
            $second,
            $notes,
            $limits.learning_chars,
            $limits.profile_entries,
            $limits.profile_chars,
            $limits.custom_instructions,
            $limits.custom_instruction_chars,
            $limits.memories,
            $limits.memory_chars,
            $archive.prompt_summaries,
            $archive.prompt_summary_chars,
            &$reach.kinds,
            &$reach.reached,
            i64::from($limits.conversations)
            $(, $more)*
        )
    };
}
pub(crate) use query_with_context;

/// One of the rows.
#[derive(Debug, Deserialize)]
pub(crate) struct ContextRow {
    pub(crate) what: String,
    pub(crate) place: i64,
    pub(crate) text: String,
    pub(crate) id: Uuid,
    /// Of an entry of the history.
    pub(crate) content: Option<Box<RawValue>>,
}

fn undecodable(table: &'static str, column: &'static str, row: Uuid, source: serde_json::Error) -> Error {
    Error::Inconsistent { table, column, row: row.to_string(), source }
}

/// A context while its rows are read.
pub(crate) struct Reading<'a> {
    context: RunContext,
    /// The last entry that the compression replaces.
    through: i64,
    agentable: AgentableId,
    run: RunId,
    limits: &'a PromptLimits,
    archive: &'a SessionArchive,
}

impl<'a> Reading<'a> {
    pub(crate) fn new(
        (agentable, run): (AgentableId, RunId),
        limits: &'a PromptLimits,
        archive: &'a SessionArchive,
    ) -> Self {
        Self { context: RunContext::default(), through: 0, agentable, run, limits, archive }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// [`Error::Inconsistent`] when it cannot be decoded.
    pub(crate) fn take(&mut self, row: ContextRow) -> Result<()> {
        let id = row.id;
        if row.what == "compression" {
            self.through = row.place;
        }
        match row.content {
            Some(content) => {
                self.context.summarised_entries += usize::from(row.place <= self.through);
                self.context.run_entries += usize::from(id == self.run.0);
                self.context
                    .take_entry(&row.text, &content)
                    .map_err(|source| undecodable("history", "content", self.agentable.0, source))
            }
            None => self
                .take_fact(&row.what, row.place, id, row.text)
                .map_err(|source| undecodable("runs", "mode", self.run.0, source)),
        }
    }

    /// Adds one row of the context query that is not a history entry. Rows are sorted by `what`: the mark and the
    /// compression come before the history, whose entries they concern.
    fn take_fact(&mut self, what: &str, place: i64, id: Uuid, text: String) -> serde_json::Result<()> {
        let (context, limits) = (&mut self.context, self.limits);
        match what {
            "#" => context.mark = FrameMark::new(&text),
            "compression" => context.summary = Some(text),
            "check_in" => {
                let wanted_at = DateTime::from_timestamp(place, 0).unwrap_or_default();
                context.check_ins.push((wanted_at, text));
            }
            "snippet_tool" => context.snippet_tools.push(serde_json::from_str(&text)?),
            "client" => context.client = Some(serde_json::from_str(&text)?),
            "conversations" => context.conversations = serde_json::from_str(&text)?,
            "setting" => context.setting = serde_json::from_str(&text)?,
            "sources" => {
                let more: Vec<SourceSummary> = serde_json::from_str(&text)?;
                let (_, sources) = context.sources.get_or_insert_with(|| (TenantId(id), Vec::new()));
                // The tenant's first, in whatever order the rows come: the prompt cache needs one.
                let at = if place == 0 { 0 } else { sources.len() };
                sources.splice(at..at, more);
            }
            "skill" => {
                let source = if place == 0 { SkillSource::Tenant } else { SkillSource::User };
                context.skills.push(SkillSummary { source, ..serde_json::from_str(&text)? });
            }
            "guards" => context.guards.push(StoredGuards::at(place, text)),
            "note" => context.notes.push((NoteId(id), text)),
            "learning" => context.learnings.push((LearningId(id), cut(text, limits.learning_chars))),
            "session" => self.know(id, &text),
            "result" => context.has_results = true,
            what if Serving::is_of(what) => context.serving.take(what, id, &text),
            other => context.user.take(limits, other, id, text),
        }
        Ok(())
    }

    /// Adds a closed session: its day in the first ten characters, then its summary.
    fn know(&mut self, id: Uuid, text: &str) {
        let (context, archive) = (&mut self.context, self.archive);
        context.has_sessions = true;
        if context.sessions.len() < usize::try_from(archive.prompt_summaries).unwrap_or(0) {
            let (day, summary) = text.split_at_checked(10).unwrap_or((text, ""));
            let (mark, summary) = summary.split_at_checked(1).unwrap_or_default();
            let summary = cut(summary.to_owned(), archive.prompt_summary_chars);
            let (id, day) = (SessionId(id), day.to_owned());
            context.sessions.push(PromptSession { id, day, summary, untrusted: mark == UNTRUSTED });
        }
    }

    /// The context. The lists of the profile get their order: their rows are sorted by name.
    pub(crate) fn context(mut self) -> RunContext {
        self.context.user.profile.sort_by_key(|(list, _)| *list);
        self.context
    }
}

impl RunContext {
    /// Adds the entry with which a claim begins the run.
    ///
    /// # Errors
    /// When it cannot be decoded.
    pub(crate) fn begin(&mut self, content: &RawValue) -> serde_json::Result<()> {
        self.run_entries += 1;
        self.take_content(Role::User, content)
    }

    /// Adds an entry; `text`: its role, and when it was written, in seconds.
    fn take_entry(&mut self, text: &str, content: &RawValue) -> serde_json::Result<()> {
        let (role_name, at) = text.split_once(' ').unwrap_or((text, ""));
        let (role, at) = (role(role_name), at.parse().ok().and_then(|at| DateTime::from_timestamp(at, 0)));
        match role {
            Role::Assistant => self.answered_at = at,
            Role::User => {
                let answered_at = self.answered_at.take();
                self.pauses.extend(answered_at.zip(at).map(|(answered, asked)| pause(answered, asked)));
            }
        }
        self.take_content(role, content)
    }

    fn take_content(&mut self, role: Role, content: &RawValue) -> serde_json::Result<()> {
        let content: Vec<StoredBlock> = serde_json::from_str(content.get())?;
        let content = content.into_iter().map(|block| block.signed(&self.mark)).collect();
        self.history.push(Entry { role, content });
        Ok(())
    }
}
