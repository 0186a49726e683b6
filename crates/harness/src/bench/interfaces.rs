//! What interfaces cost a run: its start with limits and a webhook for every event, a rate check, and deliveries per second.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use houston_testkit::servers::TestServers;
use serde::Serialize;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::database::{count, query};
use super::idle::{self, Idle};
use super::installation::{BenchInstallation, Replies};
use super::spread::{Spread, round};
use super::statement::{fill, statements};
use super::{scale, tokens, workload};
use crate::installation::{Installation, Processes};
use houston_xtask::console::{Progress, print_status};
use houston_xtask::psql;

/// Both installations are measured in turn, so often.
const ROUNDS: usize = 4;
/// Clients that post while deliveries are counted.
const CLIENTS: usize = 16;
/// How long the last delivery may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// The result.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Interfaces {
    runs: usize,
    /// Neither limits nor webhooks.
    plain: Start,
    /// Limits of requests, keys and tokens, and a webhook that gets every event.
    all_on: Start,
    /// One check of a message's limits, as a round trip of `pgbench`; `None` without `pgbench`.
    rate_check_ms: Option<Spread>,
    deliveries: u64,
    deliveries_per_second: f64,
}

/// Latency of runs, one after the other.
#[derive(Debug, Clone, Copy, Serialize)]
struct Start {
    accepted_ms: Spread,
    post_to_start_ms: Spread,
    done_ms: Spread,
}

impl Start {
    /// The round with the shortest median: the others met something else on the machine.
    fn best(rounds: &[Idle]) -> Self {
        let best = |of: fn(&Idle) -> Spread| {
            let spreads = rounds.iter().map(of);
            spreads.min_by(|a, b| a.p50.total_cmp(&b.p50)).unwrap_or(Spread { p50: 0.0, p99: 0.0 })
        };
        Self {
            accepted_ms: best(|idle| idle.accepted_ms),
            post_to_start_ms: best(|idle| idle.post_to_start_ms),
            done_ms: best(|idle| idle.done_ms),
        }
    }

    fn line(&self, what: &str) -> String {
        let of = |spread: Spread| format!("{:.2} / {:.2}", spread.p50, spread.p99);
        format!(
            "{what:<40}{:>16}{:>16}{:>16}\n",
            of(self.accepted_ms),
            of(self.post_to_start_ms),
            of(self.done_ms)
        )
    }
}

impl Interfaces {
    pub(crate) fn table(&self) -> String {
        let heading =
            format!("{:<40}{:>16}{:>16}{:>16}\n", "ms, p50 / p99", "accepted", "model called", "answered");
        let check = self.rate_check_ms.map_or_else(
            || "rate check: not measured, `pgbench` is not installed\n".to_owned(),
            |spread| format!("rate check: {:.3} / {:.3} ms p50 / p99\n", spread.p50, spread.p99),
        );
        heading
            + &self.plain.line("no limits, no webhook")
            + &self.all_on.line("limits, and a webhook for all events")
            + &check
            + &format!("{} deliveries, {:.0} per second\n", self.deliveries, self.deliveries_per_second)
    }
}

/// Measures `runs` runs of each installation, then deliveries.
pub(crate) async fn measure(
    program: &Path,
    (plain, all_on): (&TestServers, &TestServers),
    runs: usize,
) -> Result<Interfaces> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let sink = format!("http://{}", listener.local_addr()?);
    let received = Arc::new(AtomicU64::new(0));
    // Ends when it is dropped with this measurement.
    let mut receiver = JoinSet::new();
    receiver.spawn(receive(listener, Arc::clone(&received)));
    let plain = BenchInstallation::start(program, plain, Replies::Text).await?;
    let variables = [
        ("HOUSTON_RATES__REQUESTS__QUOTA", "1000000".to_owned()),
        ("HOUSTON_RATES__KEYS__QUOTA", "1000000".to_owned()),
        ("HOUSTON_RATES__TOKENS__QUOTA", "1000000000".to_owned()),
        ("HOUSTON_WEBHOOKS__HOSTS", format!("[\"{sink}\"]")),
    ];
    let all_on =
        BenchInstallation::start_with(Processes::One, program, all_on, Replies::Text, &variables).await?;
    subscribe(&all_on.houston, &sink).await?;
    let mut rounds = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        rounds.0.push(idle::measure(&plain, runs / ROUNDS).await?);
        rounds.1.push(idle::measure(&all_on, runs / ROUNDS).await?);
    }
    let rate_check_ms = rate_check(all_on.servers, runs).await?;
    let (deliveries, seconds) = deliveries(&all_on, &received, runs).await?;
    Ok(Interfaces {
        runs,
        plain: Start::best(&rounds.0),
        all_on: Start::best(&rounds.1),
        rate_check_ms,
        deliveries,
        deliveries_per_second: round(deliveries as f64 / seconds),
    })
}

async fn subscribe(houston: &Installation, sink: &str) -> Result<()> {
    let body = json!({"url": format!("{sink}/hook"), "topics": ["**"]}).to_string();
    let made = houston.connect().await?.post("/v1/webhooks", &body).await?;
    ensure!(made.status == 201, "the webhook: {}", made.status);
    Ok(())
}

/// Times the statement that checks the limits of one message.
async fn rate_check(servers: &TestServers, runs: usize) -> Result<Option<Spread>> {
    let Ok(pgbench) = psql::program(servers, "pgbench") else { return Ok(None) };
    print_status("rate check: one after the other");
    let id = |sql: &str| anyhow::Ok(format!("array['{}'::uuid]", query(servers, sql)?.trim()));
    let values = [
        id("select id from houston.tenants order by created_at limit 1")?,
        id("select agentable_id from houston.run_locks order by 1 limit 1")?,
        "array[null::uuid]".to_owned(),
        id("select id from houston.api_keys order by created_at limit 1")?,
        "array[null::text]".to_owned(),
        "1000000::bigint".to_owned(),
        "interval '60 s'".to_owned(),
        "1000000::bigint".to_owned(),
        "interval '60 s'".to_owned(),
        "null::double precision".to_owned(),
    ];
    let statements = statements()?;
    let text = statements.get("store::rate::ask::ask").context("no statement checks the limits")?;
    let text = fill(text, &values.each_ref().map(String::as_str))?;
    let times = scale::durations(servers, &pgbench, &text, u32::try_from(runs * 4)?).await?;
    Ok(Some(Spread::of(times)))
}

/// Runs as many runs as fast as the clients can, and counts what the receiver gets, until it has everything.
async fn deliveries(
    installation: &BenchInstallation<'_>,
    received: &AtomicU64,
    runs: usize,
) -> Result<(u64, f64)> {
    let goals = installation.goals(runs).await?;
    wait_for_all(installation.servers, received).await?;
    let (before, began) = (received.load(Ordering::Relaxed), Instant::now());
    let mut progress = Progress::new("deliveries: runs", runs as u64);
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let (goals, mut connection) = (Arc::clone(&goals), installation.houston.connect().await?);
        let (message, answer) = (workload::message(), workload::answer());
        clients.spawn(async move {
            for goal in goals.iter().skip(client).step_by(CLIENTS) {
                workload::run(&mut connection, goal, &message, &answer).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(client) = clients.join_next().await {
        client??;
        progress.reach((runs - clients.len() * runs / CLIENTS) as u64);
    }
    wait_for_all(installation.servers, received).await?;
    Ok((received.load(Ordering::Relaxed) - before, began.elapsed().as_secs_f64()))
}

/// Waits until every event was delivered.
async fn wait_for_all(servers: &TestServers, received: &AtomicU64) -> Result<()> {
    let began = Instant::now();
    loop {
        let (events, waiting) =
            (count(servers, "houston.events")?, count(servers, "houston.open_deliveries")?);
        let sent = count(servers, "houston.deliveries where state = 'delivered'")?;
        if waiting == 0 && sent >= events {
            return Ok(());
        }
        let got = received.load(Ordering::Relaxed);
        ensure!(began.elapsed() < PATIENCE, "{sent} of {events} events were delivered, {got} received");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Answers 204 to every request.
async fn receive(listener: TcpListener, received: Arc<AtomicU64>) {
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        connections.spawn(answer(socket, Arc::clone(&received)));
    }
}

async fn answer(mut socket: TcpStream, received: Arc<AtomicU64>) -> Result<()> {
    socket.set_nodelay(true)?;
    let mut buffer = Vec::new();
    while tokens::take_request(&mut socket, &mut buffer).await? {
        received.fetch_add(1, Ordering::Relaxed);
        socket.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await?;
    }
    Ok(())
}
