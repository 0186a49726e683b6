//! Claiming a run: the only way to get an epoch, and with it the right to write.

use std::time::Duration;

use chrono::{DateTime, Utc};
use houston_domain::error_message::ErrorMessage;
use houston_domain::event::{Committed, Event};
use houston_domain::id::{AgentableId, MessageId, RunId, RunToken, TenantId, UserId, WorkerId};
use houston_domain::model::Usage;
use serde_json::Value;

use crate::error::Result;
use crate::pool::Store;

/// The right to write for one agentable; worthless once another has claimed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    /// Of which agentable.
    pub agentable: AgentableId,
    /// Counts its claims.
    pub epoch: i64,
    /// Random, because an asynchronous failover can hand out the same epoch twice.
    pub token: RunToken,
}

/// When a message is given up because workers die with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crashes {
    /// Deaths in a row, without a committed step between.
    pub max: i32,
    /// How long the last of them may turn out to be none.
    pub doubt: Duration,
}

impl Default for Crashes {
    fn default() -> Self {
        Self { max: 3, doubt: Duration::from_secs(5) }
    }
}

/// A run that was claimed.
#[derive(Debug, Clone)]
pub struct Claimed {
    /// The right to write.
    pub fence: Fence,
    /// Whose agentable it is.
    pub tenant: TenantId,
    /// Who the agent works for.
    pub user: UserId,
    /// The agent type's name.
    pub kind: String,
    /// The agentable's title.
    pub title: String,
    /// What it is about.
    pub description: String,
    /// The agentable it works for, of a sub-agent.
    pub parent: Option<AgentableId>,
    /// The run.
    pub run: RunId,
    /// Which attempt this is, from 1.
    pub attempt: i32,
    /// Iterations committed by earlier attempts.
    pub iterations: i32,
    /// How many workers died with it in a row, without a committed step between.
    pub deaths: i32,
    /// How many claims in a row, this one included, have not committed a step yet.
    pub claims: i32,
    /// How many attempts failed.
    pub failed_attempts: i32,
    /// Where the stream stood when somebody asked to cancel the run.
    pub cancel_seq: Option<i64>,
    /// Tokens used by earlier attempts.
    pub usage: Usage,
    /// Its error message, while that tells of a failure nothing has settled yet.
    pub error: Option<ErrorMessage>,
    /// The id a message of the first iteration will have.
    pub next_message: MessageId,
    /// The event that was committed with the claim.
    pub event: Committed,
}

impl Store {
    /// Claims the open run of `agentable`, reads its unread messages into the history when it is new, and
    /// commits the event of the attempt. `None` when another worker holds it, when nothing is open, when the
    /// next attempt is not due, or when as many runs of its user are held as may be; when one more death would be the
    /// last, while `worker` drives another of which that is true: each of them is driven without the others, so that
    /// the one to blame shows; and when it is to be given up and that is still in doubt.
    ///
    /// A run that begins after [`Archiving`](crate::Archiving)'s quiet closes the session before it, which takes its
    /// id from `next_message`; the stream is told of it after the returned event.
    ///
    /// # Errors
    /// What the database says.
    pub async fn claim_run(
        &self,
        agentable: AgentableId,
        worker: WorkerId,
        token: RunToken,
        next_message: MessageId,
        crashes: Crashes,
    ) -> Result<Option<Claimed>> {
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
            crashes.doubt.as_secs_f64(),
            &self.archiving.kinds,
            self.archiving.settings.quiet().as_secs_f64()
        )
        .fetch_optional(&self.pool)
        .await?;
        Ok(row.map(|row| Claimed {
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

/// The error message of a run, if it has one that nothing has settled.
fn unsettled(run: RunId, content: Option<String>, metadata: Option<Value>) -> Option<ErrorMessage> {
    let id = ErrorMessage::id_of(run);
    content.zip(metadata).map(|(content, metadata)| ErrorMessage { id, content, metadata })
}

/// Tokens as the database keeps them: in, out, cache read, cache write, reasoning.
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
