//! The rows of which a context consists, and their conversion.

use chrono::DateTime;
use houston_domain::history::{Entry, Role};
use houston_domain::id::{AgentableId, RunId};
use houston_domain::knowledge::PromptLimits;
use houston_domain::session::SessionArchive;
use serde::Deserialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::{RunContext, pause};
use crate::error::{Error, Result};
use crate::history::role;
use crate::stored_block::StoredBlock;

/// A query with the rows of contexts between two parts of its text. The first part ends with a `from` list in which `i` is a
/// run: `agentable_id`, `run_id`, `session_position`, `last_position`, `user_id`, `tenant_id`, `kind`, `parent_id`, `agent_id`,
/// `team_id`, `tools`, `guards` and `untrusted`. The rows are `p (what, place, text, id, content)`; sorted by the first three, [`Reading`] reads them.
/// Parameters 3 to 15 are those of the context.
macro_rules! query_with_context {
    ($before:literal, $after:literal, $($parameter:expr),* $(,)?) => {
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
            (select '#', 0, houston.frame_mark(i.agentable_id, i.session_position), i.agentable_id, null)
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
            (select 'agent', 0, houston.agent_read(a.name, a.version, a.enabled,
                                                   a.is_default and not a.changed, a.settings), a.id, null
               from houston.agents a where i.team_id is null and a.id = i.agent_id)
            union all
            (select 'agent', 0, houston.agent_read(a.name, a.version, a.enabled,
                                                   a.is_default and not a.changed, a.settings), a.id, null
               from houston.agents a
              where i.team_id is null and i.agent_id is null and a.tenant_id = i.tenant_id and a.kind = i.kind
                and a.is_default)
            union all
            (select t.what, t.place, t.definition, t.id, null
               from houston.team_serving(i.team_id, i.agentable_id, i.run_id) t where i.team_id is not null)
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
            "# + $after, $($parameter),*)
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
        let (what, id) = (row.what.as_str(), row.id);
        if what == "compression" {
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
                .context
                .take(self.limits, self.archive, (what, row.place), id, row.text)
                .map_err(|source| undecodable("runs", "mode", self.run.0, source)),
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
