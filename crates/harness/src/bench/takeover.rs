//! How soon a run goes on elsewhere when one of two workers is killed, or asked to stop, with the default settings. For each
//! run of such a worker, the time from just before the signal to the first fenced write of another worker is measured by the
//! database's clock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use houston_testkit::console::Progress;
use houston_testkit::houston::Houston;
use houston_testkit::model_server::{Gate, JournalDetail, ModelServer, Reply};
use houston_testkit::process::Process;
use houston_testkit::servers::TestServers;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;

use super::Bench;
use super::report::{Report, Row};
use crate::http::Connection;
use crate::wait::{wait_for, wait_until};

/// Workers, and the runs that they have in flight.
const WORKERS: usize = 2;
const RUNS: usize = 4;
/// How long to wait for another worker before the measurement fails: far beyond every target.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a terminated worker may take to exit: twice the promised time, so that a late exit is measured.
const EXIT: Duration = Duration::from_secs(50);

/// The signal that ends a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signal {
    /// SIGKILL.
    Kill,
    /// SIGTERM.
    Terminate,
}

/// An API process, several workers, and a model that holds its answers until a gate opens.
struct Setup {
    houston: Houston,
    model: ModelServer,
    /// Holds the model's answers.
    gate: Arc<Mutex<Gate>>,
    connection: Connection,
    goals: Vec<String>,
    // Last, so that they are dropped after what uses them.
    servers: TestServers,
}

/// A worker and the runs it held.
#[derive(Debug, Deserialize)]
struct HeldRuns {
    /// Process id of the worker, from the end of its name.
    pid: u32,
    /// When this was read, by the database's clock.
    at: String,
    runs: Vec<HeldRun>,
}

#[derive(Debug, Deserialize)]
struct HeldRun {
    agentable: String,
    epoch: i64,
}

/// The measured times for one signal.
#[derive(Debug, Default)]
struct Times {
    /// Per ended worker: the time until the last of its runs was claimed.
    slowest: Vec<Duration>,
    /// Per ended worker: the time until the model was asked again for all of its runs.
    asked: Vec<Duration>,
    /// Time to exit, of terminated workers.
    exits: Vec<Duration>,
}

pub(crate) async fn measure(bench: &Bench) -> Result<Report> {
    let (kills, stops) = (bench.size(100, 5), bench.size(30, 3));
    let mut setup = Setup::start(bench).await?;
    let killed = cycles(&mut setup, Signal::Kill, kills, "killing workers").await?;
    let stopped = cycles(&mut setup, Signal::Terminate, stops, "stopping workers").await?;
    Ok(Report {
        about: format!(
            "takeover: {kills} kills and {stops} stops of one of {WORKERS} workers with {RUNS} runs; the run that waited longest"
        ),
        rows: vec![
            Row::spread("kill -9 → claimed elsewhere", killed.slowest).at_most(&[300.0, 1000.0]),
            Row::spread("  → the model is asked again", killed.asked),
            Row::spread("SIGTERM → claimed elsewhere", stopped.slowest).at_most(&[100.0]),
            Row::spread("  → the model is asked again", stopped.asked),
            Row::spread("  → the process has ended", stopped.exits).at_most(&[2000.0, 25_000.0]),
        ],
    })
}

/// Ends `count` workers, one after the other, and starts a new one each time.
async fn cycles(setup: &mut Setup, signal: Signal, count: usize, label: &str) -> Result<Times> {
    let mut progress = Progress::new(label, count as u64);
    let mut times = Times::default();
    for cycle in 0..count {
        // Every run is in its model call.
        let in_flight = wait_for(
            PATIENCE,
            async || setup.find_holder(cycle),
            || format!("the runs were never all in flight:\n{}", setup.houston.log()),
        );
        let held = in_flight.await?;
        setup.model.journal().clear();
        let began = Instant::now();
        let worker = setup.worker(&held)?;
        match signal {
            Signal::Kill => drop(worker.kill()?),
            Signal::Terminate => worker.terminate()?,
        }
        let recovered = wait_for(
            PATIENCE,
            async || setup.recovered(&held),
            || format!("not all of {} runs were claimed again:\n{}", held.runs.len(), setup.houston.log()),
        );
        times.slowest.extend(recovered.await?.into_iter().max());
        times.asked.push(setup.asked_again(held.runs.len()).await? - began);
        if signal == Signal::Terminate {
            let worker = setup.worker(&held)?;
            let status = worker.wait(EXIT)?;
            ensure!(status.success(), "a terminated worker exited with {status}:\n{}", worker.log());
            times.exits.push(began.elapsed());
        }
        setup.houston.workers.retain(|worker| worker.pid() != held.pid);
        setup.houston.start_worker()?;
        setup.restart_runs().await?;
        progress.step();
    }
    Ok(times)
}

impl Setup {
    async fn start(bench: &Bench) -> Result<Self> {
        let servers = bench.servers()?;
        let gate = Arc::new(Mutex::new(Gate::new()));
        let held = Arc::clone(&gate);
        let model = ModelServer::start(move |_| Reply::text("This answer was held.").held_by(&held.lock()));
        let model = model.await?;
        model.journal().set_detail(JournalDetail::Times);
        let houston = bench
            .houston()
            .on([&servers])
            .model("local/recovery", &model)
            .set("HOUSTON_MODEL_TOOLS", "false")
            .workers(WORKERS)
            .start()?;
        let mut connection = Connection::to(&houston).await?;
        let mut goals = Vec::with_capacity(RUNS);
        // A user each: fairness limits how many runs of one user are held at once.
        for user in connection.users("recovery", RUNS).await? {
            goals.push(connection.goal(&user, "recovery").await?);
        }
        let mut setup = Self { houston, model, gate, connection, goals, servers };
        setup.begin().await?;
        Ok(setup)
    }

    /// Starts a run in each goal.
    async fn begin(&mut self) -> Result<()> {
        let message = json!({"content": "Take your time."}).to_string();
        for goal in &self.goals {
            self.connection.send_message(goal, &message).await?;
        }
        Ok(())
    }

    /// Lets all runs end and starts new ones: a run that loses one worker after the other would be given up.
    async fn restart_runs(&mut self) -> Result<()> {
        let next = Gate::new();
        std::mem::replace(&mut *self.gate.lock(), next).open();
        let open = "select count(*) from houston.run_locks where run_open";
        let all_ended = async || Ok(self.servers.sql(open)? == "0");
        wait_until(PATIENCE, all_ended, || format!("the runs did not end:\n{}", self.houston.log())).await?;
        self.begin().await
    }

    /// Once living workers hold all runs and each has an open model call: one of these workers, another one each cycle.
    fn find_holder(&self, cycle: usize) -> Result<Option<HeldRuns>> {
        if self.model.journal().open() < self.goals.len() {
            return Ok(None);
        }
        let mut held: Vec<HeldRuns> = serde_json::from_str(&self.servers.sql(
            "select coalesce(json_agg(json_build_object('pid', pid, 'at', clock_timestamp()::text, 'runs', runs)
                                      order by pid), '[]')
               from (select split_part(w.name, '-', -1)::int as pid,
                            json_agg(json_build_object('agentable', l.agentable_id, 'epoch', l.epoch)) as runs
                       from houston.run_locks l join houston.workers w on w.id = l.holder
                      where l.run_open group by w.id, w.name) as holders",
        )?)?;
        held.retain(|held| self.houston.workers.iter().any(|worker| worker.pid() == held.pid));
        if held.iter().map(|held| held.runs.len()).sum::<usize>() < self.goals.len() {
            return Ok(None);
        }
        let chosen = cycle % held.len();
        Ok(Some(held.swap_remove(chosen)))
    }

    /// When the model was asked for the last of so many runs, since the journal was cleared.
    async fn asked_again(&self, runs: usize) -> Result<Instant> {
        let journal = self.model.journal();
        let all_asked = journal.wait_until(PATIENCE, |journal| journal.exchanges().len() >= runs).await;
        ensure!(all_asked, "the model was not asked again:\n{}", self.houston.log());
        let asked = journal.exchanges().get(runs - 1).map(|exchange| exchange.at);
        asked.context("the journal has fewer calls than before")
    }

    fn worker(&mut self, held: &HeldRuns) -> Result<&mut Process> {
        let mut workers = self.houston.workers.iter_mut();
        workers.find(|worker| worker.pid() == held.pid).context("this harness did not start that worker")
    }

    /// For each run in `held`, how long after `held` was read another worker claimed it; `None` until all have been.
    fn recovered(&self, held: &HeldRuns) -> Result<Option<Vec<Duration>>> {
        let runs: Vec<String> =
            held.runs.iter().map(|run| format!("('{}'::uuid, {})", run.agentable, run.epoch)).collect();
        let times = self.servers.sql(&format!(
            "select extract(epoch from min(e.created_at) - '{}'::timestamptz)
               from (values {}) as h (agentable, epoch)
               join houston.events e on e.agentable_id = h.agentable and e.epoch > h.epoch
              where e.data ->> 'type' = 'attempt_started'
              group by h.agentable",
            held.at,
            runs.join(", ")
        ))?;
        let times = times.lines().map(|time| Ok(Duration::try_from_secs_f64(time.parse()?)?));
        let times = times.collect::<Result<Vec<_>>>()?;
        Ok((times.len() == held.runs.len()).then_some(times))
    }
}
