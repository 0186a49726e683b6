//! How fast a cancelled run closes its connection to the model: from sending the cancel request until the model server
//! sees the connection closed. API and worker are separate processes, since the way between them is measured: over
//! Redis, and without it over Postgres.

use std::fmt::Display;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use houston_protocol::message::MessageResponse;
use houston_testkit::houston::Houston;
use houston_testkit::model_server::{Ending, Journal, JournalDetail, ModelServer, Prepared, Reply, Wire};
use houston_testkit::servers::TestServers;
use serde::Serialize;
use serde_json::json;

use super::report::Row;
use super::spread::Spread;
use crate::http::Connection;
use houston_testkit::console::{Progress, print_status};

/// Timeout of every wait.
const PATIENCE: Duration = Duration::from_secs(60);
/// The model streams for a minute, a word every 100 ms: no answer ends by itself.
const WORDS: usize = 600;
const PACE: Duration = Duration::from_millis(100);
/// A URL at which no Redis listens.
const NO_REDIS: &str = "redis://127.0.0.1:1";

/// The result.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Cancel {
    /// Cancelled runs per measurement; a third of the cancels are messages that interrupt.
    pub(crate) runs: usize,
    pub(crate) with_redis_ms: Spread,
    pub(crate) without_redis_ms: Spread,
}

impl Cancel {
    /// The target applies to p99: a user is waiting for the run to stop.
    pub(crate) fn rows(&self) -> [Row; 2] {
        [
            ("cancel to model connection closed, ms p50 / p99", self.with_redis_ms),
            ("  without Redis", self.without_redis_ms),
        ]
        .map(|(what, spread)| Row::of(what, spread.to_string()).at_most(spread.p99, 100.0))
    }
}

/// Measures `runs` runs, and the `runs / 2` runs that interrupting messages start, with Redis and without.
pub(crate) async fn measure(program: &Path, servers: &TestServers, runs: usize) -> Result<Cancel> {
    let with_redis = cancel_times(program, servers, servers.redis_url(), runs).await?;
    let without_redis = cancel_times(program, servers, NO_REDIS, runs).await?;
    ensure!(with_redis.len() == without_redis.len(), "not every run was cancelled");
    Ok(Cancel {
        runs: with_redis.len(),
        with_redis_ms: Spread::of(with_redis),
        without_redis_ms: Spread::of(without_redis),
    })
}

async fn cancel_times(
    program: &Path,
    servers: &TestServers,
    redis: &str,
    runs: usize,
) -> Result<Vec<Duration>> {
    let text = "word ".repeat(WORDS);
    let reply = Reply::text(text).in_pieces(WORDS).every(PACE);
    let reply = Reply::prepared(&Prepared::new(&reply, Wire::OpenAiChat));
    let model = ModelServer::start(move |_| reply.clone()).await?;
    let journal = model.journal();
    journal.set_detail(JournalDetail::Times);
    let houston = Houston::builder(program)
        .cell(servers.database_url(), redis)
        .model("local/bench", &model)
        .set("HOUSTON_MODEL_TOOLS", "false")
        .set("HOUSTON_LOG", "error")
        .workers(1)
        .start()?;
    let mut client = Client { connection: Connection::to(&houston).await?, journal };
    let goals = client.goals(runs).await?;
    let mut begun = Vec::with_capacity(runs);
    for goal in &goals {
        begun.push(client.connection.send_message(goal, &json!({"content": "write"}).to_string()).await?);
    }
    client.wait_until_open(runs).await?;
    let name = if redis == NO_REDIS { "without Redis" } else { "with Redis" };
    let mut progress = Progress::new(&format!("cancel: {name}"), (runs + runs / 2) as u64);
    let (mut times, mut next) = (Vec::new(), Vec::new());
    for (nth, (goal, message)) in goals.iter().zip(&begun).enumerate() {
        let sent = Instant::now();
        if nth % 2 == 0 {
            client.cancel(message.message.run_id).await?;
        } else {
            let body = json!({"content": "no, this", "double_texting": "interrupt"});
            next.push(client.connection.send_message(goal, &body.to_string()).await?);
        }
        times.push(client.wait_until_closed(times.len() + 1).await? - sent);
        progress.step();
    }
    // The runs that the interrupting messages have started.
    client.wait_until_open(next.len()).await?;
    for message in next {
        let message: MessageResponse =
            client.connection.get(&format!("/v1/messages/{}", message.message.id)).await?.json()?;
        let sent = Instant::now();
        client.cancel(message.run_id).await?;
        times.push(client.wait_until_closed(times.len() + 1).await? - sent);
        progress.step();
    }
    houston.stop()?;
    Ok(times)
}

struct Client<'j> {
    connection: Connection,
    journal: &'j Journal,
}

impl Client<'_> {
    async fn goals(&mut self, count: usize) -> Result<Vec<String>> {
        print_status(&format!("cancel: creating {count} goals"));
        let mut goals = Vec::with_capacity(count);
        for _ in 0..count {
            // A user each: fairness limits how many runs of one user are held at once.
            let user = self.connection.user("bench").await?;
            goals.push(self.connection.goal(&user, "bench").await?);
        }
        Ok(goals)
    }

    async fn cancel(&mut self, run: Option<impl Display>) -> Result<()> {
        let path = format!("/v1/runs/{}/cancel", run.context("the message has no run")?);
        self.connection.post(&path, "{}").await?.json::<serde_json::Value>()?;
        Ok(())
    }

    async fn wait_until_open(&self, count: usize) -> Result<()> {
        let open = self.journal.wait_until(PATIENCE, |journal| journal.open() == count).await;
        ensure!(open, "{} of {count} runs reached the model", self.journal.open());
        // Until all are in the middle of their answers.
        tokio::time::sleep(PACE * 3).await;
        Ok(())
    }

    /// When the service closed its `count`th connection to the model.
    async fn wait_until_closed(&self, count: usize) -> Result<Instant> {
        let closed = |journal: &Journal| {
            let mut ends: Vec<Instant> = journal
                .exchanges()
                .iter()
                .filter(|exchange| exchange.ending == Ending::ClientLeft)
                .filter_map(|exchange| exchange.ended)
                .collect();
            ends.sort_unstable();
            ends
        };
        let reached = self.journal.wait_until(PATIENCE, |journal| closed(journal).len() >= count).await;
        ensure!(reached, "a cancelled run did not close its connection to the model");
        closed(self.journal).get(count - 1).copied().context("fewer connections are closed than before")
    }
}
