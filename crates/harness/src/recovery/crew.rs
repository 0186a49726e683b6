//! One API, a number of workers, and a model that holds its answers back until it is told.

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

use super::{LOOK, Plan};
use crate::bench::database::ask;
use crate::http::Connection;
use crate::installation::{self, goal, user};
use houston_xtask::child::quietly;

/// How long a process may take to come up.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long one that was asked to go may take: what is promised, and as much again to tell how late it is.
const EXIT: Duration = Duration::from_secs(50);

pub(crate) struct Crew<'s> {
    program: &'s Path,
    servers: &'s TestServers,
    model: ModelServer,
    /// Holds the answers back.
    gate: Arc<Mutex<Gate>>,
    connection: Connection,
    goals: Vec<String>,
    plan: Plan,
    _serve: Process,
    workers: Vec<Process>,
    asked_at: Option<Instant>,
}

/// A worker and the runs it held when it was looked at.
#[derive(Debug, Deserialize)]
pub(crate) struct Held {
    /// The process id at the end of its name.
    pid: u32,
    /// The database's time.
    at: String,
    pub(crate) runs: Vec<HeldRun>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct HeldRun {
    agentable: String,
    epoch: i64,
}

impl<'s> Crew<'s> {
    pub(crate) async fn assemble(program: &'s Path, servers: &'s TestServers, plan: Plan) -> Result<Self> {
        let gate = Arc::new(Mutex::new(Gate::new()));
        let held = Arc::clone(&gate);
        let model = ModelServer::start(move |_| {
            Reply::text("I was held up.").held_by(&held.lock().unwrap_or_else(PoisonError::into_inner))
        });
        let model = model.await?;
        let houston = |arguments: &[&str]| command(program, servers, &model, arguments);
        quietly(&mut houston(&["migrate"]))?;
        let key = quietly(&mut houston(&["key", "create", "--tenant", "recovery"]))?.trim().to_owned();
        let mut serve = Process::spawn(&mut houston(&["serve", "--address", "127.0.0.1:0"]))?;
        let address = serve.wait_for_address(PATIENCE)?;
        serve.wait_for_ready(address, "/readyz", PATIENCE)?;
        let mut connection = Connection::open(address, &key).await?;
        let mut goals = Vec::with_capacity(plan.runs);
        for _ in 0..plan.runs {
            // One user may not hold as many runs as are wanted at once.
            let user = user(&mut connection, "recovery").await?;
            goals.push(goal(&mut connection, &user, "recovery").await?);
        }
        let mut crew = Self {
            program,
            servers,
            model,
            gate,
            connection,
            goals,
            plan,
            _serve: serve,
            workers: Vec::new(),
            asked_at: None,
        };
        for _ in 0..plan.workers {
            crew.take_on()?;
        }
        crew.begin().await?;
        Ok(crew)
    }

    /// Begins a run in each goal.
    async fn begin(&mut self) -> Result<()> {
        let message = json!({"content": "Take your time."}).to_string();
        for goal in &self.goals {
            let path = format!("/v1/goals/{goal}/messages");
            self.connection.post(&path, &message).await?.json::<serde_json::Value>()?;
        }
        Ok(())
    }

    /// Lets all runs come to their end, and begins others. A run that lost one worker after the other would be taken
    /// for what killed them.
    pub(crate) async fn begin_anew(&mut self) -> Result<()> {
        let next = Gate::new();
        std::mem::replace(&mut *self.gate.lock().unwrap_or_else(PoisonError::into_inner), next).open();
        let end = Instant::now() + PATIENCE;
        while ask(self.servers, "select count(*) from houston.run_locks where run_open")? != "0" {
            ensure!(Instant::now() < end, "the runs did not come to their end:\n{}", self.log());
            tokio::time::sleep(LOOK).await;
        }
        self.begin().await
    }

    /// Starts one more worker.
    pub(crate) fn take_on(&mut self) -> Result<()> {
        let worker = Process::spawn(&mut command(self.program, self.servers, &self.model, &["work"]))?;
        worker.wait_for_line(PATIENCE, |line| line == "working")?;
        self.workers.push(worker);
        Ok(())
    }

    /// When all runs are in the hands of workers that live, and the model is writing for each: one of the workers
    /// that hold some, another one each cycle.
    pub(crate) fn held(&self, cycle: usize) -> Result<Option<Held>> {
        if self.model.journal().open() < self.plan.runs {
            return Ok(None);
        }
        let mut held: Vec<Held> = serde_json::from_str(&ask(
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

    fn worker(&mut self, held: &Held) -> Result<&mut Process> {
        self.workers.iter_mut().find(|worker| worker.pid() == held.pid).context("a worker nobody started")
    }

    pub(crate) fn kill(&mut self, held: &Held) -> Result<()> {
        self.worker(held)?.kill()?;
        self.workers.retain(|worker| worker.pid() != held.pid);
        Ok(())
    }

    pub(crate) fn ask_to_go(&mut self, held: &Held) -> Result<()> {
        self.asked_at = Some(Instant::now());
        Ok(self.worker(held)?.terminate()?)
    }

    /// Waits until a worker that was asked to go has gone; returns how long it took.
    pub(crate) fn wait_for_exit(&mut self, held: &Held) -> Result<Duration> {
        let worker = self.worker(held)?;
        let status = worker.wait(EXIT)?;
        ensure!(status.success(), "a worker that was asked to go ended with {status}:\n{}", worker.log());
        self.workers.retain(|worker| worker.pid() != held.pid);
        Ok(self.asked_at.map(|asked| asked.elapsed()).unwrap_or_default())
    }

    /// How long after `held` was looked at each of its runs was claimed by another worker, of those that were.
    pub(crate) fn recovered(&self, held: &Held) -> Result<Vec<Duration>> {
        let runs: Vec<String> =
            held.runs.iter().map(|run| format!("('{}'::uuid, {})", run.agentable, run.epoch)).collect();
        let times = ask(
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

    /// What the workers say.
    pub(crate) fn log(&self) -> String {
        self.workers.iter().map(Process::log).collect::<Vec<_>>().join("\n──\n")
    }
}

/// A Houston on these servers, with the settings it comes with.
fn command(program: &Path, servers: &TestServers, model: &ModelServer, arguments: &[&str]) -> Command {
    let mut command = installation::command(program);
    command
        .args(arguments)
        .env("DATABASE_URL", servers.database_url())
        .env("HOUSTON_REDIS_URL", servers.redis_url())
        .env("HOUSTON_MODEL", "local/recovery")
        .env("HOUSTON_LOCAL_URL", model.url())
        .env("HOUSTON_MODEL_TOOLS", "false")
        .env("HOUSTON_LOG", "warn");
    command
}
