//! Many steps in one commit: those that nothing disturbs, written set by set.
//!
//! What a step changes is decided before its row is locked ([`Undisturbed`]), on the assumption that nothing has
//! arrived since the step before it. The statement checks this under the lock: it writes only the steps whose fence
//! holds, whose agentable is not awake, and whose end concerns no other agentable. It waits for no lock. The caller
//! commits every other step by itself.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use houston_domain::event::Event;
use houston_domain::history::Entry;
use houston_domain::id::UserId;
use houston_domain::model::Usage;
use houston_domain::step::decision::Undisturbed;
use houston_domain::step::{ModelCall, NewMessage, Step};
use houston_faults::mutation::{self, Mutation};
use rust_decimal::Decimal;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::{CommittedStep, committed};
use crate::batcher::Batch;
use crate::claim::Fence;
use crate::error::Result;
use crate::pool::Store;
use crate::sweep::Due;

/// A step of a batch: what it changes in the rows of its lock and its run, the rows it adds, and the model call it pays
/// for.
#[derive(Debug, Serialize)]
pub(crate) struct StepRows {
    /// Index of the step in its batch.
    n: usize,
    agentable_id: Uuid,
    /// The epoch of the rows that it adds.
    epoch: i64,
    /// The epoch and the token that the lock must have.
    fence: i64,
    token: Uuid,
    write_id: Uuid,
    run_id: Uuid,
    entries: Vec<EntryRow>,
    events: Vec<EventRow>,
    messages: Vec<MessageRow>,
    is_progress: bool,
    forgives_deaths: bool,
    releases: bool,
    ends: bool,
    wakes: bool,
    frees_a_slot: bool,
    until: Option<DateTime<Utc>>,
    failures: Option<i32>,
    status: Option<&'static str>,
    error_code: Option<String>,
    error_message: Option<String>,
    iterations: u32,
    model: Option<String>,
    used: Tokens,
    call: Option<CallRow>,
}

#[derive(Debug, Serialize)]
struct CallRow {
    provider: String,
    model: String,
    iteration: u32,
    tokens: Tokens,
    cost: Option<Decimal>,
    reported: bool,
}

/// Input, output, cache read, cache write, reasoning.
type Tokens = [u64; 5];

#[derive(Debug, Serialize)]
struct EntryRow {
    role: &'static str,
    content: Box<RawValue>,
}

#[derive(Debug, Serialize)]
struct EventRow {
    message_id: Option<Uuid>,
    data: Box<RawValue>,
}

#[derive(Debug, Serialize)]
struct MessageRow {
    /// The index of its event, from 1.
    event: usize,
    id: Uuid,
    source: &'static str,
    message_type: &'static str,
    content: String,
    metadata: Box<RawValue>,
}

/// The result of a committed step.
#[derive(Debug)]
pub(crate) struct Written {
    /// The position of the newest event before the step.
    last_seq: i64,
    at: DateTime<Utc>,
    waiting: Vec<Due>,
}

fn tokens(usage: &Usage) -> Tokens {
    [
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.reasoning_tokens,
    ]
}

impl StepRows {
    /// The rows of a step; `None` for one that is committed by itself: it touches tool calls or large results, ends as
    /// cancelled, or has a value that is not JSON.
    fn of(fence: &Fence, step: &Step) -> Option<Self> {
        let is_simple = step.intents.is_empty()
            && step.responses.is_empty()
            && step.large_results.is_empty()
            && step.cells.is_empty();
        let changes = Undisturbed::of(step).filter(|_| is_simple)?;
        let events = step.events.iter().chain(changes.last);
        let events = events.map(EventRow::of).collect::<Option<_>>()?;
        let entries = step.entries.iter().map(EntryRow::of).collect::<Option<_>>()?;
        let messages = step.messages.iter().map(MessageRow::of).collect::<Option<_>>()?;
        let (error_code, error_message) = changes.error();
        Some(Self {
            n: 0,
            agentable_id: fence.agentable.0,
            epoch: fence.epoch,
            fence: fence.epoch,
            token: fence.token.0,
            write_id: step.write.0,
            run_id: step.run.0,
            entries,
            events,
            messages,
            is_progress: changes.is_progress,
            forgives_deaths: changes.forgives_deaths,
            releases: changes.releases(),
            ends: changes.ends(),
            wakes: changes.wakes(),
            frees_a_slot: changes.frees_a_slot(),
            until: changes.until(),
            failures: changes.failures(),
            status: changes.status().map(|status| status.as_str()),
            error_code: error_code.map(str::to_owned),
            error_message: error_message.map(str::to_owned),
            iterations: step.iterations,
            model: step.model.clone(),
            used: tokens(&step.usage),
            call: step.call.as_ref().map(CallRow::of),
        })
    }
}

impl StepRows {
    /// Makes the step expect the epoch and the token that the lock has now, so that it is not fenced.
    async fn take_present_fence(&mut self, connection: &mut PgConnection) -> Result<()> {
        let now = sqlx::query!(
            "-- store::step::batch::present_fence
            select epoch, run_token from houston.run_locks where agentable_id = $1",
            self.agentable_id
        )
        .fetch_one(connection)
        .await?;
        (self.fence, self.token) = (now.epoch, now.run_token.unwrap_or_default());
        Ok(())
    }
}

impl EntryRow {
    fn of(entry: &Entry) -> Option<Self> {
        Some(Self { role: entry.role.as_str(), content: to_raw_value(&entry.content).ok()? })
    }
}

impl EventRow {
    fn of(event: &Event) -> Option<Self> {
        Some(Self { message_id: event.message_id().map(|id| id.0), data: to_raw_value(event).ok()? })
    }
}

impl MessageRow {
    fn of(message: &NewMessage) -> Option<Self> {
        Some(Self {
            event: message.event + 1,
            id: message.id.0,
            source: message.source.as_str(),
            message_type: message.message_type.as_str(),
            content: message.content.clone(),
            metadata: to_raw_value(&message.metadata).ok()?,
        })
    }
}

impl CallRow {
    fn of(call: &ModelCall) -> Self {
        Self {
            provider: call.provider.clone(),
            model: call.model.clone(),
            iteration: call.iteration,
            tokens: tokens(&call.usage),
            cost: call.usage.cost,
            reported: call.reported,
        }
    }
}

impl Store {
    /// Commits a step together with others; `None` if it was not, and may be committed by itself.
    pub(super) async fn commit_in_batch(&self, fence: &Fence, step: &Step) -> Option<CommittedStep> {
        // These weaken `houston.commit_step`.
        if self.is_unbatched || mutation::is(Mutation::Fence) || mutation::is(Mutation::RowLock) {
            return None;
        }
        let written = self.batchers.steps.submit(StepRows::of(fence, step)?).await?;
        Some(CommittedStep {
            events: committed(step, written.last_seq + 1, written.at, (false, false), None),
            read: Vec::new(),
            continued: false,
            opened: false,
            cancel_seq: None,
            waiting: written.waiting,
        })
    }
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
    /// One, so that no batch waits until another one with steps of the same user is flushed.
    const CONNECTIONS: usize = 1;

    fn keys(item: &StepRows) -> impl Iterator<Item = Uuid> {
        std::iter::once(item.agentable_id)
    }

    #[expect(clippy::too_many_lines, reason = "one statement: the rows it writes are its length")]
    async fn write(
        &self,
        connection: &mut PgConnection,
        items: &mut [StepRows],
    ) -> Result<Vec<Option<Written>>> {
        items.iter_mut().enumerate().for_each(|(n, item)| item.n = n);
        if let (true, Some(first)) = (mutation::is(Mutation::BatchFence), items.first_mut()) {
            first.take_present_fence(&mut *connection).await?;
        }
        let rows = sqlx::query!(
            r#"-- store::step::batch::write
            with i as materialized (
                select i.*, jsonb_array_length(i.events) as event_count, jsonb_array_length(i.entries) as entry_count
                  from jsonb_to_recordset($1) as i (
                    n integer, agentable_id uuid, epoch bigint, fence bigint, token uuid, write_id uuid, run_id uuid, entries jsonb,
                    events jsonb, messages jsonb, is_progress boolean, forgives_deaths boolean, releases boolean, ends boolean,
                    wakes boolean, frees_a_slot boolean, until timestamptz, failures integer, status text,
                    error_code text, error_message text, iterations integer, model text, used bigint[], call jsonb)),
            l as materialized (
                select i.*, k.tenant_id, k.user_id, k.last_seq, k.last_position
                  -- A lateral query, so that each row is found by its key whatever the statistics say.
                  from i cross join lateral (
                       select k.* from houston.run_locks k
                        where k.agentable_id = i.agentable_id and k.epoch = i.fence and k.run_token = i.token
                          and k.holder is not null and k.last_write_id is distinct from i.write_id and not k.wake
                          for no key update skip locked) k
                 where not i.ends
                    or exists (select from houston.agentables a
                                where a.id = i.agentable_id and a.parent_id is null)
                   and exists (select from houston.runs r
                                where r.id = i.run_id and r.mode is distinct from 'feed_generation')),
            t as materialized (select clock_timestamp() as at),
            c as materialized (
                select l.n, l.agentable_id, l.user_id, l.tenant_id, l.run_id, l.write_id, c.*
                  from l cross join lateral jsonb_to_record(l.call) as c (
                       provider text, model text, iteration integer, tokens bigint[], cost numeric, reported boolean)
                 where l.call is not null),
            locks as (
                update houston.run_locks k
                   set crash_count = case when l.is_progress then 0 else k.crash_count end,
                       died_with = case when l.forgives_deaths then '{}' else k.died_with end,
                       last_write_id = l.write_id, last_seq = l.last_seq + l.event_count,
                       last_position = l.last_position + l.entry_count, wake = l.wakes,
                       holder = case when l.releases then null else k.holder end, next_attempt_at = l.until,
                       failed_attempts = coalesce(k.failed_attempts + l.failures, 0), run_open = not l.ends
                  from l where k.agentable_id = l.agentable_id),
            entries as (
                insert into houston.history (agentable_id, position, tenant_id, run_id, epoch, role, content)
                select l.agentable_id, l.last_position + e.nth, l.tenant_id, l.run_id, l.epoch, e.role, e.content
                  from l cross join lateral rows from (jsonb_to_recordset(l.entries) as (role text, content jsonb))
                       with ordinality as e (role, content, nth)),
            messages as (
                insert into houston.messages (id, tenant_id, agentable_id, seq, source, message_type, content, metadata,
                                              run_id, created_at)
                select m.id, l.tenant_id, l.agentable_id, l.last_seq + m.event, m.source, m.message_type, m.content,
                       m.metadata, l.run_id, t.at
                  from l cross join t cross join lateral jsonb_to_recordset(l.messages) as m (
                       event integer, id uuid, source text, message_type text, content text, metadata jsonb)
                -- A run has one error message, which changes; every other id is new.
                on conflict (id) do update set content = excluded.content, metadata = excluded.metadata
                 where messages.source = 'error'),
            events as (
                insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, message_id, data, created_at)
                select l.agentable_id, l.last_seq + e.nth, l.tenant_id, l.run_id, l.epoch, e.message_id, e.data, t.at
                  from l cross join t
                 cross join lateral rows from (jsonb_to_recordset(l.events) as (message_id uuid, data jsonb))
                       with ordinality as e (message_id, data, nth)),
            runs as (
                update houston.runs r
                   set status = coalesce(l.status, r.status),
                       held_for = case when l.releases then null else r.held_for end,
                       ended_at = case when l.ends then t.at end, iterations = l.iterations,
                       input_tokens = r.input_tokens + l.used[1], output_tokens = r.output_tokens + l.used[2],
                       cache_read_tokens = r.cache_read_tokens + l.used[3],
                       cache_write_tokens = r.cache_write_tokens + l.used[4],
                       reasoning_tokens = r.reasoning_tokens + l.used[5], model = coalesce(l.model, r.model),
                       error_code = case when l.releases then l.error_code else r.error_code end,
                       error_message = case when l.releases then l.error_message else r.error_message end,
                       cost = case when c.cost is null then r.cost else coalesce(r.cost, 0) + c.cost end,
                       unpriced_calls = r.unpriced_calls + (c.n is not null and c.cost is null)::integer
                  from l left join c on c.n = l.n cross join t where r.id = l.run_id),
            calls as (
                insert into houston.model_calls (run_id, write_id, tenant_id, agentable_id, iteration, provider, model,
                                                 input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,
                                                 reasoning_tokens, cost, reported, created_at)
                select c.run_id, c.write_id, c.tenant_id, c.agentable_id, c.iteration, c.provider, c.model, c.tokens[1],
                       c.tokens[2], c.tokens[3], c.tokens[4], c.tokens[5], c.cost, c.reported, t.at
                  from c cross join t),
            costs as (
                update houston.agentables a
                   set cost = case when c.cost is null then a.cost else coalesce(a.cost, 0) + c.cost end,
                       unpriced_calls = a.unpriced_calls + (c.cost is null)::integer
                  from c where a.id = c.agentable_id),
            spending as (
                insert into houston.spending as s (user_id, day, tenant_id, cost, model_calls, unpriced_calls)
                select c.user_id, (t.at at time zone 'UTC')::date, c.tenant_id, sum(c.cost), count(*),
                       count(*) - count(c.cost)
                  from c cross join t group by 1, 2, 3 order by 1
                on conflict (user_id, day) do update
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
            Json(&*items) as Json<&[StepRows]>,
            self.max_running
        )
        .fetch_all(connection)
        .await?;
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
