//! How fast a cancelled run closes its connection to the model: from sending the cancel request until the model server
//! sees the connection closed. API and worker are separate processes, since the way between them is measured: over
//! Redis, and without it over Postgres.

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use houston_protocol::message::{AcceptedMessageResponse, MessageResponse};
use houston_testkit::model_server::{Ending, Journal, JournalDetail, ModelServer, Prepared, Reply, Wire};
use houston_testkit::process::Process;
use houston_testkit::servers::TestServers;
use serde::Serialize;
use serde_json::json;
use tempfile::TempDir;

use super::spread::Spread;
use crate::http::Connection;
use crate::installation::{self, goal, user};
use houston_xtask::child::output;
use houston_xtask::console::{Progress, print_status};

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
    let pair = ApiAndWorker::start(program, servers, redis, &model.url())?;
    let mut client = Client { connection: Connection::open(pair.address, &pair.key).await?, journal };
    let goals = client.goals(runs).await?;
    let mut begun = Vec::with_capacity(runs);
    for goal in &goals {
        begun.push(client.post(goal, json!({"content": "write"})).await?);
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
            next.push(client.post(goal, body).await?);
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
    pair.end()?;
    Ok(times)
}

/// An API process and a worker process.
struct ApiAndWorker {
    serve: Process,
    work: Process,
    address: SocketAddr,
    key: String,
    _folder: TempDir,
}

impl ApiAndWorker {
    fn start(program: &Path, servers: &TestServers, redis: &str, model: &str) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("houston-harness-").tempdir()?;
        let command = |arguments: &[&str]| {
            let mut command = installation::command(program);
            command
                .args(arguments)
                .env("HOUSTON_FOLDER", folder.path())
                .env("DATABASE_URL", servers.database_url())
                .env("HOUSTON_REDIS_URL", redis)
                .env("HOUSTON_LOG", "error")
                .env("HOUSTON_MODEL", "local/bench")
                .env("HOUSTON_LOCAL_URL", model)
                .env("HOUSTON_MODEL_TOOLS", "false");
            command
        };
        output(&mut command(&["migrate"]))?;
        let key = output(&mut command(&["key", "create", "--tenant", "bench"]))?.trim().to_owned();
        let mut serve = Process::spawn(&mut command(&["serve", "--address", "127.0.0.1:0"]))?;
        let address = serve.wait_for_address(PATIENCE)?;
        serve.wait_for_ready(address, "/livez", PATIENCE)?;
        let work = Process::spawn(&mut command(&["work"]))?;
        work.wait_for_line(PATIENCE, |line| line == "working")?;
        Ok(Self { serve, work, address, key, _folder: folder })
    }

    fn end(mut self) -> Result<()> {
        self.serve.terminate()?;
        self.work.terminate()?;
        self.work.wait(PATIENCE)?;
        self.serve.wait(PATIENCE)?;
        Ok(())
    }
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
            let user = user(&mut self.connection, "bench").await?;
            goals.push(goal(&mut self.connection, &user, "bench").await?);
        }
        Ok(goals)
    }

    async fn post(&mut self, goal: &str, body: serde_json::Value) -> Result<AcceptedMessageResponse> {
        let path = format!("/v1/goals/{goal}/messages");
        self.connection.post(&path, &body.to_string()).await?.json()
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
