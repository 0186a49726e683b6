//! Counters and rows of Postgres, read through `psql`.

use anyhow::{Context, Result};
use houston_testkit::servers::TestServers;
use serde::Deserialize;

/// Counters since the cluster was created.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
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

    /// What `of` makes of each counter and that of `other`.
    pub(crate) fn with(self, other: Self, of: fn(u64, u64) -> u64) -> Self {
        Self {
            commits: of(self.commits, other.commits),
            wal: of(self.wal, other.wal),
            stored: of(self.stored, other.stored),
        }
    }
}

/// Number of rows in `table`, which may include a condition: `houston.runs where status = 'running'`.
pub(crate) fn count(servers: &TestServers, table: &str) -> Result<u64> {
    Ok(servers.sql(&format!("select count(*) from {table}"))?.parse()?)
}
