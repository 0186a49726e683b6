//! Counters and rows of Postgres, read through `psql`.

use anyhow::{Context, Result};
use houston_testkit::servers::TestServers;
use serde::Deserialize;

use houston_xtask::psql::Psql;

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
        let counts = query(
            servers,
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
    Ok(query(servers, &format!("select count(*) from {table}"))?.parse()?)
}

/// Milliseconds from storing a message to the claim of its run, by Postgres' clock, of the latest `runs` runs.
pub(crate) fn pick_up_times(servers: &TestServers, runs: usize) -> Result<Vec<f64>> {
    let times = query(
        servers,
        &format!(
            "select extract(epoch from started_at - created_at) * 1000 from houston.runs
              where started_at is not null order by created_at desc limit {runs}"
        ),
    )?;
    Ok(times.lines().filter_map(|time| time.parse().ok()).collect())
}

/// Executes one or more statements; returns the rows as text, one per line, with fields separated by `|`.
pub(crate) fn query(servers: &TestServers, sql: &str) -> Result<String> {
    Psql::of(servers)?.query(sql)
}
