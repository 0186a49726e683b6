//! A running Houston: the processes of an installation, on servers of a test.
//!
//! ```ignore
//! let model = ModelServer::start(|_| Reply::text("Hello!")).await?;
//! let houston = Houston::builder(&program).on([&servers]).model("local/test", &model).workers(2).start()?;
//! ```

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::child::output;
use crate::model_server::ModelServer;
use crate::process::Process;
use crate::servers::TestServers;

/// How long a process may take to start or to end: an unoptimised build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Without the settings of who runs the test (what `houston mcp add` has written to `~/.config/houston`), and without
/// limits: tests post more than a person does, and their models state any number of tokens.
const ENVIRONMENT: [(&str, &str); 3] = [
    ("XDG_CONFIG_HOME", "/nonexistent"),
    ("HOUSTON_RATES__REQUESTS__QUOTA", "0"),
    ("HOUSTON_RATES__TOKENS__QUOTA", "0"),
];

/// The variables by which `houston` finds the Postgres and the Redis of each cell, whose shards are divided evenly, and
/// those that every test needs. `cells` has the URLs of their databases and of Redis.
pub fn environment<'c>(cells: impl IntoIterator<Item = (&'c str, &'c str)>) -> Vec<(&'static str, String)> {
    let cells: Vec<_> = cells.into_iter().collect();
    let mut variables = ENVIRONMENT.map(|(name, value)| (name, value.to_owned())).to_vec();
    if cells.is_empty() {
        // `houston dev` starts its own.
        return variables;
    }
    if let [(database, redis)] = cells[..] {
        variables.push(("DATABASE_URL", database.to_owned()));
        variables.push(("HOUSTON_REDIS_URL", redis.to_owned()));
        return variables;
    }
    let first = |nth: usize| nth * 0x1_0000 / cells.len();
    let cells = cells.iter().enumerate().map(|(nth, (database, redis))| {
        let (first, last) = (first(nth), first(nth + 1) - 1);
        format!("{{shards=\"{first:04x}-{last:04x}\",database_url=\"{database}\",redis_url=\"{redis}\"}}")
    });
    variables.push(("HOUSTON_CELLS__CELLS", format!("[{}]", cells.collect::<Vec<_>>().join(","))));
    variables
}

/// How to start Houston; also makes single commands with the same environment.
#[derive(Debug, Clone)]
#[must_use]
pub struct Builder {
    program: PathBuf,
    cells: Vec<(String, String)>,
    variables: Vec<(String, String)>,
    workers: Option<usize>,
}

impl Builder {
    /// Uses these servers; several are cells.
    pub fn on<'s>(mut self, servers: impl IntoIterator<Item = &'s TestServers>) -> Self {
        for servers in servers {
            self = self.cell(servers.database_url(), servers.redis_url());
        }
        self
    }

    /// Uses the servers at these URLs.
    pub fn cell(mut self, database: &str, redis: &str) -> Self {
        self.cells.push((database.to_owned(), redis.to_owned()));
        self
    }

    /// Sets a variable of the environment. One that is set later counts.
    pub fn set(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    /// Sets several variables.
    pub fn set_all(mut self, variables: Vec<(String, String)>) -> Self {
        self.variables.extend(variables);
        self
    }

    /// Uses the model `name`, `local/<any>`, of this server.
    pub fn model(self, name: &str, server: &ModelServer) -> Self {
        self.set("HOUSTON_MODEL", name).set("HOUSTON_LOCAL_URL", server.url())
    }

    /// Starts `houston serve`, and `houston work` so many times, instead of one process, `houston dev`.
    pub fn workers(mut self, count: usize) -> Self {
        self.workers = Some(count);
        self
    }

    /// A command of `houston`, without the `HOUSTON_*` variables of the caller.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        let names = std::env::vars_os().map(|(name, _)| name);
        for name in
            names.filter(|name| name == "DATABASE_URL" || name.to_string_lossy().starts_with("HOUSTON_"))
        {
            command.env_remove(name);
        }
        let cells = self.cells.iter().map(|(database, redis)| (database.as_str(), redis.as_str()));
        let variables = self.variables.iter().map(|(name, value)| (name, value));
        command.args(arguments).env("HOUSTON_LOG", "warn").envs(environment(cells)).envs(variables);
        command
    }

    /// Runs a command to its end.
    ///
    /// # Errors
    ///
    /// If it fails; the message has its stderr.
    pub fn run(&self, arguments: &[&str]) -> io::Result<String> {
        let said = output(&mut self.command(arguments)).map_err(io::Error::other)?;
        Ok(said.trim().to_owned())
    }

    /// Creates the tables and a key; returns the key.
    ///
    /// # Errors
    ///
    /// If a command fails.
    pub fn prepare(&self) -> io::Result<String> {
        self.run(&["migrate"])?;
        self.run(&["key", "create", "--tenant", "test"])
    }

    /// Starts the processes; waits until they are ready.
    ///
    /// # Errors
    ///
    /// If one does not start in time. The message contains its log.
    pub fn start(mut self) -> io::Result<Houston> {
        let folder = tempfile::Builder::new().prefix("houston-run-").tempdir()?;
        self = self.set("HOUSTON_FOLDER", folder.path().display().to_string());
        let key = self.workers.map(|_| self.prepare()).transpose()?;
        let command = if key.is_some() { "serve" } else { "dev" };
        let mut api = Process::spawn(&mut self.command(&[command, "--address", "127.0.0.1:0"]))?;
        let address = api.wait_for_address(PATIENCE)?;
        let key = match key {
            Some(key) => key,
            None => std::fs::read_to_string(folder.path().join("key"))?.trim().to_owned(),
        };
        api.wait_for_ready(address, "/readyz", PATIENCE)?;
        let workers = self.workers.unwrap_or(0);
        let mut houston = Houston { api, workers: Vec::new(), address, key, setup: self, _folder: folder };
        (0..workers).try_for_each(|_| houston.start_worker())?;
        Ok(houston)
    }
}

/// A running Houston; its processes end when this is dropped. Its servers are not part of it.
#[derive(Debug)]
pub struct Houston {
    /// `houston serve`, or `houston dev`, which is API and worker.
    pub api: Process,
    /// `houston work`.
    pub workers: Vec<Process>,
    /// Where the API listens.
    pub address: SocketAddr,
    /// A key of its tenant.
    pub key: String,
    /// How it was started.
    pub setup: Builder,
    _folder: TempDir,
}

impl Houston {
    /// Starts with the path of the binary.
    pub fn builder(program: &Path) -> Builder {
        Builder { program: program.to_owned(), cells: Vec::new(), variables: Vec::new(), workers: None }
    }

    /// Starts one more worker; waits until it takes runs.
    ///
    /// # Errors
    ///
    /// If it does not start in time. The message contains its log.
    pub fn start_worker(&mut self) -> io::Result<()> {
        let worker = Process::spawn(&mut self.setup.command(&["work"]))?;
        worker.wait_for_line(PATIENCE, |line| line == "working")?;
        self.workers.push(worker);
        Ok(())
    }

    /// All processes.
    pub fn processes(&self) -> impl Iterator<Item = &Process> {
        std::iter::once(&self.api).chain(&self.workers)
    }

    /// The output of its processes so far, at the level `warn`, unless that was set.
    pub fn log(&self) -> String {
        self.processes().map(Process::log).collect::<Vec<_>>().join("\n")
    }

    /// Asks all processes to end (SIGTERM); waits until they have.
    ///
    /// # Errors
    ///
    /// If one has ended before, or does not end in time.
    pub fn stop(mut self) -> io::Result<()> {
        let mut processes: Vec<_> = std::iter::once(&mut self.api).chain(&mut self.workers).collect();
        processes.iter_mut().try_for_each(|process| process.terminate())?;
        processes.iter_mut().try_for_each(|process| process.wait(PATIENCE).map(drop))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_divide_the_shards_and_a_single_one_needs_no_list() {
        let of = |cells: &[(&'static str, &'static str)]| environment(cells.iter().copied()).split_off(3);
        assert_eq!(of(&[]), []);
        assert_eq!(
            of(&[("d", "r")]),
            [("DATABASE_URL", "d".to_owned()), ("HOUSTON_REDIS_URL", "r".to_owned())]
        );
        let cells = "[{shards=\"0000-7fff\",database_url=\"d\",redis_url=\"r\"},\
                      {shards=\"8000-ffff\",database_url=\"e\",redis_url=\"s\"}]";
        assert_eq!(of(&[("d", "r"), ("e", "s")]), [("HOUSTON_CELLS__CELLS", cells.to_owned())]);
    }

    #[test]
    fn variable_that_is_set_later_counts() {
        let setup = Houston::builder(Path::new("houston")).cell("d", "r");
        let command = setup.set("HOUSTON_LOG", "info").set("HOUSTON_REDIS_URL", "s").command(&["work"]);
        let variables: Vec<_> = command.get_envs().collect();
        for (name, value) in [("HOUSTON_LOG", "info"), ("HOUSTON_REDIS_URL", "s"), ("DATABASE_URL", "d")] {
            assert!(variables.contains(&(name.as_ref(), Some(value.as_ref()))), "{variables:?}");
        }
    }
}
