//! Many steps in one commit, written set by set.
//!
//! What a step changes is decided before its row is locked ([`undisturbed`]), on the assumption that nothing has
//! arrived since the step before it. The statement checks this under the lock: it writes only the steps whose fence
//! holds, whose agentable is not awake, and whose end concerns no other agentable, unless it is a plan's: the agentable that
//! the plan works for is told in the same statement, which holds its lock, too. It waits for no lock. The caller
//! commits every other step by itself ([`alone`](super::alone)): its changes are decided under the lock, and the same
//! statement writes them.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use houston_domain::id::UserId;
use houston_domain::step::Step;
use houston_domain::step::decision::undisturbed;
use houston_faults::mutation::{self, Mutation};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::{CommittedStep, StepRows};
use crate::batcher::Batch;
use crate::claim::Fence;
use crate::error::Result;
use crate::handle::RunStore;
use crate::sweep::Due;

/// The result of a committed step.
#[derive(Debug)]
pub(crate) struct Written {
    /// The position of the newest event before the step.
    pub(super) last_seq: i64,
    pub(super) at: DateTime<Utc>,
    pub(super) waiting: Vec<Due>,
}

impl RunStore {
    /// Commits a step together with others; `None` if it was not, and may be committed by itself.
    pub(super) async fn commit_in_batch(&self, fence: &Fence, step: &Step) -> Option<CommittedStep> {
        // These weaken steps that are committed by themselves.
        if self.is_unbatched || mutation::is(Mutation::Fence) || mutation::is(Mutation::RowLock) {
            return None;
        }
        if !step.large_results.is_empty() || !step.more_calls.is_empty() {
            return None;
        }
        let changes = undisturbed(step)?;
        let mut rows = StepRows::of(fence, step, &changes).ok()?;
        if let (Some(of_rows), Some(plan)) = (&mut rows.plan, step.plan.as_deref())
            && !of_rows.tell(step, plan, &changes).ok()?
        {
            return None;
        }
        let written = self.batchers.steps.submit(rows).await?;
        Some(CommittedStep::new(step, changes, None, written))
    }
}

/// The statement's text: the end of its name, and what is added to it for plans and for tool calls, so that steps without them do not
/// pay for them, and all texts are checked at compile time.
macro_rules! write_steps {
    (plain, $($given:expr),*) => { write_steps!(@ "", "", "", "", "", [], $($given),*) };
    (with_tools, $($given:expr),*) => { write_steps!(tools "_with_tools", "", "", "", "", [], $($given),*) };
    (tools $suffix:tt, $column:tt, $plans:tt, $reports:tt, $told:tt, [$($more:tt)*], $($given:expr),*) => {
        write_steps!(@ $suffix, $column, $plans, $reports, $told, [$($more)*
        "
            intents as (
                insert into houston.tool_calls (run_id, call_id, agentable_id, tenant_id, epoch, name, effect, message_id,
                                                response, finished_at)
                select l.run_id, c.call_id, l.agentable_id, l.tenant_id, l.epoch, c.name, c.effect, c.message_id,
                       c.response, case when c.response is not null then t.at end
                  from l cross join t cross join lateral jsonb_to_recordset(l.intents) as c (
                       call_id text, name text, effect text, message_id uuid, response jsonb)),
            responses as (
                update houston.tool_calls o
                   set response = r.response, finished_at = case when r.response is not null then t.at end, paused = r.paused
                  from l cross join t
                 cross join lateral jsonb_to_recordset(l.responses) as r (call_id text, response jsonb, paused text)
                 where o.run_id = l.run_id and o.call_id = r.call_id),
            cells as (
                update houston.messages m set metadata = m.metadata || c.metadata
                  from l cross join lateral jsonb_to_recordset(l.cells) as c (id uuid, metadata jsonb) where m.id = c.id),
"], $($given),*)
    };
    (@ $suffix:tt, $column:tt, $plans:tt, $reports:tt, $told:tt, [$($more:tt)*], $connection:expr, $items:expr, $max_running:expr) => {
        sqlx::query_as!(
            Row,
            "-- store::step::statement::write" + $suffix + r#"
            with i as materialized (
                select i.*, jsonb_array_length(i.events) as event_count, jsonb_array_length(i.entries) as entry_count
                  from jsonb_to_recordset($1) as i (
                    n integer, agentable_id uuid, epoch bigint, fence bigint, token uuid, version text, write_id uuid,
                    run_id uuid, entries jsonb, events jsonb, messages jsonb, intents jsonb, responses jsonb, cells jsonb,
                    next_run uuid, read_seq bigint, unread integer, is_progress boolean, forgives_deaths boolean, releases boolean, ends boolean,
                    wakes boolean, frees_a_slot boolean, until timestamptz, failures integer, status text,
                    error_code text, error_message text, iterations integer, model text, used bigint[], total bigint[],
                    last_cost numeric, call jsonb"# + $column + r#")),"# + $plans + r#"
            l as materialized (
                select i.*, k.tenant_id, k.user_id, k.last_seq, k.last_position, o.follows
                  -- A lateral query, so that each row is found by its key whatever the statistics say.
                  from i cross join lateral (
                       select k.* from houston.run_locks k
                        where k.agentable_id = i.agentable_id and k.epoch = i.fence and k.run_token = i.token
                          and k.holder is not null and k.last_write_id is distinct from i.write_id
                          and case when i.version is null then not k.wake else k.xmin::text = i.version end
                          for no key update skip locked) k
                  -- Whether the event that ends the run follows from the run's row: its tokens are their sums.
                  left join lateral (
                       select array[r.input_tokens + i.used[1], r.output_tokens + i.used[2], r.cache_read_tokens + i.used[3],
                                    r.cache_write_tokens + i.used[4], r.reasoning_tokens + i.used[5]] = i.total as follows
                         from houston.runs r where r.id = i.run_id and i.total is not null) o on true
                 where (i.version is not null or not i.ends
                        or (exists (select from houston.agentables a
                                     where a.id = i.agentable_id and a.parent_id is null)"# + $reports + r#")
                       and exists (select from houston.runs r
                                    where r.id = i.run_id and r.mode is distinct from 'feed_generation' and not r.asked))
                   "# + $told + r#"),
            t as materialized (select clock_timestamp() as at),
            c as materialized (
                select l.n, l.agentable_id, l.user_id, l.tenant_id, l.run_id, l.write_id, c.*
                  from l cross join lateral jsonb_to_record(l.call) as c (
                       provider text, model text, iteration integer, tokens bigint[], cost numeric, reported boolean,
                       first_event_ms integer, took_ms integer)
                 where l.call is not null),
            locks as (
                update houston.run_locks k
                   set crash_count = case when l.is_progress then 0 else k.crash_count end,
                       died_with = case when l.forgives_deaths then '{}' else k.died_with end,
                       last_write_id = l.write_id, last_seq = l.last_seq + l.event_count + (l.next_run is not null)::integer,
                       last_position = l.last_position + l.entry_count, wake = l.wakes,
                       read_seq = coalesce(l.read_seq, k.read_seq), unread = coalesce(l.unread, k.unread),
                       waiting_since = case when l.next_run is null then k.waiting_since else t.at end,
                       run_id = coalesce(l.next_run, k.run_id),
                       holder = case when l.releases then null else k.holder end, next_attempt_at = l.until,
                       failed_attempts = coalesce(k.failed_attempts + l.failures, 0),
                       run_open = not l.ends or l.next_run is not null,
                       cost = case when c.cost is null then k.cost else coalesce(k.cost, 0) + c.cost end,
                       unpriced_calls = k.unpriced_calls + (c.n is not null and c.cost is null)::integer
                  from l left join c on c.n = l.n cross join t where k.agentable_id = l.agentable_id),
            entries as (
                insert into houston.history (agentable_id, position, tenant_id, run_id, epoch, role, content, message_seq)
                select l.agentable_id, l.last_position + e.nth, l.tenant_id, l.run_id, l.epoch, e.role, e.content,
                       coalesce(e.message_seq, l.last_seq + e.event)
                  from l cross join lateral rows from (
                       jsonb_to_recordset(l.entries) as (role text, content jsonb, event integer, message_seq bigint))
                       with ordinality as e (role, content, event, message_seq, nth)),
            messages as (
                insert into houston.messages (id, tenant_id, agentable_id, seq, source, message_type, content, metadata,
                                              run_id, created_at)
                select m.id, l.tenant_id, l.agentable_id, l.last_seq + m.event, m.source, m.message_type, m.content,
                       m.metadata, l.run_id, t.at
                  from l cross join t cross join lateral jsonb_to_recordset(l.messages) as m (
                       event integer, id uuid, source text, message_type text, content text, metadata jsonb)
                 where m.source <> 'error'),
            errors as (
                insert into houston.messages (id, tenant_id, agentable_id, seq, source, message_type, content, metadata,
                                              run_id, created_at)
                select m.id, l.tenant_id, l.agentable_id, l.last_seq + m.event, m.source, m.message_type, m.content,
                       m.metadata, l.run_id, t.at
                  from l cross join t cross join lateral jsonb_to_recordset(l.messages) as m (
                       event integer, id uuid, source text, message_type text, content text, metadata jsonb)
                 where m.source = 'error'
                -- A run has one error message, which changes.
                on conflict (id) do update set content = excluded.content, metadata = excluded.metadata
                 where messages.source = 'error'),
            events as (
                insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, message_id, data, created_at)
                select l.agentable_id, l.last_seq + e.nth, l.tenant_id, l.run_id, l.epoch, e.message_id, e.data, t.at
                  from l cross join t
                 cross join lateral rows from (jsonb_to_recordset(l.events) as (message_id uuid, data jsonb))
                       with ordinality as e (message_id, data, nth)
                 where e.data is not null and (l.follows is not true or e.nth < l.event_count)),
            runs as (
                update houston.runs r
                   set status = coalesce(l.status, r.status),
                       held_for = case when l.releases then null else r.held_for end,
                       ended_at = case when l.ends then t.at end, iterations = l.iterations,
                       last_seq = case when l.ends then l.last_seq + l.event_count end, last_cost = l.last_cost,
                       last_xid = case when l.ends then pg_current_xact_id()::text::bigint end,
                       input_tokens = r.input_tokens + l.used[1], output_tokens = r.output_tokens + l.used[2],
                       cache_read_tokens = r.cache_read_tokens + l.used[3],
                       cache_write_tokens = r.cache_write_tokens + l.used[4],
                       reasoning_tokens = r.reasoning_tokens + l.used[5], model = coalesce(l.model, r.model),
                       error_code = case when l.releases then l.error_code else r.error_code end,
                       error_message = case when l.releases then l.error_message else r.error_message end,
                       cost = case when c.cost is null then r.cost else coalesce(r.cost, 0) + c.cost end,
                       unpriced_calls = r.unpriced_calls + (c.n is not null and c.cost is null)::integer
                  from l left join c on c.n = l.n cross join t where r.id = l.run_id),
"# $(+ $more)* + r#"            calls as (
                insert into houston.model_calls (run_id, write_id, tenant_id, agentable_id, iteration, provider, model,
                                                 input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,
                                                 reasoning_tokens, cost, reported, first_event_ms, took_ms, created_at)
                select c.run_id, c.write_id, c.tenant_id, c.agentable_id, c.iteration, c.provider, c.model, c.tokens[1],
                       c.tokens[2], c.tokens[3], c.tokens[4], c.tokens[5], c.cost, c.reported, c.first_event_ms, c.took_ms,
                       t.at
                  from c cross join t),
            spending as (
                insert into houston.spending as s (user_id, day, tenant_id, cost, model_calls, unpriced_calls)
                select c.user_id, (t.at at time zone 'UTC')::date, c.tenant_id, sum(c.cost), count(*),
                       count(*) - count(c.cost)
                  from c cross join t
                 group by 1, 2, 3 order by 1
                on conflict (user_id, day, writer) do update
                   set cost = case when excluded.cost is null then s.cost else coalesce(s.cost, 0) + excluded.cost end,
                       model_calls = s.model_calls + excluded.model_calls,
                       unpriced_calls = s.unpriced_calls + excluded.unpriced_calls)
            select l.n as "n!", l.user_id as "user_id!", l.last_seq as "last_seq!", t.at as "at!", w.waiting, w.kinds,
                   case when w.waiting is not null then (
                        select case when h.held < $2::integer then $2::integer - h.held
                                    else houston.free_slots(l.user_id, l.agentable_id, $2::integer) end
                          from (select count(*)::integer as held from houston.runs r
                                 where r.held_for = l.user_id and r.id <> l.run_id) h) end as slots
              from l cross join t
              left join lateral (
                   select array_agg(d.agentable_id order by d.due_at) as waiting, array_agg(a.kind order by d.due_at) as kinds
                     from (select k.agentable_id, k.due_at from houston.run_locks k
                            where k.user_id = l.user_id and k.wake and k.run_open and k.holder is null
                              and k.due_at <= t.at and k.agentable_id <> l.agentable_id
                            order by k.due_at limit $2::integer) d
                     join houston.agentables a on a.id = d.agentable_id) w on l.frees_a_slot
             order by l.n"#,
            Json($items) as Json<&[StepRows]>,
            $max_running
        )
        .fetch_all($connection)
        .await
    };
}

/// How steps are written: see the module.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Steps {
    /// See [`Fairness::max_running`](crate::Fairness::max_running).
    pub(crate) max_running: i32,
}

impl Batch for Steps {
    type Item = StepRows;
    type Done = Written;
    type Key = Uuid;
    /// One, because the larger a batch is, the less a step costs.
    const CONNECTIONS: usize = 1;

    fn keys(item: &StepRows) -> impl Iterator<Item = Uuid> {
        std::iter::once(item.agentable_id).chain(item.plan.as_ref().and_then(|plan| plan.parent_id))
    }

    fn bytes(item: &StepRows) -> usize {
        item.bytes()
    }

    async fn prepare(&self, connection: &mut PgConnection) -> Result<()> {
        write(connection, &[], self.max_running).await?;
        // The text for plans is left to the first plan: a start does not wait for it.
        Ok(write_steps!(with_tools, connection, &[] as &[StepRows], self.max_running).map(drop)?)
    }

    async fn write(
        &self,
        connection: &mut PgConnection,
        items: &mut [StepRows],
    ) -> Result<Vec<Option<Written>>> {
        items.iter_mut().enumerate().for_each(|(n, item)| item.n = n);
        if let (true, Some(first)) = (mutation::is(Mutation::BatchFence), items.first_mut()) {
            first.take_present_fence(&mut *connection).await?;
        }
        houston_faults::fault!("C25")?;
        if items.iter().any(|item| item.plan.as_ref().is_some_and(|plan| plan.report.is_some())) {
            houston_faults::fault!("C32")?;
        }
        let rows = write(connection, items, self.max_running).await?;
        houston_faults::fault!("C26")?;
        let mut written: Vec<Option<Written>> = items.iter().map(|_| None).collect();
        // Each step of the batch that ended a run of the same user freed one slot more.
        let mut freed: HashMap<UserId, i32> = HashMap::new();
        for row in rows {
            let Some(place) = usize::try_from(row.n).ok().and_then(|n| written.get_mut(n)) else { continue };
            let earlier = freed.entry(UserId(row.user_id)).or_default();
            let slots = row.slots.unwrap_or(0).saturating_add(*earlier);
            *earlier += 1;
            let mut waiting = Due::all(row.waiting, row.kinds);
            waiting.truncate(usize::try_from(slots).unwrap_or(0));
            *place = Some(Written { last_seq: row.last_seq, at: row.at, waiting });
        }
        Ok(written)
    }
}

impl StepRows {
    /// Makes a step that would be fenced expect the epoch and the token that the lock has now, and the lock have a holder.
    async fn take_present_fence(&mut self, connection: &mut PgConnection) -> Result<()> {
        let now = sqlx::query!(
            "-- store::step::batch::present_fence
            update houston.run_locks
               set holder = coalesce(holder, $2), run_token = coalesce(run_token, $2)
             where agentable_id = $1 and (epoch <> $3 or run_token is distinct from $2 or holder is null)
            returning epoch, run_token",
            self.agentable_id,
            self.token,
            self.fence
        )
        .fetch_optional(connection)
        .await?;
        if let Some(now) = now {
            (self.fence, self.token) = (now.epoch, now.run_token.unwrap_or_default());
        }
        Ok(())
    }
}

/// A step that was written.
pub(super) struct Row {
    /// Its index in the batch.
    pub(super) n: i32,
    pub(super) user_id: Uuid,
    /// The position of the newest event before the step.
    pub(super) last_seq: i64,
    pub(super) at: DateTime<Utc>,
    /// Agentables of the user that wait, and their kinds, if the step frees a slot.
    pub(super) waiting: Option<Vec<Uuid>>,
    pub(super) kinds: Option<Vec<String>>,
    /// How many of them may run.
    pub(super) slots: Option<i32>,
}

/// Writes steps. A plan is left out whose agentable gets more than the statement can give: the whole list of steps, notes or files,
/// or what is for an archived one.
async fn write(connection: &mut PgConnection, items: &[StepRows], max_running: i32) -> Result<Vec<Row>> {
    if !items.iter().any(|item| item.plan.is_some()) {
        return Ok(match items.iter().any(StepRows::has_tools) {
            true => write_steps!(with_tools, connection, items, max_running)?,
            false => write_steps!(plain, connection, items, max_running)?,
        });
    }
    Ok(write_steps!(tools
        "_with_plans",
        ", plan jsonb",
        r#"
            p as materialized (
                select i.n, w.*, k.run_open as is_open, k.last_seq, houston.id_beside(w.parent_id) as message_id,
                       case when k.run_open then k.run_id else houston.id_beside(w.parent_id) end as parent_run,
                       -- How many events its stream gets: of a run that is opened, of the plan, and of the message.
                       case when w.ends then 3 - k.run_open::integer else k.run_open::integer end as told
                  from i cross join lateral jsonb_to_record(i.plan) as w (
                       seen bigint, calls integer, deadline timestamptz, document jsonb, steps jsonb, ends boolean, output jsonb,
                       parent_id uuid, event jsonb, report text, metadata jsonb)
                 cross join lateral (
                       select q.listed_in from houston.plans q
                        where q.agentable_id = i.agentable_id and q.changes = w.seen for no key update skip locked) q
                  left join lateral (
                       select k.* from houston.run_locks k where k.agentable_id = w.parent_id
                          for no key update skip locked) k on true
                 where w.parent_id is null
                    or case when w.ends
                            then exists (select from houston.agentables a
                                          where a.id = k.agentable_id and a.status is distinct from 'archived'
                                            for share skip locked)
                                 -- Not `exists`, which Postgres may answer with a list of all rows of the table.
                                 and (select f.agentable_id from houston.workspace_files f
                                       where f.agentable_id = i.agentable_id limit 1) is null
                                 and (select o.id from houston.knowledge_items o
                                       where o.owner_id = i.agentable_id and o.kind = 'note' limit 1) is null
                            else not k.run_open or k.run_id = q.listed_in and w.event is not null end),"#,
        " or i.plan is not null",
        "and (i.plan is null or exists (select from p where p.n = i.n))",
        [r#"
            plans as (
                update houston.plans q
                   set calls = q.calls + p.calls, deadline_at = coalesce(p.deadline, q.deadline_at),
                       document = coalesce(p.document, q.document),
                       version = q.version + (p.document is not null)::integer,
                       replans = q.replans + (p.document is not null)::integer,
                       output = case when p.ends then coalesce(p.output, 'null') else q.output end,
                       ended_at = case when p.ends then t.at else q.ended_at end
                  from l join p on p.n = l.n cross join t where q.agentable_id = l.agentable_id),
            plan_steps as (
                insert into houston.plan_steps as s (plan_id, tenant_id, path, state, task_id, question_id, started_at, ended_at)
                select l.agentable_id, l.tenant_id, c.path, c.state, c.task_id, c.question_id, t.at,
                       case when c.settled then t.at end
                  from l join p on p.n = l.n cross join t
                 cross join jsonb_to_recordset(p.steps) as c (
                       path text, state jsonb, task_id uuid, question_id uuid, settled boolean)
                on conflict (plan_id, path) do update
                   set state = excluded.state, task_id = coalesce(excluded.task_id, s.task_id), outcome = null,
                       question_id = coalesce(excluded.question_id, s.question_id), ended_at = excluded.ended_at),
            parents as (
                update houston.run_locks k
                   set last_seq = p.last_seq + p.told, run_id = p.parent_run, run_open = true,
                       open_tasks = greatest(k.open_tasks - p.ends::integer, 0), unread = k.unread + p.ends::integer,
                       wake = k.wake or p.ends,
                       waiting_since = case when k.wake or not p.ends then k.waiting_since else t.at end,
                       next_attempt_at = case when not p.ends or p.is_open and k.wake then k.next_attempt_at end,
                       failed_attempts = case when p.is_open then k.failed_attempts else 0 end,
                       crash_count = case when p.is_open then k.crash_count else 0 end
                  from l join p on p.n = l.n cross join t where k.agentable_id = p.parent_id and p.told > 0),
            opened as (
                insert into houston.runs (id, tenant_id, agentable_id, first_seq, created_at, traceparent)
                select p.parent_run, l.tenant_id, p.parent_id, p.last_seq + 1, t.at, r.traceparent
                  from l join p on p.n = l.n cross join t join houston.runs r on r.id = l.run_id
                 where p.ends and not p.is_open),
            reports as (
                insert into houston.messages (id, tenant_id, agentable_id, seq, source, message_type, content, metadata,
                                              run_id, created_at)
                select p.message_id, l.tenant_id, p.parent_id, p.last_seq + p.told, 'system', 'text', p.report, p.metadata,
                       p.parent_run, t.at
                  from l join p on p.n = l.n cross join t where p.ends and p.told > 0),
            told as (
                insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, data, created_at)
                select p.parent_id, p.last_seq + p.told - p.ends::integer, l.tenant_id, p.parent_run, 0, p.event, t.at
                  from l join p on p.n = l.n cross join t where p.told > 0),
"#],
        connection,
        items,
        max_running
    )?)
}
