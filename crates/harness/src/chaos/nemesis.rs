//! Makes everything go wrong that was planned, and writes down whether it did.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use houston_testkit::fault_proxy::Fault;
use serde::Deserialize;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::house::House;
use super::model::Weather;
use super::plan::{Act, Backends, Link, NODES, Planned};
use houston_xtask::console::Progress;

/// How long a killed process stays down.
const DOWN: Duration = Duration::from_millis(500);
/// The application names of Houston's connections.
const LEASES: &str = "application_name = 'houston lease'";
const HALF: &str = "application_name like 'houston%' and pid % 2 = 0";

/// What a worker held when it was killed.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Kill {
    /// Seconds since 1970, by the database's clock.
    pub(crate) now: f64,
    /// Agentables and epochs.
    pub(crate) held: Vec<(String, i64)>,
}

/// What of an act the judge wants to know.
#[derive(Debug)]
enum Trace {
    Nothing,
    Kill(Kill),
    /// Postgres could not be reached by anybody, from and to.
    Outage(f64, f64),
}

/// What was done.
#[derive(Debug, Default)]
pub(crate) struct Deeds {
    /// By kind: planned, and injected.
    pub(crate) counts: BTreeMap<&'static str, (usize, usize)>,
    pub(crate) kills: Vec<Kill>,
    pub(crate) outages: Vec<(f64, f64)>,
    /// What could not be done, and why.
    pub(crate) failures: Vec<String>,
}

impl Deeds {
    pub(crate) fn planned(&self) -> usize {
        self.counts.values().map(|(planned, _)| planned).sum()
    }

    pub(crate) fn injected(&self) -> usize {
        self.counts.values().map(|(_, injected)| injected).sum()
    }

    pub(crate) fn count(&mut self, kind: &'static str, is_injected: bool) {
        let count = self.counts.entry(kind).or_default();
        count.0 += 1;
        count.1 += usize::from(is_injected);
    }
}

/// Carries out `plan`, and waits until all of it is over; ends at once when `stop` says so.
pub(crate) async fn carry_out(
    house: &Arc<House>,
    plan: Vec<Planned>,
    progress: &mut Progress,
    stop: &CancellationToken,
) -> Deeds {
    let began = Instant::now();
    let mut deeds = Deeds::default();
    let mut acts = JoinSet::new();
    for planned in plan {
        tokio::select! {
            () = sleep_until(began + planned.at) => {}
            () = stop.cancelled() => break,
        }
        progress.reach(planned.at.as_secs());
        progress.tell(&format!("{:6.1} s  {}", planned.at.as_secs_f64(), planned.act));
        let house = Arc::clone(house);
        acts.spawn(async move { (planned.act, inject(&house, planned.act).await) });
    }
    while !acts.is_empty() {
        let done = tokio::select! {
            done = acts.join_next() => done,
            () = stop.cancelled() => break,
        };
        let Some(Ok((act, done))) = done else { continue };
        deeds.count(act.kind(), done.is_ok());
        match done {
            Ok(Trace::Nothing) => {}
            Ok(Trace::Kill(kill)) => deeds.kills.push(kill),
            Ok(Trace::Outage(from, to)) => deeds.outages.push((from, to)),
            Err(error) => deeds.failures.push(format!("{act}: {error:#}")),
        }
    }
    house.be_kind();
    deeds
}

impl House {
    /// Ends every fault that has a length.
    pub(crate) fn be_kind(&self) {
        self.mind.set(Weather::Fair);
        let _ = self.servers().resume_redis();
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

/// Does it from its beginning to its end.
async fn inject(house: &Arc<House>, act: Act) -> Result<Trace> {
    let is_outage = matches!(act, Act::RestartPostgres | Act::CrashPostgres)
        || matches!(act, Act::Network { link: Link::Postgres, node: None, .. });
    if !is_outage {
        return harm(house, act).await;
    }
    let from = now(house).await;
    harm(house, act).await?;
    let to = now(house).await;
    Ok(match (from, to) {
        (Ok(from), Ok(to)) => Trace::Outage(from, to),
        _ => Trace::Nothing,
    })
}

/// Seconds since 1970, by the database's clock.
async fn now(house: &Arc<House>) -> Result<f64> {
    let house = Arc::clone(house);
    let now = move || house.psql.ask("select extract(epoch from clock_timestamp())");
    Ok(spawn_blocking(now).await??.parse()?)
}

async fn harm(house: &Arc<House>, act: Act) -> Result<Trace> {
    match act {
        Act::Kill { node } => {
            let house = Arc::clone(house);
            let kill = spawn_blocking(move || kill(&house, node)).await??;
            return Ok(kill.map_or(Trace::Nothing, Trace::Kill));
        }
        Act::Pause { node, time } => {
            let pid = house.nodes[node].pause()?;
            sleep(time).await;
            house.nodes[node].resume(pid);
        }
        Act::StallRedis { time } => {
            blocking(house, act).await?;
            sleep(time).await;
            let house = Arc::clone(house);
            spawn_blocking(move || house.servers().resume_redis()).await??;
        }
        Act::Network { link, node, fault, time } => {
            let nodes = node.map_or(0..NODES, |node| node..node + 1);
            house.nodes[nodes.clone()].iter().for_each(|node| node.set(link, fault));
            sleep(time).await;
            house.nodes[nodes].iter().for_each(|node| node.set(link, Fault::None));
        }
        Act::Model { weather, time } => {
            house.mind.set(weather);
            sleep(time).await;
            house.mind.set(Weather::Fair);
        }
        Act::FlushRedis
        | Act::RestartRedis
        | Act::RestartPostgres
        | Act::CrashPostgres
        | Act::Terminate(_)
        | Act::Misjudge { .. } => blocking(house, act).await?,
    }
    Ok(Trace::Nothing)
}

async fn blocking(house: &Arc<House>, act: Act) -> Result<()> {
    let house = Arc::clone(house);
    spawn_blocking(move || harm_servers(&house, act)).await?
}

fn kill(house: &House, node: usize) -> Result<Option<Kill>> {
    let node = &house.nodes[node];
    let pid = node.pid().context("it is down already")?;
    // Postgres may be down, too: then the recovery of these runs is not timed.
    let held = house.psql.ask(&format!(
        "select json_build_object('now', extract(epoch from clock_timestamp()),
                'held', coalesce(json_agg(json_build_array(replace(l.agentable_id::text, '-', ''), l.epoch)), '[]'))
           from houston.run_locks l join houston.workers w on w.id = l.holder
          where w.name like '%-{pid}'"
    ));
    node.kill(DOWN)?;
    Ok(held.ok().and_then(|held| serde_json::from_str(&held).ok()))
}

fn harm_servers(house: &House, act: Act) -> Result<()> {
    match act {
        Act::FlushRedis => flush(&house.redis)?,
        Act::StallRedis { .. } => house.servers().stall_redis()?,
        Act::RestartRedis => {
            let mut servers = house.servers();
            // One that is stalled does not hear that it should stop.
            servers.resume_redis()?;
            servers.restart_redis()?;
        }
        Act::RestartPostgres => house.servers().restart_postgres()?,
        Act::CrashPostgres => {
            let mut servers = house.servers();
            servers.kill_postgres()?;
            servers.restart_postgres()?;
        }
        Act::Terminate(backends) => {
            let which = if backends == Backends::Leases { LEASES } else { HALF };
            let sql = format!("select count(pg_terminate_backend(pid)) from pg_stat_activity where {which}");
            ensure!(house.psql.ask(&sql)? != "0", "there was no such backend");
        }
        Act::Misjudge { node } => {
            let pid = house.nodes[node].pid().context("it is down already")?;
            house.psql.ask(&format!("delete from houston.workers where name like '%-{pid}'"))?;
        }
        Act::Kill { .. } | Act::Pause { .. } | Act::Network { .. } | Act::Model { .. } => {}
    }
    Ok(())
}

fn flush(socket: &Path) -> Result<()> {
    let mut redis = UnixStream::connect(socket)?;
    redis.set_read_timeout(Some(Duration::from_secs(20)))?;
    redis.write_all(b"FLUSHALL\r\n")?;
    let mut answer = [0; 3];
    redis.read_exact(&mut answer)?;
    ensure!(&answer == b"+OK", "Redis said {}", String::from_utf8_lossy(&answer));
    Ok(())
}
