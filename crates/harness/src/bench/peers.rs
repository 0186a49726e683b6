//! Houston and other servers that run agents durably, one after the other: the same fake model, the same client, a Postgres of its
//! own each. What is measured is a run without tools, from the request to the whole answer. The others return it at once, when
//! their run has ended: they have no stream that would show it earlier at this load.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures_util::FutureExt as _;
use houston_testkit::console::print_status;
use houston_testkit::process::Process;
use houston_testkit::scratch::Scratch;
use houston_testkit::servers::TestServers;
use houston_testkit::{child, programs, repository};
use serde_json::{Value, json};

use super::Bench;
use super::load::clients;
use super::report::{Report, Row};
use super::setup::{GOALS_OF_A_USER, Replies};
use super::workload;
use crate::http::Connection;
use crate::proc;

/// Clients at once.
const CLIENTS: usize = 32;
const PATIENCE: Duration = Duration::from_secs(60);
/// What is installed from PyPI, and the project that is built of crates.io.
const DBOS: &str = include_str!("../../peers/on_dbos.txt");
const RUSTY: [(&str, &str); 2] = [
    ("Cargo.toml", include_str!("../../peers/on_rusty.toml")),
    ("src/main.rs", include_str!("../../peers/on_rusty.rs")),
];

/// How a run is asked for.
#[derive(Debug, Clone)]
enum Runs {
    /// A message to one of these goals, whose stream is read.
    Houston(Arc<Vec<String>>),
    /// One request.
    Dbos,
    /// A thread, then its run.
    Rusty,
}

impl Runs {
    async fn carry_out(&self, connection: &mut Connection, nth: usize) -> Result<Duration> {
        let began = Instant::now();
        let answer = match self {
            Self::Houston(goals) => {
                return Ok(workload::run(connection, &goals[nth % goals.len()]).await?.done());
            }
            Self::Dbos => {
                connection.post("/runs", &workload::MESSAGE).await?.json::<Value>()?["answer"].take()
            }
            Self::Rusty => {
                let content: Value = serde_json::from_str(&workload::MESSAGE)?;
                let thread: Value =
                    connection.post("/threads", &json!({"graph": "agent"}).to_string()).await?.json()?;
                let thread = thread["thread_id"].as_str().context("the thread has no id")?;
                let input = json!({"input": {"question": content["content"]}}).to_string();
                let run = connection.post(&format!("/threads/{thread}/runs/wait"), &input).await?;
                run.json::<Value>()?["output"]["answer"].take()
            }
        };
        ensure!(answer == workload::ANSWER.as_str(), "the answer is {answer}");
        Ok(began.elapsed())
    }
}

pub(crate) async fn measure(bench: &Bench) -> Result<Report> {
    let mut rows = Vec::new();
    let setup = bench.setup(Replies::Text).await?;
    let goals = setup.goals(CLIENTS * GOALS_OF_A_USER).await?;
    let pid = setup.houston.api.pid();
    rows.extend(drive(bench, "Houston", setup.at(), pid, setup.servers(), &Runs::Houston(goals)).await?);
    for (name, runs) in [("DBOS", Runs::Dbos), ("Rusty", Runs::Rusty)] {
        let started = async {
            let servers = bench.servers()?;
            // The model of Houston's measurement goes on.
            let (process, address, folder) = start(&runs, servers.database_url(), &setup.model.url()).await?;
            anyhow::Ok((servers, process, address, folder))
        };
        match started.await {
            Ok((servers, process, address, _folder)) => {
                rows.extend(drive(bench, name, (address, ""), process.pid(), &servers, &runs).await?);
            }
            Err(error) => {
                print_status(&format!("{name} cannot be installed here: {error:#}"));
                rows.push(Row::parts(format!("{name}: cannot be installed here"), Vec::new()));
            }
        }
    }
    setup.stop_and_check()?;
    Ok(Report { about: format!("peers: {CLIENTS} at once, then one after the other"), rows })
}

/// Installs a peer and starts it with its agent.
async fn start(runs: &Runs, database: &str, model: &str) -> Result<(Process, SocketAddr, Scratch)> {
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let (folder, tools) = (Scratch::new()?, repository::tools());
    let mut command = if matches!(runs, Runs::Dbos) {
        let venv = tools.join("dbos");
        programs::venv(&venv, &DBOS.lines().collect::<Vec<_>>()).await?;
        let mut python = Command::new(venv.join("bin/python"));
        python.arg("-B").arg(repository::root().join("crates/harness/peers/on_dbos.py"));
        python.arg(address.port().to_string());
        python
    } else {
        let project = tools.join("rusty");
        fs::create_dir_all(project.join("src"))?;
        for (file, text) in RUSTY {
            fs::write(project.join(file), text)?;
        }
        print_status("building Rusty (this happens once)");
        let mut cargo = repository::cargo();
        cargo.args(["build", "--release", "--quiet", "--target-dir", "target"]).current_dir(&project);
        child::succeed(cargo).await?;
        let mut rusty = Command::new(project.join("target/release/rusty"));
        rusty.arg(address.to_string());
        rusty
    };
    let mut process = Process::spawn(command.args([database, model]).current_dir(folder.path()))?;
    process.wait_for_ready(address, "/ok", PATIENCE)?;
    Ok((process, address, folder))
}

/// Runs with [`CLIENTS`] at once, and one after the other.
async fn drive(
    bench: &Bench,
    name: &str,
    at: (SocketAddr, &str),
    pid: u32,
    servers: &TestServers,
    runs: &Runs,
) -> Result<[Row; 3]> {
    let postgres = servers.postgres_pid().context("Postgres has no process id")?;
    let (few, many) = (bench.size(100, 20), bench.size(2_000, 200));
    let clients = async |count: usize, what: &str, work: usize| {
        let runs = runs.clone();
        clients(at, count, (&format!("{name}: {what}"), work), move |connection, nth| {
            let runs = runs.clone();
            async move { runs.carry_out(connection, nth).await }.boxed()
        })
        .await
    };
    clients(CLIENTS, "warming up", many / 10).await?;
    let cpu = || anyhow::Ok(proc::cpu(pid)? + proc::cpu(postgres)?);
    let (before, began) = (cpu()?, Instant::now());
    clients(CLIENTS, &format!("{CLIENTS} at once"), many).await?;
    let (spent, seconds) = (cpu()? - before, began.elapsed().as_secs_f64());
    let alone = clients(1, "one after the other", few).await?;
    Ok([
        Row::of(format!("{name}: runs/s"), many as f64 / seconds),
        Row::of("  CPU a run, with Postgres, ms", spent.as_secs_f64() * 1000.0 / many as f64),
        Row::spread("  alone: POST → done", alone),
    ])
}
