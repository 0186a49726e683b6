//! Starts: the first request after one, memory at rest, and `houston dev` with servers of its own.

use std::time::{Duration, Instant};

use anyhow::Result;
use houston_testkit::console::Progress;
use houston_testkit::houston::Houston;
use houston_testkit::process::Process;
use houston_testkit::scratch::Scratch;

use super::report::{Report, Row};
use super::setup::{Replies, Setup};
use super::{Bench, workload};
use crate::http::Connection;

/// How long a start may take.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn measure(bench: &Bench) -> Result<Report> {
    let (starts, hold) = (bench.size(20, 3), bench.size(Duration::from_secs(10), Duration::from_secs(1)));
    let setup = bench.setup(Replies::Text).await?;
    let rest = setup.rest(hold).await?;
    let firsts = first_requests(setup, starts).await?;
    let dev = warm_starts(bench, starts).await?;
    let [first_event, done, phases @ ..] = workload::Timing::rows(&firsts);
    let mut rows = vec![
        Row::of("RSS at rest, MB", rest.rss_mb).at_most(&[25.0]),
        Row::of("CPU at rest, ms a second, with Postgres and Redis", rest.cpu_ms_per_second),
        Row::of("commits a second at rest", rest.commits_per_second),
        first_event.titled("first request").at_most(&[15.0]),
        done,
    ];
    rows.extend(phases);
    let ready = Row::spread("`dev`, warm: start → ready", dev.iter().map(|times| times[1]));
    rows.push(ready.at_most(&[800.0]));
    rows.push(Row::spread("  of this until its greeting", dev.iter().map(|times| times[0])));
    Ok(Report { about: format!("start: {starts} starts; the rows of requests are each start's first"), rows })
}

/// Starts the service again and again; each time a client connects as soon as it is ready, and sends a message.
async fn first_requests(setup: Setup, starts: usize) -> Result<Vec<workload::Timing>> {
    let again = setup.houston.setup.clone();
    let key = again.run(&["key", "create", "--tenant", "bench"])?;
    let mut connection = Connection::open(setup.houston.address, &key).await?;
    let user = connection.user("bench").await?;
    let goal = connection.goal(&user, "bench").await?;
    // Not counted: the later ones have a session, too.
    workload::run(&mut connection, &goal).await?;
    let Setup { mut houston, model: _model, .. } = setup;
    let mut progress = Progress::new("start: the first request", starts as u64);
    let mut timings = Vec::with_capacity(starts);
    for _ in 0..starts {
        houston.stop()?;
        houston = again.clone().start()?;
        let mut connection = Connection::open(houston.address, &key).await?;
        timings.push(workload::run(&mut connection, &goal).await?);
        progress.step();
    }
    houston.stop()?;
    Ok(timings)
}

/// Of each start of `houston dev` in a folder with data, the time until its greeting, and until it is ready.
async fn warm_starts(bench: &Bench, starts: usize) -> Result<Vec<[Duration; 2]>> {
    let folder = Scratch::new()?;
    let houston = Houston::builder(&bench.program).set("HOUSTON_FOLDER", folder.path().display().to_string());
    let mut progress = Progress::new("start: dev", starts as u64);
    let mut times = Vec::with_capacity(starts);
    for nth in 0..=starts {
        let began = Instant::now();
        let mut dev = Process::spawn(&mut houston.command(&["dev", "--address", "127.0.0.1:0"]))?;
        let address = dev.wait_for_address(PATIENCE)?;
        let greeted = began.elapsed();
        dev.wait_for_ready(address, "/readyz", PATIENCE)?;
        // The first start creates the data.
        if nth > 0 {
            times.push([greeted, began.elapsed()]);
            progress.step();
        }
        dev.terminate()?;
        dev.wait(PATIENCE)?;
    }
    Ok(times)
}
