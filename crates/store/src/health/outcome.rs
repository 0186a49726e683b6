//! How recent runs ended.

use std::time::Duration;

use super::seconds;
use crate::error::Result;
use crate::handle::RunStore;

/// The latest runs, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcomes {
    /// Number of runs that were counted.
    pub ended: i64,
    /// How many of them failed.
    pub failed: i64,
}

impl RunStore {
    /// Counts the runs that ended within `window`: at most the latest `sample`.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn outcomes(&self, window: Duration, sample: i64) -> Result<Outcomes> {
        let row = sqlx::query!(
            r#"-- store::health::outcome::count
            select count(*) as "ended!",
                   count(*) filter (where r.status in ('failed', 'dead_lettered')) as "failed!"
              from (select status from houston.runs
                     where ended_at > now() - make_interval(secs => $1)
                     order by ended_at desc limit $2) as r"#,
            seconds(window),
            sample
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(Outcomes { ended: row.ended, failed: row.failed })
    }

    /// Counts the messages given up within `window` because their workers died repeatedly (dead letters).
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn dead_letters(&self, window: Duration) -> Result<i64> {
        let count = sqlx::query_scalar!(
            r#"-- store::health::outcome::dead_letters
            select count(*) as "count!" from houston.runs
             where ended_at > now() - make_interval(secs => $1) and status = 'dead_lettered'"#,
            seconds(window)
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(count)
    }
}
