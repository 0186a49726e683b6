//! Installs missing servers: with apt-get, with Homebrew, or from two Python wheels into the folder.
//!
//! Packages of the system come first, because they are maintained and get security updates. The wheels need no root.
//! Whether an installer succeeded is decided by searching again, not by its exit status alone.

use std::path::PathBuf;
use std::process::Command;

use crate::config::Installer;
use crate::error::{Attempt, Error, Obstacle, Program};
use crate::find::{InstallContext, Search};
use crate::privilege;
use crate::server::{Server, Version};
use crate::wheels;

const APT_SCRIPT: &str = include_str!("apt.sh");

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

#[cfg(test)]
mod tests;
