//! Claiming a run: taking the lock of an agentable under a new epoch and token.

use std::time::Duration;

use chrono::{DateTime, Utc};
use houston_domain::error_message::ErrorMessage;
use houston_domain::event::{Committed, Event};
use houston_domain::id::{AgentableId, MessageId, RunId, RunToken, TenantId, UserId, WorkerId};
use houston_domain::model::Usage;
use serde_json::Value;

use crate::claim::batch::{ClaimRequest, Outcome};
use crate::error::Result;
use crate::pool::Store;

pub(crate) mod batch;

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
    /// Consecutive worker deaths without a committed step after which the run is given up.
    pub max: i32,
    /// How long to wait before giving up, in case the worker that seemed to have died is still alive.
    pub grace: Duration,
}

impl Default for CrashPolicy {
    fn default() -> Self {
        Self { max: 3, grace: Duration::from_secs(5) }
    }
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
}

impl Store {
    /// Claims the open run of `agentable` for `worker`. In the same statement the unread messages become the first
    /// history entry of a new run, and the event of the attempt is committed. A first attempt also closes the
    /// previous session if it has been quiet for longer than [`Archiving`](crate::Archiving) allows; that session
    /// gets the id `next_message`, and its event follows the returned one.
    ///
    /// Returns `None` when
    /// - another worker holds the lock, no run is open, or the next attempt is not due yet;
    /// - the user already has [`Fairness::max_running`](crate::Fairness::max_running) held runs;
    /// - one more death would reach `crashes.max` while `worker` drives another run of which that is true: such
    ///   runs are driven one at a time, so that it becomes clear which one kills its worker;
    /// - the run is to be given up, but `crashes.grace` has not passed yet.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn claim_run(
        &self,
        agentable: AgentableId,
        worker: WorkerId,
        token: RunToken,
        next_message: MessageId,
        crashes: CrashPolicy,
    ) -> Result<Option<ClaimedRun>> {
        let request = ClaimRequest { agentable, worker, token, next_message };
        match self.claim_in_batch(request).await {
            Some(Outcome::Claimed(run)) => return Ok(Some(*run)),
            Some(Outcome::Refused) => return Ok(None),
            Some(Outcome::Alone) => {}
            // The batch may have been committed.
            None => self.abandon(agentable, token, false).await?,
        }
        self.claim_alone(request, crashes).await
    }

    async fn claim_alone(
        &self,
        ClaimRequest { agentable, worker, token, next_message }: ClaimRequest,
        crashes: CrashPolicy,
    ) -> Result<Option<ClaimedRun>> {
        let row = sqlx::query!(
            r#"-- store::claim::run
            select epoch as "epoch!", tenant_id as "tenant_id!", user_id as "user_id!", kind as "kind!",
                   title as "title!", description as "description!", parent_id, run_id as "run_id!",
                   attempt as "attempt!", iterations as "iterations!", deaths as "deaths!",
                   claims as "claims!", failed_attempts as "failed_attempts!", cancel_seq, usage as "usage!", seq as "seq!", at as "at!: DateTime<Utc>",
                   takeover as "takeover!", error_content, error_metadata,
                   case when attempt = 1 and kind = any ($10)
                        then houston.turn_session($1, run_id, make_interval(secs => $11), $4) end as told
              from houston.claim_run($1, $2, $3, $4, $5, $6, $7, $8,
                   make_interval(secs => $9))"#,
            agentable.0,
            worker.0,
            token.0,
            next_message.0,
            self.fairness.running(),
            self.fairness.messages(),
            self.fairness.bytes(),
            crashes.max,
            crashes.grace.as_secs_f64(),
            &self.archiving.kinds,
            self.archiving.settings.quiet().as_secs_f64()
        )
        .fetch_optional(&self.pool)
        .await?;
        Ok(row.map(|row| ClaimedRun {
            fence: Fence { agentable, epoch: row.epoch, token },
            tenant: TenantId(row.tenant_id),
            user: UserId(row.user_id),
            kind: row.kind,
            title: row.title,
            description: row.description,
            parent: row.parent_id.map(AgentableId),
            run: RunId(row.run_id),
            attempt: row.attempt,
            iterations: row.iterations,
            deaths: row.deaths,
            claims: row.claims,
            failed_attempts: row.failed_attempts,
            cancel_seq: row.cancel_seq,
            usage: usage(&row.usage),
            error: unsettled(RunId(row.run_id), row.error_content, row.error_metadata),
            next_message,
            event: Committed {
                seq: row.seq,
                run_id: RunId(row.run_id),
                at: row.at,
                event: Event::AttemptStarted {
                    attempt: row.attempt,
                    iteration: u32::try_from(row.iterations).unwrap_or(0) + 1,
                    next_message_id: next_message,
                    takeover: row.takeover,
                },
                body: None,
            },
        }))
    }
}

/// The error message of a run, unless the failure it reports has been resolved.
fn unsettled(run: RunId, content: Option<String>, metadata: Option<Value>) -> Option<ErrorMessage> {
    let id = ErrorMessage::id_of(run);
    content.zip(metadata).map(|(content, metadata)| ErrorMessage { id, content, metadata })
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
