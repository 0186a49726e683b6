//! Trying runs again: at once, what waits for its next attempt; and what has failed, with the message that it answered.

use houston_domain::agentable::DoubleTexting;
use houston_domain::id::{AgentableId, RunId};

use crate::error::{Error, Result};
use crate::handle::TenantStore;

/// What can be done with a run that an operator wants to be tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Retry {
    /// It waited for its next attempt, which is due now.
    Due {
        /// The agentable it runs for.
        agentable: AgentableId,
        /// Its kind.
        kind: String,
    },
    /// It has failed, and nothing has run since: this is what its user wrote last.
    Repeat {
        /// The agentable it ran for.
        agentable: AgentableId,
        /// Its kind.
        kind: String,
        /// The message to be posted again.
        content: String,
    },
    /// It was the run of a plan, which has failed: the plan is to be made again.
    MakeAgain {
        /// The plan.
        plan: AgentableId,
    },
    /// There is nothing to do, because of this.
    No(NoRetry),
}

/// Why a run cannot be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRetry {
    /// It is not due to be retried, and has not failed.
    NotFailed,
    /// The agentable has run since.
    Superseded,
    /// No message of a user began it.
    NoMessage,
}

impl NoRetry {
    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotFailed => "not_failed",
            Self::Superseded => "superseded",
            Self::NoMessage => "no_message",
        }
    }
}

/// Among how many of the latest messages of the thread the one that began the run is looked for.
pub(crate) const LATEST_MESSAGES: i64 = 1_000;

/// A message that is posted again opens a run, or is read by one that a user has opened meanwhile.
pub const DOUBLE_TEXTING: DoubleTexting = DoubleTexting::Enqueue;

impl TenantStore<'_> {
    /// Makes the next attempt of a run of the tenant due, if it waits for one. Of a failed run it returns what is to be posted again.
    pub async fn retry_run(self, id: RunId) -> Result<Retry> {
        let mut tx = self.pool.begin().await?;
        let run = sqlx::query!(
            r#"-- store::run_retry::lock
            select l.agentable_id, a.kind, r.status, l.run_id = r.id as "is_latest!",
                   l.holder is null and l.next_attempt_at > clock_timestamp() as "waits",
                   exists (select from houston.plans p where p.agentable_id = l.agentable_id) as "is_plan!"
              from houston.run_locks l join houston.runs r on r.agentable_id = l.agentable_id
              join houston.agentables a on a.id = l.agentable_id
             where r.tenant_id = $1 and a.tenant_id = $1 and r.id = $2 for no key update of l"#,
            self.tenant.0,
            id.0
        )
        .fetch_optional(&mut *tx)
        .await?
        .ok_or(Error::NotFound { what: "run" })?;
        let (agentable, kind) = (AgentableId(run.agentable_id), run.kind);
        match run.status.as_str() {
            "retrying" if run.is_latest && run.waits == Some(true) => {
                sqlx::query!(
                    "-- store::run_retry::due
                    update houston.run_locks l
                       set next_attempt_at = null, wake = true, woken_at = statement_timestamp()
                     where l.tenant_id = $1 and l.agentable_id = $2",
                    self.tenant.0,
                    agentable.0
                )
                .execute(&mut *tx)
                .await?;
                tx.commit().await?;
                Ok(Retry::Due { agentable, kind })
            }
            // So ends a plan that has run for too long at a stretch.
            "failed" | "dead_lettered" | "max_duration" if run.is_plan => match run.is_latest {
                true => Ok(Retry::MakeAgain { plan: agentable }),
                false => Ok(Retry::No(NoRetry::Superseded)),
            },
            "failed" | "dead_lettered" if !run.is_latest => Ok(Retry::No(NoRetry::Superseded)),
            "failed" | "dead_lettered" => {
                let last = sqlx::query_scalar!(
                    "-- store::run_retry::message
                    select m.content
                      from (select content, run_id, source, seq from houston.messages
                             where tenant_id = $1 and agentable_id = $2 order by seq desc limit $4) as m
                     where m.run_id = $3 and m.source = 'user' order by m.seq desc limit 1",
                    self.tenant.0,
                    agentable.0,
                    id.0,
                    LATEST_MESSAGES
                )
                .fetch_optional(&mut *tx)
                .await?;
                tx.commit().await?;
                let repeat = last.map(|content| Retry::Repeat { agentable, kind, content });
                Ok(repeat.unwrap_or(Retry::No(NoRetry::NoMessage)))
            }
            _ => Ok(Retry::No(NoRetry::NotFailed)),
        }
    }
}
