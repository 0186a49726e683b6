//! The queries of the health monitor, one file for each subject; here the ticks of periodic jobs, each of which is claimed once
//! across all replicas by the database's clock, and the clock, connections and disk of the database server.
//!
//! Each sweep here is one statement (or one short transaction) that locks at most a batch of rows with `skip
//! locked` and changes them only if they still meet its condition. So it may be repeated, run from any number of
//! monitors at once, or be killed in the middle. None writes history: a run that is to end is marked, and the
//! engine ends it.
//!
//! Ages are measured from `now()`, the start of the transaction: `clock_timestamp()` is volatile, and no index
//! supports a comparison with it.

pub mod check;
pub mod retention;
pub mod run;
pub mod waiting;

use std::time::Duration;

use chrono::{DateTime, Utc};

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
            every.as_secs_f64(),
            ahead.as_secs_f64()
        )
        .execute(&self.pool)
        .await?;
        Ok(claimed.rows_affected() == 1)
    }
}

/// Connections of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connections {
    /// Connections in use, by any client.
    pub taken: i64,
    /// Maximum number of client connections.
    pub most: i64,
}

impl RunStore {
    /// The database's clock.
    pub async fn time(&self) -> Result<DateTime<Utc>> {
        let now = sqlx::query_scalar!(
            r#"-- store::health::server::time
            select clock_timestamp() as "now!""#
        );
        Ok(now.fetch_one(&self.pool).await?)
    }

    /// The number of client connections, and their maximum.
    pub async fn connections(&self) -> Result<Connections> {
        let row = sqlx::query_as!(
            Connections,
            r#"-- store::health::server::connections
            select (select count(*) from pg_stat_activity where backend_type = 'client backend') as "taken!",
                   current_setting('max_connections')::bigint
                       - current_setting('superuser_reserved_connections')::bigint as "most!""#
        );
        Ok(row.fetch_one(&self.pool).await?)
    }

    /// The bytes of the database on disk, with what is free in its files.
    pub async fn database_bytes(&self) -> Result<i64> {
        let bytes = sqlx::query_scalar!(
            r#"-- store::health::server::database_bytes
            select pg_database_size(current_database()) as "bytes!""#
        );
        Ok(bytes.fetch_one(&self.pool).await?)
    }
}
