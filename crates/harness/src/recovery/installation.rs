//! One API process, several workers, and a model that holds its answers until a gate opens.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use houston_testkit::model_server::{Gate, ModelServer, Reply};
use houston_testkit::process::Process;
use houston_testkit::servers::TestServers;
use serde::Deserialize;
use serde_json::json;

use super::{POLL, Plan};
use crate::bench::database::query;
use crate::http::Connection;
use crate::installation::{self, goal, user};

/// How long the runs may take to end.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a terminated worker may take to exit: twice the promised time, so that a late exit is measured.
const EXIT: Duration = Duration::from_secs(50);

/// The processes, their goals and the model.
pub(crate) struct RecoveryInstallation<'s> {
    program: &'s Path,
    servers: &'s TestServers,
    model: ModelServer,
    /// Holds the model's answers.
    gate: Arc<Mutex<Gate>>,
    connection: Connection,
    goals: Vec<String>,
    plan: Plan,
    _serve: Process,
    workers: Vec<Process>,
    terminated_at: Option<Instant>,
}

/// A worker and the runs it held.
#[derive(Debug, Deserialize)]
pub(crate) struct HeldRuns {
    /// Process id of the worker, from the end of its name.
    pid: u32,
    /// When this was read, by the database's clock.
    at: String,
    pub(crate) runs: Vec<HeldRun>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct HeldRun {
    agentable: String,
    epoch: i64,
}

impl<'s> RecoveryInstallation<'s> {
    pub(crate) async fn start(program: &'s Path, servers: &'s TestServers, plan: Plan) -> Result<Self> {
        let gate = Arc::new(Mutex::new(Gate::new()));
        let held = Arc::clone(&gate);
        let model = ModelServer::start(move |_| {
            Reply::text("This answer was held.").held_by(&held.lock().unwrap_or_else(PoisonError::into_inner))
        });
        let model = model.await?;
        let houston = |arguments: &[&str]| command(program, servers, &model, arguments);
        let (serve, address, key) = installation::serve(houston)?;
        let mut connection = Connection::open(address, &key).await?;
        let mut goals = Vec::with_capacity(plan.runs);
        for _ in 0..plan.runs {
            // A user each: fairness limits how many runs of one user are held at once.
            let user = user(&mut connection, "recovery").await?;
            goals.push(goal(&mut connection, &user, "recovery").await?);
        }
        let mut installation = Self {
            program,
            servers,
            model,
            gate,
            connection,
            goals,
            plan,
            _serve: serve,
            workers: Vec::new(),
            terminated_at: None,
        };
        for _ in 0..plan.workers {
            installation.start_worker()?;
        }
        installation.begin().await?;
        Ok(installation)
    }

    /// Starts a run in each goal.
    async fn begin(&mut self) -> Result<()> {
        let message = json!({"content": "Take your time."}).to_string();
        for goal in &self.goals {
            let path = format!("/v1/goals/{goal}/messages");
            self.connection.post(&path, &message).await?.json::<serde_json::Value>()?;
        }
        Ok(())
    }

    /// Lets all runs end and starts new ones: a run that loses one worker after the other would be given up.
    pub(crate) async fn restart_runs(&mut self) -> Result<()> {
        let next = Gate::new();
        std::mem::replace(&mut *self.gate.lock().unwrap_or_else(PoisonError::into_inner), next).open();
        let end = Instant::now() + PATIENCE;
        while query(self.servers, "select count(*) from houston.run_locks where run_open")? != "0" {
            ensure!(Instant::now() < end, "the runs did not end:\n{}", self.log());
            tokio::time::sleep(POLL).await;
        }
        self.begin().await
    }

    /// Starts one more worker.
    pub(crate) fn start_worker(&mut self) -> Result<()> {
        let houston = |arguments: &[&str]| command(self.program, self.servers, &self.model, arguments);
        self.workers.push(installation::work(houston)?);
        Ok(())
    }

    /// Once living workers hold all runs and each has an open model call: one of these workers, another one each cycle.
    pub(crate) fn find_holder(&self, cycle: usize) -> Result<Option<HeldRuns>> {
        if self.model.journal().open() < self.plan.runs {
            return Ok(None);
        }
        let mut held: Vec<HeldRuns> = serde_json::from_str(&query(
            self.servers,
            "select coalesce(json_agg(json_build_object('pid', pid, 'at', clock_timestamp()::text, 'runs', runs)
                                      order by pid), '[]')
               from (select split_part(w.name, '-', -1)::int as pid,
                            json_agg(json_build_object('agentable', l.agentable_id, 'epoch', l.epoch)) as runs
                       from houston.run_locks l join houston.workers w on w.id = l.holder
                      where l.run_open group by w.id, w.name) as holders",
        )?)?;
        held.retain(|held| self.workers.iter().any(|worker| worker.pid() == held.pid));
        if held.iter().map(|held| held.runs.len()).sum::<usize>() < self.plan.runs {
            return Ok(None);
        }
        let chosen = cycle % held.len();
        Ok(Some(held.swap_remove(chosen)))
    }

    fn worker(&mut self, held: &HeldRuns) -> Result<&mut Process> {
        self.workers
            .iter_mut()
            .find(|worker| worker.pid() == held.pid)
            .context("this harness did not start that worker")
    }

    pub(crate) fn kill(&mut self, held: &HeldRuns) -> Result<()> {
        self.worker(held)?.kill()?;
        self.workers.retain(|worker| worker.pid() != held.pid);
        Ok(())
    }

    pub(crate) fn terminate(&mut self, held: &HeldRuns) -> Result<()> {
        self.terminated_at = Some(Instant::now());
        Ok(self.worker(held)?.terminate()?)
    }

    /// Waits until a terminated worker has exited; returns how long it took.
    pub(crate) fn wait_for_exit(&mut self, held: &HeldRuns) -> Result<Duration> {
        let worker = self.worker(held)?;
        let status = worker.wait(EXIT)?;
        ensure!(status.success(), "a terminated worker exited with {status}:\n{}", worker.log());
        self.workers.retain(|worker| worker.pid() != held.pid);
        Ok(self.terminated_at.map(|asked| asked.elapsed()).unwrap_or_default())
    }

    /// For each run in `held` that another worker has claimed: how long after `held` was read.
    pub(crate) fn recovered(&self, held: &HeldRuns) -> Result<Vec<Duration>> {
        let runs: Vec<String> =
            held.runs.iter().map(|run| format!("('{}'::uuid, {})", run.agentable, run.epoch)).collect();
        let times = query(
            self.servers,
            &format!(
                "select extract(epoch from min(e.created_at) - '{}'::timestamptz)
                   from (values {}) as h (agentable, epoch)
                   join houston.events e on e.agentable_id = h.agentable and e.epoch > h.epoch
                  where e.data ->> 'type' = 'attempt_started'
                  group by h.agentable",
                held.at,
                runs.join(", ")
            ),
        )?;
        times.lines().map(|time| Ok(Duration::try_from_secs_f64(time.parse()?)?)).collect()
    }

    /// The output of the workers.
    pub(crate) fn log(&self) -> String {
        self.workers.iter().map(Process::log).collect::<Vec<_>>().join("\n──\n")
    }
}

/// A `houston` command on these servers, with the default settings.
fn command(program: &Path, servers: &TestServers, model: &ModelServer, arguments: &[&str]) -> Command {
    let mut command = installation::command_on(servers, program, arguments);
    command
        .env("HOUSTON_MODEL", "local/recovery")
        .env("HOUSTON_LOCAL_URL", model.url())
        .env("HOUSTON_MODEL_TOOLS", "false");
    command
}
