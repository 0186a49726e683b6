//! The nemesis: injects the planned faults and logs whether each injection succeeded.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use houston_testkit::fault_proxy::Fault;
use houston_testkit::servers::TestServers;
use serde::Deserialize;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::installation::ChaosInstallation;
use super::plan::{Action, BACKENDS, Link, NODES, PlannedAction};
use houston_testkit::console::Progress;

/// How long a killed process stays down.
const DOWN: Duration = Duration::from_millis(500);

/// A killed process and the locks it held.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Kill {
    /// When, in seconds since 1970 by the database's clock.
    pub(crate) now: f64,
    /// Agentable and epoch of each lock.
    pub(crate) held: Vec<(String, i64)>,
}

/// How many faults of a kind were planned, and injected.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Count {
    pub(crate) planned: usize,
    pub(crate) injected: usize,
}

/// The injected faults.
#[derive(Debug, Default)]
pub(crate) struct FaultLog {
    /// By kind.
    pub(crate) faults: BTreeMap<&'static str, Count>,
    pub(crate) kills: Vec<Kill>,
    /// When no process could reach Postgres: from and to, in seconds since 1970.
    pub(crate) outages: Vec<(f64, f64)>,
    /// When the server of the tested engine was lost, in seconds since 1970.
    pub(crate) lost_at: Option<f64>,
    /// Faults that could not be injected, and why.
    pub(crate) not_injected: Vec<String>,
}

impl FaultLog {
    pub(crate) fn planned(&self) -> usize {
        self.faults.values().map(|count| count.planned).sum()
    }

    pub(crate) fn injected(&self) -> usize {
        self.faults.values().map(|count| count.injected).sum()
    }

    pub(crate) fn count(&mut self, kind: &'static str, is_injected: bool) {
        let count = self.faults.entry(kind).or_default();
        count.planned += 1;
        count.injected += usize::from(is_injected);
    }
}

/// Carries out `plan`, logs it and waits until every fault is over. If this is dropped, faults that last are to be cleared.
pub(crate) async fn carry_out(
    installation: &Arc<ChaosInstallation>,
    plan: Vec<PlannedAction>,
    time: Duration,
) {
    let began = Instant::now();
    let mut progress = Progress::new("injecting faults", time.as_secs());
    let mut actions = JoinSet::new();
    for PlannedAction { at, action } in plan {
        sleep_until(began + at).await;
        progress.reach(at.as_secs());
        progress.print_status(&format!("{:6.1} s  {action}", at.as_secs_f64()));
        let installation = Arc::clone(installation);
        actions.spawn(async move {
            let done = inject(&installation, action).await;
            let mut fault_log = installation.fault_log.lock();
            fault_log.count(action.kind(), done.is_ok());
            fault_log.not_injected.extend(done.err().map(|error| format!("{action}: {error:#}")));
        });
    }
    while actions.join_next().await.is_some() {}
}

impl ChaosInstallation {
    /// Ends every fault that lasts.
    pub(crate) fn clear_faults(&self) {
        self.scripted_model.set(None);
        let _ = resume_redis(self);
        let _ = empty_redis(self);
        for node in &self.nodes {
            for link in [Link::Postgres, Link::Redis, Link::Model] {
                node.set(link, Fault::None);
            }
            if let Some(pid) = node.pid() {
                node.resume(pid);
            }
        }
    }
}

/// Injects one fault, logs what the checker must know of it, and waits until it is over.
async fn inject(installation: &Arc<ChaosInstallation>, action: Action) -> Result<()> {
    let is_outage = matches!(action, Action::RestartPostgres | Action::CrashPostgres)
        || matches!(action, Action::Network { link: Link::Postgres, node: None, .. });
    if !is_outage && action != Action::LoseServer {
        return apply(installation, action).await;
    }
    let from = now(installation).await;
    apply(installation, action).await?;
    if action == Action::LoseServer {
        installation.fault_log.lock().lost_at = Some(from?);
        return Ok(());
    }
    let outage = from.ok().zip(now(installation).await.ok());
    installation.fault_log.lock().outages.extend(outage);
    Ok(())
}

/// Seconds since 1970, by the database's clock.
async fn now(installation: &Arc<ChaosInstallation>) -> Result<f64> {
    let now = |installation: &ChaosInstallation| {
        installation.databases.rows("select extract(epoch from clock_timestamp())")
    };
    let clocks = installation.blocking(now).await?;
    Ok(clocks.lines().next().context("there is no database")?.parse()?)
}

async fn apply(installation: &Arc<ChaosInstallation>, action: Action) -> Result<()> {
    match action {
        Action::Pause(node, time) => {
            let pid = installation.nodes[node].pause()?;
            sleep(time).await;
            installation.nodes[node].resume(pid);
        }
        Action::StallRedis(time) | Action::FillRedis(time) => {
            installation.blocking(move |installation| apply_blocking(installation, action)).await?;
            sleep(time).await;
            let is_stalled = matches!(action, Action::StallRedis(_));
            installation.blocking(if is_stalled { resume_redis } else { empty_redis }).await?;
        }
        Action::Network { link, node, fault, time, .. } => {
            let nodes = node.map_or(0..NODES, |node| node..node + 1);
            installation.nodes[nodes.clone()].iter().for_each(|node| node.set(link, fault));
            sleep(time).await;
            installation.nodes[nodes].iter().for_each(|node| node.set(link, Fault::None));
        }
        Action::Model(fault, time) => {
            installation.scripted_model.set(Some(fault));
            sleep(time).await;
            installation.scripted_model.set(None);
        }
        _ => installation.blocking(move |installation| apply_blocking(installation, action)).await?,
    }
    Ok(())
}

fn kill(installation: &ChaosInstallation, node: usize) -> Result<Option<Kill>> {
    let node = &installation.nodes[node];
    let pid = node.pid().context("the process is down already")?;
    // Postgres may be down at the same time: then the recovery of these runs is not timed.
    let held = installation.databases.rows(&format!(
        "select json_build_object('now', extract(epoch from clock_timestamp()),
                'held', coalesce(json_agg(json_build_array(replace(l.agentable_id::text, '-', ''), l.epoch)), '[]'))
           from houston.run_locks l join houston.workers w on w.id = l.holder
          where w.name like '%-{pid}'"
    ));
    node.kill(DOWN)?;
    let cells: Vec<Kill> =
        held.unwrap_or_default().lines().filter_map(|held| serde_json::from_str(held).ok()).collect();
    Ok(cells.into_iter().reduce(|mut all, cell| {
        all.held.extend(cell.held);
        all
    }))
}

fn resume_redis(installation: &ChaosInstallation) -> Result<()> {
    Ok(installation.servers.lock().iter().try_for_each(TestServers::resume_redis)?)
}

fn apply_blocking(installation: &ChaosInstallation, action: Action) -> Result<()> {
    // It takes no cell's turn.
    if let Action::Kill(node) = action {
        let kill = kill(installation, node)?;
        installation.fault_log.lock().kills.extend(kill);
        return Ok(());
    }
    let cell = installation.turn.fetch_add(1, Relaxed) % installation.redis.len();
    match action {
        Action::FlushRedis => tell(&installation.redis[cell], "FLUSHALL")?,
        // A byte is less than it has: with `noeviction`, the default, it refuses all writes.
        Action::FillRedis(_) => tell(&installation.redis[cell], "CONFIG SET maxmemory 1")?,
        Action::StallRedis(_) => installation.servers.lock()[cell].stall_redis()?,
        Action::RestartRedis => {
            let servers = &mut installation.servers.lock()[cell];
            // A stalled Redis does not react to a shutdown request.
            servers.resume_redis()?;
            servers.restart_redis()?;
        }
        Action::RestartPostgres => restart_postgres(&mut installation.servers.lock()[cell])?,
        Action::CrashPostgres => {
            let servers = &mut installation.servers.lock()[cell];
            servers.kill_postgres()?;
            restart_postgres(servers)?;
        }
        Action::LoseServer => {
            let mut engines = installation.engines.lock();
            let engines = engines.as_mut().context("no engine is tested")?;
            engines.lose(&installation.servers.lock()[cell], &installation.databases)?;
        }
        Action::Terminate(nth) => {
            let which = BACKENDS[nth].1;
            let sql = format!("select count(pg_terminate_backend(pid)) from pg_stat_activity where {which}");
            ensure!(installation.databases.sum(&sql)? != 0, "no such backend is connected");
        }
        Action::DeleteWorkerRow(node) => {
            let pid = installation.nodes[node].pid().context("the process is down already")?;
            installation.databases.rows(&format!("delete from houston.workers where name like '%-{pid}'"))?;
        }
        Action::Kill(_) | Action::Pause(..) | Action::Network { .. } | Action::Model(..) => {}
    }
    Ok(())
}

/// Restarts Postgres. It is tried again: after a kill, a backend that has not ended yet keeps it from starting, and without
/// Postgres the rest of the run shows nothing.
fn restart_postgres(servers: &mut TestServers) -> Result<()> {
    const TRIES: usize = 10;
    for _ in 1..TRIES {
        if servers.restart_postgres().is_ok() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    Ok(servers.restart_postgres()?)
}

/// Redis has memory again. One that was restarted meanwhile has it already.
fn empty_redis(installation: &ChaosInstallation) -> Result<()> {
    installation.redis.iter().try_for_each(|socket| tell(socket, "CONFIG SET maxmemory 0"))
}

fn tell(socket: &Path, command: &str) -> Result<()> {
    let mut redis = UnixStream::connect(socket)?;
    redis.set_read_timeout(Some(Duration::from_secs(20)))?;
    redis.write_all(format!("{command}\r\n").as_bytes())?;
    let mut answer = [0; 3];
    redis.read_exact(&mut answer)?;
    ensure!(&answer == b"+OK", "Redis answered {}", String::from_utf8_lossy(&answer));
    Ok(())
}
