//! Chaos: a whole service under load while everything around it fails, and a judge who was not part of it.
//!
//! ```text
//! clients ──posts──► 2 API ─┐               ┌─► Postgres, Redis  (restarted, stalled, flushed)
//! readers ◄─streams─        ├─ fault proxies ┤
//!                    4 work ┘               └─► the model        (429, 529, hangs, garbage, truncation)
//! nemesis: kill -9, SIGSTOP, backends terminated, slow / stalled / reset / swallowed / cut networks, a wrong clock
//! ```
//!
//! What is believed: what clients were answered, each byte of their streams, the model's journal, the ledgers the
//! tools write before they act, and at the end one reading of the rows. The plan of faults and what clients do follow
//! from the seed; which microsecond a fault meets does not.
//!
//! The binary is built unoptimised: some messages a second are far from what even that can do, overflow checks are
//! on, and CI has most of it built already.
//!
//! # Recipe: add a fault
//!
//! A variant of [`plan::Act`] with its kind, its line in `KINDS`, its arm in `nemesis::inject`.
//!
//! # Recipe: add an invariant
//!
//! A function from [`witness::Evidence`] to a [`checker::Finding`], called in `checker::all`, or in `safety` if no
//! later event can mend a violation; a test with evidence that violates it.

mod checker;
mod client;
mod house;
mod model;
mod nemesis;
mod node;
mod plan;
mod reader;
mod recovery;
mod report;
mod seed;
mod wish;
mod witness;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use tokio::sync::watch;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

pub(crate) use report::{Report, Verdict};

use client::{Crowd, Posts};
use house::House;
use houston_xtask::console::{Progress, tell};
use nemesis::Deeds;
use reader::{Reader, Seen, plain};
use seed::Seed;
use witness::Evidence;

const GOALS: usize = 80;
const USERS: usize = 6;
const PEOPLE: usize = 16;
/// Of one person, on average, in ms: 16 people make some 8 messages a second, with what they say twice.
const PAUSE: u64 = 1_900;
/// How long everything may take to come to rest.
const QUIET: Duration = Duration::from_secs(60);
/// How long readers may take to read the rest.
const READING: Duration = Duration::from_secs(40);
/// How often a weakened service is looked at: its test ends with the first violation.
const LOOK: Duration = Duration::from_secs(4);

type Ends = Option<Arc<HashMap<String, i64>>>;

/// What is run.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) program: PathBuf,
    /// Where logs, ledgers and recorded streams go.
    pub(crate) folder: PathBuf,
    pub(crate) seed: u64,
    pub(crate) time: Duration,
    /// How many times as many faults.
    pub(crate) haste: u64,
    /// What is taken out of the protocol; then the first violation is the end.
    pub(crate) mutation: Option<String>,
}

/// Runs it all.
pub(crate) async fn run(options: &Options) -> Result<Report> {
    let mutation = options.mutation.iter().map(|name| ("HOUSTON_MUTATION".to_owned(), name.clone()));
    let mutation: Vec<(String, String)> = mutation.collect();
    let house = Box::pin(House::start(&options.program, &options.folder, &mutation)).await?;
    let goals = Arc::new(house.goals(GOALS, USERS).await?);
    let began = Instant::now();
    let crowd = Crowd {
        apis: house.apis.clone(),
        key: house.key.clone(),
        goals: Arc::clone(&goals),
        posts: Arc::new(Mutex::new(Posts::default())),
        last_post: began + options.time,
        last_try: began + options.time + QUIET / 2,
        pause: PAUSE,
    };
    let (ends, end) = watch::channel(None);
    let mut readers = read(&house, &goals, options, &end)?;
    let mut people = JoinSet::new();
    for person in 0..PEOPLE {
        people.spawn(crowd.clone().person(Seed::of(options.seed, 1000 + person as u64)));
    }
    let mut tending = JoinSet::new();
    tending.spawn(tend(Arc::clone(&house)));

    let (mut deeds, found) = Box::pin(storm(&house, options)).await;
    let mut quiet = Duration::ZERO;
    if found {
        people.abort_all();
        readers.abort_all();
    } else {
        sleep_until(crowd.last_post).await;
        quiet = calm(&house, &mut people).await?;
    }
    let seconds = began.elapsed().as_secs_f64();
    let mut evidence = gather(&house).await?;
    let lasts = evidence.rows.locks.iter().map(|lock| (lock.goal.clone(), lock.last_seq)).collect();
    ends.send_replace(Some(Arc::new(lasts)));
    evidence.seen = collect(readers, ends).await;
    tending.shutdown().await;
    house.nodes.iter().for_each(node::Node::save_log);
    evidence.kills = std::mem::take(&mut deeds.kills);
    evidence.outages = std::mem::take(&mut deeds.outages);
    evidence.goals = goals.iter().map(|goal| plain(goal)).collect();
    let mut posts = std::mem::take(&mut *crowd.posts());
    evidence.posts = std::mem::take(&mut posts.posts);
    let findings = if found { checker::safety(&evidence) } else { checker::all(&evidence) };
    let times = (seconds, quiet.as_secs_f64());
    let mut report = Report::new((options.seed, options.mutation.clone()), times, findings, deeds, &evidence);
    report.cancels = posts.cancels;
    for node in &house.nodes {
        let (starts, ends) = node.counts();
        (report.starts, report.ends) = (report.starts + starts, report.ends + ends);
    }
    Ok(report)
}

/// Everything that goes wrong. Returns what was done, and whether a weakened service was found out.
async fn storm(house: &Arc<House>, options: &Options) -> (Deeds, bool) {
    let stop = CancellationToken::new();
    let mut progress = Progress::new("everything goes wrong", options.time.as_secs());
    let plan = plan::plan(options.seed, options.time, options.haste);
    let evil = nemesis::carry_out(house, plan, &mut progress, &stop);
    let (mut deeds, found) = tokio::join!(Box::pin(evil), look(house, options, &stop));
    deeds.count("a clock an hour off", house.wrong_clock);
    (deeds, found)
}

/// A reader for each goal, and a second one for each fourth.
fn read(
    house: &House,
    goals: &[String],
    options: &Options,
    end: &watch::Receiver<Ends>,
) -> Result<JoinSet<(String, Seen)>> {
    let folder = options.folder.join("streams");
    std::fs::create_dir_all(&folder)?;
    let mut readers = JoinSet::new();
    let second = goals.iter().step_by(4);
    for (number, goal) in goals.iter().chain(second).enumerate() {
        let reader = Reader {
            apis: house.apis.clone(),
            key: house.key.clone(),
            goal: goal.clone(),
            record: folder.join(format!("{}-{number}", plain(goal))),
            end: end.clone(),
        };
        let (goal, seed) = (plain(goal), Seed::of(options.seed, 2000 + number as u64));
        readers.spawn(async move { (goal, reader.read(seed).await) });
    }
    Ok(readers)
}

/// Starts again whatever has ended, for ever.
async fn tend(house: Arc<House>) {
    loop {
        if let Err(error) = house.tend() {
            tell(&format!("{error:#}"));
        }
        sleep(Duration::from_millis(100)).await;
    }
}

async fn gather(house: &Arc<House>) -> Result<Evidence> {
    let house = Arc::clone(house);
    spawn_blocking(move || Evidence::gather(&house)).await?
}

/// Looks at a weakened service until something shows, or the time is over. Returns whether something did.
async fn look(house: &Arc<House>, options: &Options, stop: &CancellationToken) -> bool {
    let end = Instant::now() + options.time;
    while options.mutation.is_some() && Instant::now() < end {
        sleep(LOOK).await;
        // Postgres may be down: then at the next look.
        let Ok(evidence) = gather(house).await else { continue };
        if checker::safety(&evidence).iter().any(|finding| finding.count > 0) {
            stop.cancel();
            return true;
        }
    }
    false
}

/// Waits until everybody has stopped to post, no run is open and no summary is missing, at most for so long.
async fn calm(house: &Arc<House>, people: &mut JoinSet<()>) -> Result<Duration> {
    house.be_kind();
    tell("quiet: all faults are over");
    let began = Instant::now();
    let stopped = async { while people.join_next().await.is_some() {} };
    let _ = timeout(QUIET, stopped).await;
    people.abort_all();
    while began.elapsed() < QUIET {
        let asked = Arc::clone(house);
        let open = spawn_blocking(move || {
            asked.psql.ask(
                "select (select count(*) from houston.run_locks where run_open or wake)
                      + (select count(*) from houston.sessions where summary_due_at is not null)",
            )
        });
        if open.await?.is_ok_and(|open| open == "0") {
            break;
        }
        sleep(Duration::from_millis(500)).await;
    }
    Ok(began.elapsed())
}

/// What readers have once they have read everything; of those that do not come to the end, what they have.
async fn collect(mut readers: JoinSet<(String, Seen)>, ends: watch::Sender<Ends>) -> Vec<(String, Seen)> {
    let mut seen = Vec::new();
    let end = Instant::now() + READING;
    let mut ends = Some(ends);
    while !readers.is_empty() {
        tokio::select! {
            () = sleep_until(end), if ends.is_some() => ends = None,
            read = readers.join_next() => if let Some(Ok(read)) = read {
                seen.push(read);
            },
        }
    }
    seen
}

/// Where a run with this name leaves what explains it.
pub(crate) fn folder(target: &Path, name: &str) -> PathBuf {
    target.join("chaos").join(name)
}
