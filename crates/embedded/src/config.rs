//! [`Config`]: which servers to start, and how.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use crate::server::Server;

/// Which servers to start, at least one of the two, and how. [`Config::new`] has the defaults:
///
/// ```
/// let config = houston_embedded::Config { redis: false, ..houston_embedded::Config::new(".houston") };
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// Folder for data, logs and sockets; created when missing. Usually `./.houston`.
    pub folder: PathBuf,
    /// Start Postgres. Default: true. Set to false when there is a `DATABASE_URL`.
    pub postgres: bool,
    /// Start Redis. Default: true. Set to false when there is a `HOUSTON_REDIS_URL`.
    pub redis: bool,
    /// The `PATH` to search for programs, in addition to the usual folders of packages. Default: none.
    pub path: Option<OsString>,
    /// Search `path` and the usual folders of packages for servers; otherwise only `<folder>/wheels`. Default: true.
    pub search_system: bool,
    /// Installers for missing servers, in the order they are tried. Default: none.
    pub installers: Vec<Installer>,
    /// Write through to the disk. Default: true. Use false only for test servers: they may lose data in a power cut, but not
    /// by a crash of the servers alone.
    pub fsync: bool,
    /// Postgres's `max_connections`. Default: 100.
    pub max_connections: u16,
    /// Further settings of Postgres, as in `work_mem=8MB`. Default: none.
    pub postgres_settings: Vec<String>,
}

impl Config {
    /// Both servers in `folder`, without installers, with fsync.
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
            postgres_settings: Vec::new(),
        }
    }

    /// The servers to start.
    pub(crate) fn servers(&self) -> Vec<Server> {
        let wanted = [(self.postgres, Server::Postgres), (self.redis, Server::Redis)];
        wanted.into_iter().filter_map(|(wanted, server)| wanted.then_some(server)).collect()
    }
}

/// A way to install servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Installer {
    /// `apt-get`, as root or through a `sudo` without a password.
    Apt,
    /// Homebrew.
    Brew,
    /// Relocatable programs from two Python wheels of fixed versions and hashes, into `<folder>/wheels`.
    Wheels,
}

impl Installer {
    /// All installers, in the order in which they should be tried.
    pub const ALL: [Self; 3] = [Self::Apt, Self::Brew, Self::Wheels];
}

impl fmt::Display for Installer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Apt => "apt-get",
            Self::Brew => "brew",
            Self::Wheels => "pip",
        })
    }
}
