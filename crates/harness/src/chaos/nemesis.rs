//! The nemesis: injects the planned faults and logs whether each injection succeeded.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use houston_testkit::fault_proxy::Fault;
use houston_testkit::servers::TestServers;
use serde::Deserialize;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::installation::ChaosInstallation;
use super::model::ModelFault;
use super::plan::{Action, Backends, Link, NODES, PlannedAction};
use houston_testkit::console::Progress;

/// How long a killed process stays down.
const DOWN: Duration = Duration::from_millis(500);
/// Conditions on `pg_stat_activity` that select Houston's connections.
const LEASES: &str = "application_name = 'houston lease'";
const HALF: &str = "application_name like 'houston%' and pid % 2 = 0";

/// A killed process and the locks it held.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Kill {
    /// When, in seconds since 1970 by the database's clock.
    pub(crate) now: f64,
    /// Agentable and epoch of each lock.
    pub(crate) held: Vec<(String, i64)>,
}

/// What an injected fault adds to the evidence.
#[derive(Debug, Default)]
struct Injected {
    kill: Option<Kill>,
    /// No process could reach Postgres: from and to, in seconds since 1970.
    outage: Option<(f64, f64)>,
    /// The server of the tested engine was lost: when, in seconds since 1970.
    lost_at: Option<f64>,
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
    /// When no process could reach Postgres.
    pub(crate) outages: Vec<(f64, f64)>,
    /// When the server of the tested engine was lost.
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

/// Carries out `plan` and waits until every fault is over; returns at once when `stop` is cancelled.
pub(crate) async fn carry_out(
    installation: &Arc<ChaosInstallation>,
    plan: Vec<PlannedAction>,
    progress: &mut Progress,
    stop: &CancellationToken,
) -> FaultLog {
    let began = Instant::now();
    let mut fault_log = FaultLog::default();
    let mut actions = JoinSet::new();
    for planned in plan {
        tokio::select! {
            () = sleep_until(began + planned.at) => {}
            () = stop.cancelled() => break,
        }
        progress.reach(planned.at.as_secs());
        progress.print_status(&format!("{:6.1} s  {}", planned.at.as_secs_f64(), planned.action));
        let installation = Arc::clone(installation);
        actions.spawn(async move { (planned.action, inject(&installation, planned.action).await) });
    }
    while !actions.is_empty() {
        let done = tokio::select! {
            done = actions.join_next() => done,
            () = stop.cancelled() => break,
        };
        let Some(Ok((action, done))) = done else { continue };
        fault_log.count(action.kind(), done.is_ok());
        match done {
            Ok(Injected { kill, outage, lost_at }) => {
                fault_log.kills.extend(kill);
                fault_log.outages.extend(outage);
                fault_log.lost_at = fault_log.lost_at.or(lost_at);
            }
            Err(error) => fault_log.not_injected.push(format!("{action}: {error:#}")),
        }
    }
    installation.clear_faults();
    fault_log
}

impl ChaosInstallation {
    /// Ends every fault that lasts.
    pub(crate) fn clear_faults(&self) {
        self.scripted_model.set(ModelFault::None);
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

/// Injects one fault and waits until it is over.
async fn inject(installation: &Arc<ChaosInstallation>, action: Action) -> Result<Injected> {
    let is_outage = matches!(action, Action::RestartPostgres | Action::CrashPostgres)
        || matches!(action, Action::Network { link: Link::Postgres, node: None, .. });
    if !is_outage && action != Action::LoseServer {
        return apply(installation, action).await;
    }
    let from = now(installation).await;
    apply(installation, action).await?;
    if action == Action::LoseServer {
        return Ok(Injected { lost_at: Some(from?), ..Injected::default() });
    }
    let outage = from.ok().zip(now(installation).await.ok());
    Ok(Injected { outage, ..Injected::default() })
}

/// Seconds since 1970, by the database's clock.
async fn now(installation: &Arc<ChaosInstallation>) -> Result<f64> {
    let now = |installation: &ChaosInstallation| {
        installation.databases.rows("select extract(epoch from clock_timestamp())")
    };
    let clocks = installation.blocking(now).await?;
    Ok(clocks.lines().next().context("there is no database")?.parse()?)
}

async fn apply(installation: &Arc<ChaosInstallation>, action: Action) -> Result<Injected> {
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
        Action::Network { link, node, fault, time } => {
            let nodes = node.map_or(0..NODES, |node| node..node + 1);
            installation.nodes[nodes.clone()].iter().for_each(|node| node.set(link, fault));
            sleep(time).await;
            installation.nodes[nodes].iter().for_each(|node| node.set(link, Fault::None));
        }
        Action::Model(fault, time) => {
            installation.scripted_model.set(fault);
            sleep(time).await;
            installation.scripted_model.set(ModelFault::None);
        }
        _ => {
            return installation.blocking(move |installation| apply_blocking(installation, action)).await;
        }
    }
    Ok(Injected::default())
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
    for servers in installation.servers.lock().iter() {
        servers.resume_redis()?;
    }
    Ok(())
}

fn apply_blocking(installation: &ChaosInstallation, action: Action) -> Result<Injected> {
    // It takes no cell's turn.
    if let Action::Kill(node) = action {
        return Ok(Injected { kill: kill(installation, node)?, ..Injected::default() });
    }
    let cell = installation.next_cell();
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
        Action::Terminate(backends) => {
            let which = if backends == Backends::Leases { LEASES } else { HALF };
            let sql = format!("select count(pg_terminate_backend(pid)) from pg_stat_activity where {which}");
            ensure!(installation.databases.sum(&sql)? != 0, "no such backend is connected");
        }
        Action::DeleteWorkerRow(node) => {
            let pid = installation.nodes[node].pid().context("the process is down already")?;
            installation.databases.rows(&format!("delete from houston.workers where name like '%-{pid}'"))?;
        }
        Action::Kill(_) | Action::Pause(..) | Action::Network { .. } | Action::Model(..) => {}
    }
    Ok(Injected::default())
}

/// Restarts Postgres. It is tried again: after a kill, a backend that has not ended yet keeps it from starting, and without
/// Postgres the rest of the run shows nothing.
fn restart_postgres(servers: &mut TestServers) -> Result<()> {
    const TRIES: usize = 10;
    let mut restarted = servers.restart_postgres();
    for _ in 1..TRIES {
        if restarted.is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_secs(1));
        restarted = servers.restart_postgres();
    }
    Ok(restarted?)
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
