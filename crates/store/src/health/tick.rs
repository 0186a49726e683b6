//! Ticks of periodic jobs: each is claimed once across all replicas, by the database's clock.

use std::time::Duration;

use super::seconds;
use crate::error::Result;
use crate::handle::RunStore;

/// Which tick to claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tick {
    /// The tick closest to now: the caller's timer fired, a little early or late.
    Nearest,
    /// The latest tick, which may have been missed: the caller has just started.
    Latest,
}

impl RunStore {
    /// Claims a tick of `job`, whose period is `every`. Returns `false` when it was claimed before.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
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
