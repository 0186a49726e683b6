//! The queues, for metrics: how many agentables of each kind wait, and for how long.

use crate::error::Result;
use crate::handle::RunStore;

/// Agentables that are counted in one state. A longer queue is too long in any case.
const COUNTED: i64 = 10_000;

/// The agentables of one kind in one state.
#[derive(Debug, Clone, PartialEq)]
pub struct KindDepth {
    /// Their kind.
    pub kind: String,
    /// What they do.
    pub state: QueueState,
    /// How many they are.
    pub agentables: i64,
    /// Seconds for which the first of them has been in this state.
    pub oldest_s: f64,
}

/// What agentables of a queue do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueState {
    /// They wait for a worker, or for the turn of their user.
    Ready,
    /// They wait for the time of their next attempt.
    Retrying,
    /// A worker drives their run.
    Running,
}

impl RunStore {
    /// The queues of all tenants, counted up to 10,000 agentables that wait and as many that run.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn queues(&self) -> Result<Vec<KindDepth>> {
        let rows = sqlx::query!(
            r#"-- store::health::queues::queues
            select a.kind, s.is_running as "is_running!", s.is_due as "is_due!", count(*) as "agentables!",
                   extract(epoch from clock_timestamp() - min(s.since))::float8 as "oldest_s!"
              from ((select l.agentable_id, false as is_running,
                            l.next_attempt_at is null or l.next_attempt_at <= clock_timestamp() as is_due,
                            greatest(l.due_at, l.woken_at) as since
                       from houston.run_locks l where l.wake and l.run_open and l.holder is null limit $1)
                    union all
                    (select r.agentable_id, true, true, coalesce(r.started_at, r.created_at)
                       from houston.runs r where r.status = 'running' limit $1)) as s
              join houston.agentables a on a.id = s.agentable_id
             group by a.kind, s.is_running, s.is_due"#,
            COUNTED
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| KindDepth {
                state: match (row.is_running, row.is_due) {
                    (true, _) => QueueState::Running,
                    (false, true) => QueueState::Ready,
                    (false, false) => QueueState::Retrying,
                },
                kind: row.kind,
                agentables: row.agentables,
                oldest_s: row.oldest_s,
            })
            .collect())
    }
}
