//! Recovery times: workers of a real installation are killed or stopped while runs are in flight, with the default
//! settings. For each run of such a worker, the time from just before the signal to the first fenced write of another
//! worker is measured by the database's clock.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use houston_testkit::houston::Houston;
use houston_testkit::model_server::{Gate, JournalDetail, ModelServer, Reply};
use houston_testkit::process::Process;
use houston_testkit::servers::TestServers;
use serde::Deserialize;
use serde_json::json;

use crate::http::Connection;
use crate::wait::{wait_for, wait_until};
use houston_testkit::console::Progress;

/// How long to wait for another worker before the measurement fails: far beyond every target.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a terminated worker may take to exit: twice the promised time, so that a late exit is measured.
const EXIT: Duration = Duration::from_secs(50);

/// The size of the measurement: how many kills (SIGKILL) and stops (SIGTERM), with how many workers and runs in flight.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) kills: usize,
    pub(crate) stops: usize,
    pub(crate) workers: usize,
    pub(crate) runs: usize,
}

/// The signal that ends a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signal {
    /// SIGKILL.
    Kill,
    /// SIGTERM.
    Terminate,
}

/// An API process, several workers, and a model that holds its answers until a gate opens.
struct Setup<'s> {
    houston: Houston,
    servers: &'s TestServers,
    model: ModelServer,
    /// Holds the model's answers.
    gate: Arc<Mutex<Gate>>,
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
pub(crate) struct Times {
    /// Per ended worker: the time until the last of its runs was claimed.
    pub(crate) slowest: Vec<Duration>,
    /// Per ended worker: the time until the model was asked again for all of its runs.
    pub(crate) asked: Vec<Duration>,
    /// Time to exit, of terminated workers.
    pub(crate) exits: Vec<Duration>,
}

/// The times after kills, and after stops.
pub(crate) async fn times(program: &Path, servers: &TestServers, plan: Plan) -> Result<[Times; 2]> {
    let mut setup = Setup::start(program, servers, plan).await?;
    let kills = cycles(&mut setup, Signal::Kill, plan.kills, "killing workers").await?;
    Ok([kills, cycles(&mut setup, Signal::Terminate, plan.stops, "stopping workers").await?])
}

/// Ends `count` workers, one after the other, and starts a new one each time.
async fn cycles(setup: &mut Setup<'_>, signal: Signal, count: usize, label: &str) -> Result<Times> {
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

impl<'s> Setup<'s> {
    async fn start(program: &Path, servers: &'s TestServers, plan: Plan) -> Result<Self> {
        let gate = Arc::new(Mutex::new(Gate::new()));
        let held = Arc::clone(&gate);
        let model = ModelServer::start(move |_| {
            Reply::text("This answer was held.").held_by(&held.lock().unwrap_or_else(PoisonError::into_inner))
        });
        let model = model.await?;
        model.journal().set_detail(JournalDetail::Times);
        let houston = Houston::builder(program)
            .on([servers])
            .model("local/recovery", &model)
            .set("HOUSTON_MODEL_TOOLS", "false")
            .workers(plan.workers)
            .start()?;
        let mut connection = Connection::to(&houston).await?;
        let mut goals = Vec::with_capacity(plan.runs);
        for _ in 0..plan.runs {
            // A user each: fairness limits how many runs of one user are held at once.
            let user = connection.user("recovery").await?;
            goals.push(connection.goal(&user, "recovery").await?);
        }
        let mut setup = Self { houston, servers, model, gate, connection, goals };
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
        std::mem::replace(&mut *self.gate.lock().unwrap_or_else(PoisonError::into_inner), next).open();
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
