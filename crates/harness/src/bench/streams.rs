//! Streams in a steady state: how late a token reaches its client. The model writes the time into each token and the
//! client takes the difference; both are in this process and use one clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use houston_protocol::agui::Event;
use houston_testkit::console::{Progress, print_status};
use houston_testkit::model_server::Reply;
use tokio::task::JoinSet;

use super::load::Meter;
use super::report::{Report, Row, megabytes};
use super::setup::{Replies, Setup};
use super::{Bench, machine, workload};
use crate::http::Connection;
use crate::proc;

/// How long the answers of all streams are read together, and their number and pace.
const LASTS: Duration = Duration::from_secs(20);
/// Few that are fast, as of a fast model; many that are slow.
const FAST: (usize, Duration) = (100, Duration::from_millis(20));
const SLOW: (usize, Duration) = (10_000, Duration::from_secs(1));
/// Streams that are opened in a second, and how much later the last may have begun.
const OPENED: usize = 250;
const LATE: Duration = Duration::from_secs(10);

pub(crate) async fn measure(bench: &Bench) -> Result<Report> {
    let possible = machine::allow_many_files()?;
    let mut rows = Vec::new();
    for (streams, pace) in [FAST, (bench.size(SLOW.0, 200), SLOW.1)] {
        rows.extend(of(bench, streams.min(possible), pace).await?);
    }
    Ok(Report { about: "streams in a steady state, a client each".to_owned(), rows })
}

/// What a stream counts, and when.
struct Clock {
    since: Instant,
    /// In µs since then; tokens that are written between the two count.
    from: AtomicU64,
    to: AtomicU64,
}

async fn of(bench: &Bench, streams: usize, pace: Duration) -> Result<Vec<Row>> {
    let many = (2 * SLOW.0).to_string();
    let houston = [
        "HOUSTON_SERVER__MAX_STREAMS",
        "HOUSTON_SERVER__MAX_STREAMS_PER_TENANT",
        "HOUSTON_ORCHESTRATOR__WORKER__SLOTS",
    ];
    let houston = houston.into_iter().fold(bench.houston(), |houston, name| houston.set(name, many.clone()));
    let setup = Setup::start(houston, vec![bench.servers()?], Replies::Text).await?;
    let goals = setup.goals(streams).await?;
    let rest = setup.rest(Duration::from_secs(1)).await?;
    let opening = Duration::from_secs_f64(streams as f64 / OPENED as f64);
    let lasts = bench.size(LASTS, Duration::from_secs(4));
    let clock = Arc::new(Clock {
        since: Instant::now(),
        from: AtomicU64::new(u64::MAX),
        to: AtomicU64::new(u64::MAX),
    });
    // Long enough for all to be open together, however slowly they begin.
    let tokens = ((opening * 3 + LATE + lasts).as_secs_f64() / pace.as_secs_f64()).ceil() as usize + 2;
    setup.answer(&Reply::times(tokens, clock.since).every(pace));
    let mut readers = open(&setup, &goals, &clock).await?;
    print_status(&format!("streams: {streams} open, a token every {pace:?} each"));
    let held =
        setup.model.journal().wait_until(opening * 2 + LATE, |journal| journal.open() >= streams).await;
    ensure!(held, "only {} of {streams} streams were open together", setup.model.journal().open());
    let now = || u64::try_from(clock.since.elapsed().as_micros()).unwrap_or(u64::MAX);
    clock.from.store(now(), Ordering::Relaxed);
    let meter = Meter::begin(&setup)?;
    tokio::time::sleep(lasts).await;
    let rss = megabytes(proc::rss_of(&setup.houston)?);
    let spent = meter.end(&setup)?;
    clock.to.store(now(), Ordering::Relaxed);
    let mut progress = Progress::new("streams: ending", streams as u64);
    let mut lags = Vec::new();
    while let Some(read) = readers.join_next().await {
        lags.extend(read??);
        progress.step();
    }
    setup.stop_and_check()?;
    let [_, _, parts] = spent.rows("token", lags.len());
    let rate = lags.len() as f64 / spent.seconds;
    let each = (rss - rest.rss_mb).max(0.0) * 1000.0 / streams as f64;
    let what = format!("{streams} streams, {rate:.0} tokens/s: lag of a token");
    let lag = Row::spread(&what, lags).at_most(&[f64::INFINITY, 100.0]);
    Ok(vec![lag, parts, Row::of("  memory, KB each", each)])
}

/// Begins all runs, some after the others, and reads their streams.
async fn open(
    setup: &Setup,
    goals: &Arc<Vec<String>>,
    clock: &Arc<Clock>,
) -> Result<JoinSet<Result<Vec<Duration>>>> {
    let mut readers = JoinSet::new();
    let mut tick = tokio::time::interval(Duration::from_secs(1) / u32::try_from(OPENED)?);
    let mut progress = Progress::new("streams: opening", goals.len() as u64);
    for nth in 0..goals.len() {
        tick.tick().await;
        let mut connection = setup.connect().await?;
        let (goals, clock) = (Arc::clone(goals), Arc::clone(clock));
        readers.spawn(async move { read(&mut connection, &goals[nth], &clock).await });
        progress.step();
    }
    Ok(readers)
}

/// Posts a message and reads the stream; returns the lags of the tokens that count.
async fn read(connection: &mut Connection, goal: &str, clock: &Clock) -> Result<Vec<Duration>> {
    let accepted = connection.send_message(goal, &workload::MESSAGE).await?;
    let mut lags = Vec::new();
    let stream = connection.events(&accepted.events_url).await?;
    let read = stream.read(|event| {
        let Event::TextMessageContent { delta, .. } = event else { return };
        let now = clock.since.elapsed();
        let (from, to) = (clock.from.load(Ordering::Relaxed), clock.to.load(Ordering::Relaxed));
        let written = delta.split_whitespace().filter_map(|time| time.parse::<u64>().ok());
        let counted = written.filter(|time| (from..to).contains(time));
        lags.extend(counted.map(|time| now.saturating_sub(Duration::from_micros(time))));
    });
    read.await?;
    Ok(lags)
}
