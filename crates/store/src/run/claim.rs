//! Claiming a run: taking the lock of an agentable under a new epoch and token. The session before it is closed if
//! it is over, and closed ones are reported in the event stream.

mod alone;
pub(crate) mod batch;
mod read;

use std::time::Duration;

use chrono::{DateTime, Utc};
use houston_domain::claim::Turn;
use houston_domain::death::Verdict;
use houston_domain::error_message::ErrorMessage;
use houston_domain::event::{Committed, Event};
use houston_domain::id::{AgentableId, MessageId, RunId, RunToken, SessionId, TenantId, UserId, WorkerId};
use houston_domain::model::Usage;
use houston_domain::session::CompletionReason;
use houston_domain::submission::Submission;
use sqlx::PgConnection;
use sqlx::types::Json;

use self::batch::{Claims, Outcome};
use crate::error::Result;
use crate::handle::RunStore;
use crate::run_context::{ContextLimits, RunContext};
use crate::session::fold;
use crate::statement::Statement as _;

/// Permission to write for one agentable, valid until the next claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    /// The agentable whose lock is held.
    pub agentable: AgentableId,
    /// Counts the claims of the agentable.
    pub epoch: i64,
    /// Random token, because a failover to an asynchronous replica can hand out the same epoch twice.
    pub token: RunToken,
}

/// When a run is given up because its workers die (`dead_lettered`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrashPolicy {
    /// Consecutive worker deaths without a committed step after which the run is given up, if no other run that died with
    /// these workers can be the cause.
    pub max: i32,
    /// How long to wait before giving up, in case the worker that seemed to have died is still alive.
    pub grace: Duration,
    /// How long the run waits for other runs that died with its workers, since its last death was noticed. Then it is tried
    /// once more.
    pub patience: Duration,
}

impl Default for CrashPolicy {
    fn default() -> Self {
        Self { max: 3, grace: Duration::from_secs(5), patience: Duration::from_secs(6) }
    }
}

impl CrashPolicy {
    pub(crate) fn limit(self) -> usize {
        usize::try_from(self.max).unwrap_or(0)
    }
}

/// What decides about a run that enough workers died with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trial {
    /// Which other runs died with the same workers: no process can try it alone.
    #[default]
    None,
    /// A process that tries it alone: it is not claimed, and the answer is [`Claim::Accused`].
    Possible,
    /// What that process has shown; [`Verdict::Try`] when it claims itself.
    Shown(Verdict),
}

impl Trial {
    fn verdict(self) -> Option<Verdict> {
        match self {
            Self::None | Self::Possible => None,
            Self::Shown(verdict) => Some(verdict),
        }
    }
}

/// A request of a worker for a run.
#[derive(Debug, Clone, Copy)]
pub struct ClaimRequest {
    /// The agentable whose open run is claimed.
    pub agentable: AgentableId,
    /// The worker that will hold its lock.
    pub worker: WorkerId,
    /// A new random token.
    pub token: RunToken,
    /// The id that a message of the first iteration will have.
    pub next_message: MessageId,
    /// When the run is given up.
    pub crashes: CrashPolicy,
    /// What decides then.
    pub trial: Trial,
    /// What of the run's context is read with the claim; `None`: nothing.
    pub context: Option<ContextLimits>,
}

/// A claimed run.
#[derive(Debug, Clone)]
pub struct ClaimedRun {
    /// The permission to write.
    pub fence: Fence,
    /// The tenant of the agentable.
    pub tenant: TenantId,
    /// The user the agent works for.
    pub user: UserId,
    /// The agentable's kind.
    pub kind: String,
    /// The agentable's title.
    pub title: String,
    /// The agentable's description.
    pub description: String,
    /// The agentable that created this one, for a task.
    pub parent: Option<AgentableId>,
    /// The claimed run.
    pub run: RunId,
    /// Number of this attempt, from 1.
    pub attempt: i32,
    /// Iterations committed by earlier attempts.
    pub iterations: i32,
    /// Consecutive worker deaths during this run, without a committed step between them.
    pub deaths: i32,
    /// Whether the run was claimed to be given up, because it kills its workers.
    pub is_given_up: bool,
    /// Consecutive claims without a committed step, including this one.
    pub claims: i32,
    /// Number of failed attempts so far.
    pub failed_attempts: i32,
    /// The `seq` of the newest event at the time when the cancel was requested; `None`: it was not.
    pub cancel_seq: Option<i64>,
    /// Tokens used by earlier attempts.
    pub usage: Usage,
    /// The thread's error message for this run, while the failure it reports has not been resolved.
    pub error: Option<ErrorMessage>,
    /// The message id reserved for the first iteration.
    pub next_message: MessageId,
    /// The `AttemptStarted` event, committed with the claim.
    pub event: Committed,
    /// The events before it of the same commit: those of a message that was posted by it.
    pub posted: Vec<Committed>,
    /// The tokens of the user's limit with which it was admitted: to be counted now ([`RunStore::book_tokens`]).
    pub booked: Option<i64>,
    /// Where the run belongs in a trace: a `traceparent`.
    pub traceparent: Option<String>,
    /// The model call that it has submitted last: the answer may have come since.
    pub submission: Option<Box<Submission>>,
    /// What the run starts from, if it was asked for and could be read together with the claim.
    pub context: Option<Box<RunContext>>,
}

/// A run that waits because the user's limit of tokens is used up.
#[derive(Debug, Clone)]
pub struct PutOff {
    /// The kind of its agentable.
    pub kind: String,
    /// When it may be claimed.
    pub until: DateTime<Utc>,
    /// For how long that is.
    pub wait: Duration,
    /// The `RateLimited` event, committed with that.
    pub event: Committed,
}

/// The answer to a request for a run.
#[derive(Debug, Clone)]
pub enum Claim {
    /// The run is claimed.
    Run(Box<ClaimedRun>),
    /// It waits until a time.
    PutOff(Box<PutOff>),
    /// So many workers died with it that a process must try it alone.
    Accused,
    /// It must wait, because workers died with it.
    Postponed {
        /// The kind of its agentable.
        kind: String,
        /// The time until it may be claimed.
        wait: Duration,
    },
    /// There is nothing to claim.
    Nothing,
}

impl RunStore {
    /// Claims the open run of an agentable. In the same statement the unread messages become the first
    /// history entry of a new run, and the event of the attempt is committed. A first attempt also closes the
    /// previous session if it has been quiet for longer than [`Archiving`](crate::Archiving) allows; that session
    /// gets the id `next_message`, and its event follows the returned one.
    ///
    /// A first attempt is put off while the user's limit of tokens is used up: it waits until a time that is committed, with its
    /// event, and is then admitted.
    ///
    /// Nothing is claimed, or it is postponed, when
    /// - another worker holds the lock, no run is open, or the next attempt is not due yet;
    /// - the user already has [`Fairness::max_running`](crate::Fairness::max_running) held runs;
    /// - one more death would reach `crashes.max` while the worker drives another run of which that is true: such
    ///   runs are driven one at a time, so that it becomes clear which one kills its worker;
    /// - `crashes.max` workers died with the run, but `crashes.grace` has not passed yet; or it must be tried alone first; or,
    ///   where no process can do that, another run that died with one of them may be the cause (see
    ///   [`houston_domain::death`]).
    pub async fn claim(&self, request: ClaimRequest) -> Result<Claim> {
        if !self.is_unbatched {
            match self.batchers.claims.submit(request.into()).await {
                Some(Outcome::Claimed(run)) => return Ok(Claim::Run(run)),
                Some(Outcome::Refused | Outcome::Started(_)) => return Ok(Claim::Nothing),
                Some(Outcome::Alone) => {}
                // The batch may have been committed.
                None => self.abandon(request.agentable, request.token, false).await?,
            }
        }
        Box::pin(self.claim_alone(request)).await
    }
}

impl Claims {
    /// Writes the turn of a run that was claimed in the same transaction. `last`: the position of the last entry of the open
    /// session, if it has one; `requested`: the reason of a request to close that.
    async fn turn(
        &self,
        connection: &mut PgConnection,
        run: &ClaimedRun,
        turn: Turn,
        last: Option<i64>,
        requested: Option<&str>,
    ) -> Result<()> {
        if let (true, Some(last)) = (turn.closes, last) {
            let requested = requested.map(|name| CompletionReason::from_name(name).unwrap_or_default());
            let reason = requested.unwrap_or(CompletionReason::SessionTimeout);
            fold(connection, run.fence.agentable, last, reason, SessionId(run.next_message.0)).await?;
        }
        if turn.schedules {
            sqlx::query!(
                "-- store::claim::turn::schedule
                insert into houston.session_states as s (agentable_id, tenant_id, look_at)
                values ($1, $2, clock_timestamp() + make_interval(secs => $3))
                on conflict (agentable_id) do update set look_at = excluded.look_at, close_reason = null",
                run.fence.agentable.0,
                run.tenant.0,
                self.archiving.settings.quiet().as_secs_f64()
            )
            .execute(&mut *connection)
            .await?;
        }
        if turn.reports { report(connection, run).await } else { Ok(()) }
    }
}

/// Writes the events of the closed sessions that were not reported yet, after the event of the attempt.
async fn report(connection: &mut PgConnection, run: &ClaimedRun) -> Result<()> {
    let rows = sqlx::query!(
        "-- store::claim::turn::unreported
        select c.id, c.number, c.completion_reason, c.started_at, c.completed_at
          from houston.session_states s
          join houston.sessions c on c.agentable_id = s.agentable_id and c.number > s.reported_number
         where s.agentable_id = $1 order by c.number",
        run.fence.agentable.0
    )
    .fetch_all(&mut *connection)
    .await?;
    let events: Vec<Json<Event>> = rows
        .into_iter()
        .map(|row| {
            Json(Event::SessionArchived {
                session_id: SessionId(row.id),
                number: i64::from(row.number),
                reason: CompletionReason::from_name(&row.completion_reason).unwrap_or_default(),
                started_at: row.started_at,
                completed_at: row.completed_at,
            })
        })
        .collect();
    sqlx::query!(
        "-- store::claim::turn::report
        with locks as (
            update houston.run_locks set last_seq = $4::bigint + cardinality($5::jsonb[]) where agentable_id = $1),
        reported as (
            update houston.session_states set reported_number = last_number where agentable_id = $1)
        insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, data)
        select $1, $4::bigint + e.nth, $2, $3, $6, e.data from unnest($5::jsonb[]) with ordinality as e (data, nth)",
        run.fence.agentable.0,
        run.tenant.0,
        run.run.0,
        run.event.seq,
        &events as &[Json<Event>],
        run.fence.epoch
    )
    .run(connection)
    .await
}
