//! Clients that only cost: streams on which nothing happens, and wrong keys.
//!
//! Addresses of this machine have no limits of their own, as those of a proxy, unless a part sets them.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use houston_testkit::servers::TestServers;
use houston_xtask::console::{Progress, print_status};
use serde::Serialize;
use tokio::task::JoinSet;

use super::machine;
use super::spread::{Spread, round};
use crate::http::Connection;
use crate::installation::{self, Installation, goal};

/// Goals that the streams share.
const GOALS: usize = 500;
/// How long idle streams are watched: several heartbeats of each.
const WATCHED: Duration = Duration::from_secs(32);
/// Connections that send wrong keys, one after the other.
const SENDERS: usize = 32;
/// Pause between two requests with the right key.
const GAP: Duration = Duration::from_millis(10);

/// The result.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Streams {
    idle: usize,
    /// Of the process, before and with the streams.
    rss_mb: [f64; 2],
    kb_per_stream: f64,
    /// Processor time of the process per second, with all streams idle.
    cpu_ms_per_second: f64,
    /// Wrong keys of one address, most of which are refused without a look-up; then of addresses without a limit.
    limited: WrongKeys,
    looked_up: WrongKeys,
}

/// What wrong keys cost.
#[derive(Debug, Clone, Copy, Serialize)]
struct WrongKeys {
    keys: usize,
    per_second: f64,
    cpu_us_per_key: f64,
    /// A request with the right key, alone and meanwhile.
    right_key_ms: [Spread; 2],
}

impl Streams {
    pub(crate) fn table(&self) -> String {
        let keys = |what: &str, keys: &WrongKeys| {
            format!(
                "{} wrong keys, {what}: {:.0}/s, {:.0} µs CPU each; a right key meanwhile {:.2} / {:.2} ms p50 / p99, before \
                 {:.2} / {:.2}\n",
                keys.keys,
                keys.per_second,
                keys.cpu_us_per_key,
                keys.right_key_ms[1].p50,
                keys.right_key_ms[1].p99,
                keys.right_key_ms[0].p50,
                keys.right_key_ms[0].p99,
            )
        };
        format!(
            "{} idle streams: {:.1} KB each ({:.0} → {:.0} MB), {:.1} ms CPU per second\n",
            self.idle, self.kb_per_stream, self.rss_mb[0], self.rss_mb[1], self.cpu_ms_per_second
        ) + &keys("refused beyond the limit of their address", &self.limited)
            + &keys("each looked up", &self.looked_up)
    }
}

pub(crate) async fn measure(
    program: &Path,
    servers: &TestServers,
    (streams, keys): (usize, usize),
) -> Result<Streams> {
    machine::allow_many_files()?;
    let many = (streams + 100).to_string();
    let variables = [
        ("HOUSTON_MODEL", "simulated".to_owned()),
        ("HOUSTON_SERVER__MAX_STREAMS", many.clone()),
        ("HOUSTON_SERVER__MAX_STREAMS_PER_TENANT", many),
    ];
    let open = Installation::start(program, servers, &variables).await?;
    let looked_up = wrong_keys(&open, keys).await?;
    let (rss_mb, cpu_ms_per_second) = idle_streams(&open, streams).await?;
    drop(open);
    // Of one address, as behind no proxy.
    let limits = [variables[0].clone(), ("HOUSTON_SERVER__CLIENTS__PROXIES", "[]".to_owned())];
    let limited = wrong_keys(&Installation::start(program, servers, &limits).await?, keys).await?;
    let kb_per_stream = round((rss_mb[1] - rss_mb[0]) * 1024.0 / streams as f64);
    Ok(Streams {
        idle: streams,
        rss_mb: rss_mb.map(round),
        kb_per_stream,
        cpu_ms_per_second,
        limited,
        looked_up,
    })
}

/// Memory before and with the streams, and the processor time per second while they are idle.
async fn idle_streams(houston: &Installation, streams: usize) -> Result<([f64; 2], f64)> {
    let mut connection = houston.connect().await?;
    let user = installation::user(&mut connection, "quiet").await?;
    let mut goals = Vec::new();
    for _ in 0..GOALS {
        goals.push(goal(&mut connection, &user, "Quiet").await?);
    }
    let before = megabytes(houston)?;
    let mut progress = Progress::new("idle streams", streams as u64);
    let mut open = Vec::with_capacity(streams);
    for goal in goals.iter().cycle().take(streams) {
        let mut stream = houston.connect().await?;
        let status = stream.resume(&format!("/v1/goals/{goal}/events?follow=true"), "").await?;
        ensure!(status == 200, "stream {}: {status}", open.len());
        // Heartbeats stay in the socket, which has room for them.
        open.push(stream);
        progress.step();
    }
    let with = megabytes(houston)?;
    print_status(&format!("idle streams: watched for {} s", WATCHED.as_secs()));
    let (cpu, began) = (houston.cpu()?, Instant::now());
    tokio::time::sleep(WATCHED).await;
    let used = (houston.cpu()? - cpu).as_secs_f64() / began.elapsed().as_secs_f64();
    Ok(([before, with], round(used * 1000.0)))
}

fn megabytes(houston: &Installation) -> Result<f64> {
    Ok(houston.rss()? as f64 / 1024.0 / 1024.0)
}

async fn wrong_keys(houston: &Installation, keys: usize) -> Result<WrongKeys> {
    let alone = right_key(houston, 100).await?;
    print_status(&format!("{keys} wrong keys"));
    let (cpu, began) = (houston.cpu()?, Instant::now());
    let mut senders = JoinSet::new();
    for sender in 0..SENDERS {
        let address = houston.address;
        senders.spawn(async move {
            let mut connection = Connection::open(address, "").await?;
            for nth in (sender..keys).step_by(SENDERS) {
                // As keys were before they ended with a checksum: a wrong checksum would be refused without a look-up.
                connection.set_key(&format!("hou_{nth:064x}"));
                let answer = connection.get("/v1/users?limit=1").await?;
                ensure!([401, 429].contains(&answer.status), "a wrong key: {}", answer.status);
            }
            anyhow::Ok(())
        });
    }
    let meanwhile = right_key(houston, 100).await?;
    while let Some(sender) = senders.join_next().await {
        sender??;
    }
    let (seconds, cpu) = (began.elapsed().as_secs_f64(), houston.cpu()? - cpu);
    Ok(WrongKeys {
        keys,
        per_second: round(keys as f64 / seconds),
        cpu_us_per_key: round(cpu.as_secs_f64() * 1e6 / keys as f64),
        right_key_ms: [alone, meanwhile],
    })
}

/// How long requests with the right key take, one after the other.
async fn right_key(houston: &Installation, requests: usize) -> Result<Spread> {
    let mut connection = houston.connect().await?;
    let mut times = Vec::with_capacity(requests);
    for _ in 0..requests {
        tokio::time::sleep(GAP).await;
        let began = Instant::now();
        let answer = connection.get("/v1/users?limit=1").await?;
        ensure!(answer.status == 200, "the right key: {}", answer.status);
        times.push(began.elapsed());
    }
    Ok(Spread::of(times))
}
