//! Reading what the decision about a claim needs.

use chrono::DateTime;
use houston_domain::claim::{Claimable, Holder, OpenSession, PostTarget, slot_choices};
use houston_domain::error_message::ErrorMessage;
use houston_domain::event::{Committed, Event};
use houston_domain::id::{AgentableId, RunId, TenantId, UserId, WorkerId};
use houston_domain::rate::Admission;
use houston_domain::run::RunStatus;
use houston_domain::unread::Unread;
use serde_json::Value;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::batch::{ClaimItem, Claims};
use super::{ClaimedRun, Fence};
use crate::cost::stored_usage;
use crate::error::Result;
use crate::run_context::{ContextLimits, ContextRow, Reading, RunContext, query_with_context};

/// The agentable of a request as it was read.
pub(super) struct Candidate {
    /// The version of its lock row.
    pub(super) version: String,
    /// The reason of a request to close its session.
    pub(super) close_reason: Option<String>,
    /// The position of the latest entry of an earlier run in the open session.
    pub(super) last_entry: Option<i64>,
    /// The slots that runs of its user hold, this run included.
    pub(super) slots: Vec<i32>,
    /// How many more runs of its user may be held.
    pub(super) free_slots: i32,
    pub(super) claimable: Claimable,
    /// With how many tokens its run is admitted, if the user has a limit of them and none are booked yet.
    pub(super) admission: Option<Admission>,
    /// What decides whether a message that is posted with the claim may start its run.
    pub(super) target: Option<PostTarget>,
    pub(super) context: Option<Box<RunContext>>,
    /// The run; epoch, position, deaths and time are set when the claim is written.
    pub(super) run: ClaimedRun,
}

impl Candidate {
    /// The slots that as many claims of its user may take, see [`slot_choices`].
    pub(super) fn choices(&self, claims: usize, worker: WorkerId) -> Vec<Vec<i32>> {
        let free = usize::try_from(self.free_slots).unwrap_or(0).max(claims);
        slot_choices(&self.slots, free, claims, worker)
    }
}

impl Claims {
    /// Reads the agentables of the requests; `None` for those that do not exist or never had a run.
    #[expect(clippy::too_many_lines, reason = "one statement: the facts it reads are its length")]
    pub(super) async fn read(
        &self,
        connection: &mut PgConnection,
        items: &[ClaimItem],
    ) -> Result<Vec<Option<Candidate>>> {
        // Those of the first claim with a context. A claim with others gets none.
        let limits = items.iter().find_map(|item| item.request.context);
        let (agentables, workers): (Vec<Uuid>, Vec<Uuid>) =
            items.iter().map(|item| (item.request.agentable.0, item.request.worker.0)).unzip();
        // Whose agentable it must be, and of which kind, if a message is posted.
        let posts = || items.iter().map(|item| item.post.as_ref().map(|post| &post.row));
        let tenants: Vec<Option<Uuid>> = posts().map(|post| post.map(|post| post.tenant_id)).collect();
        let kinds: Vec<Option<String>> = posts().map(|post| post?.kind.clone()).collect();
        let wants = |item: &ClaimItem| item.request.context.is_some() && item.request.context == limits;
        let wants_context: Vec<bool> = items.iter().map(wants).collect();
        let ContextLimits { notes, prompt } = limits.unwrap_or_default();
        let rows = query_with_context!(
            r#"-- store::claim::read::candidates
            with i as materialized (
                select i.n, i.agentable_id, i.tenant_id, i.kind, i.tenant_id is not null as posts, i.wants_context,
                       exists (select from houston.workers w
                                where w.id = i.worker_id and w.alive_until > clock_timestamp()) as worker_is_alive
                  from unnest($1::uuid[], $2::uuid[], $20::uuid[], $21::text[], $22::boolean[])
                       with ordinality as i (agentable_id, worker_id, tenant_id, kind, wants_context, n))
            select i.n as "n!", i.worker_is_alive as "worker_is_alive!", i.posts as "posts!", k.version as "version!",
                   k.tenant_id, k.user_id, k.run_id, k.last_seq, k.crash_count, k.failed_attempts, k.wake, k.run_open,
                   k.unread as unread_count,
                   coalesce(k.next_attempt_at <= clock_timestamp(), true) as "is_due!", k.holder is not null as "is_held!",
                   k.next_attempt_at is not null as "has_time!", k.holder_is_alive as "holder_is_alive!",
                   cardinality(k.died_with) as "deaths!",
                   r.attempt as "attempt?", r.iterations as "iterations?", r.cancel_seq as "cancel_seq?",
                   r.traceparent as "traceparent?", r.submission as "submission?",
                   coalesce(r.created_at, clock_timestamp()) as "requested_at!", r.status as "status?",
                   array[r.input_tokens, r.output_tokens, r.cache_read_tokens, r.cache_write_tokens,
                         r.reasoning_tokens] as "usage?: Vec<Option<i64>>",
                   case when r.attempt > 0 then (
                        select json_build_array(e.content, e.metadata) from houston.messages e
                         where e.id = r.id and e.source = 'error' and not e.metadata ? 'resolved')
                        end as "error: Json<(String, Value)>",
                   a.kind, a.title, a.description, a.parent_id, a.team_id is not null as "has_team!",
                   s.look_at is not null as "is_scheduled!",
                   coalesce(s.last_number > s.reported_number, false) as "has_unreported!", s.close_reason as "close_reason?",
                   h.at as "last_entry_at?", h.position as "last_entry?",
                   u.slots as "slots!", case when u.others < $16 then $16 - u.others
                                             else houston.free_slots(k.user_id, k.agentable_id, $16) end as "free_slots!",
                   i.posts and exists (select from houston.run_locks o where o.user_id = k.user_id and o.wake)
                        as "user_waits!",
                   r.booked_tokens as "booked_tokens?",
                   case when $23 and a.parent_id is null and coalesce(r.attempt, 0) = 0 and r.booked_tokens is null then (
                        select array[extract(epoch from o.free_at - clock_timestamp()), o.per_run]::double precision[]
                          from houston.rates o where o.owner_id = k.user_id and o.name = 'tokens')
                        end as "tokens?: Vec<Option<f64>>",
                   m.unread as "unread: Json<Vec<Unread>>", x.context as "context: Json<Vec<ContextRow>>"
              from i
             cross join lateral (
                   select l.*, l.xmin::text as version,
                          exists (select from houston.workers w
                                   where w.id = l.holder and w.alive_until > clock_timestamp()) as holder_is_alive
                     from houston.run_locks l
                    where l.agentable_id = i.agentable_id and (i.tenant_id is null or l.tenant_id = i.tenant_id)) k
             cross join lateral (
                   select * from houston.agentables a
                    where a.id = k.agentable_id and (i.kind is null or a.kind = i.kind)) a
              left join lateral (select * from houston.runs r where r.id = k.run_id and not i.posts) r on true
              left join lateral (select * from houston.session_states s where s.agentable_id = k.agentable_id) s on true
              left join lateral (
                   select e.position,
                          case when e.epoch = 0 then greatest(e.created_at, a.created_at) else e.created_at end as at
                     from houston.history e
                    where e.agentable_id = k.agentable_id and e.position > k.session_position
                      and e.position <= k.last_position and a.kind = any ($19)
                      and (i.posts or e.run_id <> k.run_id and k.run_open and r.attempt = 0)
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
                                    order by c.seq limit $17 + 1) o) n
                    -- The second one shows that there are more, however long the first is.
                    where n.before <= $18 or n.nth = 2) m
              left join lateral (
                   select json_agg(json_build_object('what', p.what, 'place', p.place, 'text', p.text, 'id', p.id,
                                                     'content', p.content)
                                   order by p.what, p.place, p.text) as context
                     from (select k.agentable_id, r.id as run_id, k.session_position, k.last_position, k.user_id, a.tenant_id,
                                  a.kind, a.parent_id, a.depth, a.agent_id, a.team_id, a.tools, a.guards, a.untrusted
                            -- If the claim may succeed.
                            where i.wants_context and i.worker_is_alive and not k.holder_is_alive
                              and case when i.posts then not k.run_open and not k.wake else k.run_open end) i"#,
            ") x on true",
            [&agentables, &workers],
            notes,
            prompt,
            self.archiving.settings,
            self.reach,
            self.fairness.running(),
            self.fairness.messages(),
            i64::from(self.fairness.read_bytes),
            &self.archiving.kinds,
            &tenants as &[Option<Uuid>],
            &kinds as &[Option<String>],
            &wants_context,
            self.tokens.is_on()
        )
        .fetch_all(connection)
        .await?;
        let mut candidates: Vec<Option<Candidate>> = items.iter().map(|_| None).collect();
        for row in rows {
            let nth = usize::try_from(row.n).ok().and_then(|n| n.checked_sub(1));
            let Some((nth, item)) = nth.and_then(|nth| Some((nth, items.get(nth)?))) else { continue };
            let request = &item.request;
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
            let post = item.post.as_ref();
            let Some(run) = post.map(|post| post.row.run).or(row.run_id.map(RunId)) else { continue };
            let target = post.map(|_| PostTarget {
                run_open: row.run_open,
                is_held: row.is_held,
                is_awake: row.wake,
                user_waits: row.user_waits,
                has_team: row.has_team,
            });
            // What the message changes before the run is claimed.
            let seq = row.last_seq + 2;
            let unread = match post {
                Some(post) => vec![post.row.unread(seq)],
                None => row.unread.map_or_else(Vec::new, |unread| unread.0),
            };
            // All of them are missing without a run.
            let used: Vec<i64> = row.usage.unwrap_or_default().into_iter().flatten().collect();
            let (attempts, iterations) = (row.attempt.unwrap_or(0), row.iterations.unwrap_or(0));
            let (crash_count, failed_attempts) =
                if post.is_some() { (0, 0) } else { (row.crash_count, row.failed_attempts) };
            let context = row.context.and_then(|rows| {
                let mut reading = Reading::new((request.agentable, run), &prompt, &self.archiving.settings);
                // A context that cannot be decoded is read again by the run, which reports the error.
                rows.0.into_iter().try_for_each(|row| reading.take(row)).ok()?;
                Some(Box::new(reading.context()))
            });
            let is_counted = self.tokens.is_on() && row.parent_id.is_none() && row.booked_tokens.is_none();
            let admission = (is_counted && attempts == 0).then(|| {
                let tokens = row.tokens.unwrap_or_default();
                let at = |index: usize| tokens.get(index).copied().flatten();
                self.tokens.admit(at(0).unwrap_or(0.0), at(1))
            });
            let is_waiting = row.status.as_deref() == Some(RunStatus::Waiting.as_str());
            candidates[nth] = Some(Candidate {
                version: row.version,
                close_reason: row.close_reason,
                last_entry: row.last_entry,
                slots: row.slots,
                free_slots: row.free_slots,
                claimable: Claimable {
                    worker_is_alive: row.worker_is_alive,
                    holder,
                    run_open: row.run_open || post.is_some(),
                    is_due: row.is_due || post.is_some(),
                    deaths: usize::try_from(row.deaths).unwrap_or(0),
                    attempts,
                    cancel_requested: row.cancel_seq.is_some(),
                    is_awake: row.wake || post.is_some(),
                    is_waiting: is_waiting && !(row.has_time && row.is_due),
                    lacks_tokens: admission.is_some_and(|admission| admission.wait.is_some()),
                    unread,
                    unread_count: row.unread_count,
                    session,
                },
                admission,
                target,
                context,
                run: ClaimedRun {
                    fence: Fence { agentable: request.agentable, epoch: 0, token: request.token },
                    tenant: TenantId(row.tenant_id),
                    user: UserId(row.user_id),
                    kind: row.kind,
                    title: row.title,
                    description: row.description,
                    parent: row.parent_id.map(AgentableId),
                    run,
                    attempt: attempts + 1,
                    iterations,
                    deaths: 0,
                    is_given_up: false,
                    claims: crash_count + 1,
                    failed_attempts,
                    cancel_seq: row.cancel_seq,
                    usage: stored_usage(&used),
                    error: row.error.map(|Json((content, metadata))| {
                        let id = ErrorMessage::id_of(run);
                        ErrorMessage { id, content, metadata }
                    }),
                    next_message: request.next_message,
                    event: Committed {
                        seq: 0,
                        run_id: run,
                        at: DateTime::UNIX_EPOCH,
                        event: Event::AttemptStarted {
                            attempt: attempts + 1,
                            iteration: u32::try_from(iterations).unwrap_or(0) + 1,
                            next_message_id: request.next_message,
                            takeover: row.status.as_deref() == Some(RunStatus::Running.as_str()),
                            resumed: is_waiting,
                        },
                        body: None,
                    },
                    traceparent: post.map_or(row.traceparent, |post| post.row.traceparent.clone()),
                    posted: Vec::new(),
                    booked: admission.map(|admission| admission.tokens),
                    // One that this process cannot read is asked for anew.
                    submission: row.submission.and_then(|submission| serde_json::from_value(submission).ok()),
                    context: None,
                },
            });
        }
        Ok(candidates)
    }
}
