//! Reading what the decision about a claim needs.

use chrono::DateTime;
use houston_domain::claim::{Claimable, Holder, OpenSession};
use houston_domain::error_message::ErrorMessage;
use houston_domain::event::{Committed, Event};
use houston_domain::id::{AgentableId, RunId, TenantId, UserId};
use houston_domain::model::Usage;
use houston_domain::run::RunStatus;
use houston_domain::unread::Unread;
use serde::Deserialize;
use serde_json::Value;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::batch::{ClaimRequest, Claims};
use super::{ClaimedRun, Fence};
use crate::error::Result;

/// The agentable of a request as it was read.
pub(super) struct Candidate {
    /// The version of its lock row.
    pub(super) version: String,
    /// The reason of a request to close its session.
    pub(super) close_reason: Option<String>,
    /// The position of the latest entry of an earlier run in the open session.
    pub(super) last_entry: Option<i64>,
    /// The slots that runs of its user hold, this run included: two claims that count the same free slots then choose the
    /// same slot, and one of them fails.
    pub(super) slots: Vec<i32>,
    pub(super) free_slots: i32,
    pub(super) claimable: Claimable,
    /// The run; epoch, position, deaths and time are set when the claim is written.
    pub(super) run: ClaimedRun,
}

/// The error message of a run, while the failure it reports has not been resolved.
#[derive(Debug, Deserialize)]
struct Failure {
    content: String,
    metadata: Value,
}

impl Failure {
    fn of(self, run: RunId) -> ErrorMessage {
        ErrorMessage { id: ErrorMessage::id_of(run), content: self.content, metadata: self.metadata }
    }
}

/// Token counts as stored: input, output, cache read, cache write, reasoning.
fn usage(tokens: &[i64]) -> Usage {
    let at = |index: usize| tokens.get(index).and_then(|tokens| u64::try_from(*tokens).ok()).unwrap_or(0);
    Usage {
        input_tokens: at(0),
        output_tokens: at(1),
        cache_read_tokens: at(2),
        cache_write_tokens: at(3),
        reasoning_tokens: at(4),
        cost: None,
        billed: None,
    }
}

impl Claims {
    /// Reads the agentables of the requests; `None` for those that do not exist or never had a run.
    #[expect(clippy::too_many_lines, reason = "one statement: the facts it reads are its length")]
    pub(super) async fn read(
        &self,
        connection: &mut PgConnection,
        items: &[ClaimRequest],
    ) -> Result<Vec<Option<Candidate>>> {
        let agentables: Vec<Uuid> = items.iter().map(|item| item.agentable.0).collect();
        let workers: Vec<Uuid> = items.iter().map(|item| item.worker.0).collect();
        let rows = sqlx::query!(
            r#"-- store::claim::read::candidates
            with i as materialized (
                select i.n, i.agentable_id,
                       exists (select from houston.workers w
                                where w.id = i.worker_id and w.alive_until > clock_timestamp()) as worker_is_alive
                  from unnest($1::uuid[], $2::uuid[]) with ordinality as i (agentable_id, worker_id, n))
            select i.n as "n!", i.worker_is_alive as "worker_is_alive!", k.version as "version!", k.tenant_id, k.user_id,
                   k.run_id as "run_id!", k.crash_count, k.failed_attempts, k.wake, k.run_open,
                   coalesce(k.next_attempt_at <= clock_timestamp(), true) as "is_due!", k.holder is not null as "is_held!",
                   k.holder_is_alive as "holder_is_alive!", cardinality(k.died_with) as "deaths!",
                   r.attempt, r.iterations, r.cancel_seq, r.created_at as requested_at, r.status,
                   array[r.input_tokens, r.output_tokens, r.cache_read_tokens, r.cache_write_tokens,
                         r.reasoning_tokens] as "usage!",
                   case when r.attempt > 0 then (
                        select json_build_object('content', e.content, 'metadata', e.metadata) from houston.messages e
                         where e.id = r.id and e.source = 'error' and not e.metadata ? 'resolved')
                        end as "error: Json<Failure>",
                   a.kind, a.title, a.description, a.parent_id,
                   s.look_at is not null as "is_scheduled!",
                   coalesce(s.last_number > s.reported_number, false) as "has_unreported!", s.close_reason,
                   h.at as "last_entry_at?", h.position as "last_entry?",
                   u.slots as "slots!", case when u.others < $3 then $3 - u.others
                                             else houston.free_slots(k.user_id, k.agentable_id, $3) end as "free_slots!",
                   m.unread as "unread: Json<Vec<Unread>>"
              from i
             cross join lateral (
                   select l.*, l.xmin::text as version,
                          exists (select from houston.workers w
                                   where w.id = l.holder and w.alive_until > clock_timestamp()) as holder_is_alive
                     from houston.run_locks l where l.agentable_id = i.agentable_id) k
             cross join lateral (select * from houston.agentables a where a.id = k.agentable_id) a
             cross join lateral (select * from houston.runs r where r.id = k.run_id) r
              left join lateral (select * from houston.session_states s where s.agentable_id = k.agentable_id) s on true
              left join lateral (
                   select e.position,
                          case when e.epoch = 0 then greatest(e.created_at, a.created_at) else e.created_at end as at
                     from houston.history e
                    where e.agentable_id = k.agentable_id and e.position > k.session_position
                      and e.position <= k.last_position and e.run_id <> k.run_id and k.run_open and r.attempt = 0
                      and a.kind = any ($6)
                    order by e.position desc limit 1) h on true
             cross join lateral (select coalesce(array_agg(o.slot), '{}') as slots,
                                         count(*) filter (where o.agentable_id <> k.agentable_id)::integer as others
                                    from houston.runs o where o.held_for = k.user_id) u
             cross join lateral (
                   select json_agg(json_build_object('seq', n.seq, 'source', n.source, 'metadata_type', n.metadata ->> 'type',
                                                     'content', n.content, 'is_for_run', n.run_id = k.run_id)
                                   order by n.seq) as unread
                     from (select o.*, row_number() over (order by o.seq) as nth,
                                  sum(octet_length(o.content)) over (order by o.seq) - octet_length(o.content) as before
                             from (select c.seq, c.source, c.metadata, c.content, c.run_id from houston.messages c
                                    where c.agentable_id = k.agentable_id and houston.is_for_agent(c.source)
                                      and c.seq > k.read_seq and k.wake and k.run_open and not k.holder_is_alive
                                      and (r.cancel_seq is null or c.seq <= r.cancel_seq)
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
                close_requested: row.close_reason.is_some(),
                has_unreported: row.has_unreported,
                is_scheduled: row.is_scheduled,
            });
            let run = RunId(row.run_id);
            candidates[nth] = Some(Candidate {
                version: row.version,
                close_reason: row.close_reason,
                last_entry: row.last_entry,
                slots: row.slots,
                free_slots: row.free_slots,
                claimable: Claimable {
                    worker_is_alive: row.worker_is_alive,
                    holder,
                    run_open: row.run_open,
                    is_due: row.is_due,
                    deaths: usize::try_from(row.deaths).unwrap_or(0),
                    attempts: row.attempt,
                    cancel_requested: row.cancel_seq.is_some(),
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
                    attempt: row.attempt + 1,
                    iterations: row.iterations,
                    deaths: 0,
                    claims: row.crash_count + 1,
                    failed_attempts: row.failed_attempts,
                    cancel_seq: row.cancel_seq,
                    usage: usage(&row.usage),
                    error: row.error.map(|failure| failure.0.of(run)),
                    next_message: request.next_message,
                    event: Committed {
                        seq: 0,
                        run_id: run,
                        at: DateTime::UNIX_EPOCH,
                        event: Event::AttemptStarted {
                            attempt: row.attempt + 1,
                            iteration: u32::try_from(row.iterations).unwrap_or(0) + 1,
                            next_message_id: request.next_message,
                            takeover: row.status == RunStatus::Running.as_str(),
                        },
                        body: None,
                    },
                },
            });
        }
        Ok(candidates)
    }
}
