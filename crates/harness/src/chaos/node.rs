//! A process of the service: behind its own fault proxies, restarted whenever it ends.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use houston_testkit::fault_proxy::{Fault, FaultProxy, Target};
use houston_testkit::houston::Builder;
use houston_testkit::process::{Process, Signal};
use parking_lot::Mutex;

use super::plan::{Link, name};

#[derive(Debug)]
struct State {
    process: Option<Process>,
    /// When to start the next process.
    due: Instant,
    starts: usize,
    /// How often the process ended without having been killed.
    ends: usize,
}

/// An API or worker process with its proxies.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    proxies: Vec<(Link, FaultProxy)>,
    /// With its servers.
    setup: Builder,
    /// Where an API process listens.
    pub(crate) address: Option<SocketAddr>,
    /// Path of `libfaketime`, for the process whose clock is an hour off.
    pub(crate) wrong_clock: Option<PathBuf>,
    log: PathBuf,
    state: Mutex<State>,
}

impl Node {
    /// Process `number`, with proxies to the model and to the sockets of Postgres and Redis of each cell. Its log goes to
    /// `folder`.
    pub(crate) async fn new(
        number: usize,
        mut setup: Builder,
        cells: &[(PathBuf, PathBuf)],
        model: SocketAddr,
        folder: &Path,
    ) -> Result<Self> {
        let model = FaultProxy::start(Target::Tcp(model)).await?;
        setup = setup.set("HOUSTON_LOCAL_URL", format!("http://{}/v1", model.address()));
        let mut proxies = vec![(Link::Model, model)];
        for (database, hints) in cells {
            let database = FaultProxy::start(Target::Unix(database.clone())).await?;
            let hints = FaultProxy::start(Target::Unix(hints.clone())).await?;
            let url = format!("postgres://houston@{}/houston?sslmode=disable", database.address());
            setup = setup.cell(&url, &format!("redis://{}", hints.address()));
            proxies.extend([(Link::Postgres, database), (Link::Redis, hints)]);
        }
        let name = name(number);
        Ok(Self {
            log: folder.join(format!("{}.log", name.replace(' ', "-"))),
            name,
            proxies,
            setup,
            address: None,
            wrong_clock: None,
            state: Mutex::new(State { process: None, due: Instant::now(), starts: 0, ends: 0 }),
        })
    }

    pub(crate) fn set(&self, link: Link, fault: Fault) {
        let of_link = self.proxies.iter().filter(|(of, _)| *of == link);
        of_link.for_each(|(_, proxy)| proxy.set(fault));
    }

    /// Notices when the process has ended, and starts a new one when that is due.
    pub(crate) fn restart_if_ended(&self) -> Result<()> {
        let mut state = self.state.lock();
        if let Some(process) = &mut state.process
            && process.ended()?.is_some()
        {
            state.ends += 1;
            self.collect_log(&mut state)?;
            state.due = Instant::now() + Duration::from_millis(200);
        }
        if state.process.is_none() && Instant::now() >= state.due {
            state.starts += 1;
            let process = Process::spawn(&mut self.command(state.starts));
            state.process = Some(process.with_context(|| format!("{} cannot be started", self.name))?);
        }
        Ok(())
    }

    /// `kill -9`; the process is restarted after `pause`.
    pub(crate) fn kill(&self, pause: Duration) -> Result<()> {
        let mut state = self.state.lock();
        state.process.as_mut().context("the process is down already")?.kill()?;
        self.collect_log(&mut state)?;
        state.due = Instant::now() + pause;
        Ok(())
    }

    /// SIGSTOP. Returns the process id, for [`Self::resume`].
    pub(crate) fn pause(&self) -> Result<u32> {
        let mut state = self.state.lock();
        let process = state.process.as_mut().context("the process is down already")?;
        process.signal(Signal::STOP)?;
        Ok(process.pid())
    }

    /// SIGCONT, if the process with this id still runs.
    pub(crate) fn resume(&self, pid: u32) {
        if let Some(process) = &mut self.state.lock().process
            && process.pid() == pid
        {
            // It may have died meanwhile: then there is nothing to resume.
            let _ = process.signal(Signal::CONT);
        }
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.state.lock().process.as_ref().map(Process::pid)
    }

    /// How often a process was started, and how often one ended without having been killed.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.starts, state.ends)
    }

    /// Appends the output of the running process to the log file.
    pub(crate) fn save_log(&self) {
        if let Some(process) = &self.state.lock().process {
            let _ = append(&self.log, &process.log());
        }
    }

    /// Appends the output of the ended process to the log file.
    fn collect_log(&self, state: &mut State) -> Result<()> {
        if let Some(process) = state.process.take() {
            append(&self.log, &process.log())?;
        }
        Ok(())
    }

    fn command(&self, nth: usize) -> Command {
        let mut command = match self.address {
            Some(address) => self.setup.command(&["serve", "--address", &address.to_string()]),
            None => self.setup.command(&["work"]),
        };
        if let Some(library) = &self.wrong_clock {
            // An hour behind or ahead, in turn; the monotonic clock is unchanged.
            command
                .env("LD_PRELOAD", library)
                .env("FAKETIME", if nth.is_multiple_of(2) { "-1h" } else { "+1h" })
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        command
    }
}

fn append(path: &Path, text: &str) -> Result<()> {
    let mut log: File = OpenOptions::new().create(true).append(true).open(path)?;
    writeln!(log, "{text}\n--- end of a process")?;
    Ok(())
}
