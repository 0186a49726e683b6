//! Engines in front of or beside the servers: a pooler, a standby, sentinels, a cluster. Each loses its server for good,
//! and the processes of the service must go on with the one that replaces it, without a restart.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use houston_testkit::child::output;
use houston_testkit::fault_proxy::{FaultProxy, Target};
use houston_testkit::process::Process;
use houston_testkit::programs;
use houston_testkit::servers::TestServers;

use super::databases::Databases;
use crate::pgbouncer::PgBouncer;

/// How long a server is gone before another one takes its place, where this test decides it.
const UNNOTICED: Duration = Duration::from_secs(2);
/// How long a group of servers may take to form.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Engine {
    #[default]
    /// PgBouncer, killed and started again
    Pooler,
    /// Postgres with a synchronous standby: the primary is killed, the standby is promoted
    Standby,
    /// Redis with a replica and three sentinels: the master is killed
    Sentinel,
    /// A Redis cluster of three masters with a replica each: the master with Houston's keys is killed
    Cluster,
}

/// The additional servers.
#[derive(Default)]
pub(crate) struct Engines {
    engine: Engine,
    folder: PathBuf,
    /// The addresses that the service gets.
    pub(crate) database_url: String,
    pub(crate) redis_url: String,
    pooler: Option<Process>,
    /// The path of the pooler.
    program: PathBuf,
    /// Redis servers, by their ports.
    redis: Vec<(u16, Process)>,
    /// Ways to the sockets of Postgres, which listens to nothing else.
    proxies: Vec<FaultProxy>,
    // Last, so that it is dropped after what uses it.
    standby: Option<TestServers>,
    /// What a reader of the figures must know.
    pub(crate) note: String,
}

impl Engines {
    pub(crate) async fn start(engine: Engine, folder: &Path, primary: &TestServers) -> Result<Self> {
        let folder = folder.join("engines");
        std::fs::create_dir_all(&folder)?;
        let mut engines = Self {
            engine,
            folder,
            database_url: primary.database_url().to_owned(),
            redis_url: primary.redis_url().to_owned(),
            ..Self::default()
        };
        match engine {
            Engine::Pooler => engines.start_pooler(primary).await?,
            Engine::Standby => engines.start_standby(primary).await?,
            Engine::Sentinel => engines.start_sentinels()?,
            Engine::Cluster => engines.start_cluster()?,
        }
        Ok(engines)
    }

    /// The server is lost for good, and replaced.
    pub(crate) fn lose(&mut self, primary: &TestServers, databases: &Databases) -> Result<()> {
        match self.engine {
            Engine::Pooler => {
                self.pooler.as_mut().context("there is no pooler")?.kill()?;
                std::thread::sleep(UNNOTICED);
                self.spawn_pooler()
            }
            Engine::Standby => {
                let standby = self.standby.as_ref().context("there is no standby")?;
                primary.kill_postgres()?;
                std::thread::sleep(UNNOTICED);
                standby.promote()?;
                databases.replace(standby.psql());
                Ok(())
            }
            Engine::Sentinel => self.kill_redis(0),
            Engine::Cluster => {
                let owner = self.owner()?;
                self.kill_redis(owner)
            }
        }
    }

    /// How many hints the Redis got that replaced the lost one; `None` if no Redis was lost.
    pub(crate) fn hints_after(&self) -> Option<u64> {
        if matches!(self.engine, Engine::Pooler | Engine::Standby) {
            return None;
        }
        let hints = self.redis.iter().filter_map(|(port, _)| hints_of_master(*port));
        Some(hints.sum())
    }

    async fn proxy(&mut self, servers: &TestServers) -> Result<SocketAddr> {
        let proxy = FaultProxy::start(Target::Unix(servers.postgres_socket()?)).await?;
        let address = proxy.address();
        self.proxies.push(proxy);
        Ok(address)
    }

    async fn start_pooler(&mut self, primary: &TestServers) -> Result<()> {
        let found = PgBouncer::find_or_install().await?;
        let mode = if found.keeps_statements { "transaction" } else { "session" };
        self.note = format!("{}, pool_mode={mode}", found.version);
        let (direct, port) = (self.proxy(primary).await?, free_port()?);
        // The pooler passes no settings on: the login has the time-outs on which the protocol relies.
        primary.sql(
            "alter role houston set statement_timeout = '5s'; alter role houston set lock_timeout = '2s';
             alter role houston set idle_in_transaction_session_timeout = '5s'",
        )?;
        let statements = if found.keeps_statements { "max_prepared_statements = 500\n" } else { "" };
        let configuration = format!(
            "[databases]\nhouston = host=127.0.0.1 port={} dbname=houston user=houston\n\n[pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
             pool_mode = {mode}\n{statements}max_client_conn = 1000\ndefault_pool_size = 200\n\
             server_round_robin = 1\n",
            direct.port()
        );
        std::fs::write(self.folder.join("pgbouncer.ini"), configuration)?;
        self.database_url =
            format!("postgres://houston@127.0.0.1:{port}/houston?sslmode=disable&direct={direct}");
        self.program = found.program;
        self.spawn_pooler()
    }

    fn spawn_pooler(&mut self) -> Result<()> {
        let mut command = Command::new(&self.program);
        if rustix::process::geteuid().is_root() {
            // It refuses to run as root.
            command.args(["--user", "nobody"]);
        }
        self.pooler = Some(Process::spawn(command.arg(self.folder.join("pgbouncer.ini")))?);
        Ok(())
    }

    async fn start_standby(&mut self, primary: &TestServers) -> Result<()> {
        let standby = primary.start_standby()?;
        let (first, second) = (self.proxy(primary).await?, self.proxy(&standby).await?);
        self.database_url = format!(
            "postgres://houston@{first},{second}/houston?sslmode=disable&target_session_attrs=read-write"
        );
        self.note = format!("promoted {} s after the kill", UNNOTICED.as_secs());
        self.standby = Some(standby);
        Ok(())
    }

    fn start_sentinels(&mut self) -> Result<()> {
        let master = self.start_redis(&[], "")?;
        let replica = self.start_redis(&[], &format!("replicaof 127.0.0.1 {master}"))?;
        wait("the replica does not follow", || says(replica, &["INFO"], "master_link_status:up"))?;
        let watched = format!(
            "sentinel monitor houston 127.0.0.1 {master} 2\n\
             sentinel down-after-milliseconds houston 2000\nsentinel failover-timeout houston 10000"
        );
        let hosts =
            (0..3).map(|_| self.start_redis(&["--sentinel"], &watched)).collect::<Result<Vec<_>>>()?;
        for port in &hosts {
            wait("the sentinels do not find each other", || {
                says(*port, &["INFO", "sentinel"], "slaves=1,sentinels=3")
            })?;
        }
        self.redis_url = format!("redis+sentinel://{}/houston", list(&hosts));
        self.note = "three sentinels, down after 2 s".to_owned();
        Ok(())
    }

    fn start_cluster(&mut self) -> Result<()> {
        let mode = "cluster-enabled yes\ncluster-node-timeout 2000";
        let nodes = (0..6).map(|_| self.start_redis(&[], mode)).collect::<Result<Vec<_>>>()?;
        for node in &nodes {
            wait("a node of the cluster does not answer", || says(*node, &["PING"], "PONG"))?;
        }
        let mut create = Command::new("redis-cli");
        create.args(["--cluster", "create"]).args(list(&nodes).split(','));
        output(create.args(["--cluster-replicas", "1", "--cluster-yes"]))?;
        for node in &nodes {
            wait("the cluster does not form", || says(*node, &["CLUSTER", "INFO"], "cluster_state:ok"))?;
            wait("a replica does not follow", || {
                let info = ask(*node, &["INFO", "replication"])?;
                Ok(info.contains("master_link_status:up") || info.contains("state=online"))
            })?;
        }
        self.redis_url = format!("redis+cluster://{}", list(&nodes));
        self.note = "six nodes, cluster-node-timeout 2 s".to_owned();
        Ok(())
    }

    fn start_redis(&mut self, mode: &[&str], lines: &str) -> Result<u16> {
        let port = free_port()?;
        let folder = self.folder.join(port.to_string());
        std::fs::create_dir_all(&folder)?;
        let file = folder.join("redis.conf");
        let common = format!("bind 127.0.0.1\nport {port}\ndir {}\nsave \"\"\n", folder.display());
        std::fs::write(&file, format!("{common}{lines}\n"))?;
        let server = programs::find("redis-server").context("redis-server is missing")?;
        self.redis.push((port, Process::spawn(Command::new(server).arg(&file).args(mode))?));
        Ok(port)
    }

    fn kill_redis(&mut self, nth: usize) -> Result<()> {
        let (_, server) = self.redis.get_mut(nth).context("there is no such Redis")?;
        server.kill()?;
        self.redis.remove(nth);
        // A replica has counted what its master sent.
        for (port, _) in &self.redis {
            ask(*port, &["CONFIG", "RESETSTAT"])?;
        }
        Ok(())
    }

    /// The node with Houston's keys.
    fn owner(&self) -> Result<usize> {
        let has_keys = |(port, _): &(u16, Process)| hints_of_master(*port).is_some_and(|hints| hints > 0);
        self.redis.iter().position(has_keys).context("no node of the cluster got a hint")
    }
}

/// A port that is free, and so is the one 10,000 above it, on which nodes of a cluster talk to each other.
fn free_port() -> Result<u16> {
    for _ in 0..100 {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let port = if port > 50_000 { port - 20_000 } else { port };
        let is_free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        if is_free(port) && is_free(port + 10_000) {
            return Ok(port);
        }
    }
    anyhow::bail!("there are no free ports")
}

fn list(ports: &[u16]) -> String {
    ports.iter().map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(",")
}

fn ask(port: u16, command: &[&str]) -> Result<String> {
    output(Command::new("redis-cli").args(["-p", &port.to_string()]).args(command))
}

fn says(port: u16, command: &[&str], wanted: &str) -> Result<bool> {
    // It may not listen yet.
    Ok(ask(port, command).is_ok_and(|answer| answer.contains(wanted)))
}

fn wait(problem: &str, is_done: impl Fn() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    while !is_done()? {
        ensure!(Instant::now() < end, "{problem}");
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// How many hints a server got, if it is a master and got any.
fn hints_of_master(port: u16) -> Option<u64> {
    let statistics = ask(port, &["INFO", "commandstats"]).ok()?;
    calls(&statistics, "zadd").filter(|_| ask(port, &["ROLE"]).is_ok_and(|role| role.starts_with("master")))
}

/// How often a server got a command, from INFO commandstats.
fn calls(statistics: &str, command: &str) -> Option<u64> {
    let start = format!("cmdstat_{command}:calls=");
    let rest = statistics.lines().find_map(|line| line.strip_prefix(&start))?;
    rest.split(',').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_read() {
        let statistics = "# Commandstats\r\ncmdstat_zadd:calls=12,usec=3\r\ncmdstat_ping:calls=1,usec=1\r\n";
        assert_eq!((calls(statistics, "zadd"), calls(statistics, "bzmpop")), (Some(12), None));
    }
}
