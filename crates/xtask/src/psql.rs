//! Queries Postgres with `psql`.

use std::path::{Path, PathBuf};
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

/// Creates the tables and functions of this repository in an empty database.
pub fn migrate(servers: &TestServers) -> Result<()> {
    let psql = Psql::of(servers)?;
    psql.query("create schema houston")?;
    for file in sql_files(&repository::root().join("migrations"))? {
        psql.query(&std::fs::read_to_string(&file)?)
            .with_context(|| format!("the migration {} failed", file.display()))?;
    }
    for file in sql_files(&repository::root().join("migrations/functions"))? {
        let function = std::fs::read_to_string(&file)?;
        // In the order of their names, so a body may use a function that does not exist yet.
        psql.query(&format!("set check_function_bodies = off;\n{function}"))
            .with_context(|| format!("the function {} failed", file.display()))?;
    }
    Ok(())
}

/// The SQL files of a folder, sorted.
fn sql_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files: Vec<_> =
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "sql"));
    files.sort();
    Ok(files)
}

/// The path of a client program: beside the running Postgres, else on `PATH`.
pub fn program(servers: &TestServers, name: &str) -> Result<PathBuf> {
    let postgres = servers.postgres_pid().and_then(|pid| programs::program_of(pid).ok());
    let beside = postgres.and_then(|postgres| Some(postgres.parent()?.join(name)));
    let found = beside.filter(|program| program.is_file()).or_else(|| programs::find(name));
    found.with_context(|| format!("`{name}` is neither beside this Postgres nor on PATH"))
}
