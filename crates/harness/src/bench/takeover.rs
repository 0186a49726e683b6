//! How soon a run goes on elsewhere when one of two workers is killed, or asked to stop, with the default settings. For each
//! run of such a worker, the time from just before the signal to the first fenced write of another worker is measured by the
//! database's clock.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use houston_testkit::console::Progress;
use houston_testkit::model_server::{Gate, JournalDetail};
use houston_testkit::process::{Process, Signal};
use serde::Deserialize;
use serde_json::json;

use super::Bench;
use super::report::{Report, Row};
use super::setup::{Replies, Setup};
use crate::http::Connection;
use crate::wait::wait_for;

/// Workers, and the runs that they have in flight.
const WORKERS: usize = 2;
const RUNS: usize = 4;
/// How long to wait for another worker before the measurement fails: far beyond every target.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a terminated worker may take to exit: twice the promised time, so that a late exit is measured.
const EXIT: Duration = Duration::from_secs(50);

/// An API process, several workers, and a model that holds its answers until a gate opens.
struct InFlight {
    setup: Setup,
    /// Holds the model's answers.
    gate: Gate,
    connection: Connection,
    goals: Vec<String>,
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
    let mut in_flight = InFlight::start(bench).await?;
    let killed = cycles(&mut in_flight, Signal::KILL, kills, "killing workers").await?;
    let stopped = cycles(&mut in_flight, Signal::TERM, stops, "stopping workers").await?;
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
async fn cycles(runs: &mut InFlight, signal: Signal, count: usize, label: &str) -> Result<Times> {
    let mut progress = Progress::new(label, count as u64);
    let mut times = Times::default();
    for cycle in 0..count {
        // Every run is in its model call.
        let in_flight = wait_for(
            PATIENCE,
            async || runs.find_holder(cycle),
            || format!("the runs were never all in flight:\n{}", runs.setup.houston.log()),
        );
        let held = in_flight.await?;
        runs.setup.model.journal().clear();
        let began = Instant::now();
        let worker = runs.worker(&held)?;
        worker.signal(signal)?;
        let count = held.runs.len();
        let recovered = wait_for(
            PATIENCE,
            async || runs.recovered(&held),
            || format!("not all of {count} runs were claimed again:\n{}", runs.setup.houston.log()),
        );
        times.slowest.extend(recovered.await?.into_iter().max());
        times.asked.push(runs.asked_again(count).await? - began);
        if signal == Signal::TERM {
            let worker = runs.worker(&held)?;
            let status = worker.wait(EXIT)?;
            ensure!(status.success(), "a terminated worker exited with {status}:\n{}", worker.log());
            times.exits.push(began.elapsed());
        }
        runs.setup.houston.workers.retain(|worker| worker.pid() != held.pid);
        runs.setup.houston.start_worker()?;
        runs.restart_runs().await?;
        progress.step();
    }
    Ok(times)
}

impl InFlight {
    async fn start(bench: &Bench) -> Result<Self> {
        let houston = bench.houston().workers(WORKERS);
        let setup = Setup::start(houston, vec![bench.servers()?], Replies::Text).await?;
        setup.model.journal().set_detail(JournalDetail::Times);
        let mut connection = setup.connect().await?;
        let mut goals = Vec::with_capacity(RUNS);
        // A user each: fairness limits how many runs of one user are held at once.
        for user in connection.users("recovery", RUNS).await? {
            goals.push(connection.goal(&user, "recovery").await?);
        }
        let mut runs = Self { setup, gate: Gate::new(), connection, goals };
        runs.begin().await?;
        Ok(runs)
    }

    /// Starts a run in each goal.
    async fn begin(&mut self) -> Result<()> {
        self.setup.answer(&self.setup.text().held_by(&self.gate));
        let message = json!({"content": "Take your time."}).to_string();
        for goal in &self.goals {
            self.connection.send_message(goal, &message).await?;
        }
        Ok(())
    }

    /// Lets all runs end and starts new ones: a run that loses one worker after the other would be given up.
    async fn restart_runs(&mut self) -> Result<()> {
        std::mem::take(&mut self.gate).open();
        self.setup.settle(PATIENCE).await.with_context(|| self.setup.houston.log())?;
        self.begin().await
    }

    /// Once living workers hold all runs and each has an open model call: one of these workers, another one each cycle.
    fn find_holder(&self, cycle: usize) -> Result<Option<HeldRuns>> {
        if self.setup.model.journal().open() < self.goals.len() {
            return Ok(None);
        }
        let mut held: Vec<HeldRuns> = serde_json::from_str(&self.setup.servers().sql(
            "select coalesce(json_agg(json_build_object('pid', pid, 'at', clock_timestamp()::text, 'runs', runs)
                                      order by pid), '[]')
               from (select split_part(w.name, '-', -1)::int as pid,
                            json_agg(json_build_object('agentable', l.agentable_id, 'epoch', l.epoch)) as runs
                       from houston.run_locks l join houston.workers w on w.id = l.holder
                      where l.run_open group by w.id, w.name) as holders",
        )?)?;
        held.retain(|held| self.setup.houston.workers.iter().any(|worker| worker.pid() == held.pid));
        if held.iter().map(|held| held.runs.len()).sum::<usize>() < self.goals.len() {
            return Ok(None);
        }
        let chosen = cycle % held.len();
        Ok(Some(held.swap_remove(chosen)))
    }

    /// When the model was asked for the last of so many runs, since the journal was cleared.
    async fn asked_again(&self, runs: usize) -> Result<Instant> {
        let journal = self.setup.model.journal();
        let all_asked = journal.wait_until(PATIENCE, |journal| journal.exchanges().len() >= runs).await;
        ensure!(all_asked, "the model was not asked again:\n{}", self.setup.houston.log());
        let asked = journal.exchanges().get(runs - 1).map(|exchange| exchange.at);
        asked.context("the journal has fewer calls than before")
    }

    fn worker(&mut self, held: &HeldRuns) -> Result<&mut Process> {
        let mut workers = self.setup.houston.workers.iter_mut();
        workers.find(|worker| worker.pid() == held.pid).context("this harness did not start that worker")
    }

    /// For each run in `held`, how long after `held` was read another worker claimed it; `None` until all have been.
    fn recovered(&self, held: &HeldRuns) -> Result<Option<Vec<Duration>>> {
        let runs: Vec<String> =
            held.runs.iter().map(|run| format!("('{}'::uuid, {})", run.agentable, run.epoch)).collect();
        let times = self.setup.servers().sql(&format!(
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
