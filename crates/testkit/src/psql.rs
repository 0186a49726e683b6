//! SQL of a test's own, against its server: what the service would not write, and what it does not show.

use std::io;
use std::path::PathBuf;
use std::process::Command;

use crate::servers::TestServers;

impl TestServers {
    /// Runs statements with `psql` and returns what they answer: a row a line, fields parted by `|`.
    ///
    /// # Errors
    ///
    /// When Postgres refuses them (its words are in the error), or `psql` is not there.
    pub fn sql(&self, statements: &str) -> io::Result<String> {
        // Beside the server that runs, if it lies there.
        let beside = self
            .postgres_pid()
            .and_then(|pid| std::fs::read_link(format!("/proc/{pid}/exe")).ok())
            .map(|postgres| postgres.with_file_name("psql"))
            .filter(|psql| psql.is_file());
        let output = Command::new(beside.unwrap_or_else(|| PathBuf::from("psql")))
            .args(["-XAtq", "-v", "ON_ERROR_STOP=1", self.database_url(), "-c", statements])
            .output()?;
        if !output.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}
