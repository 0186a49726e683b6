//! `cargo xtask loud`: twenty tenants chat, alone and then beside one tenant who does everything at once that an ordinary key
//! allows.

mod tenant;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use houston_testkit::console::{Progress, print, print_status};
use houston_testkit::houston::Houston;
use houston_testkit::programs;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::bench::quiet::Quiet;
use crate::bench::receiver::Receiver;
use crate::bench::report::{Report, Row, megabytes};
use crate::bench::setup::{Replies, Setup};
use crate::http::Connection;
use crate::spread::Spread;
use crate::{proc, service};
use tenant::Loud;

/// Aims: the most that a quiet tenant may lose, and what the service may need meanwhile and afterwards.
const RATIO: f64 = 1.5;
const LIVEZ_MS: f64 = 50.0;
const STOP_S: f64 = 30.0;
const FIRST_ANSWER_S: f64 = 5.0;
const MEMORY_MB: f64 = 500.0;

/// Tenants that chat.
const QUIET: usize = 20;
/// How long the service runs with stored poisons, at least.
const POISONS: Duration = Duration::from_secs(10);
/// Pause between an answer and the next message of a quiet tenant.
const PAUSE: Duration = Duration::from_millis(500);
/// Pause between two looks at the process.
const LOOK: Duration = Duration::from_millis(100);

/// What is measured of one phase.
#[derive(Debug, Default)]
struct Phase {
    /// POST sent → first event of the stream.
    first_events: Vec<Duration>,
    /// Requests of quiet tenants that were answered with 5xx, or not.
    failed: Vec<String>,
    /// Longest time of `GET /livez`.
    longest_livez: Duration,
    most_memory: u64,
}

/// Twenty tenants chat, alone and beside one that does everything at once that an ordinary key allows.
#[derive(Debug, Args)]
pub(crate) struct Measure {
    /// Minutes of each of the two phases
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// Judge what failed and died, and the memory, but no times: for a debug build, or a machine that does other things
    #[arg(long)]
    without_times: bool,
    /// The binary to measure, instead of building it
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
}

impl Measure {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        ensure!(self.minutes >= 0.1, "--minutes must be at least 0.1");
        let report = Box::pin(self.measure()).await?;
        let is_met = report.is_met();
        print(&(report.table() + &Report::summary(&[("loud".to_owned(), report)])))?;
        Ok(if is_met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
    /// Measures a service of one process.
    async fn measure(&self) -> Result<Report> {
        let binary = service::built(self.binary.as_deref()).await?;
        let servers = programs::servers(|config| config.fsync = true)?;
        let lasts = Duration::from_secs_f64(self.minutes * 60.0);
        let receiver = Receiver::start(false).await?;
        let houston = Houston::builder(&binary).set_all(receiver.settings());
        let setup = Setup::start(houston, vec![servers], Replies::Text).await?;
        let keys: Vec<String> = (0..QUIET)
            .map(|nth| setup.houston.setup.run(&["key", "create", "--tenant", &format!("quiet {nth}")]))
            .collect::<Result<_, _>>()?;
        let loud = setup.houston.setup.run(&["key", "create", "--tenant", "loud"])?;
        let rest = setup.rest(Duration::from_secs(2)).await?;
        // Warms up what the first messages of a process pay.
        phase(&setup, &keys, None, lasts / 10, "warming up").await?;
        let alone = phase(&setup, &keys, None, lasts, "twenty tenants").await?;
        let tenant = Loud::prepare(&setup.houston, loud, &receiver.url()).await?;
        let beside = phase(&setup, &keys, Some(&tenant), lasts, "beside a loud tenant").await?;
        print_status("waiting until memory is returned");
        tokio::time::sleep(Duration::from_secs(5)).await;
        let after = proc::rss_of(&setup.houston)?;
        let mut died: Vec<String> = Vec::new();
        let again = setup.houston.setup.clone();
        let began = Instant::now();
        let Setup { houston, model: _model, cells, .. } = setup;
        died.extend(houston.stop().err().map(|error| error.to_string()));
        let stop = began.elapsed();
        let poisons = tenant.store_poisons(&cells[0])?;
        print_status(&format!("starting again with {poisons} stored poisons"));
        let began = Instant::now();
        let houston = again.start()?;
        let (served, failed) = tenant.meet_poisons(&houston, &keys, lasts.max(POISONS)).await?;
        died.extend(houston.stop().err().map(|error| error.to_string()));
        let failed: Vec<String> = [&alone.failed[..], &beside.failed, &failed].concat();
        for reason in failed.iter().take(5).chain(&died) {
            print_status(reason);
        }
        let first_events = |phase: &Phase| Spread::of(phase.first_events.iter().copied());
        let ratio = first_events(&beside).p99 / first_events(&alone).p99.max(0.1);
        // A machine that is busy is slow, but neither grows nor dies.
        let timed = |row: Row, most: f64| if self.without_times { row } else { row.at_most(&[most]) };
        let answered = served.map_or(f64::INFINITY, |at| (at - began).as_secs_f64());
        let first_answer = if self.without_times { f64::from(u32::MAX) } else { FIRST_ANSWER_S };
        let memory = vec![rest.rss_mb, megabytes(beside.most_memory), megabytes(after)];
        let rows = vec![
            Row::spread("first event, twenty tenants alone", alone.first_events),
            Row::of("of quiet tenants beside it: messages", beside.first_events.len() as f64),
            Row::of("  failed, of those alone, too", failed.len() as f64).at_most(&[0.0]),
            Row::spread("  first event", beside.first_events),
            timed(Row::of("ratio of the p99", ratio), RATIO),
            Row::of("requests of the loud tenant", tenant.actions.load(Ordering::Relaxed) as f64),
            timed(Row::of("longest GET /livez, ms", beside.longest_livez.as_secs_f64() * 1000.0), LIVEZ_MS),
            Row::parts("memory at rest / most / after, MB", memory).at_most(&[MEMORY_MB; 3]),
            timed(Row::of("SIGTERM → end, s", stop.as_secs_f64()), STOP_S),
            Row::of("start with stored poisons → first answer, s", answered).at_most(&[first_answer]),
            Row::of("deaths", died.len() as f64).at_most(&[0.0]),
        ];
        Ok(Report { about: format!("loud: twenty tenants for {lasts:?}, then beside a loud one"), rows })
    }
}

async fn phase(
    setup: &Setup,
    keys: &[String],
    loud: Option<&Arc<Loud>>,
    lasts: Duration,
    what: &str,
) -> Result<Phase> {
    let stop = CancellationToken::new();
    let _stopped_in_the_end = stop.clone().drop_guard();
    let mut chats = JoinSet::new();
    for key in keys {
        let quiet = Quiet::begin(setup.houston.address, key).await?;
        chats.spawn(chat(quiet, stop.clone()));
    }
    let mut noise = JoinSet::new();
    if let Some(loud) = loud {
        loud.start(&mut noise, &stop);
    }
    let probes =
        TaskTracker::new().spawn(livez(setup.houston.address, setup.houston.key.clone(), stop.clone()));
    let mut progress = Progress::new(what, lasts.as_secs());
    let (began, mut found) = (Instant::now(), Phase::default());
    while began.elapsed() < lasts {
        tokio::time::sleep(LOOK).await;
        progress.reach(began.elapsed().as_secs());
        found.most_memory =
            found.most_memory.max(proc::rss_of(&setup.houston).context("the service has died")?);
    }
    stop.cancel();
    while let Some(chat) = chats.join_next().await {
        let chat = chat?;
        found.first_events.extend(chat.first_events);
        found.failed.extend(chat.failed);
    }
    found.longest_livez = probes.await??;
    // What the loud tenant has begun goes on in the service; its own requests end.
    noise.shutdown().await;
    Ok(found)
}

/// Sends one message after the other.
async fn chat(mut quiet: Quiet, stop: CancellationToken) -> Phase {
    let mut seen = Phase::default();
    while !stop.is_cancelled() {
        match quiet.once().await {
            Ok(timing) => seen.first_events.push(timing.first_event()),
            Err(error) => seen.failed.push(format!("{error:#}")),
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
    seen
}

/// The longest time that `GET /livez` took.
async fn livez(address: std::net::SocketAddr, key: String, stop: CancellationToken) -> Result<Duration> {
    let (mut connection, mut longest) = (Connection::open(address, &key).await?, Duration::ZERO);
    while !stop.is_cancelled() {
        let asked = Instant::now();
        connection.get("/livez").await?;
        longest = longest.max(asked.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(longest)
}
