//! The complete service on its own Postgres and Redis, with a scripted model server.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use houston_testkit::houston::{Builder, Houston};
use houston_testkit::model_server::{JournalDetail, ModelServer};
use houston_testkit::servers::TestServers;
use parking_lot::Mutex;
use tokio::task::spawn_blocking;

use super::Options;
use super::apis::Apis;
use super::databases::Databases;
use super::decider::RULE;
use super::engines::Engines;
use super::message_script::POISON;
use super::model::ScriptedModel;
use super::nemesis::FaultLog;
use super::node::Node;
use super::plan::{APIS, NODES};
use crate::http::Connection;
use crate::service::add_tools;
use crate::wait::wait_until;
use houston_testkit::{programs, repository};

/// How long the service may take to start: an unoptimised build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two API processes and four workers behind fault proxies, their servers and the model.
pub(crate) struct ChaosInstallation {
    pub(crate) nodes: Vec<Node>,
    pub(crate) apis: Apis,
    pub(crate) scripted_model: ScriptedModel,
    pub(crate) model: ModelServer,
    pub(crate) databases: Databases,
    pub(crate) redis: Vec<PathBuf>,
    /// Ledgers of the tools, logs of the processes, recorded streams.
    pub(crate) folder: PathBuf,
    pub(crate) fault_log: Mutex<FaultLog>,
    /// The engine that is tested, if one is.
    pub(crate) engines: Mutex<Option<Engines>>,
    // Last, so that it is dropped after the processes that use it.
    pub(crate) servers: Mutex<Vec<TestServers>>,
    /// Counts faults of servers: they hit one cell after the other.
    pub(crate) turn: AtomicUsize,
}

impl ChaosInstallation {
    /// Starts all processes. `folder` is emptied first.
    pub(crate) async fn start(options: &Options) -> Result<Arc<Self>> {
        let Options { program, folder, cells, .. } = options;
        if folder.exists() {
            std::fs::remove_dir_all(folder)?;
        }
        std::fs::create_dir_all(folder.join("jobs/agents"))?;
        jobs(&folder.join("jobs"))?;
        // No fsync: servers are killed, machines are not, and the kernel's page cache survives a process.
        let servers: Vec<TestServers> = (0..*cells)
            .map(|_| programs::servers(|config| config.max_connections = 300))
            .collect::<Result<_>>()?;
        let scripted_model = ScriptedModel::default();
        let script = scripted_model.clone();
        let model = ModelServer::start(move |call| script.reply(call)).await?;
        model.journal().set_detail(JournalDetail::Times);

        let mut setup = settings(Houston::builder(program), folder);
        if let Some(mutation) = options.mutation {
            setup = setup.set("HOUSTON_MUTATION", mutation);
        }
        let key = setup.clone().on(&servers).prepare()?;
        let engines = match options.engine {
            Some(engine) => Some(Engines::start(engine, folder, &servers[0]).await?),
            None => None,
        };
        let sockets = servers.iter().map(sockets).collect::<Result<Vec<_>>>()?;
        let mut proxied = &sockets[..];
        if let Some(engines) = &engines {
            // Its servers are not behind the proxies of the processes.
            (setup, proxied) = (setup.cell(&engines.database_url, &engines.redis_url), &[]);
        }
        let wrong_clock = programs::faketime().await;
        let wrong_clock = programs::or_skip(true, "a process with a wrong clock", wrong_clock)?;
        let apis = ports()?;
        let mut nodes = Vec::with_capacity(NODES);
        for number in 0..NODES {
            let mut node = Node::new(number, setup.clone(), proxied, model.address(), folder).await?;
            node.address = apis.get(number).copied();
            node.wrong_clock = wrong_clock.clone().filter(|_| number == NODES - 1);
            nodes.push(node);
        }
        let installation = Self {
            nodes,
            redis: sockets.into_iter().map(|(_, redis)| redis).collect(),
            apis: Apis { addresses: apis, key },
            scripted_model,
            model,
            databases: Databases::of(&servers),
            folder: folder.clone(),
            fault_log: Mutex::default(),
            engines: Mutex::new(engines),
            servers: Mutex::new(servers),
            turn: AtomicUsize::new(0),
        };
        installation.wait_until_ready().await?;
        Ok(Arc::new(installation))
    }

    /// Does what blocks on a thread for that.
    pub(crate) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        job: impl FnOnce(&Self) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let installation = Arc::clone(self);
        spawn_blocking(move || job(&installation)).await?
    }

    /// Starts processes that have ended. Call it often.
    pub(crate) fn restart_ended(&self) -> Result<()> {
        self.nodes.iter().try_for_each(Node::restart_if_ended)
    }

    async fn wait_until_ready(&self) -> Result<()> {
        let all = i64::try_from((NODES - APIS) * self.redis.len())?;
        let is_ready = async || {
            self.restart_ended()?;
            let mut ready = 0;
            for api in &self.apis.addresses {
                let answer = self.apis.get(*api, "/readyz").await;
                ready += usize::from(answer.is_ok_and(|answer| answer.status == 200));
            }
            Ok(ready == APIS && self.databases.sum("select count(*) from houston.workers")? == all)
        };
        let problem = || format!("the service did not start: see the logs in {}", self.folder.display());
        wait_until(PATIENCE, is_ready, problem).await
    }

    /// Creates `count` goals, distributed over `users` users.
    pub(crate) async fn goals(&self, count: usize, users: usize) -> Result<Vec<String>> {
        let mut connection = Connection::open(self.apis.addresses[0], &self.apis.key).await?;
        let owners = connection.users("user", users).await?;
        let mut goals = Vec::new();
        for number in 0..count {
            goals.push(connection.goal(&owners[number % users], &format!("goal {number}")).await?);
        }
        Ok(goals)
    }
}

/// The environment of every process: the default settings, except delays that would outlast the run.
fn settings(setup: Builder, folder: &Path) -> Builder {
    let in_folder = |name: &str| folder.join(name).display().to_string();
    setup
        .set("HOUSTON_MODEL", "local/chaos")
        .set("HOUSTON_JOBS", in_folder("jobs"))
        .set("HOUSTON_LOG", "info")
        .set("HOUSTON_LOG_FORMAT", "text")
        .set("NO_COLOR", "1")
        .set("CHAOS_LEDGERS", in_folder(""))
        // 10 s, doubled each time, by default: five retries would take five minutes.
        .set("HOUSTON_ORCHESTRATOR__RETRY__DELAYED__BASE_MS", "500")
        .set("HOUSTON_ORCHESTRATOR__RETRY__DELAYED__MAX_MS", "4000")
        // Half an hour by default. Each goal gets a message about every ten seconds, so that most sessions are closed,
        // by the sweep or by the next message, while faults are injected.
        .set("HOUSTON_SESSION_ARCHIVE__QUIET_MS", "3000")
        .set("HOUSTON_SESSION_ARCHIVE__EVERY_MS", "500")
        // 6 min by default: summaries whose writer was killed must be written before the quiet phase ends.
        .set("HOUSTON_SESSION_ARCHIVE__SUMMARY_LEASE_S", "36")
        // 60 s by default: runs would spend most of their time waiting for a model that hangs.
        .set("HOUSTON_ORCHESTRATOR__MODEL__FIRST_BYTE_TIMEOUT_S", "8")
        .set("HOUSTON_ORCHESTRATOR__MODEL__IDLE_TIMEOUT_S", "8")
}

/// The sockets of Postgres and of Redis.
fn sockets(servers: &TestServers) -> Result<(PathBuf, PathBuf)> {
    let redis = servers.redis_url().strip_prefix("redis+unix://").context("the test Redis has no socket")?;
    Ok((servers.postgres_socket()?, PathBuf::from(redis)))
}

/// Writes the agent types with the tools of this test added, and the guards with the rule that some calls need a yes.
fn jobs(folder: &Path) -> Result<()> {
    add_tools(folder, "goal", &["charge", "upsert", "look", POISON])?;
    for kind in ["plan", "executor"] {
        add_tools(folder, kind, &["charge", "upsert", "look"])?;
    }
    let guards = std::fs::read_to_string(repository::root().join("jobs/guards.toml"))?;
    std::fs::write(folder.join("guards.toml"), format!("{guards}\n{RULE}"))?;
    // Anthropic's protocol has calls that are answered later.
    let models = "[profiles.\"local/*\"]\nwire = \"anthropic\"\nsubmits = \"batches\"\n";
    std::fs::write(folder.join("models.toml"), models)?;
    Ok(())
}

/// Free ports below the ephemeral range, so that no other process gets them while a process of ours is down.
fn ports() -> Result<Vec<SocketAddr>> {
    let first = u16::try_from(std::process::id() % 20_000).unwrap_or(0) + 10_000;
    let all = (first..=u16::MAX).map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let free: Vec<_> = all.filter(|address| TcpListener::bind(address).is_ok()).take(APIS).collect();
    ensure!(free.len() == APIS, "there is no free port above {first}");
    Ok(free)
}
