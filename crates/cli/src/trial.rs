//! Processes that drive one run each: `houston work --only <id>`, started by a worker for a run that other workers died with, and
//! the other side of that, which sees how they end.
//!
//! The child inherits the environment. It says on its standard output which worker it is before it claims the run, and hands the
//! run over when its standard input ends, as it does when its parent dies.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use houston_domain::death::Shown;
use houston_domain::id::{AgentableId, WorkerId, shard};
use houston_engine::DriveOutcome;
use houston_tools::Registry;
use houston_worker::{Tried, TryAlone};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::connect::Addresses;
use crate::context::Context;
use crate::failure::Result;
use crate::models::Models;
use crate::output::print;
use crate::system::System;

/// Children of a process at once.
const CHILDREN: usize = 4;
/// What a child says before it claims its run: this, and its worker.
const BEGINS: &str = "begins ";
/// The exit code of a child in which driving the run failed.
const BROKE_DOWN: u8 = 70;
/// The exit code of a child that could not reach Postgres: that says nothing about its run.
const NO_POSTGRES: u8 = 75;
/// How long a child may take to end beyond the drain time, once its parent has asked for it.
const SPARE: Duration = Duration::from_secs(5);

/// How children are started.
struct Children {
    folder: PathBuf,
    jobs: Option<PathBuf>,
    /// The addresses of the only cell; several are in the settings.
    servers: Option<(String, String)>,
    /// Whether the folder has the key for secrets of tenants.
    embedded: bool,
    places: Semaphore,
}

/// Tries runs in children of this process. `embedded`: whether the key for secrets of tenants is in the folder.
pub(crate) fn in_children(context: &Context, addresses: &Addresses, embedded: bool) -> TryAlone {
    let home = addresses.cells.home();
    let servers = (addresses.cells.count() == 1).then(|| (home.database_url.clone(), home.redis_url.clone()));
    let children = Arc::new(Children {
        folder: context.folder.clone(),
        jobs: context.jobs.clone(),
        servers,
        embedded,
        places: Semaphore::new(CHILDREN),
    });
    Arc::new(move |agentable, stop| {
        let children = Arc::clone(&children);
        async move { children.tries(agentable, stop).await }.boxed()
    })
}

impl Children {
    async fn tries(&self, agentable: AgentableId, stop: CancellationToken) -> Tried {
        let nothing = |how: String| Tried { shown: Shown::Nothing, how, worker: None };
        let place = tokio::select! {
            place = self.places.acquire() => place,
            () = stop.cancelled() => return nothing("this process stops".to_owned()),
        };
        let Ok(_place) = place else { return nothing("this process stops".to_owned()) };
        let mut child = match self.command(agentable).spawn() {
            Ok(child) => child,
            Err(error) => return nothing(format!("the process could not be started: {error}")),
        };
        let input = child.stdin.take();
        let output = child.stdout.take();
        let mut worker = None;
        let ended = tokio::select! {
            ended = ends(&mut child, output, &mut worker) => ended,
            () = stop.cancelled() => {
                drop(input);
                let _ = child.wait().await;
                return nothing("this process stops".to_owned());
            }
        };
        match ended {
            Ok(status) => Tried { shown: shown(status, worker.is_some()), how: status.to_string(), worker },
            Err(error) => nothing(format!("the process could not be watched: {error}")),
        }
    }

    fn command(&self, agentable: AgentableId) -> Command {
        // The kernel's link, and not the path behind it: after an upgrade the path is another program.
        let program = if cfg!(target_os = "linux") {
            PathBuf::from("/proc/self/exe")
        } else {
            std::env::current_exe().unwrap_or_default()
        };
        let mut command = Command::new(program);
        command.args(["work", "--only", &agentable.0.to_string()]).env("HOUSTON_FOLDER", &self.folder);
        if let Some(name) = std::env::args_os().next() {
            command.arg0(name);
        }
        if self.embedded {
            command.arg("--embedded");
        }
        if let Some(jobs) = &self.jobs {
            command.env("HOUSTON_JOBS", jobs);
        }
        if let Some((database, redis)) = &self.servers {
            command.env("DATABASE_URL", database).env("HOUSTON_REDIS_URL", redis);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }
}

/// Waits for the end of a child; notes which worker it was.
async fn ends(
    child: &mut Child,
    output: Option<ChildStdout>,
    worker: &mut Option<WorkerId>,
) -> std::io::Result<ExitStatus> {
    if let Some(output) = output {
        let mut lines = BufReader::new(output).lines();
        // A process that the child has left may have its output open: what it says is not waited for when the child has ended.
        loop {
            tokio::select! {
                biased;
                line = lines.next_line() => match line {
                    Ok(Some(line)) => {
                        let begun = line.strip_prefix(BEGINS).and_then(|id| id.parse().ok()).map(WorkerId);
                        *worker = worker.or(begun);
                    }
                    _ => break,
                },
                status = child.wait() => return status,
            }
        }
    }
    child.wait().await
}

/// What the end of a child shows about its run. One that was asked to end by a signal shows nothing.
fn shown(status: ExitStatus, has_begun: bool) -> Shown {
    use std::os::unix::process::ExitStatusExt as _;
    let asked = [rustix::process::Signal::TERM, rustix::process::Signal::INT, rustix::process::Signal::HUP];
    let is_asked = status.signal().is_some_and(|signal| asked.iter().any(|asked| asked.as_raw() == signal));
    match status.code() {
        Some(0) => Shown::Lives,
        // The second signal of a person.
        Some(130) => Shown::Nothing,
        Some(code) if code == i32::from(NO_POSTGRES) => Shown::Nothing,
        _ if has_begun && !is_asked => Shown::Kills,
        _ => Shown::Nothing,
    }
}

/// Drives one run in this process, a child of a worker's.
pub(crate) async fn drive(
    system: &System,
    registry: &Registry,
    models: &Models,
    agentable: AgentableId,
) -> Result<ExitCode> {
    let drain = Duration::from_secs(system.loaded.settings.orchestrator.worker.drain_s);
    stop_with_parent(system.stop.clone(), drain);
    // If the machine runs out of memory, it is this process that ends, and not its parent. Where that cannot be said, the
    // kernel chooses.
    let _ = std::fs::write(Path::new("/proc/self/oom_score_adj"), "1000");
    let cell = system.cells.with(shard(agentable));
    let slots = system.loaded.settings.orchestrator.worker.slots();
    let worker = system.worker(cell, system.ids.next::<WorkerId>().process(), &slots, registry, models)?;
    let begins = |worker: WorkerId| print(&format!("{BEGINS}{}", worker.0));
    let driven = worker.drive_alone(agentable, &system.tracker, system.stop.clone(), begins).await;
    match driven? {
        Ok(DriveOutcome::Panicked) => Ok(ExitCode::from(BROKE_DOWN)),
        Ok(outcome) => {
            tracing::debug!(%agentable, ?outcome, "the run was tried alone");
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            tracing::error!(%agentable, %error, "the run cannot be driven");
            Ok(ExitCode::from(if error.is_transient() { NO_POSTGRES } else { BROKE_DOWN }))
        }
    }
}

/// Cancels `stop` when the standard input ends, and ends the process if it takes longer than it may: on a thread, since the run may
/// hold those of the runtime.
fn stop_with_parent(stop: CancellationToken, drain: Duration) {
    std::thread::spawn(move || {
        let mut rest = [0; 64];
        while std::io::stdin().read(&mut rest).is_ok_and(|count| count > 0) {}
        stop.cancel();
        std::thread::sleep(drain + SPARE);
        std::process::exit(130);
    });
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn only_a_death_that_nobody_asked_for_is_evidence() {
        let [aborted, killed, terminated, interrupted] = [6, 9, 15, 2].map(ExitStatus::from_raw);
        let [fine, failed, wrong, broke_down, no_postgres, panicked, second_signal] =
            [0, 1, 2, BROKE_DOWN, NO_POSTGRES, 101, 130]
                .map(|code| ExitStatus::from_raw(i32::from(code) << 8));
        for status in [aborted, killed, failed, broke_down, panicked] {
            assert_eq!(
                (shown(status, true), shown(status, false)),
                (Shown::Kills, Shown::Nothing),
                "{status}"
            );
        }
        for status in [terminated, interrupted, second_signal, no_postgres] {
            assert_eq!(shown(status, true), Shown::Nothing, "{status}");
        }
        assert_eq!((shown(fine, true), shown(wrong, false)), (Shown::Lives, Shown::Nothing));
    }
}
