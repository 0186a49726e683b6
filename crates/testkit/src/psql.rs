//! Runs a test's own SQL with `psql`.

use std::io;
use std::path::PathBuf;
use std::process::Command;

/// The `psql` of a server, and one of its databases. It works across restarts of the server: each call connects anew.
#[derive(Debug, Clone)]
pub struct Psql {
    program: PathBuf,
    url: String,
}

/// The path of a client program. Prefers that in the server's folder: the distribution's may be a slow wrapper script.
pub(crate) fn program(name: &str, postmaster: Option<u32>) -> PathBuf {
    let beside = postmaster
        .and_then(|pid| std::fs::read_link(format!("/proc/{pid}/exe")).ok())
        .map(|postgres| postgres.with_file_name(name))
        .filter(|program| program.is_file());
    beside.unwrap_or_else(|| PathBuf::from(name))
}

impl Psql {
    /// For the database at `url`; `postmaster` is the process id of its server, if there is one.
    pub(crate) fn of(url: &str, postmaster: Option<u32>) -> Self {
        Self { program: program("psql", postmaster), url: url.to_owned() }
    }

    /// The URL of another database of the same server.
    pub(crate) fn url_of(&self, database: &str) -> String {
        let (start, rest) = self.url.split_once('?').unwrap_or((&self.url, ""));
        let server = start.rsplit_once('/').map_or(start, |(server, _)| server);
        format!("{server}/{database}?{rest}")
    }

    /// A client for another database of the same server.
    pub(crate) fn for_database(&self, database: &str) -> Self {
        Self { program: self.program.clone(), url: self.url_of(database) }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// A `psql` command with these statements. It prints rows unaligned, one per line, with fields separated by `|`.
    pub(crate) fn command(&self, statements: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["-XAtq", "-v", "ON_ERROR_STOP=1", &self.url, "-c", statements]);
        command
    }

    /// Executes statements; returns the rows, one per line, with fields separated by `|`.
    ///
    /// # Errors
    ///
    /// If Postgres rejects a statement (the error has its message) or `psql` is not installed.
    pub fn run(&self, statements: &str) -> io::Result<String> {
        let output = self.command(statements).output()?;
        if !output.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}
