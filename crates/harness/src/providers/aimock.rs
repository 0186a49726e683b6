//! `aimock`: a fake provider that plays the same conversation with tools over every protocol.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use houston_testkit::process::Process;
use houston_testkit::servers::TestServers;
use serde_json::{Value, json};

use super::endpoint::{Endpoint, RESPONSES};
use super::{CaseResult, Client};
use houston_testkit::console::Progress;
use houston_testkit::{child, programs, repository};

const PACKAGE: &str = "@copilotkit/aimock@1.43.0";
const PATIENCE: Duration = Duration::from_secs(60);
/// Number of the first database; smaller numbers are for llmock.
const FIRST: usize = 20;

const PROTOCOLS: [Endpoint; 7] = [
    Endpoint::new("OpenAI chat", "openai/gpt-5-mini", "/v1", "OPENAI"),
    Endpoint::new("OpenAI Responses", "openai/gpt-5-mini", "/v1", "OPENAI").with(&[RESPONSES]),
    Endpoint::new("Anthropic", "anthropic/claude-sonnet-5-5", "/v1", "ANTHROPIC"),
    Endpoint::new("Gemini", "google/gemini-2.5-flash", "/v1beta", "GEMINI"),
    Endpoint::new("Cohere", "cohere/command-a-03-2025", "/v2", "COHERE"),
    Endpoint::new("Ollama", "ollama/gpt-oss:20b", "", "OLLAMA"),
    Endpoint::new("Azure OpenAI", "azure/my-deployment", "", "AZURE_OPENAI")
        .ends(["ENDPOINT", "API_KEY"])
        .with(&[("AZURE_OPENAI_API_VERSION", "2024-10-21")]),
];

/// Runs the conversation over every protocol.
pub(super) async fn run(program: &Path, servers: &TestServers) -> Result<Vec<CaseResult>> {
    let (_process, address) = serve().await?;
    let mut lines = Vec::new();
    let mut progress = Progress::new("aimock plays a conversation with tools", PROTOCOLS.len() as u64);
    for (number, protocol) in (FIRST..).zip(&PROTOCOLS) {
        let client = Client::start(program, servers, number, protocol.variables(address)).await;
        let mut client = client.with_context(|| format!("Houston with {}", protocol.name))?;
        let faults = converse(&mut client).await?;
        lines.push(CaseResult {
            judge: "aimock",
            provider: protocol.name,
            case: "a conversation with tools",
            faults,
        });
        progress.step();
    }
    Ok(lines)
}

async fn serve() -> Result<(Process, SocketAddr)> {
    programs::node().await?;
    let folder = repository::tools().join("aimock");
    let program = folder.join("node_modules/@copilotkit/aimock/dist/cli.js");
    if !program.is_file() {
        std::fs::create_dir_all(&folder)?;
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]);
        npm.arg("--prefix").arg(&folder).arg(PACKAGE);
        child::succeed(npm).await?;
    }
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let mut command = Command::new("node");
    command.arg(program).args(["--port", &address.port().to_string(), "--strict", "--chunk-size", "7"]);
    command.arg("--fixtures").arg(repository::root().join("crates/harness/providers/aimock.json"));
    let mut process = Process::spawn(&mut command)?;
    process.wait_for_ready(address, "/health", PATIENCE)?;
    Ok((process, address))
}

/// A turn with two tool calls, their results and an answer; then a question that needs the whole history. Returns
/// what is wrong.
async fn converse(client: &mut Client) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    let goal = client.goal("Household").await?;
    for (message, expected) in [
        ("Please remember to buy milk.", "Both notes are written: milk and bread."),
        ("What did you write?", "Two notes, about milk and bread."),
    ] {
        let run = client.post_and_wait(&goal, message).await?;
        let answer = client.answer(&goal).await?;
        if run.status.as_str() != "completed" || answer != expected {
            faults.push(format!(
                "`{message}`: {} {}, answered `{answer}`",
                run.status.as_str(),
                json!(run.error)
            ));
        }
    }
    let history = client.get(&format!("/v1/goals/{goal}/history?limit=50")).await?.to_string();
    for part in ["Buy two litres — räum auf ✓", r#"And \"rye\" bread"#] {
        if !history.contains(part) {
            faults.push(format!(
                "the history lacks `{part}`: {}",
                history.chars().take(2_000).collect::<String>()
            ));
        }
    }
    let page: Value = client.get(&format!("/v1/goals/{goal}/messages?limit=50")).await?;
    let cells = page["data"].as_array().into_iter().flatten();
    let done =
        cells.filter(|cell| cell["message_type"] == "tool" && cell["metadata"]["status"] == "done").count();
    if done != 2 {
        faults.push(format!("{done} of 2 tool cells are done"));
    }
    Ok(faults)
}
