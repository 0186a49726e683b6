//! The databases of all cells, queried together.

use anyhow::{Context, Result};
use houston_testkit::psql::Psql;
use houston_testkit::servers::TestServers;
use parking_lot::Mutex;

/// A client of the database of each cell, in the order of their shards.
#[derive(Debug)]
pub(crate) struct Databases(Mutex<Vec<Psql>>);

impl Databases {
    pub(crate) fn of(cells: &[TestServers]) -> Self {
        Self(Mutex::new(cells.iter().map(TestServers::psql).collect()))
    }

    /// Asks this server from now on, which has replaced that of the only cell.
    pub(crate) fn replace(&self, server: Psql) {
        *self.0.lock() = vec![server];
    }

    /// The rows of all cells as text, one per line.
    pub(crate) fn rows(&self, sql: &str) -> Result<String> {
        let cells = self.0.lock().clone();
        let rows: std::io::Result<Vec<String>> = cells.iter().map(|psql| psql.run(sql)).collect();
        Ok(rows?.into_iter().filter(|rows| !rows.is_empty()).collect::<Vec<_>>().join("\n"))
    }

    /// The sum of a number over all cells.
    pub(crate) fn sum(&self, sql: &str) -> Result<i64> {
        let number = |psql: &Psql| psql.run(sql)?.parse::<i64>().context("the query returns no number");
        let cells = self.0.lock().clone();
        cells.iter().map(number).sum()
    }
}
