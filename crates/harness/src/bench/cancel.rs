//! How fast a cancelled run closes its connection to the model: from sending the cancel request until the model server
//! sees the connection closed. API and worker are separate processes, since the way between them is measured: over
//! Redis, and without it over Postgres.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use houston_testkit::console::Progress;
use houston_testkit::model_server::{Ending, Journal, JournalDetail, Reply};
use serde_json::Value;

use super::report::{Report, Row};
use super::setup::{Replies, Setup};
use super::{Bench, workload};

/// Timeout of every wait.
const PATIENCE: Duration = Duration::from_secs(60);
/// The model streams for a minute, a word every 100 ms: no answer ends by itself.
const WORDS: usize = 600;
const PACE: Duration = Duration::from_millis(100);
/// A URL at which no Redis listens.
const NO_REDIS: &str = "redis://127.0.0.1:1";

pub(crate) async fn measure(bench: &Bench) -> Result<Report> {
    let runs = bench.size(80, 10);
    // A user is waiting for the run to stop: the aim holds for each.
    let rows = [
        Row::spread("cancel → closed", times(bench, None, runs).await?),
        Row::spread("  without Redis", times(bench, Some(NO_REDIS), runs).await?),
    ];
    let about = format!("cancel: {runs} runs, one after the other");
    Ok(Report { about, rows: rows.map(|row| row.at_most(&[100.0, 100.0])).into() })
}

async fn times(bench: &Bench, redis: Option<&str>, runs: usize) -> Result<Vec<Duration>> {
    let mut houston = bench.houston().set("HOUSTON_LOG", "error").workers(1);
    if let Some(redis) = redis {
        houston = houston.set("HOUSTON_REDIS_URL", redis);
    }
    let setup = Setup::start(houston, vec![bench.servers()?], Replies::Text).await?;
    setup.answer(&Reply::text("word ".repeat(WORDS)).in_pieces(WORDS).every(PACE));
    let journal = setup.model.journal();
    journal.set_detail(JournalDetail::Times);
    let mut connection = setup.connect().await?;
    let mut progress = Progress::new("cancel", runs as u64);
    let mut times = Vec::with_capacity(runs);
    for _ in 0..runs {
        let user = connection.user("bench").await?;
        let goal = connection.goal(&user, "bench").await?;
        journal.clear();
        let accepted = connection.send_message(&goal, &workload::MESSAGE).await?;
        let is_open = journal.wait_until(PATIENCE, |journal| journal.open() > 0).await;
        ensure!(is_open, "the run did not reach the model");
        // Until it is in the middle of its answer.
        tokio::time::sleep(PACE * 3).await;
        let run = accepted.message.run_id.context("the message has no run")?;
        let sent = Instant::now();
        connection.post(&format!("/v1/runs/{run}/cancel"), "{}").await?.json::<Value>()?;
        let left = |journal: &Journal| {
            let ended =
                journal.exchanges().into_iter().find(|exchange| exchange.ending == Ending::ClientLeft);
            ended.and_then(|exchange| exchange.ended)
        };
        let closed = journal.wait_until(PATIENCE, |journal| left(journal).is_some()).await;
        ensure!(closed, "a cancelled run did not close its connection to the model");
        times.push(left(journal).context("the journal has forgotten it")? - sent);
        progress.step();
    }
    setup.houston.stop()?;
    Ok(times)
}
