//! Counters and rows of Postgres, read through `psql`.

use std::time::Duration;

use anyhow::{Context, Result};
use houston_testkit::servers::TestServers;
use serde::Deserialize;

use super::spread::Spread;

/// Counters since the cluster was created.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct Counters {
    /// Transactions that wrote; only these wait for the disk.
    pub(crate) commits: u64,
    /// Size of the write-ahead log, in bytes.
    pub(crate) wal: u64,
    /// Size of Houston's tables and indexes, in bytes.
    pub(crate) stored: u64,
}

impl Counters {
    /// The current values. They are exact; the statistics views of Postgres lag behind.
    pub(crate) fn read(servers: &TestServers) -> Result<Self> {
        let counts = servers.sql(
            "select json_build_object(
                 'commits', pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
                 'wal', pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint,
                 'stored', (select sum(pg_total_relation_size(c.oid))::bigint
                              from pg_class c where c.relnamespace = 'houston'::regnamespace
                               and c.relkind = 'r'))",
        )?;
        serde_json::from_str(&counts).with_context(|| format!("psql answered {counts}"))
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            commits: self.commits - before.commits,
            wal: self.wal - before.wal,
            stored: self.stored.saturating_sub(before.stored),
        }
    }
}

impl std::iter::Sum for Counters {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self { commits: 0, wal: 0, stored: 0 }, |sum, one| Self {
            commits: sum.commits + one.commits,
            wal: sum.wal + one.wal,
            stored: sum.stored + one.stored,
        })
    }
}

/// Number of rows in `table`, which may include a condition: `houston.runs where status = 'running'`.
pub(crate) fn count(servers: &TestServers, table: &str) -> Result<u64> {
    Ok(servers.sql(&format!("select count(*) from {table}"))?.parse()?)
}

/// How long each of the latest `count` of these runs waited from its message to its claim, by Postgres' clock. `runs` is
/// a table with a condition.
pub(crate) fn pick_up_times(servers: &TestServers, runs: &str, count: u64) -> Result<Spread> {
    let times = servers.sql(&format!(
        "select extract(epoch from started_at - created_at) from {runs} order by created_at desc limit {count}"
    ))?;
    let times = times.lines().filter_map(|time| time.parse::<f64>().ok());
    Ok(Spread::of(times.map(|seconds| Duration::from_secs_f64(seconds.max(0.0)))))
}
