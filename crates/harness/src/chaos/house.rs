//! The whole service, on servers of its own, with a model that can be trusted to be what it is.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use houston_testkit::model_server::{Keep, ModelServer};
use houston_testkit::servers::TestServers;
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::model::Mind;
use super::node::{Node, Servers, Start};
use super::plan::{APIS, NODES, name};
use super::wish::POISON;
use crate::http::Connection;
use crate::installation::{goal, without_settings};
use houston_xtask::child::quietly;
use houston_xtask::console::tell;
use houston_xtask::psql::Psql;
use houston_xtask::{programs, repository};

/// How long the service may take to come up: unoptimised, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Everything there is.
pub(crate) struct House {
    pub(crate) nodes: Vec<Node>,
    pub(crate) apis: Vec<SocketAddr>,
    pub(crate) key: String,
    pub(crate) mind: Mind,
    pub(crate) model: ModelServer,
    pub(crate) psql: Psql,
    pub(crate) redis: PathBuf,
    /// Where the tools write down what they did, and everybody else what happened.
    pub(crate) folder: PathBuf,
    pub(crate) wrong_clock: bool,
    // Last, so that it is dropped after those that use it.
    servers: Mutex<TestServers>,
}

#[derive(Deserialize)]
struct Made {
    id: String,
}

impl House {
    /// Starts everything, with `variables` on top of what every process gets. `folder` is emptied first.
    pub(crate) async fn start(
        program: &Path,
        folder: &Path,
        variables: &[(String, String)],
    ) -> Result<Arc<Self>> {
        if folder.exists() {
            std::fs::remove_dir_all(folder)?;
        }
        std::fs::create_dir_all(folder.join("jobs/agents"))?;
        jobs(&folder.join("jobs"))?;
        // No fsync: servers are killed here, machines are not, and what the kernel has outlives a process.
        let servers = programs::servers(|config| config.max_connections = 300)?;
        let mind = Mind::default();
        let script = mind.clone();
        let model = ModelServer::start(move |call| script.reply(call)).await?;
        model.journal().keep(Keep::Times);

        let mut variables = variables.to_vec();
        variables.extend(settings(folder));
        let key = prepare(program, &servers, &variables)?;
        let places = places(&servers, model.address())?;
        let clock = wrong_clock().await;
        let apis = ports()?;
        let mut nodes = Vec::with_capacity(NODES);
        for node in 0..NODES {
            let arguments = match apis.get(node) {
                Some(address) => vec!["serve".to_owned(), "--address".to_owned(), address.to_string()],
                None => vec!["work".to_owned()],
            };
            let start = Start {
                program: program.to_owned(),
                arguments,
                variables: variables.clone(),
                wrong_clock: clock.clone().filter(|_| node == NODES - 1),
                log: folder.join(format!("{}.log", name(node).replace(' ', "-"))),
            };
            nodes.push(Node::new(name(node), start, &places).await?);
        }
        let house = Self {
            nodes,
            apis,
            key,
            mind,
            model,
            psql: Psql::of(&servers)?,
            redis: places.redis,
            folder: folder.to_owned(),
            wrong_clock: clock.is_some(),
            servers: Mutex::new(servers),
        };
        house.come_up().await?;
        Ok(Arc::new(house))
    }

    pub(crate) fn servers(&self) -> MutexGuard<'_, TestServers> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts what is down; to be called often.
    pub(crate) fn tend(&self) -> Result<()> {
        self.nodes.iter().try_for_each(Node::tend)
    }

    async fn come_up(&self) -> Result<()> {
        self.tend()?;
        let end = Instant::now() + PATIENCE;
        loop {
            let workers = self.psql.ask("select count(*) from houston.workers")?;
            let mut ready = 0;
            for api in &self.apis {
                let answer = async { Connection::open(*api, &self.key).await?.get("/readyz").await };
                ready += usize::from(answer.await.is_ok_and(|answer| answer.status == 200));
            }
            if ready == self.apis.len() && workers == (NODES - APIS).to_string() {
                return Ok(());
            }
            ensure!(Instant::now() < end, "the service did not come up: see {}", self.folder.display());
            self.tend()?;
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Makes goals of a few users.
    pub(crate) async fn goals(&self, count: usize, users: usize) -> Result<Vec<String>> {
        let mut connection = Connection::open(self.apis[0], &self.key).await?;
        let mut owners = Vec::new();
        for user in 0..users {
            let body = json!({ "name": format!("user {user}") }).to_string();
            owners.push(connection.post("/v1/users", &body).await?.json::<Made>()?.id);
        }
        let mut goals = Vec::new();
        for number in 0..count {
            goals.push(goal(&mut connection, &owners[number % users], &format!("goal {number}")).await?);
        }
        Ok(goals)
    }
}

/// What every process is told: the defaults, but for delays that would outlast the time there is.
fn settings(folder: &Path) -> Vec<(String, String)> {
    let folder = |name: &str| folder.join(name).display().to_string();
    [
        ("HOUSTON_MODEL", "local/chaos".to_owned()),
        ("HOUSTON_JOBS", folder("jobs")),
        ("HOUSTON_LOG", "info".to_owned()),
        ("HOUSTON_LOG_FORMAT", "text".to_owned()),
        ("NO_COLOR", "1".to_owned()),
        ("CHAOS_LEDGERS", folder("")),
        // 10 s and doubled by default: five of them take five minutes.
        ("HOUSTON_ORCHESTRATOR__RETRY__DELAYED__BASE_MS", "500".to_owned()),
        ("HOUSTON_ORCHESTRATOR__RETRY__DELAYED__MAX_MS", "4000".to_owned()),
        // Half an hour by default: each goal is spoken to every ten seconds, so that most sessions are closed, by the
        // sweep or by the next message, while everything goes wrong.
        ("HOUSTON_SESSION_ARCHIVE__QUIET_MS", "3000".to_owned()),
        ("HOUSTON_SESSION_ARCHIVE__EVERY_MS", "500".to_owned()),
        // 6 min by default: those whose writer was killed at last must be written before the quiet is over.
        ("HOUSTON_SESSION_ARCHIVE__SUMMARY_LEASE_S", "36".to_owned()),
        // 60 s by default: a model that hangs would be most of what happens.
        ("HOUSTON_ORCHESTRATOR__MODEL__FIRST_BYTE_TIMEOUT_S", "8".to_owned()),
        ("HOUSTON_ORCHESTRATOR__MODEL__IDLE_TIMEOUT_S", "8".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}

/// Makes the schema and a key; returns the key.
fn prepare(program: &Path, servers: &TestServers, variables: &[(String, String)]) -> Result<String> {
    let run = |arguments: &[&str]| {
        let mut command = Command::new(program);
        without_settings(&mut command);
        command.args(arguments).env("DATABASE_URL", servers.database_url());
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        quietly(&mut command)
    };
    run(&["migrate"])?;
    Ok(run(&["key", "create", "--tenant", "chaos"])?.trim().to_owned())
}

/// The sockets of the servers, from their URLs.
fn places(servers: &TestServers, model: SocketAddr) -> Result<Servers> {
    let folder = servers.database_url().split("host=").nth(1).and_then(|rest| rest.split('&').next());
    let folder = folder.context("the test database has no socket")?;
    let redis = servers.redis_url().strip_prefix("redis+unix://").context("the test Redis has no socket")?;
    Ok(Servers { postgres: Path::new(folder).join(".s.PGSQL.5432"), redis: PathBuf::from(redis), model })
}

/// The agent type of goals, with the tools of this test among its own.
fn jobs(folder: &Path) -> Result<()> {
    let goal = std::fs::read_to_string(repository::root().join("jobs/agents/goal.toml"))?;
    let tools = format!("tools = [\"charge\", \"upsert\", \"look\", \"{POISON}\", ");
    let changed = goal.replacen("tools = [", &tools, 1);
    ensure!(changed != goal, "jobs/agents/goal.toml has no tools");
    std::fs::write(folder.join("agents/goal.toml"), changed)?;
    Ok(())
}

/// The library that lies about the time, installed if it must be; without it there is one fault less.
async fn wrong_clock() -> Option<PathBuf> {
    let library = programs::faketime().await;
    if let Err(error) = &library {
        tell(&format!("no process has a wrong clock: {error:#}"));
    }
    library.ok()
}

/// Ports nobody has, below those the system hands out by itself: while a process is down, nobody takes its place.
fn ports() -> Result<Vec<SocketAddr>> {
    let first = u16::try_from(std::process::id() % 20_000).unwrap_or(0) + 10_000;
    let all = (first..=u16::MAX).map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let free: Vec<_> = all.filter(|address| TcpListener::bind(address).is_ok()).take(APIS).collect();
    ensure!(free.len() == APIS, "there is no free port above {first}");
    Ok(free)
}
