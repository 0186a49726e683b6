//! Installs missing servers: with apt-get, with Homebrew, or from two Python wheels into the folder.
//!
//! Packages of the system come first, because they are maintained and get security updates. The wheels need no root.
//! Whether an installer succeeded is decided by searching again, not by its exit status alone.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

use crate::error::{Error, Program, Tail};
use crate::find::Search;
use crate::privilege;
use crate::server::{Server, Version};
use crate::wheels;

const APT_SCRIPT: &str = include_str!("apt.sh");

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
    #[error("`{program}` is not in PATH")]
    Absent {
        /// The program.
        program: &'static str,
    },
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

/// What installers need.
#[derive(Debug)]
pub(crate) struct InstallContext<'a> {
    pub(crate) search: &'a Search,
    pub(crate) wheels: PathBuf,
}

/// The program of each of `servers`, in their order. Missing ones are installed by the first of `installers` that succeeds.
///
/// # Errors
/// [`Error::Missing`] without installers, [`Error::Install`] when all of them failed.
pub(crate) fn find_or_install(
    context: &InstallContext<'_>,
    installers: &[Installer],
    servers: &[Server],
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Program>, Error> {
    let mut tried = Vec::new();
    let mut installers = installers.iter();
    loop {
        let (found, mut errors) = search(context.search, servers)?;
        if errors.is_empty() {
            return Ok(found);
        }
        let missing: Vec<Server> = errors.iter().map(|missing| missing.server).collect();
        match installers.next() {
            Some(installer) => {
                let outcome = run(*installer, context, &missing, progress);
                let obstacle = outcome.err().unwrap_or(Obstacle::NoEffect);
                tried.push(Attempt { installer: *installer, obstacle });
            }
            None if tried.is_empty() => return Err(errors.swap_remove(0).error),
            None => return Err(Error::Install { missing, tried }),
        }
    }
}

/// A server that was not found, with its error.
struct Missing {
    server: Server,
    error: Error,
}

/// Searches the programs. Returns those found and those missing; fails if the cluster needs another major version, because
/// only the user can decide what to do then.
fn search(search: &Search, servers: &[Server]) -> Result<(Vec<Program>, Vec<Missing>), Error> {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for server in servers {
        match search.server(*server) {
            Ok(program) => found.push(program),
            Err(error @ Error::Missing { .. }) => missing.push(Missing { server: *server, error }),
            Err(error) => return Err(error),
        }
    }
    Ok((found, missing))
}

fn run(
    installer: Installer,
    context: &InstallContext<'_>,
    missing: &[Server],
    progress: &mut dyn FnMut(&str),
) -> Result<(), Obstacle> {
    match installer {
        Installer::Apt => apt(context, missing, progress),
        Installer::Brew => brew(context, missing, progress),
        Installer::Wheels => wheels::install(context, missing, progress),
    }
}

fn apt(
    context: &InstallContext<'_>,
    missing: &[Server],
    progress: &mut dyn FnMut(&str),
) -> Result<(), Obstacle> {
    let apt = context.program("apt-get")?;
    let cache = context.program("apt-cache")?;
    let shell = context.program("sh")?;
    let root = |program: PathBuf| -> Result<Command, Obstacle> {
        if privilege::caller() == 0 {
            return Ok(Command::new(program));
        }
        let sudo = context.program("sudo").map_err(|_| Obstacle::NeedsRoot)?;
        context.run(Command::new(&sudo).args(["-n", "true"])).map_err(|_| Obstacle::NeedsRoot)?;
        let mut command = Command::new(sudo);
        command.arg("-n").arg(program);
        Ok(command)
    };

    let packages: Vec<&str> = missing.iter().map(|server| package(*server)).collect();
    let mut update = root(apt)?;
    progress(&format!(
        "installing {} on this system with apt-get, as root (this happens once)",
        packages.join(" and ")
    ));
    // A single broken package source is common, and the packages may come from another.
    let _ = context.run(update.args(["update", "-q"]));
    for server in missing {
        let (package, oldest) = (package(*server), if *server == Server::Postgres { 15 } else { 7 });
        let policy = context.run(Command::new(&cache).args(["policy", package]).env("LC_ALL", "C"))?;
        let candidate = candidate(&policy);
        if candidate.is_none_or(|version| version.major < oldest) {
            return Err(Obstacle::Outdated { package, candidate });
        }
    }
    context.run(root(shell)?.args(["-eu", "-c", APT_SCRIPT, "apt.sh", ""]).args(packages)).map(drop)
}

fn brew(
    context: &InstallContext<'_>,
    missing: &[Server],
    progress: &mut dyn FnMut(&str),
) -> Result<(), Obstacle> {
    let brew = context.program("brew")?;
    if privilege::caller() == 0 {
        return Err(Obstacle::RefusesRoot);
    }
    let formula = |server: &Server| if *server == Server::Postgres { "postgresql@17" } else { "redis" };
    let formulas: Vec<&str> = missing.iter().map(formula).collect();
    progress(&format!("installing {} with brew (this happens once)", formulas.join(" and ")));
    context.run(Command::new(brew).args(["install", "-q"]).args(formulas)).map(drop)
}

fn package(server: Server) -> &'static str {
    match server {
        Server::Postgres => "postgresql",
        Server::Redis => "redis-server",
    }
}

/// The version that apt-get would install, from the output of `apt-cache policy`: `15+248`, or `5:7.0.15-1` with an epoch.
fn candidate(policy: &str) -> Option<Version> {
    let text = policy.lines().find_map(|line| line.trim().strip_prefix("Candidate:"))?.trim();
    Version::parse(text.split_once(':').map_or(text, |(_epoch, version)| version))
}

impl InstallContext<'_> {
    pub(crate) fn program(&self, program: &'static str) -> Result<PathBuf, Obstacle> {
        self.search.command(program).ok_or(Obstacle::Absent { program })
    }

    /// Runs `command` to its end without input, and returns its output.
    pub(crate) fn run(&self, command: &mut Command) -> Result<String, Obstacle> {
        if let Some(path) = self.search.path() {
            command.env("PATH", path);
        }
        let program = PathBuf::from(command.get_program());
        let output = match command.stdin(Stdio::null()).output() {
            Ok(output) => output,
            Err(source) => return Err(Obstacle::Run { program, source }),
        };
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let printed = if output.stderr.is_empty() { output.stdout } else { output.stderr };
        Err(Obstacle::Failed { program, status: output.status, tail: Tail::of(&printed) })
    }
}

#[cfg(test)]
mod tests;
