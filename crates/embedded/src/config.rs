//! What to start, and with what.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::install::Installer;
use crate::server::Server;

/// What to start, at least one of the two, and with what. [`Config::new`] has the defaults.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where data, logs and sockets live; created when missing. Usually `./.houston`.
    pub folder: PathBuf,
    /// Start Postgres. Default: true. Set to false when there is a `DATABASE_URL`.
    pub postgres: bool,
    /// Start Redis. Default: true. Set to false when there is a `HOUSTON_REDIS_URL`.
    pub redis: bool,
    /// The `PATH` to search for programs; servers are also searched where packages put them. Default: none.
    pub path: Option<OsString>,
    /// Search `path` and the places of packages for servers; otherwise only `<folder>/wheels`. Default: true.
    pub search_system: bool,
    /// What may be used, in this order, to install a missing server. Default: nothing.
    pub installers: Vec<Installer>,
    /// Write through to the disk. Default: true; false only for throw-away servers, which then lose data in a
    /// power cut (never by a crash of the servers alone).
    pub fsync: bool,
    /// Postgres's `max_connections`. Default: 100.
    pub max_connections: u16,
}

impl Config {
    /// Both servers in `folder`, nothing installed, everything durable.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            postgres: true,
            redis: true,
            path: None,
            search_system: true,
            installers: Vec::new(),
            fsync: true,
            max_connections: 100,
        }
    }

    /// The servers that are asked for.
    pub(crate) fn servers(&self) -> Vec<Server> {
        let asked = [(self.postgres, Server::Postgres), (self.redis, Server::Redis)];
        asked.into_iter().filter_map(|(asked, server)| asked.then_some(server)).collect()
    }
}
