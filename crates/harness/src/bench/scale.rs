//! The time of the sweep and of a claim among 100,000 idle agentables.
//!
//! Uses its own Postgres with fsync off: the disk latency of a commit does not depend on the number of rows and would
//! hide the difference. The sweep is timed as round trips of `pgbench` over a unix socket, with prepared statements; claims
//! by `crates/store/examples/claims.rs`, from the request to the claimed run.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use houston_testkit::seed_data::SeedData;
use houston_testkit::servers::TestServers;
use serde::Serialize;

use super::database::query;
use super::spread::{Spread, round};
use super::statement::{fill, statements};
use crate::installation::build_example;
use houston_xtask::child::output;
use houston_xtask::console::print_status;
use houston_xtask::programs;
use houston_xtask::psql;

const SEED: SeedData = SeedData::LARGE;
/// Page size of the sweep, as in `jobs/orchestrator.toml`.
const PAGE: &str = "500";
const SWEEPS: u32 = 500;
/// Each claim needs a waiting agentable.
const CLAIMS: u32 = SEED.waiting - 500;

/// The result.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Scale {
    agentables: u32,
    messages: u32,
    seeded_s: f64,
    /// A full page of waiting agentables.
    pub(crate) sweep_ms: Spread,
    pub(crate) claim_ms: Spread,
}

/// Measures sweep and claim; `None` without `pgbench`.
pub(crate) async fn measure() -> Result<Option<Scale>> {
    print_status("idle scale: building the example `claims` of the store");
    let claimer = build_example("houston-store", "claims").await?;
    let servers = programs::servers(|config| config.fsync = false)?;
    let Ok(pgbench) = psql::program(&servers, "pgbench") else {
        print_status("idle scale: skipped, `pgbench` is not installed beside this Postgres");
        return Ok(None);
    };
    let SeedData { agentables, runs, .. } = SEED;
    print_status(&format!(
        "idle scale: seeding {agentables} agentables with {} messages",
        agentables * runs * 2
    ));
    psql::migrate(&servers)?;
    let began = Instant::now();
    let folder = tempfile::tempdir()?;
    let script = folder.path().join("seed_data.sql");
    std::fs::write(&script, SEED.script())?;
    let mut command = Command::new(psql::program(&servers, "psql")?);
    command.args(["-Xq", "-v", "ON_ERROR_STOP=1", "-d", servers.database_url(), "-f"]).arg(&script);
    tokio::task::spawn_blocking(move || output(&mut command)).await??;
    let seeded = began.elapsed();
    query(&servers, "vacuum analyze")?;
    query(&servers, "checkpoint")?;

    let statements = statements()?;
    let text = |name: &str, values: &[&str]| -> Result<String> {
        fill(
            statements.get(name).with_context(|| format!("`{name}` is not among the prepared queries"))?,
            values,
        )
    };
    let sweep = text("store::sweep::due", &["'00000000-0000-0000-0000-000000000000'::uuid", PAGE, "10"])?;
    print_status("idle scale: sweeps, then claims");
    let sweep_ms = times(&servers, &pgbench, &sweep, SWEEPS).await?;
    let claim_ms = claims(&claimer, &servers).await?;
    let claimed = query(&servers, "select count(*) from houston.runs where status = 'running'")?;
    ensure!(
        claimed.parse::<u32>()? == CLAIMS + SEED.driven,
        "{claimed} runs are driven after {CLAIMS} claims"
    );
    let messages = agentables * runs * 2;
    Ok(Some(Scale { agentables, messages, seeded_s: round(seeded.as_secs_f64()), sweep_ms, claim_ms }))
}

/// Claims the first waiting agentables, each with the context of its run.
async fn claims(program: &Path, servers: &TestServers) -> Result<Spread> {
    let mut command = Command::new(program);
    command.args([
        servers.database_url(),
        &SeedData::id("worker", 0),
        &SeedData::id("goal", 0),
        &CLAIMS.to_string(),
    ]);
    let printed = tokio::task::spawn_blocking(move || output(&mut command)).await??;
    let times: Vec<u64> = serde_json::from_str(printed.trim())?;
    ensure!(times.len() == usize::try_from(CLAIMS)?, "{} of {CLAIMS} claims were timed", times.len());
    Ok(Spread::of(times.into_iter().map(Duration::from_micros)))
}

/// Percentiles of [`durations`].
async fn times(
    servers: &TestServers,
    pgbench: &std::path::Path,
    statement: &str,
    count: u32,
) -> Result<Spread> {
    Ok(Spread::of(durations(servers, pgbench, statement, count).await?))
}

/// Executes `statement` `count` times, one after the other (`:n` counts from 0); returns how long each took.
pub(super) async fn durations(
    servers: &TestServers,
    pgbench: &std::path::Path,
    statement: &str,
    count: u32,
) -> Result<Vec<Duration>> {
    let folder = tempfile::tempdir()?;
    let script = folder.path().join("script.sql");
    std::fs::write(&script, format!("{statement};\n\\set n :n + 1\n"))?;
    let mut command = Command::new(pgbench);
    command.args(["--no-vacuum", "--protocol=prepared", "--client=1", "--define=n=0", "--log"]);
    command.arg(format!("--log-prefix={}", folder.path().join("log").display()));
    command.arg(format!("--transactions={count}")).arg("--file").arg(&script).arg(servers.database_url());
    tokio::task::spawn_blocking(move || output(&mut command)).await??;
    let mut times = Vec::new();
    for entry in std::fs::read_dir(folder.path())? {
        let path = entry?.path();
        if path == script {
            continue;
        }
        // client, transaction, microseconds, …
        for line in std::fs::read_to_string(path)?.lines() {
            let micros = line.split(' ').nth(2).context("pgbench wrote no time")?;
            times.push(Duration::from_micros(micros.parse()?));
        }
    }
    ensure!(times.len() == usize::try_from(count)?, "pgbench logged {} of {count} executions", times.len());
    Ok(times)
}

impl Scale {
    /// Rows of the table: name, measured, target, met.
    pub(crate) fn lines(&self) -> [[String; 4]; 2] {
        let line = |what: &str, spread: Spread, most: f64| {
            let met = if spread.p99 <= most { "yes" } else { "NO" };
            let measured = format!("{:.2} / {:.2}", spread.p50, spread.p99);
            [what.to_owned(), measured, format!("≤ {most}"), met.to_owned()]
        };
        [
            line("idle scale: sweep of 500, ms p50 / p99", self.sweep_ms, 10.0),
            line("idle scale: claim, ms p50 / p99", self.claim_ms, 1.0),
        ]
    }
}
