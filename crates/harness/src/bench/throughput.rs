//! Throughput alone: 32 and 128 runs at once, with a new goal for each run, with several workers or several cells; and where
//! the time of Postgres goes.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use houston_testkit::console::print_status;
use houston_testkit::houston::Houston;
use houston_testkit::programs;
use houston_testkit::servers::TestServers;
use serde::Serialize;

use super::Size;
use super::saturated::{self, Journey, Saturated};
use super::setup::{Replies, Setup};

/// Connections of Postgres: enough for an API process and four workers.
const CONNECTIONS: u16 = 300;

/// The processes of an installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Processes {
    /// One, `houston dev`: API and worker.
    One,
    /// `houston serve`, and `houston work` so many times.
    Workers(usize),
}

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    processes: Processes,
    cells: usize,
    concurrency: usize,
    journey: Journey,
}

impl Case {
    const fn of(processes: Processes, concurrency: usize) -> Self {
        Self { processes, cells: 1, concurrency, journey: Journey::FromMessage }
    }

    /// One process with so many cells: 32 and 128 runs at once.
    pub(crate) fn with_cells(cells: usize) -> [Self; 2] {
        [32, 128].map(|concurrency| Self { cells, ..Self::of(Processes::One, concurrency) })
    }
}

/// One process.
pub(crate) const ALONE: [Case; 3] = [
    Case::of(Processes::One, 32),
    Case::of(Processes::One, 128),
    Case { journey: Journey::FromGoal, ..Case::of(Processes::One, 32) },
];

/// 1, 2 and 4 workers.
pub(crate) const WORKERS: [Case; 6] = [
    Case::of(Processes::Workers(1), 32),
    Case::of(Processes::Workers(2), 32),
    Case::of(Processes::Workers(4), 32),
    Case::of(Processes::Workers(1), 128),
    Case::of(Processes::Workers(2), 128),
    Case::of(Processes::Workers(4), 128),
];

/// One measurement.
#[derive(Debug, Serialize)]
pub(crate) struct Throughput {
    processes: Processes,
    cells: usize,
    concurrency: usize,
    creates_goals: bool,
    result: Saturated,
    /// The statements of Postgres, the most expensive first; empty unless asked for.
    statements: Vec<Statement>,
}

/// What Postgres did for one statement.
#[derive(Debug, Serialize)]
struct Statement {
    name: String,
    calls_per_run: f64,
    /// Execution alone, waiting included.
    ms_per_run: f64,
    planned_per_call: f64,
    blocks_per_call: f64,
}

/// Measures each case on servers of its own. `statements`: with `pg_stat_statements`, which costs some time itself.
pub(crate) async fn measure(
    program: &Path,
    size: Size,
    cases: &[Case],
    statements: bool,
) -> Result<Vec<Throughput>> {
    let mut measured = Vec::new();
    for &Case { processes, cells, concurrency, journey } in cases {
        print_status(&format!("throughput: {concurrency} at once, {journey:?}, {}", name(processes, cells)));
        let servers = (0..cells).map(|_| self::servers(statements)).collect::<Result<Vec<_>>>()?;
        let houston = match processes {
            Processes::One => Houston::builder(program),
            Processes::Workers(workers) => Houston::builder(program).workers(workers),
        };
        let setup = Setup::start_on(houston, &servers, Replies::Text).await?;
        if statements {
            servers[0].sql("create extension pg_stat_statements")?;
        }
        let rest = setup.rest(size.hold).await?;
        let result = saturated::measure(&setup, Size { concurrency, ..size }, &rest, journey).await?;
        let runs = result.runs;
        let creates_goals = journey == Journey::FromGoal;
        let statements = if statements { self::statements(&servers[0], runs)? } else { Vec::new() };
        setup.stop_and_check()?;
        measured.push(Throughput { processes, cells, concurrency, creates_goals, result, statements });
    }
    Ok(measured)
}

/// The servers of a cell.
fn servers(statements: bool) -> Result<TestServers> {
    programs::servers(|config| {
        config.fsync = true;
        config.max_connections = CONNECTIONS;
        if statements {
            config.postgres_settings =
                ["shared_preload_libraries=pg_stat_statements", "pg_stat_statements.track_planning=on"]
                    .map(str::to_owned)
                    .to_vec();
        }
    })
}

/// Statements since the start of the servers. The runs that warmed up and the creation of goals are included, so figures
/// per run are a little too high.
fn statements(servers: &TestServers, runs: usize) -> Result<Vec<Statement>> {
    let rows = servers.sql(
        "select coalesce(substring(query from '^-- ([a-z_:]+)'), left(regexp_replace(query, '\\s+', ' ', 'g'), 40)),
                sum(calls), sum(total_exec_time), sum(plans) / nullif(sum(calls), 0)::float,
                sum(shared_blks_hit) / nullif(sum(calls), 0)
           from pg_stat_statements group by 1 order by 3 desc limit 20",
    )?;
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    Ok(rows
        .lines()
        .map(|line| {
            let mut columns = line.split('|');
            let name = columns.next().unwrap_or_default().to_owned();
            let [calls, time, planned, blocks] = std::array::from_fn(|_| number(columns.next()));
            let per_run = |amount: f64| amount / runs as f64;
            Statement {
                name,
                calls_per_run: per_run(calls),
                ms_per_run: per_run(time),
                planned_per_call: planned,
                blocks_per_call: blocks,
            }
        })
        .collect())
}

fn name(processes: Processes, cells: usize) -> String {
    match processes {
        Processes::One if cells > 1 => format!("{cells} cells"),
        Processes::One => "one process".to_owned(),
        Processes::Workers(1) => "API, 1 worker".to_owned(),
        Processes::Workers(workers) => format!("API, {workers} workers"),
    }
}

/// The measurements for people.
pub(crate) fn table(measured: &[Throughput]) -> String {
    let mut text = String::from(
        "processes       at once  journey         runs/s   CPU per run, ms   Houston + Postgres + Redis   commits   WAL bytes   load, ms\n",
    );
    for Throughput { processes, cells, concurrency, creates_goals, result, statements } in measured {
        let share = result.cpu_ms_per_run;
        let journey = if *creates_goals { "new goal" } else { "message" };
        let _ = writeln!(
            text,
            "{:14}  {concurrency:7}  {journey:14}  {:6.0}   {:15.2}   {:9.2} + {:.2} + {:.2}        {:7.2}   {:9.0}   {:8.2}",
            name(*processes, *cells),
            result.runs_per_second,
            share.sum(),
            share.houston,
            share.postgres,
            share.redis,
            result.commits_per_run,
            result.wal_bytes_per_run,
            result.load_cpu_ms_per_run,
        );
        for Statement { name, calls_per_run, ms_per_run, planned_per_call, blocks_per_call } in statements {
            let _ = writeln!(
                text,
                "    {ms_per_run:8.3} ms  {calls_per_run:6.2} calls  {planned_per_call:5.2} plans  {blocks_per_call:6.0} blocks  {name}"
            );
        }
    }
    let rate = |Throughput { processes, cells, concurrency, creates_goals, result, .. }: &Throughput| {
        let what = if *creates_goals { " with a new goal each" } else { "" };
        format!("{:.0} ({}, {concurrency} at once{what})", result.runs_per_second, name(*processes, *cells))
    };
    let rates: Vec<String> = measured.iter().map(rate).collect();
    let _ = writeln!(text, "\nruns/s: {}", rates.join(", "));
    text
}
