//! The processes of one case.

use std::path::PathBuf;
use std::time::Duration;

use houston_testkit::process::Process;

use crate::case::{Action, Case};
use crate::client::Client;
use crate::environment::{CaseEnvironment, houston, jobs};
use crate::tools::LEDGER;

/// The longest time a case waits for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);
/// The beginning of the line that reports an injected fault; the crash point and the action follow.
const MARK: &str = "fault injected: ";

pub(crate) struct CrashServer {
    pub(crate) case: Case,
    pub(crate) environment: CaseEnvironment,
    folder: tempfile::TempDir,
    processes: Vec<(String, Process)>,
}

impl CrashServer {
    pub(crate) fn new(case: Case, environment: CaseEnvironment) -> Self {
        let folder = tempfile::tempdir().unwrap();
        jobs(folder.path());
        Self { case, environment, folder, processes: Vec::new() }
    }

    pub(crate) fn ledger(&self) -> PathBuf {
        self.folder.path().join("ledger")
    }

    /// Starts a process and returns its name, e.g. `work 1`.
    fn start(&mut self, role: &str, arguments: &[&str], faulty: bool) -> String {
        let name = format!("{role} {}", self.processes.len());
        let [ttl, renew, trust] = self.case.times().lease.map(|seconds| seconds.to_string());
        let mut command = houston();
        command
            .args(arguments)
            .env("DATABASE_URL", &self.environment.database_url)
            .env("HOUSTON_REDIS_URL", &self.environment.redis_url)
            .env("HOUSTON_MODEL", "local/crash")
            .env("HOUSTON_LOCAL_URL", self.environment.shared().model.url())
            .env("HOUSTON_MODEL_TOOLS", "true")
            .env("HOUSTON_JOBS", self.folder.path())
            .env("HOUSTON_LOG_FORMAT", "text")
            .env("HOUSTON_SERVER__HEARTBEAT_MS", "1000")
            .env("HOUSTON_ORCHESTRATOR__LEASE__TTL_S", ttl)
            .env("HOUSTON_ORCHESTRATOR__LEASE__RENEW_S", renew)
            .env("HOUSTON_ORCHESTRATOR__LEASE__TRUST_S", trust)
            .env("HOUSTON_ORCHESTRATOR__RETRY__DELAYED__BASE_MS", "500")
            .env("HOUSTON_ORCHESTRATOR__WORKER__DATABASE_CONNECTIONS", "5")
            .env(LEDGER, self.ledger());
        if faulty {
            command.env("FAILPOINTS", self.case.failpoints());
        }
        let process = tokio::task::block_in_place(|| Process::spawn(&mut command).unwrap());
        self.processes.push((name.clone(), process));
        name
    }

    /// Starts an API server and waits until it is ready.
    pub(crate) fn serve(&mut self, faulty: bool) -> (String, Client) {
        let name = self.start("serve", &["serve", "--address", "127.0.0.1:0"], faulty);
        let process = self.process(&name);
        let address = tokio::task::block_in_place(|| {
            let address = process.wait_for_address(PATIENCE).unwrap();
            process.wait_for_ready(address, "/readyz", PATIENCE).unwrap();
            address
        });
        (name, Client::new(address, self.environment.shared().key.clone()))
    }

    /// Starts a worker and waits until it may claim.
    pub(crate) fn work(&mut self, faulty: bool) -> String {
        let name = self.start("work", &["work"], faulty);
        self.wait_for_line(&name, |line| line == "working");
        name
    }

    /// Starts a worker whose fault strikes before it may claim.
    pub(crate) fn spawn_faulty_worker(&mut self) -> String {
        self.start("work", &["work"], true)
    }

    pub(crate) fn process(&mut self, name: &str) -> &mut Process {
        &mut self.processes.iter_mut().find(|(found, _)| found == name).unwrap().1
    }

    pub(crate) fn wait_for_line(&mut self, name: &str, is_it: impl Fn(&str) -> bool) {
        let process = self.process(name);
        tokio::task::block_in_place(|| process.wait_for_line(PATIENCE, is_it)).unwrap();
    }

    /// Waits until the fault was injected: a case without its fault proves nothing.
    pub(crate) fn wait_for_fault(&mut self, name: &str) {
        let mark = format!("{MARK}{:?} ", self.case.point);
        self.wait_for_line(name, |line| line.starts_with(&mark));
        if self.case.action == Action::Kill {
            let process = self.process(name);
            tokio::task::block_in_place(|| process.wait(PATIENCE)).unwrap();
        }
    }

    pub(crate) fn faults(&self) -> usize {
        let marks = |process: &Process| process.log().lines().filter(|line| line.starts_with(MARK)).count();
        self.processes.iter().map(|(_, process)| marks(process)).sum()
    }
}

impl Drop for CrashServer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (name, process) in &self.processes {
                let log = process.log();
                let lines: Vec<&str> = log.lines().filter(|line| !line.contains(" INFO request ")).collect();
                let tail = &lines[lines.len().saturating_sub(40)..];
                eprintln!("── {}: {name}\n{}", self.case.name(), tail.join("\n"));
            }
        }
    }
}
