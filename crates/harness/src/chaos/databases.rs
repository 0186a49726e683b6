//! The databases of all cells, queried together.

use anyhow::{Context, Result};
use houston_testkit::servers::TestServers;
use houston_xtask::psql::Psql;

/// A client of the database of each cell, in the order of their shards.
#[derive(Debug, Clone)]
pub(crate) struct Databases(Vec<Psql>);

impl Databases {
    pub(crate) fn of(cells: &[TestServers]) -> Result<Self> {
        Ok(Self(cells.iter().map(Psql::of).collect::<Result<_>>()?))
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = &Psql> {
        self.0.iter()
    }

    /// The rows of all cells as text, one per line.
    pub(crate) fn rows(&self, sql: &str) -> Result<String> {
        let rows: Result<Vec<String>> = self.each().map(|psql| psql.query(sql)).collect();
        Ok(rows?.into_iter().filter(|rows| !rows.is_empty()).collect::<Vec<_>>().join("\n"))
    }

    /// The sum of a number over all cells.
    pub(crate) fn sum(&self, sql: &str) -> Result<i64> {
        let number = |psql: &Psql| psql.query(sql)?.parse::<i64>().context("the query returns no number");
        self.each().map(number).sum()
    }
}
