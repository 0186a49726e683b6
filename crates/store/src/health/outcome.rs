//! How runs ended of late.

use std::time::Duration;

use super::seconds;
use crate::error::Result;
use crate::pool::Store;

/// The latest runs, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcomes {
    /// How many were looked at.
    pub ended: i64,
    /// Those of them that failed.
    pub failed: i64,
}

impl Store {
    /// How runs ended within `window`: of the latest `sample` at most.
    ///
    /// # Errors
    /// What the database says.
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

    /// Messages given up within `window`, because they took their worker down again and again.
    ///
    /// # Errors
    /// What the database says.
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
