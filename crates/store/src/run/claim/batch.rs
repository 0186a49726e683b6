//! Many claims in one commit.
//!
//! One statement reads what the decisions need, without locks; [`houston_domain::claim`] decides; another statement
//! writes, for each agentable whose lock row has not changed meanwhile. The row's `xmin` says so: each change of a row,
//! whatever it changes, gives it another one. Neither statement waits for a lock.
//!
//! A claim may post the message that opens its run in the same commit ([`direct_start`](crate::direct_start)).
//!
//! A claim that changes more than its own agentable's rows is made by itself ([`alone`](super::alone)): one that closes
//! a session, takes messages of another run, or concerns a run that kills its workers.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use houston_domain::claim::{Decision, Start, decide};
use houston_domain::death::Verdict;
use houston_domain::event::derived::of_first_attempt;
use houston_domain::id::{RunToken, UserId};
use houston_domain::rate::TokenQuota;
use houston_faults::mutation::{self, Mutation};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::read::Candidate;
use super::{ClaimRequest, ClaimedRun};
use crate::batcher::Batch;
use crate::direct_start::DirectPost;
use crate::error::Result;
use crate::history::NewText;
use crate::message::{NewPost, Posted};
use crate::settings::{Archiving, Fairness};

/// A claim of a batch.
pub(crate) struct ClaimItem {
    pub(crate) request: ClaimRequest,
    /// A message that is posted in the same commit; it opens the run.
    pub(crate) post: Option<Box<DirectPost>>,
}

impl From<ClaimRequest> for ClaimItem {
    fn from(request: ClaimRequest) -> Self {
        Self { request, post: None }
    }
}

/// The result of a request whose batch did not fail.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The run is claimed.
    Claimed(Box<ClaimedRun>),
    /// The message is posted, and a worker of this process drives its run.
    Started(Posted),
    /// There is nothing to claim.
    Refused,
    /// Nothing was written: the run is to be claimed by itself.
    Alone,
}

/// How claims are written: see the module.
#[derive(Debug, Clone)]
pub(crate) struct Claims {
    pub(crate) fairness: Fairness,
    pub(crate) archiving: std::sync::Arc<Archiving>,
    pub(crate) reach: std::sync::Arc<crate::reach::Reach>,
    pub(crate) tokens: TokenQuota,
}

impl Batch for Claims {
    type Item = ClaimItem;
    type Done = Outcome;
    type Key = (Uuid, Option<String>);
    /// One, so that claims of one user do not meet in two batches of the same process.
    const CONNECTIONS: usize = 1;

    fn keys(item: &ClaimItem) -> impl Iterator<Item = Self::Key> {
        let request = item.post.as_ref().and_then(|post| post.row.request_key());
        [(item.request.agentable.0, None)].into_iter().chain(request)
    }

    fn bytes(item: &ClaimItem) -> usize {
        item.post.as_ref().map_or(0, |post| post.row.content.len())
    }

    async fn prepare(&self, connection: &mut PgConnection) -> Result<()> {
        self.read(connection, &[]).await?;
        self.claim(connection, &[]).await.map(drop)
    }

    async fn write(
        &self,
        connection: &mut PgConnection,
        items: &mut [ClaimItem],
    ) -> Result<Vec<Option<Outcome>>> {
        let mut candidates = self.read(connection, items).await?;
        let mut outcomes: Vec<Outcome> = items.iter().map(|_| Outcome::Refused).collect();
        // The runs of each user that this batch starts, and the requests that were refused because of them.
        let mut starts: HashMap<UserId, Vec<(usize, Start)>> = HashMap::new();
        let mut refused = Vec::new();
        for (n, (item, candidate)) in items.iter().zip(&candidates).enumerate() {
            let Some(candidate) = candidate else { continue };
            let starts = starts.entry(candidate.run.user).or_default();
            let in_batch = i32::try_from(starts.len()).unwrap_or(i32::MAX);
            match self.decide(candidate, in_batch, item.request.crashes.limit(), None) {
                Decision::Refused if in_batch > 0 => refused.push(n),
                Decision::Refused => {}
                Decision::Started(start) if start.is_plain() => {
                    // Whatever is not written is claimed alone.
                    outcomes[n] = Outcome::Alone;
                    starts.push((n, start));
                }
                // A message whose run must wait is posted without it.
                Decision::PutOff if item.post.is_some() => {}
                Decision::Started(_) | Decision::PutOff | Decision::Doubted | Decision::Accused => {
                    outcomes[n] = Outcome::Alone;
                }
            }
        }
        let mut rows = rows_of(&starts, items, &candidates);
        for row in rows.iter_mut().filter(|_| mutation::is(Mutation::Takeover)) {
            row.keep_fence(connection, candidates[row.n].as_mut()).await?;
        }
        let starts: HashMap<usize, Start> = starts.into_values().flatten().collect();
        let mut written = Vec::new();
        if !rows.is_empty() {
            houston_faults::fault!("C23")?;
            written = self.claim(connection, &rows).await?;
            houston_faults::fault!("C24")?;
        }
        if written.len() < rows.len() {
            // A slot that was counted as taken is free.
            for n in refused {
                outcomes[n] = Outcome::Alone;
            }
        }
        let entries: HashMap<usize, _> = rows.into_iter().map(|row| (row.n, row.entry)).collect();
        for claimed in written {
            let candidate = candidates.get_mut(claimed.n).and_then(Option::take);
            if let Some((candidate, start)) = candidate.zip(starts.get(&claimed.n)) {
                let entry = entries.get(&claimed.n).and_then(Option::as_deref);
                let run = candidate.claimed(start, &claimed, entry);
                outcomes[claimed.n] = match items[claimed.n].post.take() {
                    Some(post) => Outcome::Started(post.start(run)),
                    None => Outcome::Claimed(Box::new(run)),
                };
            }
        }
        Ok(outcomes.into_iter().map(Some).collect())
    }

    fn failed(items: Vec<ClaimItem>) {
        for post in items.into_iter().filter_map(|item| item.post) {
            post.slot.abandon();
        }
    }
}

impl Claims {
    /// `in_batch`: how many runs of its user are claimed by the same batch. `verdict`: see [`decide`].
    pub(super) fn decide(
        &self,
        candidate: &Candidate,
        in_batch: i32,
        crashes: usize,
        verdict: Option<Verdict>,
    ) -> Decision {
        if candidate.target.is_some_and(|target| !target.starts_at_once()) {
            return Decision::Refused;
        }
        let free_slots = candidate.free_slots - in_batch;
        decide(&candidate.claimable, free_slots, self.fairness.read_limits(), crashes, verdict)
    }
}

/// The rows of the claims, each with slots of its own. One whose entry cannot be encoded is left out.
fn rows_of<'a>(
    starts: &HashMap<UserId, Vec<(usize, Start)>>,
    items: &'a [ClaimItem],
    candidates: &[Option<Candidate>],
) -> Vec<ClaimRow<'a>> {
    let mut claims = Vec::new();
    for starts in starts.values() {
        let first = starts.first().and_then(|(n, _)| candidates[*n].as_ref().zip(items.get(*n)));
        let choices = first.map(|(of, item)| of.choices(starts.len(), item.request.worker));
        claims.extend(starts.iter().zip(choices.into_iter().flatten()));
    }
    claims.sort_unstable_by_key(|((n, _), _)| *n);
    let row = |((n, start), slots): (&(usize, Start), _)| {
        ClaimRow::of(*n, &items[*n], candidates[*n].as_ref()?, start, slots).ok()
    };
    claims.into_iter().filter_map(row).collect()
}

/// A claim as its rows.
#[derive(Debug, Serialize)]
pub(super) struct ClaimRow<'a> {
    /// Index of the request in its batch.
    n: usize,
    agentable_id: Uuid,
    version: String,
    worker_id: Uuid,
    token: Uuid,
    /// The slots to try, see [`houston_domain::claim::slot_choices`].
    slots: Vec<i32>,
    /// The message that opens the run, if it is posted with the claim.
    post: Option<&'a NewPost>,
    /// The entry with the messages that are read.
    #[serde(skip)]
    entry: Option<Box<RawValue>>,
    /// The same, unless it is the text of one message.
    content: Option<Box<RawValue>>,
    /// The position of that message.
    message_seq: Option<i64>,
    /// The event, unless it follows from the run.
    event: Option<Box<RawValue>>,
    started_message_id: Uuid,
    read: usize,
    read_to: Option<i64>,
    stays_awake: bool,
    schedules_session: bool,
    /// The tokens with which the run is admitted.
    booked: Option<i64>,
}

impl<'a> ClaimRow<'a> {
    /// The rows of the claim in one of `slots`; `n` is its index in its batch.
    pub(super) fn of(
        n: usize,
        item: &'a ClaimItem,
        candidate: &Candidate,
        start: &Start,
        slots: Vec<i32>,
    ) -> serde_json::Result<Self> {
        let request = &item.request;
        let read = &candidate.claimable.unread[..start.read];
        let message = match read {
            [only] if !only.is_frame() => Some(only.seq),
            _ => None,
        };
        let blocks: Vec<NewText<'_>> = read
            .iter()
            .map(|unread| NewText { r#type: "text", text: &unread.content, frame: unread.is_frame() })
            .collect();
        let entry = if blocks.is_empty() { None } else { Some(to_raw_value(&blocks)?) };
        let event = &candidate.run.event.event;
        let follows = *event == of_first_attempt(request.next_message);
        Ok(Self {
            n,
            agentable_id: request.agentable.0,
            version: candidate.version.clone(),
            worker_id: request.worker.0,
            token: request.token.0,
            slots,
            post: item.post.as_ref().map(|post| &post.row),
            content: entry.clone().filter(|_| message.is_none()),
            entry,
            message_seq: message,
            event: if follows { None } else { Some(to_raw_value(event)?) },
            started_message_id: request.next_message.0,
            read: start.read,
            read_to: start.read_to,
            stays_awake: start.stays_awake,
            schedules_session: start.turn.schedules && start.turn.is_plain(),
            booked: candidate.run.booked,
        })
    }

    /// Makes the claim of a run whose worker is taken for dead leave epoch and token as they are.
    async fn keep_fence(
        &mut self,
        connection: &mut PgConnection,
        candidate: Option<&mut Candidate>,
    ) -> Result<()> {
        let kept = sqlx::query!(
            r#"-- store::claim::batch::keep_fence
            update houston.run_locks set epoch = epoch - 1
             where agentable_id = $1 and xmin::text = $2 and holder is not null
            returning run_token as "token!", xmin::text as "version!""#,
            self.agentable_id,
            self.version
        )
        .fetch_optional(connection)
        .await?;
        if let Some((kept, candidate)) = kept.zip(candidate) {
            candidate.run.fence.token = RunToken(kept.token);
            (self.token, self.version) = (kept.token, kept.version);
        }
        Ok(())
    }
}

/// A claim that was written.
pub(super) struct Claimed {
    /// Its index in its batch.
    pub(super) n: usize,
    epoch: i64,
    seq: i64,
    at: DateTime<Utc>,
}

impl Candidate {
    /// The run after its claim was written. `entry`: the content of the entry that was written; without it the context is
    /// left out.
    pub(super) fn claimed(self, start: &Start, claimed: &Claimed, entry: Option<&RawValue>) -> ClaimedRun {
        let mut run = self.run;
        let mut context = self.context;
        if let (Some(entry), Some(read)) = (entry, &mut context)
            && let Err(error) = read.begin(entry)
        {
            tracing::warn!(%error, run = %run.run, "cannot decode the entry of a claim");
            context = None;
        }
        run.context = context;
        run.fence.epoch = claimed.epoch;
        run.is_given_up = start.is_given_up;
        run.deaths = i32::try_from(start.deaths).unwrap_or(i32::MAX);
        (run.event.seq, run.event.at) = (claimed.seq, claimed.at);
        run
    }
}

impl Claims {
    /// Writes the claims of agentables that have not changed since they were read, each in the first of its slots that
    /// neither a run holds nor a claim is taking at the moment: such a claim holds the advisory lock of the slot.
    #[expect(clippy::too_many_lines, reason = "one statement: the rows it writes are its length")]
    pub(super) async fn claim(
        &self,
        connection: &mut PgConnection,
        claims: &[ClaimRow<'_>],
    ) -> Result<Vec<Claimed>> {
        let rows = sqlx::query!(
            r#"-- store::claim::write::claims
            with i as materialized (
                select * from jsonb_to_recordset($1) as i (
                    n integer, agentable_id uuid, version text, worker_id uuid, token uuid, slots integer[], post jsonb,
                    content jsonb, message_seq bigint, event jsonb, started_message_id uuid, read integer, read_to bigint,
                    stays_awake boolean, schedules_session boolean, booked bigint)),
            c as materialized (
                select i.*, s.slot, k.tenant_id, k.user_id, k.epoch + 1 as epoch, i.post is not null as opens,
                       case when i.post is null then k.run_id else p.run_id end as run_id,
                       k.last_seq + case when i.post is null then 1 else 3 end as seq,
                       k.last_position + (i.read > 0)::integer as position,
                       p.message_id, p.content as message, p.metadata, p.key, p.request_sha256, p.traceparent
                  from i
                  left join lateral jsonb_to_record(i.post) as p (
                       message_id uuid, run_id uuid, content text, metadata jsonb, key text, request_sha256 bytea,
                       traceparent text) on true
                 cross join lateral (
                       select k.* from houston.run_locks k
                        where k.agentable_id = i.agentable_id and k.xmin::text = i.version
                          and not exists (select from houston.workers w
                                           where w.id = k.holder and w.alive_until > clock_timestamp())
                          and exists (select from houston.workers w
                                       where w.id = i.worker_id and w.alive_until > clock_timestamp())
                          for no key update skip locked) k
                 cross join lateral (
                       select s.slot from unnest(i.slots) with ordinality as s (slot, nth)
                        where not exists (select from houston.runs h where h.held_for = k.user_id and h.slot = s.slot)
                          and pg_try_advisory_xact_lock(hashtext(k.user_id::text), s.slot)
                        limit 1) s
                 where (p.key is null or pg_try_advisory_xact_lock(3, hashtext(k.tenant_id::text || p.key)))),
            keys as (
                insert into houston.idempotency_keys (tenant_id, key, request_sha256, resource_id)
                select c.tenant_id, c.key, c.request_sha256, c.message_id from c where c.key is not null order by c.key
                on conflict do nothing returning tenant_id, key),
            l as materialized (
                select c.* from c
                 where c.key is null or exists (select from keys k where k.tenant_id = c.tenant_id and k.key = c.key)),
            t as materialized (select clock_timestamp() as at),
            history as (
                insert into houston.history (agentable_id, position, tenant_id, run_id, epoch, role, content, message_seq)
                select l.agentable_id, l.position, l.tenant_id, l.run_id, l.epoch, 'user', l.content, l.message_seq
                  from l where l.read > 0),
            events as (
                insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, data, created_at)
                select l.agentable_id, l.seq, l.tenant_id, l.run_id, l.epoch, l.event, t.at
                  from l cross join t where l.event is not null),
            messages as (
                insert into houston.messages (id, tenant_id, agentable_id, seq, source, message_type, content, metadata,
                                              run_id, created_at)
                select l.message_id, l.tenant_id, l.agentable_id, l.seq - 1, 'user', 'text', l.message, l.metadata, l.run_id,
                       t.at
                  from l cross join t where l.opens),
            opened as (
                insert into houston.runs (id, tenant_id, agentable_id, first_seq, created_at, started_at, status, attempt,
                                          epoch, worker_id, held_for, slot, started_seq, started_xid,
                                          started_message_id, booked_tokens, traceparent)
                select l.run_id, l.tenant_id, l.agentable_id, l.seq - 2, t.at, t.at, 'running', 1, l.epoch, l.worker_id,
                       l.user_id, l.slot, case when l.event is null then l.seq end,
                       case when l.event is null then pg_current_xact_id()::text::bigint end,
                       case when l.event is null then l.started_message_id end, l.booked, l.traceparent
                  from l cross join t where l.opens),
            sessions as (
                insert into houston.session_states as s (agentable_id, tenant_id, look_at)
                select l.agentable_id, l.tenant_id, t.at + make_interval(secs => $2)
                  from l cross join t where l.schedules_session order by l.agentable_id
                on conflict (agentable_id) do update set look_at = excluded.look_at),
            runs as (
                update houston.runs r
                   set status = 'running', attempt = r.attempt + 1, epoch = l.epoch, worker_id = l.worker_id,
                       booked_tokens = coalesce(l.booked, r.booked_tokens), held_for = l.user_id, slot = l.slot, started_at = coalesce(r.started_at, t.at),
                       started_seq = case when l.event is null then l.seq else r.started_seq end,
                       started_xid = case when l.event is null then pg_current_xact_id()::text::bigint
                                          else r.started_xid end,
                       started_message_id = case when l.event is null then l.started_message_id
                                                 else r.started_message_id end
                  from l cross join t where not l.opens and r.id = l.run_id),
            locks as (
                update houston.run_locks k
                   set epoch = l.epoch, run_token = l.token, holder = l.worker_id, run_id = l.run_id, run_open = true,
                       waiting_since = case when l.opens then t.at else k.waiting_since end,
                       failed_attempts = case when l.opens then 0 else k.failed_attempts end,
                       crash_count = case when l.opens then 0 else k.crash_count end + 1,
                       died_with = case when k.holder is null then k.died_with else k.died_with || k.holder end,
                       next_attempt_at = null, last_seq = l.seq, wake = l.stays_awake,
                       read_seq = coalesce(l.read_to, k.read_seq),
                       -- A message that is posted with the claim was never counted as unread.
                       unread = greatest(k.unread - l.read, 0),
                       last_position = l.position
                  from l cross join t where k.agentable_id = l.agentable_id)
            select l.n as "n!", l.epoch as "epoch!", l.seq as "seq!", t.at as "at!" from l cross join t"#,
            Json(claims) as Json<&[ClaimRow<'_>]>,
            self.archiving.settings.quiet().as_secs_f64()
        )
        .fetch_all(connection)
        .await?;
        let claimed = rows.into_iter().filter_map(|row| {
            Some(Claimed { n: usize::try_from(row.n).ok()?, epoch: row.epoch, seq: row.seq, at: row.at })
        });
        Ok(claimed.collect())
    }
}
