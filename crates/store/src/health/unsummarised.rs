//! Closed sessions whose summary is overdue.

use std::time::Duration;

use houston_domain::id::SessionId;

use super::seconds;
use crate::error::Result;
use crate::handle::RunStore;

/// How many of the waiting sessions are examined; a longer queue is late in any case.
const LOOKED_AT: i64 = 5000;

/// Closed sessions whose summary is overdue and that no worker is writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LateSummaries {
    /// Number of sessions, counted among at most 5,000 waiting ones.
    pub sessions: i64,
    /// How long ago the oldest of them was closed, in seconds; 0 when there is none.
    pub waited_s: i64,
}

impl RunStore {
    /// Closed sessions that have waited for their summary for longer than `after` and that no worker is writing.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn late_summaries(&self, after: Duration) -> Result<LateSummaries> {
        let row = sqlx::query!(
            r#"-- store::health::unsummarised::late
            select count(*) as "sessions!",
                   coalesce(extract(epoch from clock_timestamp() - min(d.closed_at)), 0)::bigint as "waited_s!"
              from (select closed_at from houston.sessions where summary_due_at <= now()
                     order by summary_due_at limit $2) as d
             where d.closed_at < now() - make_interval(secs => $1)"#,
            seconds(after),
            LOOKED_AT
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(LateSummaries { sessions: row.sessions, waited_s: row.waited_s })
    }

    /// Makes the extract the final summary of sessions whose summary was started `attempts` times and never
    /// written, at most `batch`. From then on a search finds them by the extract; their messages and tokens stay
    /// uncounted.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn accept_extracts(&self, attempts: i32, batch: i64) -> Result<Vec<SessionId>> {
        let settled = sqlx::query_scalar!(
            "-- store::health::unsummarised::settle
            update houston.sessions s
               set summary_due_at = null, search = houston.session_vector(s.agentable_id, s.summary, '')
              from (select u.id from houston.sessions u where u.summary_due_at <= now() and u.summary_attempts >= $1
                     order by u.summary_due_at limit $2 for no key update skip locked) given_up
             where s.id = given_up.id
            returning s.id",
            attempts,
            batch
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(settled.into_iter().map(SessionId).collect())
    }
}
