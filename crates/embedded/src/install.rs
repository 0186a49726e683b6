//! Installs missing servers: with apt-get, with Homebrew, or from two Python wheels into the folder.
//!
//! Packages of the system come first, because they are maintained and get security updates. The wheels need no root.
//! Whether an installer succeeded is decided by searching again, not by its exit status alone.

use std::path::PathBuf;
use std::process::Command;

use crate::config::Installer;
use crate::error::{Error, Program, Result};
use crate::find::Search;
use crate::server::{Server, Version};
use crate::{privilege, wheels};

const APT_SCRIPT: &str = include_str!("apt.sh");

/// The program of each of `servers`, in their order. Missing ones are installed by the first of `installers` that succeeds.
///
/// # Errors
/// [`Error::Missing`] without installers, [`Error::Other`] when all of them failed, or the cluster needs another major version:
/// only the user can decide what to do then.
pub(crate) fn find_or_install(
    search: &Search,
    installers: &[Installer],
    servers: &[Server],
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Program>> {
    let mut tried = Vec::new();
    let mut installers = installers.iter();
    loop {
        let (mut found, mut missing, mut first) = (Vec::new(), Vec::new(), None);
        for server in servers {
            match search.server(*server) {
                Ok(program) => found.push(program),
                Err(error @ Error::Missing { .. }) => {
                    missing.push(*server);
                    first.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        let Some(error) = first else { return Ok(found) };
        let Some(installer) = installers.next() else {
            return Err(if tried.is_empty() { error } else { Error::install(&missing, &tried) });
        };
        let outcome = match installer {
            Installer::Apt => apt(search, &missing, progress),
            Installer::Brew => brew(search, &missing, progress),
            Installer::Wheels => wheels::install(search, &missing, progress),
        };
        let no_effect = || Error::new("it ran, but no server was found afterwards");
        tried.push((*installer, outcome.err().unwrap_or_else(no_effect)));
    }
}

fn apt(search: &Search, missing: &[Server], progress: &mut dyn FnMut(&str)) -> Result<()> {
    let apt = search.program("apt-get")?;
    let cache = search.program("apt-cache")?;
    let shell = search.program("sh")?;
    let root = |program: PathBuf| -> Result<Command> {
        if privilege::caller() == 0 {
            return Ok(Command::new(program));
        }
        let needs_root = |_| Error::new("it needs root");
        let sudo = search.program("sudo").map_err(needs_root)?;
        search.run(Command::new(&sudo).args(["-n", "true"])).map_err(needs_root)?;
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
    let _ = search.run(update.args(["update", "-q"]));
    for server in missing {
        let (package, oldest) = (package(*server), server.of(15, 7));
        let policy = search.run(Command::new(&cache).args(["policy", package]).env("LC_ALL", "C"))?;
        let candidate = candidate(&policy);
        if candidate.is_none_or(|version| version.major < oldest) {
            return Err(outdated(package, candidate));
        }
    }
    search.run(root(shell)?.args(["-eu", "-c", APT_SCRIPT, "apt.sh", ""]).args(packages)).map(drop)
}

/// The distribution's package is missing or too old.
fn outdated(package: &str, candidate: Option<Version>) -> Error {
    let state = candidate.map_or("not offered".to_owned(), |version| format!("too old: {version}"));
    Error::new(format!("the package `{package}` is {state}"))
}

fn brew(search: &Search, missing: &[Server], progress: &mut dyn FnMut(&str)) -> Result<()> {
    let brew = search.program("brew")?;
    if privilege::caller() == 0 {
        return Err(Error::new("it does not run as root"));
    }
    let formulas: Vec<&str> = missing.iter().map(|server| server.of("postgresql@17", "redis")).collect();
    progress(&format!("installing {} with brew (this happens once)", formulas.join(" and ")));
    search.run(Command::new(brew).args(["install", "-q"]).args(formulas)).map(drop)
}

fn package(server: Server) -> &'static str {
    server.of("postgresql", "redis-server")
}

/// The version that apt-get would install, from the output of `apt-cache policy`: `15+248`, or `5:7.0.15-1` with an epoch.
fn candidate(policy: &str) -> Option<Version> {
    let text = policy.lines().find_map(|line| line.trim().strip_prefix("Candidate:"))?.trim();
    Version::parse(text.split_once(':').map_or(text, |(_epoch, version)| version))
}

#[cfg(test)]
mod tests;
