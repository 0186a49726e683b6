//! Closed sessions whose summary nobody writes.

use std::time::Duration;

use houston_domain::id::SessionId;

use super::seconds;
use crate::error::Result;
use crate::pool::Store;

/// How many of those that wait are looked at: more are late anyhow.
const LOOKED_AT: i64 = 5000;

/// Sessions that wait for their summary in nobody's hands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unwritten {
    /// How many, of 5,000 that wait at most.
    pub sessions: i64,
    /// How long ago the oldest of them was closed, in seconds; 0 when there is none.
    pub waited_s: i64,
}

impl Store {
    /// Closed sessions that have waited for their summary for longer than `after`, and that nobody is working on.
    ///
    /// # Errors
    /// What the database says.
    pub async fn unwritten_summaries(&self, after: Duration) -> Result<Unwritten> {
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
        Ok(Unwritten { sessions: row.sessions, waited_s: row.waited_s })
    }

    /// Lets the extract stand as the summary of sessions that somebody has begun with `attempts` times and never
    /// written, `batch` at most: whatever is wrong with them, it is the last that can be had. They are found by it from
    /// then on; their messages and tokens stay uncounted.
    ///
    /// # Errors
    /// What the database says.
    pub async fn settle_summaries(&self, attempts: i32, batch: i64) -> Result<Vec<SessionId>> {
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
