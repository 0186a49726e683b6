//! `llmock`: a fake provider that injects faults into calls, records every attempt, and evaluates how the client reacts.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use futures_util::future::join_all;
use houston_testkit::process::Process;
use houston_testkit::servers::TestServers;
use serde_json::{Value, json};

use houston_protocol::run::RunResponse;

use super::endpoint::Endpoint;
use super::{CaseResult, Client};
use crate::http::Connection;
use houston_testkit::console::{Progress, print_status};
use houston_testkit::{programs, repository};

/// `llmock` and its dependencies, with versions.
const PACKAGES: &str = include_str!("../../python/llmock.txt");
const PATIENCE: Duration = Duration::from_secs(60);

/// The providers that `llmock` imitates, by its names for them.
const PROVIDERS: [(&str, Endpoint); 9] = [
    ("openai", Endpoint::new("openai", "openai/some-model", "/v1", "OPENAI")),
    ("anthropic", Endpoint::new("anthropic", "anthropic/some-model", "/anthropic/v1", "ANTHROPIC")),
    ("gemini", Endpoint::new("google", "google/some-model", "/gemini/v1beta", "GEMINI")),
    ("cohere", Endpoint::new("cohere", "cohere/some-model", "/cohere/v2", "COHERE")),
    ("perplexity", Endpoint::new("perplexity", "perplexity/some-model", "/perplexity/v1", "PERPLEXITY")),
    ("mistral", Endpoint::new("mistral", "mistral/some-model", "/mistral/v1", "MISTRAL")),
    ("groq", Endpoint::new("groq", "groq/some-model", "/groq/openai/v1", "GROQ")),
    ("together", Endpoint::new("together", "together/some-model", "/together/v1", "TOGETHER")),
    ("xai", Endpoint::new("xai", "xai/some-model", "/xai/v1", "XAI")),
];

/// Further settings of Houston.
const SETTINGS: [(&str, &str); 3] = [
    // Shorter than the stall of a stalled stream.
    ("HOUSTON_ORCHESTRATOR__MODEL__IDLE_TIMEOUT_S", "2"),
    ("HOUSTON_ORCHESTRATOR__RETRY__DELAYED__BASE_MS", "1000"),
    // Expected failures are logged as warnings.
    ("HOUSTON_LOG", "error"),
];

/// The fault that is injected into a call, and the expected outcome.
struct Case {
    name: &'static str,
    /// Null: none.
    fault: fn() -> Value,
    /// Whether the user must get an answer. Otherwise the run must fail at once.
    is_answered: bool,
}

const CASES: [Case; 13] = [
    Case::answered("nothing", || Value::Null),
    Case::answered("429, Retry-After 2 s", || fail(429, Some(2.0), 1)),
    Case::answered("429, retry-after-ms 400", || fail(429, Some(0.4), 1)),
    Case::answered("429 three times, Retry-After 1 s", || fail(429, Some(1.0), 3)),
    Case::answered("529 twice", || fail(529, None, 2)),
    Case::answered("500", || fail(500, None, 1)),
    Case::answered("503", || fail(503, None, 1)),
    Case::answered("stream truncated", || stream("truncate", 2)),
    Case::answered("stream disconnected", || stream("disconnect", 2)),
    Case::answered("stream stalled", || stream("stall", 1)),
    Case::answered("chunk malformed", || stream("malformed", 1)),
    Case { name: "400", fault: || fail(400, None, 1), is_answered: false },
    Case { name: "401", fault: || fail(401, None, 1), is_answered: false },
];

impl Case {
    const fn answered(name: &'static str, fault: fn() -> Value) -> Self {
        Self { name, fault, is_answered: true }
    }
}

fn fail(status: u16, retry_after: Option<f64>, times: u32) -> Value {
    json!({ "type": "fail", "status": status, "retry_after": retry_after, "times": times })
}

fn stream(kind: &str, after_chunks: u32) -> Value {
    json!({ "type": "stream_fault", "kind": kind, "after_chunks": after_chunks, "stall_seconds": 20.0 })
}

/// Runs every case with every provider; the providers of a case run at the same time.
pub(super) async fn run(program: &Path, servers: &TestServers) -> Result<Vec<CaseResult>> {
    let (_process, address) = serve().await?;
    let mut clients = Vec::new();
    for (number, (_, provider)) in (1..).zip(&PROVIDERS) {
        let mut variables = provider.variables(address);
        variables.extend(SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let client = Client::start(program, servers, number, variables).await;
        clients.push(client.with_context(|| format!("Houston with {}", provider.name))?);
    }
    let mut llmock = Connection::open(address, "").await?;
    let mut lines = Vec::new();
    let mut progress = Progress::new("llmock injects faults", CASES.len() as u64);
    for case in &CASES {
        llmock.post("/_llmock/reset", "{}").await?;
        prepare(&mut llmock, case).await?;
        let runs = clients.iter_mut().map(|client| run_case(client, case));
        let runs = join_all(runs).await;
        // llmock closes a connection that was idle for 5 s, and on a busy machine a case takes longer.
        llmock = Connection::open(address, "").await?;
        let verdict: Value = llmock.get("/_llmock/verdict").await?.json()?;
        for ((_, provider), faults) in PROVIDERS.iter().zip(runs) {
            let mut faults = faults?;
            faults.extend(findings(&verdict, provider));
            lines.push(CaseResult { judge: "llmock", provider: provider.name, case: case.name, faults });
        }
        progress.step();
    }
    Ok(lines)
}

async fn serve() -> Result<(Process, SocketAddr)> {
    let venv = repository::tools().join("llmock");
    programs::venv(&venv, &PACKAGES.lines().collect::<Vec<_>>()).await?;
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let mut command = Command::new(venv.join("bin/llmock"));
    command.args(["serve", "--host", "127.0.0.1", "--port", &address.port().to_string()]);
    // With a delay between chunks: llmock counts an answer that is sent at once as read, whatever the client does.
    command.args(["--log-level", "warning", "--tool-mode", "off", "--stream-chunk-delay-ms", "20"]);
    let mut process = Process::spawn(&mut command)?;
    process.wait_for_ready(address, "/_llmock/scenario", PATIENCE)?;
    print_status("llmock is running");
    Ok((process, address))
}

async fn prepare(llmock: &mut Connection, case: &Case) -> Result<()> {
    let fault = (case.fault)();
    if fault.is_null() {
        return Ok(());
    }
    let all = PROVIDERS.each_ref().map(|(provider, _)| {
        let mut fault = fault.clone();
        fault["match"] = json!({ "provider": provider });
        fault
    });
    llmock.post("/_llmock/scenario", &json!({ "behaviors": all }).to_string()).await?.json::<Value>()?;
    Ok(())
}

/// Posts one message; returns what is wrong with the outcome.
async fn run_case(client: &mut Client, case: &Case) -> Result<Vec<String>> {
    let goal = client.goal(case.name).await?;
    let RunResponse { status, error, .. } = client.post_and_wait(&goal, "Hello, how are you?").await?;
    let answer = client.answer(&goal).await?;
    let mut faults = Vec::new();
    let status = status.as_str();
    let is_answered = status == "completed" && !answer.is_empty();
    if is_answered != case.is_answered {
        faults.push(format!("the run is {status} ({}), the answer `{answer}`", json!(error)));
    }
    Ok(faults)
}

/// llmock's findings about the calls to `provider`, including warnings.
fn findings<'v>(verdict: &'v Value, provider: &'v Endpoint) -> impl Iterator<Item = String> + 'v {
    let all = verdict["findings"].as_array().into_iter().flatten();
    let its = all.filter(|finding| {
        let path =
            finding["path"].as_str().and_then(|path| path.split_whitespace().last()).unwrap_or_default();
        path.starts_with(provider.path)
    });
    its.map(|finding| {
        format!("{}: {}", finding["code"].as_str().unwrap_or(""), finding["title"].as_str().unwrap_or(""))
    })
}
