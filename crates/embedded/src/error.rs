//! Errors, with texts that tell users what to do.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use crate::config::Installer;
use crate::server::{Server, Version};

/// Why the servers could not be started, used or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No program that is new enough was found, and no installer was configured.
    #[error(
        "{} is not installed{}; install {}, or set {}",
        server.needed(), too_old(rejected), server.needed(), server.setting()
    )]
    Missing {
        /// The server that is missing.
        server: Server,
        /// Programs that were found but are too old.
        rejected: Vec<Program>,
    },

    /// A server ended while it was starting.
    #[error("{server} ended with {status} while starting; its log {} ends with:\n{tail}", log.display())]
    Exited {
        /// The server.
        server: Server,
        /// Its exit status.
        status: ExitStatus,
        /// The path of its log.
        log: PathBuf,
        /// The last lines of its log.
        tail: String,
    },

    /// Only the process that owns the servers of this folder may restart them.
    #[error("the servers in {} are run by another process; restart them there", .0.display())]
    NotOwner(PathBuf),

    /// Anything else, as its text says.
    #[error("{text}")]
    Other {
        /// What could not be done, and what to do.
        text: String,
        /// The error of the operating system.
        source: Option<io::Error>,
    },
}

/// An installed program and its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its path.
    pub path: PathBuf,
    /// The version it reports.
    pub version: Version,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.version, self.path.display())
    }
}

/// The last lines of a log.
pub(crate) fn tail(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}

/// The result of starting or running a server.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self::Other { text: text.into(), source: None }
    }

    /// Every installer failed. `tried`: why each did.
    pub(crate) fn install(missing: &[Server], tried: &[(Installer, Self)]) -> Self {
        let needed = list(missing, |server| server.needed().to_owned());
        let settings = list(missing, |server| server.setting().to_owned());
        let missing = list(missing, Server::to_string);
        let tried = list(tried, |(installer, obstacle)| format!("{installer} ({obstacle})"));
        Self::new(format!("cannot install {missing}: {tried}; install {needed} yourself, or set {settings}"))
    }

    /// A server of an earlier run is still running and cannot be stopped.
    pub(crate) fn unstoppable(server: Server, pid: u32) -> Self {
        Self::new(format!(
            "{server} of an earlier run is still alive as process {pid} and does not stop; end it by hand"
        ))
    }
}

/// For `map_err`: `fs::read(path).map_err(file("read", path))`.
pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let text = format!("cannot {action} {}", path.display());
    move |source| Error::Other { text, source: Some(source) }
}

/// The names of some things, with `and` between them.
pub(crate) fn list<T>(items: &[T], name: impl Fn(&T) -> String) -> String {
    items.iter().map(name).collect::<Vec<_>>().join(" and ")
}

fn too_old(rejected: &[Program]) -> String {
    match rejected {
        [] => String::new(),
        rejected => format!(" (too old: {})", list(rejected, ToString::to_string)),
    }
}
