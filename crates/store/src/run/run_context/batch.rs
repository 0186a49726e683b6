//! The contexts of many runs in one statement.

use houston_domain::history::Entry;
use houston_domain::id::{AgentableId, RunId};
use houston_domain::knowledge::PromptLimits;
use houston_domain::session::SessionArchive;
use serde_json::value::RawValue;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::RunContext;
use crate::batcher::Batch;
use crate::error::{Error, Result};
use crate::history::role;
use crate::stored_block::StoredBlock;

/// A run whose context is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ContextRequest {
    pub(crate) agentable: AgentableId,
    pub(crate) run: RunId,
    pub(crate) notes: i64,
    pub(crate) limits: PromptLimits,
}

/// How contexts are read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Contexts {
    pub(crate) archive: SessionArchive,
}

impl Batch for Contexts {
    type Item = ContextRequest;
    type Done = Result<RunContext>;
    type Key = ();

    fn keys(_: &ContextRequest) -> impl Iterator<Item = ()> {
        std::iter::empty()
    }

    async fn write(
        &self,
        connection: &mut PgConnection,
        items: &mut [ContextRequest],
    ) -> Result<Vec<Option<Result<RunContext>>>> {
        self.read(connection, items).await
    }
}

fn undecodable(table: &'static str, column: &'static str, row: Uuid, source: serde_json::Error) -> Error {
    Error::Inconsistent { table, column, row: row.to_string(), source }
}

impl Contexts {
    /// Reads the contexts of runs whose limits are those of the first; `None` for the others.
    #[expect(clippy::too_many_lines, reason = "one statement: what a run starts from is its length")]
    pub(crate) async fn read(
        &self,
        connection: &mut PgConnection,
        items: &[ContextRequest],
    ) -> Result<Vec<Option<Result<RunContext>>>> {
        let Some(ContextRequest { notes, limits, .. }) = items.first() else { return Ok(Vec::new()) };
        let same = |item: &&ContextRequest| item.notes == *notes && item.limits == *limits;
        let (agentables, runs): (Vec<Uuid>, Vec<Uuid>) =
            items.iter().filter(same).map(|item| (item.agentable.0, item.run.0)).unzip();
        // One row and one character more than is shown are read, so that the prompt can say that there is more.
        let rows = sqlx::query!(
            r#"-- store::run_context::batch::read
            with i as materialized (
                select i.n, i.run_id, k.agentable_id, k.session_position, k.last_position, k.user_id, a.tenant_id, a.kind,
                       a.parent_id, a.agent_id, a.team_id, a.tools
                  from unnest($1::uuid[], $2::uuid[]) with ordinality as i (agentable_id, run_id, n)
                 cross join lateral (select * from houston.run_locks k where k.agentable_id = i.agentable_id) k
                 cross join lateral (select * from houston.agentables a where a.id = k.agentable_id) a),
            l as materialized (
                select i.*, c.through_position, c.summary, c.run_id as compressed_by,
                       coalesce(case when c.run_id = i.run_id then least(c.through_position, c.run_position - 1)
                                     else c.through_position end, i.session_position) as after_position
                  from i left join lateral (
                       select c.through_position, c.summary, c.run_id, c.run_position from houston.compressions c
                        where c.agentable_id = i.agentable_id and c.through_position > i.session_position
                          -- A summary of what was rolled back is rolled back with it.
                          and (c.through_position < c.run_position
                               or not exists (select from houston.history h where h.agentable_id = i.agentable_id
                                                 and h.position = c.run_position and h.rolled_back))
                        order by c.through_position desc, c.id desc limit 1) c on true)
            select l.n as "n!", p.what as "what!", p.place as "place!", p.text as "text!", p.id as "id!",
                   p.content as "content: Json<Box<RawValue>>"
              from l cross join lateral (
            (select 'history' as what, h.position as place, h.role as text, h.run_id as id, h.content
               from houston.history h
              where h.agentable_id = l.agentable_id and not h.rolled_back and h.position > l.after_position
                -- True of every entry: without it the planner takes the open session for a third of the history, and
                -- reads all of it.
                and h.position <= l.last_position)
            union all
            (select '#', 0, houston.frame_mark(l.agentable_id, l.session_position), l.agentable_id, null)
            union all
            (select 'compression', l.through_position, l.summary, l.compressed_by, null
              where l.through_position is not null)
            union all
            (select 'result', 0, '', l.agentable_id, null
              where exists (select from houston.tool_results r where r.agentable_id = l.agentable_id)
                 or exists (select from houston.tool_results r where r.parent_id = l.agentable_id)
                 or exists (select from houston.tool_results r where r.agentable_id = l.parent_id))
            union all
            (select 'note', row_number() over (order by o.id desc), o.title, o.id, null
               from houston.notes o where o.agentable_id = l.agentable_id order by o.id desc limit $3)
            union all
            (select 'learning', row_number() over (order by o.id), left(o.content, $4 + 1), o.id, null
               from houston.learnings o where o.agentable_id = l.agentable_id order by o.id limit $3)
            union all
            (select v.what, 0, v.text, u.id, null
               from houston.users u
              cross join lateral (values ('user', u.name), ('time_zone', u.time_zone)) as v (what, text)
              where u.id = l.user_id)
            union all
            (select v.name, e.place, left(e.entry, $6 + 1), o.user_id, null
               from houston.profiles o cross join lateral (values ('facts', o.facts), ('preferences', o.preferences),
                    ('communication_style', o.communication_style), ('interests', o.interests), ('aims', o.aims))
                    as v (name, entries)
              cross join lateral unnest(v.entries[:$5 + 1]) with ordinality as e (entry, place)
              where o.user_id = l.user_id)
            union all
            (select 'instruction', row_number() over (order by o.id), left(o.content, $8 + 1), o.id, null
               from houston.custom_instructions o where o.user_id = l.user_id order by o.id limit $7 + 1)
            union all
            (select 'memory', row_number() over (order by o.id desc), left(o.content, $10 + 1), o.id, null
               from houston.memories o where o.user_id = l.user_id order by o.id desc limit $9 + 1)
            union all
            (select 'agent', 0, houston.agent_read(a.name, a.version, a.enabled,
                                                   a.is_default and not a.changed, a.settings), a.id, null
               from houston.agents a where l.team_id is null and a.id = l.agent_id)
            union all
            (select 'agent', 0, houston.agent_read(a.name, a.version, a.enabled,
                                                   a.is_default and not a.changed, a.settings), a.id, null
               from houston.agents a
              where l.team_id is null and l.agent_id is null and a.tenant_id = l.tenant_id and a.kind = l.kind
                and a.is_default)
            union all
            (select t.what, t.place, t.definition, t.id, null
               from houston.team_serving(l.team_id, l.agentable_id, l.run_id) t where l.team_id is not null)
            union all
            (select 'session', row_number() over (order by o.number desc),
                    to_char(o.started_at, 'YYYY-MM-DD') || left(o.summary, $12 + 1), o.id, null
               from houston.sessions o where o.agentable_id = l.agentable_id order by o.number desc limit greatest($11, 1))
            union all
            (select 'check_in', extract(epoch from o.wanted_at)::bigint, o.reason, o.id, null
               from houston.check_ins o where o.agentable_id = l.agentable_id)
            union all
            (select 'setting', 0,
                    jsonb_build_object('mode', r.mode, 'tools', to_jsonb(l.tools), 'parent', case when o.id is not null then
                        jsonb_build_object('kind', o.kind, 'title', o.title, 'description', o.description) end)::text,
                    r.id, null
               from houston.runs r left join houston.agentables o on o.id = l.parent_id where r.id = l.run_id)) p
            order by 1, 2, 3"#,
            &agentables,
            &runs,
            *notes,
            limits.learning_chars,
            limits.profile_entries,
            limits.profile_chars,
            limits.custom_instructions,
            limits.custom_instruction_chars,
            limits.memories,
            limits.memory_chars,
            self.archive.prompt_summaries,
            self.archive.prompt_summary_chars
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
                let mut context = Ok(RunContext::default());
                // The last entry that the compression replaces.
                let mut through = 0;
                while let Some(row) = rows.next_if(|row| row.n == n) {
                    let Ok(read) = &mut context else { continue };
                    let (what, id) = (row.what.as_str(), row.id);
                    if what == "compression" {
                        through = row.place;
                    }
                    let taken = match row.content {
                        Some(content) => read
                            .take_entry(item.run, (row.place, through), &row.text, id, &content.0)
                            .map_err(|source| undecodable("history", "content", item.agentable.0, source)),
                        None => read
                            .take(limits, &self.archive, (what, row.place), id, row.text)
                            .map_err(|source| undecodable("runs", "mode", item.run.0, source)),
                    };
                    if let Err(error) = taken {
                        context = Err(error);
                    }
                }
                Some(context.map(RunContext::sorted))
            })
            .collect())
    }
}

impl RunContext {
    /// With the lists of the profile in their order; their rows arrive sorted by name.
    fn sorted(mut self) -> Self {
        self.user.profile.sort_by_key(|(list, _)| *list);
        self
    }

    /// Adds an entry of the history. `place`: its position, and that of the last entry which the compression replaces.
    fn take_entry(
        &mut self,
        run: RunId,
        (position, through): (i64, i64),
        role_name: &str,
        of: Uuid,
        content: &RawValue,
    ) -> serde_json::Result<()> {
        let content: Vec<StoredBlock> = serde_json::from_str(content.get())?;
        self.summarised_entries += usize::from(position <= through);
        self.run_entries += usize::from(of == run.0);
        let content = content.into_iter().map(|block| block.signed(&self.mark)).collect();
        self.history.push(Entry { role: role(role_name), content });
        Ok(())
    }
}
