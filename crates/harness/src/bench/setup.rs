//! Houston and a model server for one measurement.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::FutureExt as _;
use houston_testkit::houston::{Builder, Houston};
use houston_testkit::model_server::{JournalDetail, ModelServer, Prepared, Reply, Wire};
use houston_testkit::servers::TestServers;
use parking_lot::Mutex;
use serde_json::json;

use super::database::{self, Counters};
use super::load::{Meter, clients};
use super::report::megabytes;
use super::workload;
use crate::http::Connection;
use crate::proc;
use crate::wait::wait_until;

/// How the model sends its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replies {
    /// As its text, for a model without tools.
    Text,
    /// As the argument of `send_message`.
    Tool,
    /// The same, after [`TURNS`] less one turns with a call of a tool that only reads.
    Loop,
}

/// The tool that a loop calls, and its arguments: the overseer would stop a run that repeats the same call.
const READS: &str = "get_current_time";
const ZONES: [&str; TURNS - 1] = ["UTC", "Asia/Tokyo", "Europe/Oslo", "America/Lima"];
/// Turns of a loop.
pub(crate) const TURNS: usize = 5;

/// What stands in a request to the model that offers tools, and for each result of one.
const TOOLS: &[u8] = br#""tools":["#;
const RESULT: &[u8] = br#""role":"tool""#;
/// Fewer goals than runs of one user may be held at once.
pub(crate) const GOALS_OF_A_USER: usize = 4;

/// The service, its servers and the model.
pub(crate) struct Setup {
    pub(crate) houston: Houston,
    pub(crate) model: ModelServer,
    reply: Arc<Mutex<Reply>>,
    replies: Replies,
    // Last, so that they are dropped after what uses them.
    pub(crate) cells: Vec<TestServers>,
}

/// Processor time: of Houston, Postgres, Redis, and this program, which is clients and model.
pub(crate) type Cpu = [Duration; 4];

/// The service without requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rest {
    /// Resident memory.
    pub(crate) rss_mb: f64,
    /// Processor time of all processes, in ms per second.
    pub(crate) cpu_ms_per_second: f64,
    /// Transactions that write, per second.
    pub(crate) commits_per_second: f64,
}

impl Setup {
    /// Starts the service with a cell for each of `cells`: as one process, unless `houston` says otherwise.
    pub(crate) async fn start(houston: Builder, cells: Vec<TestServers>, replies: Replies) -> Result<Self> {
        let reply = Arc::new(Mutex::new(Reply::empty()));
        let script = Arc::clone(&reply);
        let model = ModelServer::start(move |call| {
            if replies != Replies::Text && memchr::memmem::find(&call.body, TOOLS).is_none() {
                // A question beside the agent's own, such as that of a plan's step.
                return Reply::text(workload::ANSWER.as_str());
            }
            let results = || memchr::memmem::find_iter(&call.body, RESULT).count();
            if replies == Replies::Loop
                && let Some(zone) = ZONES.get(results())
            {
                // Not prepared: each call has an id of its own.
                return Reply::tool(READS, json!({ "time_zone": zone }));
            }
            script.lock().clone()
        })
        .await?;
        model.journal().set_detail(JournalDetail::Counts);
        let houston = houston
            .on(&cells)
            .model("local/bench", &model)
            .set("HOUSTON_MODEL_TOOLS", (replies != Replies::Text).to_string())
            .start()?;
        let setup = Self { houston, model, reply, replies, cells };
        setup.answer(&setup.text());
        Ok(setup)
    }

    /// Those of the first cell; usually there is one.
    pub(crate) fn servers(&self) -> &TestServers {
        &self.cells[0]
    }

    pub(crate) async fn connect(&self) -> Result<Connection> {
        Connection::to(&self.houston).await
    }

    /// Where clients find the service, and their key.
    pub(crate) fn at(&self) -> (SocketAddr, &str) {
        (self.houston.address, &self.houston.key)
    }

    /// Waits until no run is open.
    pub(crate) async fn settle(&self, patience: Duration) -> Result<()> {
        let is_over = async || Ok(database::count(self.servers(), "houston.run_locks where run_open")? == 0);
        wait_until(patience, is_over, || "not all runs ended".to_owned()).await
    }

    /// The answer of the workload, in [`workload::PIECES`] pieces and without delay.
    pub(crate) fn text(&self) -> Reply {
        let reply = match self.replies {
            Replies::Text => Reply::text(workload::ANSWER.as_str()),
            _ => Reply::tool("send_message", json!({ "content": *workload::ANSWER })),
        };
        reply.in_pieces(workload::PIECES)
    }

    /// Sets the model's answer, rendered once so that the model server needs little processor time.
    pub(crate) fn answer(&self, reply: &Reply) {
        let prepared = Reply::prepared(&Prepared::new(reply, Wire::OpenAiChat));
        *self.reply.lock() = prepared;
    }

    /// Measures the service at rest for `time`.
    pub(crate) async fn rest(&self, time: Duration) -> Result<Rest> {
        // It has just started: let its start-up work end.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let meter = Meter::begin(self)?;
        tokio::time::sleep(time).await;
        let spent = meter.end(self)?;
        Ok(Rest {
            rss_mb: megabytes(proc::rss_of(&self.houston)?),
            cpu_ms_per_second: spent.of_service().as_secs_f64() * 1000.0 / spent.seconds,
            commits_per_second: spent.grown.commits as f64 / spent.seconds,
        })
    }

    pub(crate) fn cpu(&self) -> Result<Cpu> {
        let of = |pid: Option<u32>| proc::cpu(pid.context("a server has no process id")?);
        Ok([
            self.houston.processes().map(|process| proc::cpu(process.pid())).sum::<Result<_>>()?,
            self.cells.iter().map(|cell| of(cell.postgres_pid())).sum::<Result<_>>()?,
            self.cells.iter().map(|cell| of(cell.redis_pid())).sum::<Result<_>>()?,
            proc::own_cpu()?,
        ])
    }

    /// The counters of all cells together.
    pub(crate) fn counters(&self) -> Result<Counters> {
        let mut cells = self.cells.iter().map(Counters::read);
        cells.try_fold(Counters::default(), |sum, cell| Ok(sum.with(cell?, u64::saturating_add)))
    }

    /// Creates `count` goals, one per run.
    pub(crate) async fn goals(&self, count: usize) -> Result<Arc<Vec<String>>> {
        // Of several users: fairness limits how many runs of one user are held at once.
        let users = count.div_ceil(GOALS_OF_A_USER);
        let created = clients(self.at(), 8, ("creating users with goals", users), move |connection, nth| {
            async move {
                let owner = connection.user("bench").await?;
                let mut goals = Vec::new();
                for _ in 0..GOALS_OF_A_USER.min(count - nth * GOALS_OF_A_USER) {
                    goals.push(connection.goal(&owner, "bench").await?);
                }
                Ok(goals)
            }
            .boxed()
        });
        Ok(Arc::new(created.await?.concat()))
    }

    /// Stops the service; fails if it logged a warning or error, or if a run did not complete.
    pub(crate) fn stop_and_check(self) -> Result<()> {
        let log = self.houston.log();
        let complaint = log.lines().find(|line| line.contains(" WARN ") || line.contains(" ERROR "));
        ensure!(
            complaint.is_none(),
            "the service logged a warning or error: {}",
            complaint.unwrap_or_default()
        );
        let not_completed = "houston.runs where status not in ('completed', 'message_sent')";
        let failed: u64 =
            self.cells.iter().map(|cell| database::count(cell, not_completed)).sum::<Result<_>>()?;
        ensure!(failed == 0, "{failed} runs did not complete");
        Ok(())
    }
}
