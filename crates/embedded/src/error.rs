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
    /// A file or folder could not be used.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was being done, as a verb: "create", "read".
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },

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

    /// Every installer failed.
    #[error("cannot install {}: {}; install {} yourself, or set {}",
        list(missing, |s| s.to_string()), list(tried, ToString::to_string),
        list(missing, |s| s.needed().to_owned()), list(missing, |s| s.setting().to_owned()))]
    Install {
        /// The servers that are still missing.
        missing: Vec<Server>,
        /// The installers that were tried, and why each failed.
        tried: Vec<Attempt>,
    },

    /// The cluster was created by a major version that is not installed.
    #[error("{} was created by PostgreSQL {made_by}, but only {} is installed; install PostgreSQL {made_by}, \
        or move that folder away to start with an empty database", folder.display(), list(found, ToString::to_string))]
    OtherMajor {
        /// The cluster's folder.
        folder: PathBuf,
        /// The major version in its `PG_VERSION`.
        made_by: u32,
        /// The versions that are installed.
        found: Vec<Program>,
    },

    /// The thread that starts the servers could not be started.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),

    /// A program could not be started.
    #[error("cannot run {}", program.display())]
    Run {
        /// The program.
        program: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },

    /// `initdb` failed.
    #[error("cannot create a database cluster in {}: initdb ended with {status}:\n{output}", folder.display())]
    Init {
        /// The folder of the new cluster.
        folder: PathBuf,
        /// Its exit status.
        status: ExitStatus,
        /// The last lines of its output.
        output: Tail,
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
        tail: Tail,
    },

    /// A server is running but does not answer.
    #[error("{server} did not answer on {} within {seconds} s; see {}", socket.display(), log.display())]
    Silent {
        /// The server.
        server: Server,
        /// Its socket.
        socket: PathBuf,
        /// Seconds until it was given up.
        seconds: u64,
        /// The path of its log.
        log: PathBuf,
    },

    /// Postgres refused a connection or statement.
    #[error("PostgreSQL on {} refused user and database `houston`: {message} (SQLSTATE {sqlstate})", socket.display())]
    Refused {
        /// Its socket.
        socket: PathBuf,
        /// The SQLSTATE, five characters.
        sqlstate: String,
        /// The message of Postgres.
        message: String,
    },

    /// Another process owns the folder and does not run this server.
    #[error("process {owner} owns {} and does not run {server} there; stop it, or set {}", folder.display(), server.setting())]
    NotServed {
        /// The folder.
        folder: PathBuf,
        /// The owner's process id.
        owner: u32,
        /// The server it does not run.
        server: Server,
    },

    /// The folder for sockets in `/tmp` belongs to another user, or others can open it.
    #[error("{} is not a folder that only you can open (owner uid {uid}, mode {mode:o}); remove it, \
        or keep the servers in a folder with a shorter path of plain characters", path.display())]
    SocketFolder {
        /// The folder.
        path: PathBuf,
        /// The uid of its owner.
        uid: u32,
        /// Its permission bits.
        mode: u32,
    },

    /// Postgres does not run as root, and there is no other user that could run it: none can reach this path.
    #[error("PostgreSQL does not run as root, and neither `postgres` nor `nobody` can reach {}; \
        choose a folder they can reach, or run as another user", .0.display())]
    NoUser(PathBuf),

    /// A server of an earlier run is still running and cannot be stopped.
    #[error("{server} of an earlier run is still alive as process {pid} and does not stop; end it by hand")]
    Unstoppable {
        /// The server.
        server: Server,
        /// Its process id.
        pid: u32,
    },

    /// Only the process that owns the servers of this folder may restart them.
    #[error("the servers in {} are run by another process; restart them there", .0.display())]
    NotOwner(PathBuf),

    /// The [`Config`](crate::Config) does not contain this server.
    #[error("{0} is not among the servers started here")]
    NotStarted(Server),
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tail(String);

impl Tail {
    const LINES: usize = 15;

    pub(crate) fn of(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let lines: Vec<&str> = text.lines().collect();
        Self(lines[lines.len().saturating_sub(Self::LINES)..].join("\n"))
    }

    /// The last lines of a file. Empty if the file cannot be read: the error names the file anyway.
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
    match rejected {
        [] => String::new(),
        rejected => format!(" (too old: {})", list(rejected, ToString::to_string)),
    }
}

/// A failed attempt to install.
#[derive(Debug)]
pub struct Attempt {
    /// The installer.
    pub installer: Installer,
    /// Why it failed.
    pub obstacle: Obstacle,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.installer, self.obstacle)
    }
}

/// Why an installer failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Obstacle {
    /// A program it needs is not in `PATH`.
    #[error("`{0}` is not in PATH")]
    Absent(&'static str),
    /// It needs root, and `sudo` would ask for a password.
    #[error("it needs root")]
    NeedsRoot,
    /// It refuses to run as root.
    #[error("it does not run as root")]
    RefusesRoot,
    /// The distribution's package is missing or too old.
    #[error("the package `{package}` is {}", candidate.map_or("not offered".to_owned(), |c| format!("too old: {c}")))]
    Outdated {
        /// The package.
        package: &'static str,
        /// The version it has, if any.
        candidate: Option<Version>,
    },
    /// A command could not be run.
    #[error("cannot run {}: {source}", program.display())]
    Run {
        /// The program.
        program: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// A command failed.
    #[error("{} ended with {status}: {tail}", program.display())]
    Failed {
        /// The program.
        program: PathBuf,
        /// Its exit status.
        status: ExitStatus,
        /// The last lines of its output.
        tail: Tail,
    },
    /// A file could not be written.
    #[error(transparent)]
    File(Box<Error>),
    /// It succeeded, but no server was found afterwards.
    #[error("it ran, but no server was found afterwards")]
    NoEffect,
}

impl From<Error> for Obstacle {
    fn from(error: Error) -> Self {
        Self::File(Box::new(error))
    }
}
