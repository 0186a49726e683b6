//! Many claims in one commit: runs that begin.
//!
//! One statement reads what the decisions need, without locks; [`houston_domain::claim`] decides; another statement
//! writes, for each agentable whose lock row has not changed meanwhile. The row's `xmin` says so: each change of a row,
//! whatever it changes, gives it another one. Neither statement waits for a lock.
//!
//! A run with a history (an earlier attempt, a death, a cancel, a session to close) is claimed by itself.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use houston_domain::claim::{Claimable, Decision, Holder, OpenSession, Start, decide};
use houston_domain::event::{Committed, Event};
use houston_domain::id::{AgentableId, MessageId, RunId, RunToken, TenantId, UserId, WorkerId};
use houston_domain::model::Usage;
use houston_domain::unread::Unread;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::{ClaimedRun, Fence};
use crate::batcher::Batch;
use crate::error::Result;
use crate::fairness::Fairness;
use crate::pool::Store;
use crate::session::Archiving;
use crate::stored_block::NewText;

/// A request of a worker for a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClaimRequest {
    pub(crate) agentable: AgentableId,
    pub(crate) worker: WorkerId,
    pub(crate) token: RunToken,
    pub(crate) next_message: MessageId,
}

/// The result of a request whose batch did not fail.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The run is claimed.
    Claimed(Box<ClaimedRun>),
    /// There is nothing to claim.
    Refused,
    /// Nothing was written: the run is to be claimed by itself.
    Alone,
}

/// The agentable of a request as it was read.
struct Candidate {
    /// The version of its lock row.
    version: String,
    user: UserId,
    slots: Vec<i32>,
    free_slots: i32,
    claimable: Claimable,
    /// The run; epoch, position and time are set when the claim is written.
    run: ClaimedRun,
}

/// A claim as its rows.
#[derive(Debug, Serialize)]
struct ClaimRow {
    /// Index of the request in its batch.
    n: usize,
    agentable_id: Uuid,
    version: String,
    worker_id: Uuid,
    token: Uuid,
    slot: i32,
    content: Vec<Box<RawValue>>,
    event: Box<RawValue>,
    read: usize,
    read_to: i64,
    has_more: bool,
    opens_session: bool,
}

impl ClaimRow {
    /// `None` if a value is not JSON.
    fn of(n: usize, request: &ClaimRequest, candidate: &Candidate, start: &Start, slot: i32) -> Option<Self> {
        let read = &candidate.claimable.unread[..start.read];
        let content = read.iter().map(|unread| {
            to_raw_value(&NewText { r#type: "text", text: &unread.content, frame: unread.is_frame() }).ok()
        });
        Some(Self {
            n,
            agentable_id: request.agentable.0,
            version: candidate.version.clone(),
            worker_id: request.worker.0,
            token: request.token.0,
            slot,
            content: content.collect::<Option<_>>()?,
            event: to_raw_value(&candidate.run.event.event).ok()?,
            read: start.read,
            read_to: start.read_to,
            has_more: start.has_more,
            opens_session: start.opens_session,
        })
    }
}

impl Store {
    /// Claims a run together with others; `None` if the outcome is unknown.
    pub(super) async fn claim_in_batch(&self, request: ClaimRequest) -> Option<Outcome> {
        if self.is_unbatched {
            return Some(Outcome::Alone);
        }
        self.batchers.claims.submit(request).await
    }
}

/// How claims are written: see the module.
#[derive(Debug, Clone)]
pub(crate) struct Claims {
    pub(crate) fairness: Fairness,
    pub(crate) archiving: std::sync::Arc<Archiving>,
}

impl Batch for Claims {
    type Item = ClaimRequest;
    type Done = Outcome;
    type Key = AgentableId;
    /// One, so that claims of one user do not meet in two batches of the same process.
    const CONNECTIONS: usize = 1;

    fn keys(item: &ClaimRequest) -> impl Iterator<Item = AgentableId> {
        std::iter::once(item.agentable)
    }

    async fn write(
        &self,
        connection: &mut PgConnection,
        items: &mut [ClaimRequest],
    ) -> Result<Vec<Option<Outcome>>> {
        let mut candidates = self.read(connection, items).await?;
        let mut outcomes: Vec<Outcome> = items.iter().map(|_| Outcome::Refused).collect();
        let mut claims = Vec::new();
        // The slots that the claims of this batch take, and the requests that were refused because of them.
        let mut taken: HashMap<UserId, HashSet<i32>> = HashMap::new();
        let mut refused = Vec::new();
        for (n, (request, candidate)) in items.iter().zip(&candidates).enumerate() {
            let Some(candidate) = candidate else { continue };
            let taken = taken.entry(candidate.user).or_default();
            let in_batch = i32::try_from(taken.len()).unwrap_or(i32::MAX);
            match decide(&candidate.claimable, candidate.free_slots - in_batch, self.fairness.read_limits()) {
                Decision::Refused if in_batch > 0 => refused.push(n),
                Decision::Refused => {}
                Decision::Disturbed => outcomes[n] = Outcome::Alone,
                Decision::Started(start) => {
                    // Whatever is not written is claimed alone.
                    outcomes[n] = Outcome::Alone;
                    let slot = (1..)
                        .find(|slot| !candidate.slots.contains(slot) && !taken.contains(slot))
                        .unwrap_or(i32::MAX);
                    if let Some(row) = ClaimRow::of(n, request, candidate, &start, slot) {
                        taken.insert(slot);
                        claims.push(row);
                    }
                }
            }
        }
        let written = if claims.is_empty() { Vec::new() } else { self.claim(connection, &claims).await? };
        if written.len() < claims.len() {
            // A slot that was counted as taken is free.
            refused.into_iter().for_each(|n| outcomes[n] = Outcome::Alone);
        }
        for Claimed { n, epoch, seq, at } in written {
            if let Some(Candidate { mut run, .. }) = candidates.get_mut(n).and_then(Option::take) {
                run.fence.epoch = epoch;
                (run.event.seq, run.event.at) = (seq, at);
                outcomes[n] = Outcome::Claimed(Box::new(run));
            }
        }
        Ok(outcomes.into_iter().map(Some).collect())
    }
}

/// What the database says about a claim that was written.
struct Claimed {
    n: usize,
    epoch: i64,
    seq: i64,
    at: DateTime<Utc>,
}

impl Claims {
    /// Reads the agentables of the requests; `None` for those that do not exist or never had a run.
    #[expect(clippy::too_many_lines, reason = "one statement: the facts it reads are its length")]
    async fn read(
        &self,
        connection: &mut PgConnection,
        items: &[ClaimRequest],
    ) -> Result<Vec<Option<Candidate>>> {
        let agentables: Vec<Uuid> = items.iter().map(|item| item.agentable.0).collect();
        let workers: Vec<Uuid> = items.iter().map(|item| item.worker.0).collect();
        let rows = sqlx::query!(
            r#"-- store::claim::batch::read
            with i as materialized (
                select i.n, i.agentable_id,
                       exists (select from houston.workers w
                                where w.id = i.worker_id and w.alive_until > clock_timestamp()) as worker_is_alive
                  from unnest($1::uuid[], $2::uuid[]) with ordinality as i (agentable_id, worker_id, n))
            select i.n as "n!", i.worker_is_alive as "worker_is_alive!", k.version as "version!", k.tenant_id, k.user_id,
                   k.run_id as "run_id!", k.crash_count, k.failed_attempts, k.wake, k.run_open,
                   coalesce(k.next_attempt_at <= clock_timestamp(), true) as "is_due!", k.holder is not null as "is_held!",
                   exists (select from houston.workers w
                            where w.id = k.holder and w.alive_until > clock_timestamp()) as "holder_is_alive!",
                   k.died_with <> '{}' as "has_deaths!",
                   r.attempt, r.iterations, r.cancel_seq is not null as "cancel_requested!", r.created_at as requested_at,
                   a.kind, a.title, a.description, a.parent_id,
                   s.close_reason is not null as "close_requested!", s.look_at is not null as "is_scheduled!",
                   coalesce(s.last_number > s.reported_number, false) as "has_unreported!", h.at as "last_entry_at?",
                   u.slots as "slots!", case when cardinality(u.slots) < $3 then $3 - cardinality(u.slots)
                                             else houston.free_slots(k.user_id, k.agentable_id, $3) end as "free_slots!",
                   m.unread as "unread: Json<Vec<Unread>>"
              from i
             cross join lateral (select l.*, l.xmin::text as version from houston.run_locks l
                                  where l.agentable_id = i.agentable_id) k
             cross join lateral (select * from houston.agentables a where a.id = k.agentable_id) a
             cross join lateral (select * from houston.runs r where r.id = k.run_id) r
              left join lateral (select * from houston.session_states s where s.agentable_id = k.agentable_id) s on true
              left join lateral (
                   select case when e.epoch = 0 then greatest(e.created_at, a.created_at) else e.created_at end as at
                     from houston.history e
                    where e.agentable_id = k.agentable_id and e.position > k.session_position
                      and e.position <= k.last_position and e.run_id <> k.run_id and k.run_open and a.kind = any ($6)
                    order by e.position desc limit 1) h on true
             cross join lateral (select coalesce(array_agg(o.slot), '{}') as slots from houston.runs o
                                  where o.held_for = k.user_id and o.agentable_id <> k.agentable_id) u
             cross join lateral (
                   select json_agg(json_build_object('seq', n.seq, 'source', n.source, 'metadata_type', n.metadata ->> 'type',
                                                     'content', n.content, 'is_for_run', n.run_id = k.run_id)
                                   order by n.seq) as unread
                     from (select o.*, row_number() over (order by o.seq) as nth,
                                  sum(octet_length(o.content)) over (order by o.seq) - octet_length(o.content) as before
                             from (select c.seq, c.source, c.metadata, c.content, c.run_id from houston.messages c
                                    where c.agentable_id = k.agentable_id and houston.is_for_agent(c.source)
                                      and c.seq > k.read_seq and k.wake and k.run_open and k.holder is null
                                    order by c.seq limit $4 + 1) o) n
                    -- The second one shows that there are more, however long the first is.
                    where n.before <= $5 or n.nth = 2) m"#,
            &agentables,
            &workers,
            self.fairness.running(),
            self.fairness.messages(),
            i64::from(self.fairness.read_bytes),
            &self.archiving.kinds
        )
        .fetch_all(connection)
        .await?;
        let mut candidates: Vec<Option<Candidate>> = items.iter().map(|_| None).collect();
        for row in rows {
            let nth = usize::try_from(row.n).ok().and_then(|n| n.checked_sub(1));
            let Some((nth, request)) = nth.and_then(|nth| Some((nth, items.get(nth)?))) else { continue };
            let holder = match (row.is_held, row.holder_is_alive) {
                (false, _) => Holder::None,
                (true, true) => Holder::Alive,
                (true, false) => Holder::Dead,
            };
            let session = self.archiving.kinds.contains(&row.kind).then(|| OpenSession {
                last_entry_at: row.last_entry_at,
                requested_at: row.requested_at,
                quiet: self.archiving.settings.quiet(),
                close_requested: row.close_requested,
                has_unreported: row.has_unreported,
                is_scheduled: row.is_scheduled,
            });
            let run = RunId(row.run_id);
            candidates[nth] = Some(Candidate {
                version: row.version,
                user: UserId(row.user_id),
                slots: row.slots,
                free_slots: row.free_slots,
                claimable: Claimable {
                    worker_is_alive: row.worker_is_alive,
                    holder,
                    run_open: row.run_open,
                    is_due: row.is_due,
                    has_deaths: row.has_deaths,
                    attempts: row.attempt,
                    cancel_requested: row.cancel_requested,
                    is_awake: row.wake,
                    unread: row.unread.map_or_else(Vec::new, |unread| unread.0),
                    session,
                },
                run: ClaimedRun {
                    fence: Fence { agentable: request.agentable, epoch: 0, token: request.token },
                    tenant: TenantId(row.tenant_id),
                    user: UserId(row.user_id),
                    kind: row.kind,
                    title: row.title,
                    description: row.description,
                    parent: row.parent_id.map(AgentableId),
                    run,
                    attempt: 1,
                    iterations: row.iterations,
                    deaths: 0,
                    claims: row.crash_count + 1,
                    failed_attempts: row.failed_attempts,
                    cancel_seq: None,
                    usage: Usage::default(),
                    error: None,
                    next_message: request.next_message,
                    event: Committed {
                        seq: 0,
                        run_id: run,
                        at: DateTime::UNIX_EPOCH,
                        event: Event::AttemptStarted {
                            attempt: 1,
                            iteration: u32::try_from(row.iterations).unwrap_or(0) + 1,
                            next_message_id: request.next_message,
                            takeover: false,
                        },
                        body: None,
                    },
                },
            });
        }
        Ok(candidates)
    }

    /// Writes the claims of agentables that have not changed since they were read. The advisory lock is that of
    /// `houston.claim_run`: it serialises the claims of one user.
    async fn claim(&self, connection: &mut PgConnection, claims: &[ClaimRow]) -> Result<Vec<Claimed>> {
        let rows = sqlx::query!(
            r#"-- store::claim::batch::write
            with i as materialized (
                select * from jsonb_to_recordset($1) as i (
                    n integer, agentable_id uuid, version text, worker_id uuid, token uuid, slot integer, content jsonb,
                    event jsonb, read integer, read_to bigint, has_more boolean, opens_session boolean)),
            l as materialized (
                select i.*, k.tenant_id, k.user_id, k.run_id, k.epoch + 1 as epoch, k.last_seq + 1 as seq,
                       k.last_position + 1 as position
                  from i cross join lateral (
                       select k.* from houston.run_locks k
                        where k.agentable_id = i.agentable_id and k.xmin::text = i.version and k.holder is null
                          and exists (select from houston.workers w
                                       where w.id = i.worker_id and w.alive_until > clock_timestamp())
                          for no key update skip locked) k
                 where pg_try_advisory_xact_lock(1, hashtext(k.user_id::text))),
            t as materialized (select clock_timestamp() as at),
            history as (
                insert into houston.history (agentable_id, position, tenant_id, run_id, epoch, role, content)
                select l.agentable_id, l.position, l.tenant_id, l.run_id, l.epoch, 'user', l.content from l),
            events as (
                insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, data, created_at)
                select l.agentable_id, l.seq, l.tenant_id, l.run_id, l.epoch, l.event, t.at from l cross join t),
            sessions as (
                insert into houston.session_states as s (agentable_id, tenant_id, look_at)
                select l.agentable_id, l.tenant_id, t.at + make_interval(secs => $2)
                  from l cross join t where l.opens_session order by l.agentable_id
                on conflict (agentable_id) do update set look_at = excluded.look_at),
            runs as (
                update houston.runs r
                   set status = 'running', attempt = r.attempt + 1, epoch = l.epoch, worker_id = l.worker_id,
                       held_for = l.user_id, slot = l.slot, started_at = coalesce(r.started_at, t.at)
                  from l cross join t where r.id = l.run_id),
            locks as (
                update houston.run_locks k
                   set epoch = l.epoch, run_token = l.token, holder = l.worker_id, crash_count = k.crash_count + 1,
                       next_attempt_at = null, last_seq = l.seq, wake = l.has_more, read_seq = l.read_to,
                       unread = case when l.has_more then k.unread - l.read else 0 end, last_position = l.position
                  from l where k.agentable_id = l.agentable_id)
            select l.n as "n!", l.epoch as "epoch!", l.seq as "seq!", t.at as "at!" from l cross join t"#,
            Json(claims) as Json<&[ClaimRow]>,
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
