//! Everything that can go wrong, worded for the person who has to act on it.

use std::fmt::{self, Write as _};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use crate::install::Attempt;
use crate::server::{Server, Version};

/// Why the servers could not be started, used or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder could not be used.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was being done, as a verb: "create", "read".
        action: &'static str,
        /// To which file or folder.
        path: PathBuf,
        /// What the system answered.
        #[source]
        source: io::Error,
    },

    /// No program that is new enough was found, and installing was not asked for.
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

    /// Every installer was tried in vain.
    #[error("cannot install {}: {}; install {} yourself, or set {}",
        list(missing, |s| s.to_string()), list(tried, ToString::to_string),
        list(missing, |s| s.needed().to_owned()), list(missing, |s| s.setting().to_owned()))]
    Install {
        /// The servers that are still missing.
        missing: Vec<Server>,
        /// Which installers were tried, and what stood in their way.
        tried: Vec<Attempt>,
    },

    /// The cluster belongs to a major version that is not installed.
    #[error("{} was made by PostgreSQL {made_by}, but only {} is installed; install PostgreSQL {made_by}, \
        or move that folder away to begin with an empty database", folder.display(), list(found, ToString::to_string))]
    OtherMajor {
        /// The cluster's folder.
        folder: PathBuf,
        /// The major version in its `PG_VERSION`.
        made_by: u32,
        /// What is installed.
        found: Vec<Program>,
    },

    /// The thread that starts the servers could not be started.
    #[error("cannot start a thread")]
    Thread {
        /// What the system answered.
        #[source]
        source: io::Error,
    },

    /// A program could not be run at all.
    #[error("cannot run {}", program.display())]
    Run {
        /// The program.
        program: PathBuf,
        /// What the system answered.
        #[source]
        source: io::Error,
    },

    /// `initdb` failed.
    #[error("cannot create a database cluster in {}: initdb ended with {status}:\n{output}", folder.display())]
    Init {
        /// The folder it was to fill.
        folder: PathBuf,
        /// How it ended.
        status: ExitStatus,
        /// What it printed.
        output: Tail,
    },

    /// A server ended while it was starting.
    #[error("{server} ended with {status} while starting; its log {} ends with:\n{tail}", log.display())]
    Exited {
        /// Which server.
        server: Server,
        /// How it ended.
        status: ExitStatus,
        /// Its whole log.
        log: PathBuf,
        /// The end of its log.
        tail: Tail,
    },

    /// A server runs but does not answer.
    #[error("{server} did not answer on {} within {seconds} s; look into {}", socket.display(), log.display())]
    Silent {
        /// Which server.
        server: Server,
        /// The socket it should answer on.
        socket: PathBuf,
        /// How long it was waited for.
        seconds: u64,
        /// Its log.
        log: PathBuf,
    },

    /// Postgres answered, with a refusal.
    #[error("PostgreSQL on {} refused user and database `houston`: {message} (SQLSTATE {sqlstate})", socket.display())]
    Refused {
        /// The socket.
        socket: PathBuf,
        /// The five-character code.
        sqlstate: String,
        /// Postgres's own words.
        message: String,
    },

    /// Another process owns the folder and runs something else there.
    #[error("process {owner} owns {} and does not run {server} there; stop it, or set {}", folder.display(), server.setting())]
    NotServed {
        /// The folder.
        folder: PathBuf,
        /// The owner's process id.
        owner: u32,
        /// The server it does not run.
        server: Server,
    },

    /// The folder for sockets in `/tmp` is somebody else's.
    #[error("{} is not a folder that only you can open (owner uid {uid}, mode {mode:o}); remove it, \
        or keep the servers in a folder with a shorter, plainer path", path.display())]
    SocketFolder {
        /// The folder.
        path: PathBuf,
        /// Its owner.
        uid: u32,
        /// Its permission bits.
        mode: u32,
    },

    /// Postgres does not run as root, and there is no other user to run it as.
    #[error("PostgreSQL does not run as root, and neither `postgres` nor `nobody` can reach {}; \
        choose a folder they can reach, or run as another user", path.display())]
    NoUser {
        /// What that user would have to reach.
        path: PathBuf,
    },

    /// A server from an earlier run is still there.
    #[error("{server} of an earlier run is still alive as process {pid} and does not stop; end it by hand")]
    Unstoppable {
        /// Which server.
        server: Server,
        /// Its process id.
        pid: u32,
    },

    /// Only the owner may restart the servers.
    #[error("the servers in {} are run by another process; restart them there", folder.display())]
    NotOwner {
        /// The folder.
        folder: PathBuf,
    },

    /// The server was not asked for in the [`Config`](crate::Config).
    #[error("{server} is not among the servers started here")]
    NotStarted {
        /// Which server.
        server: Server,
    },
}

/// A program that was found, with its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Where it lies.
    pub path: PathBuf,
    /// What it says it is.
    pub version: Version,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.version, self.path.display())
    }
}

/// The last lines of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tail(String);

impl Tail {
    const LINES: usize = 15;

    pub(crate) fn of(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let lines: Vec<&str> = text.lines().collect();
        Self(lines[lines.len().saturating_sub(Self::LINES)..].join("\n"))
    }

    /// An unreadable log has an empty tail: the error it goes into names the log anyway.
    pub(crate) fn of_file(path: &Path) -> Self {
        Self::of(&std::fs::read(path).unwrap_or_default())
    }

    pub(crate) fn contains(&self, words: &str) -> bool {
        self.0.contains(words)
    }
}

impl fmt::Display for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// For `map_err`: `fs::read(path).map_err(file("read", path))`.
pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { action, path, source }
}

fn list<T>(items: &[T], name: impl Fn(&T) -> String) -> String {
    items.iter().map(name).collect::<Vec<_>>().join(" and ")
}

fn too_old(rejected: &[Program]) -> String {
    let mut text = String::new();
    if !rejected.is_empty() {
        // Writing to a string cannot fail.
        let _ = write!(text, " (too old: {})", list(rejected, ToString::to_string));
    }
    text
}
