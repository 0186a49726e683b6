//! Ticks of periodic jobs: one across all replicas, by the database's clock.

use std::time::Duration;

use super::seconds;
use crate::error::Result;
use crate::pool::Store;

/// Which tick the caller means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tick {
    /// The one that is due about now: the caller's timer rang, a little early or late.
    Nearest,
    /// The latest one, which may have been missed: the caller has just started.
    Latest,
}

impl Store {
    /// Claims a tick of `job`, which has one `every` so long. `false`: somebody has it already.
    ///
    /// # Errors
    /// What the database says.
    pub async fn claim_tick(&self, job: &str, every: Duration, tick: Tick) -> Result<bool> {
        let ahead = match tick {
            Tick::Nearest => every / 2,
            Tick::Latest => Duration::ZERO,
        };
        let claimed = sqlx::query!(
            "-- store::health::tick::claim
            insert into houston.cron_ticks as t (job, tick)
            values ($1, date_bin(make_interval(secs => $2), clock_timestamp() + make_interval(secs => $3),
                                 'epoch'::timestamptz))
            on conflict (job) do update set tick = excluded.tick where t.tick < excluded.tick",
            job,
            seconds(every),
            seconds(ahead)
        )
        .execute(&self.pool)
        .await?;
        Ok(claimed.rows_affected() == 1)
    }
}
