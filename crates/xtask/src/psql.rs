//! Queries Postgres with `psql`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use houston_testkit::servers::TestServers;

use crate::child::output;
use crate::{programs, repository};

/// A client that works across restarts of the server: each query uses a new connection.
#[derive(Debug, Clone)]
pub struct Psql {
    program: PathBuf,
    url: String,
}

impl Psql {
    /// A client of these servers.
    pub fn of(servers: &TestServers) -> Result<Self> {
        Ok(Self { program: program(servers, "psql")?, url: servers.database_url().to_owned() })
    }

    /// Executes one or more statements; returns the rows as text, one per line, with fields separated by `|`.
    pub fn query(&self, sql: &str) -> Result<String> {
        let mut psql = Command::new(&self.program);
        psql.args(["--no-psqlrc", "--tuples-only", "--no-align", "--quiet", "-v", "ON_ERROR_STOP=1"]);
        psql.args(["--dbname", &self.url, "--command", sql]);
        Ok(output(&mut psql)?.trim().to_owned())
    }
}

/// Applies the migrations of this repository to an empty database.
pub fn migrate(servers: &TestServers) -> Result<()> {
    let psql = Psql::of(servers)?;
    psql.query("create schema houston")?;
    let mut files: Vec<_> = std::fs::read_dir(repository::root().join("migrations"))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    files.sort();
    for file in files {
        psql.query(&std::fs::read_to_string(&file)?)
            .with_context(|| format!("the migration {} failed", file.display()))?;
    }
    Ok(())
}

/// The path of a client program: beside the running Postgres, else on `PATH`.
pub fn program(servers: &TestServers, name: &str) -> Result<PathBuf> {
    let postgres = servers.postgres_pid().and_then(|pid| programs::program_of(pid).ok());
    let beside = postgres.and_then(|postgres| Some(postgres.parent()?.join(name)));
    let found = beside.filter(|program| program.is_file()).or_else(|| programs::find(name));
    found.with_context(|| format!("`{name}` is neither beside this Postgres nor on PATH"))
}
