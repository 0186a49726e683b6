//! Chaos test: a complete service under load while faults are injected everywhere, checked from outside.
//!
//! ```text
//! clients ──posts──► 2 API ─┐               ┌─► Postgres, Redis  (restarted, stalled, flushed)
//! readers ◄─streams─        ├─ fault proxies ┤
//!                    4 work ┘               └─► the model        (429, 529, hangs, garbage, truncation)
//! nemesis: kill -9, SIGSTOP, backends terminated, slow / stalled / reset / swallowed / cut networks, a wrong clock
//! ```
//!
//! The checker uses the responses clients got, each byte of their streams, the model server's journal, the ledgers
//! that tools write before they act, and at the end one read of the rows. The plan of faults and the clients' actions
//! are determined by the seed; the exact timing is not.
//!
//! The binary is built unoptimised: the load is a few messages a second, overflow checks are on, and CI has built
//! most of it already.
//!
//! # Recipe: add a fault
//!
//! A variant of [`plan::Action`] with its kind, its line in `KINDS`, its arm in `nemesis::apply`, or in `apply_blocking` if it blocks.
//!
//! # Recipe: add an invariant
//!
//! A function that adds to a [`checker::Finding`] what [`evidence::Evidence`] shows, and its line in `checker::RULES`, among
//! those of `safety` if no later event can repair a violation; a test with evidence that violates it.

mod apis;
mod checker;
mod client;
mod databases;
mod decider;
mod engines;
mod evidence;
mod installation;
mod message_script;
mod model;
mod nemesis;
mod node;
mod plan;
mod reader;
mod recovery;
mod report;
mod seed;
mod unended;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

pub(crate) use engines::Engine;
pub(crate) use report::Report;

use client::{ClientPool, Posts};
use decider::DeciderPool;
use evidence::Evidence;
use houston_testkit::console::print_status;
use houston_testkit::repository;
use installation::ChaosInstallation;
use reader::{Reader, ReceivedStream, bare_id};
use seed::Seed;

const GOALS: usize = 80;
const USERS: usize = 6;
const CLIENTS: usize = 22;
const DECIDERS: usize = 3;
/// How long all runs may take to end once the faults are over. One with four model calls that are submitted and asked for
/// every 5 s takes 40 s alone; what is read while one goes on looks like a gap in its events.
const QUIET: Duration = Duration::from_secs(120);
/// How long readers may take to reach the end of their streams.
const READING: Duration = Duration::from_secs(40);
/// How often a mutated service is checked: its test ends with the first violation.
const CHECK_INTERVAL: Duration = Duration::from_secs(4);

/// The last position of each goal's stream, once it is final.
type Ends = Option<Arc<HashMap<String, i64>>>;

/// What to run.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) program: PathBuf,
    /// Where logs, ledgers and recorded streams go.
    pub(crate) folder: PathBuf,
    pub(crate) seed: u64,
    /// The number of cells, each with a Postgres and a Redis.
    pub(crate) cells: usize,
    pub(crate) time: Duration,
    /// An engine whose server is lost for good; then that is the only fault: no message kills its worker either.
    pub(crate) engine: Option<Engine>,
    /// Share of the messages that make a plan, per thousand.
    pub(crate) plans: u64,
    /// Multiplies the number of faults; 1 is the plan as written.
    pub(crate) fault_rate: u64,
    /// The part of the protocol to switch off (`HOUSTON_MUTATION`); then the run ends at the first violation.
    pub(crate) mutation: Option<&'static str>,
    /// Whether recovery times beyond their targets are violations (R7).
    pub(crate) judges_times: bool,
}

impl Options {
    /// One cell, a plan for each tenth message, and the faults as they are planned.
    pub(crate) fn new(program: &Path, name: &str, seed: u64, time: Duration) -> Self {
        Self {
            program: program.to_owned(),
            folder: folder(name),
            seed,
            cells: 1,
            time,
            engine: None,
            plans: 100,
            fault_rate: 1,
            mutation: None,
            judges_times: false,
        }
    }
}

/// Starts the service, injects faults under load, waits for quiet and checks every invariant.
pub(crate) async fn run(options: &Options) -> Result<Report> {
    let installation = Box::pin(ChaosInstallation::start(options)).await?;
    let goals = Arc::new(installation.goals(GOALS, USERS).await?);
    let began = Instant::now();
    let pool = ClientPool {
        apis: installation.apis.clone(),
        goals: Arc::clone(&goals),
        posts: Arc::default(),
        last_post: began + options.time,
        last_try: began + options.time + QUIET / 2,
        plans: options.plans,
        has_poison: options.engine.is_none(),
    };
    let (ends, end) = watch::channel(None);
    let mut readers = read(&installation, &goals, options, &end)?;
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        clients.spawn(pool.clone().run_client(Seed::of(options.seed, 1000 + client as u64)));
    }
    // They decide until they are stopped: a run that waits for a yes does not end.
    let deciding = DeciderPool { apis: installation.apis.clone(), decisions: Arc::default() };
    let mut deciders = JoinSet::new();
    for decider in 0..DECIDERS {
        deciders.spawn(deciding.clone().run(Seed::of(options.seed, 3000 + decider as u64)));
    }
    let mut restarts = JoinSet::new();
    restarts.spawn(restart_ended(Arc::clone(&installation)));

    let found = Box::pin(inject_faults(&installation, options)).await;
    let (mut quiet, mut not_ended) = (Duration::ZERO, Vec::new());
    if found {
        clients.abort_all();
        readers.abort_all();
    } else {
        sleep_until(pool.last_post).await;
        (quiet, not_ended) = wait_until_quiet(&installation, &mut clients).await?;
    }
    deciders.shutdown().await;
    let seconds = began.elapsed().as_secs_f64();
    let mut evidence = installation.blocking(Evidence::gather).await?;
    let lasts = evidence.rows.locks.iter().map(|lock| (lock.goal.clone(), lock.last_seq)).collect();
    ends.send_replace(Some(Arc::new(lasts)));
    evidence.streams = collect(readers, ends).await;
    restarts.shutdown().await;
    installation.nodes.iter().for_each(node::Node::save_log);
    evidence.faults = std::mem::take(&mut *installation.fault_log.lock());
    evidence.decisions = std::mem::take(&mut *deciding.decisions.lock());
    evidence.goals = goals.iter().map(|goal| bare_id(goal)).collect();
    Posts { posts: evidence.posts, cancels: evidence.cancels } = std::mem::take(&mut *pool.posts.lock());
    // After a violation was found in a mutated service: what needs no ended run.
    let mut findings = if found { checker::safety(&evidence) } else { checker::all(&evidence) };
    // Recovery times that are not judged are reported, but none is a violation.
    let is_not_judged = |finding: &&mut checker::Finding| finding.rule == "R7" && !options.judges_times;
    for finding in findings.iter_mut().filter(is_not_judged).filter(|finding| finding.count > 0) {
        finding.count = 0;
        finding.note += "; not judged";
    }
    let engine = |installation: &ChaosInstallation| {
        let engines = installation.engines.lock();
        Ok(engines.as_ref().map(|engines| (engines.note.clone(), engines.hints_after())))
    };
    let (engine_note, hints_after) = installation.blocking(engine).await?.unwrap_or_default();
    let counts = installation.nodes.iter().map(node::Node::counts);
    Ok(Report {
        seed: options.seed,
        seconds,
        quiet_seconds: quiet.as_secs_f64(),
        not_ended,
        findings,
        evidence,
        processes: counts.fold((0, 0), |(starts, ends), (started, ended)| (starts + started, ends + ended)),
        engine_note,
        hints_after,
    })
}

/// Carries out the plan of faults. Returns whether a violation was found in a mutated service.
async fn inject_faults(installation: &Arc<ChaosInstallation>, options: &Options) -> bool {
    let end = Instant::now() + options.time;
    let plan = match options.engine {
        Some(_) => plan::loss(options.time),
        None => plan::plan(options.seed, options.time, options.fault_rate),
    };
    let faults = async {
        nemesis::carry_out(installation, plan, options.time).await;
        sleep_until(end).await;
    };
    let found = tokio::select! {
        () = Box::pin(faults) => false,
        () = watch_for_violation(installation), if options.mutation.is_some() => true,
    };
    installation.clear_faults();
    installation
        .fault_log
        .lock()
        .count("a clock an hour off", installation.nodes[plan::NODES - 1].wrong_clock.is_some());
    found
}

/// Starts one reader per goal, and a second one for every fourth goal.
fn read(
    installation: &ChaosInstallation,
    goals: &[String],
    options: &Options,
    end: &watch::Receiver<Ends>,
) -> Result<JoinSet<(String, ReceivedStream)>> {
    let folder = options.folder.join("streams");
    std::fs::create_dir_all(&folder)?;
    let mut readers = JoinSet::new();
    let second = goals.iter().step_by(4);
    for (number, goal) in goals.iter().chain(second).enumerate() {
        let reader = Reader {
            apis: installation.apis.clone(),
            goal: goal.clone(),
            record: folder.join(format!("{}-{number}", bare_id(goal))),
            end: end.clone(),
        };
        let (goal, seed) = (bare_id(goal), Seed::of(options.seed, 2000 + number as u64));
        readers.spawn(async move { (goal, reader.read(seed).await) });
    }
    Ok(readers)
}

/// Restarts processes that end, until it is dropped.
async fn restart_ended(installation: Arc<ChaosInstallation>) {
    loop {
        if let Err(error) = installation.restart_ended() {
            print_status(&format!("{error:#}"));
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Checks a mutated service at intervals until a violation is found.
async fn watch_for_violation(installation: &Arc<ChaosInstallation>) {
    loop {
        sleep(CHECK_INTERVAL).await;
        // Postgres may be down: try again at the next interval.
        let Ok(evidence) = installation.blocking(Evidence::gather).await else { continue };
        if checker::safety(&evidence).iter().any(|finding| finding.count > 0) {
            return;
        }
    }
}

/// Waits until clients have stopped, no run is open and no summary is missing, for at most [`QUIET`]. Returns how long that
/// took, and what had not ended by then.
async fn wait_until_quiet(
    installation: &Arc<ChaosInstallation>,
    clients: &mut JoinSet<()>,
) -> Result<(Duration, Vec<String>)> {
    installation.clear_faults();
    print_status("all faults are over, waiting for the runs to end");
    let began = Instant::now();
    let stopped = async { while clients.join_next().await.is_some() {} };
    let _ = timeout(QUIET, stopped).await;
    clients.abort_all();
    let mut is_quiet = false;
    while !is_quiet && began.elapsed() < QUIET {
        let open = |installation: &ChaosInstallation| {
            installation.databases.sum(
                "select (select count(*) from houston.run_locks where run_open or wake)
                      + (select count(*) from houston.sessions where summary_due_at is not null)",
            )
        };
        is_quiet = installation.blocking(open).await.is_ok_and(|open| open == 0);
        if !is_quiet {
            sleep(Duration::from_millis(500)).await;
        }
    }
    let took = began.elapsed();
    match unended::describe(installation).await {
        Ok(unended) if !is_quiet => Ok((took, unended)),
        // Read nevertheless: a mistake in its queries must not show only when they are needed.
        Ok(_) => Ok((took, Vec::new())),
        Err(error) => Ok((took, vec![format!("Postgres does not say what: {error:#}")])),
    }
}

/// What each reader received, also of those that did not reach the end of their stream within [`READING`].
async fn collect(
    mut readers: JoinSet<(String, ReceivedStream)>,
    ends: watch::Sender<Ends>,
) -> Vec<(String, ReceivedStream)> {
    let mut received = Vec::new();
    let end = Instant::now() + READING;
    let mut ends = Some(ends);
    while !readers.is_empty() {
        tokio::select! {
            () = sleep_until(end), if ends.is_some() => ends = None,
            read = readers.join_next() => if let Some(Ok(read)) = read {
                received.push(read);
            },
        }
    }
    received
}

/// The folder for the logs, ledgers and recorded streams of the run called `name`.
pub(crate) fn folder(name: &str) -> PathBuf {
    repository::target().join("chaos").join(name)
}
