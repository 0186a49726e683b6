//! `aimock`: a fake provider that plays the same conversation with tools over every protocol.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use houston_testkit::process::Process;
use houston_testkit::servers::TestServers;
use serde_json::{Value, json};

use super::Client;
use super::report::CaseResult;
use houston_testkit::console::Progress;
use houston_testkit::{child, programs, repository};

const PACKAGE: &str = "@copilotkit/aimock@1.43.0";
const PATIENCE: Duration = Duration::from_secs(60);
/// Number of the first database; smaller numbers are for llmock.
const FIRST: usize = 20;

/// A protocol, and the settings that make Houston use it.
struct Protocol {
    name: &'static str,
    model: &'static str,
    /// Path prefix of its API.
    path: &'static str,
    url_variable: &'static str,
    key_variable: &'static str,
    more: &'static [(&'static str, &'static str)],
}

const PROTOCOLS: &[Protocol] = &[
    Protocol {
        name: "OpenAI chat",
        model: "openai/gpt-5-mini",
        path: "/v1",
        url_variable: "OPENAI_BASE_URL",
        key_variable: "OPENAI_API_KEY",
        more: &[],
    },
    Protocol {
        name: "OpenAI Responses",
        model: "openai/gpt-5-mini",
        path: "/v1",
        url_variable: "OPENAI_BASE_URL",
        key_variable: "OPENAI_API_KEY",
        more: &[("HOUSTON_PROVIDERS__OPENAI__WIRE", "openai_responses")],
    },
    Protocol {
        name: "Anthropic",
        model: "anthropic/claude-sonnet-5-5",
        path: "/v1",
        url_variable: "ANTHROPIC_BASE_URL",
        key_variable: "ANTHROPIC_API_KEY",
        more: &[],
    },
    Protocol {
        name: "Gemini",
        model: "google/gemini-2.5-flash",
        path: "/v1beta",
        url_variable: "GEMINI_BASE_URL",
        key_variable: "GEMINI_API_KEY",
        more: &[],
    },
    Protocol {
        name: "Cohere",
        model: "cohere/command-a-03-2025",
        path: "/v2",
        url_variable: "COHERE_BASE_URL",
        key_variable: "COHERE_API_KEY",
        more: &[],
    },
    Protocol {
        name: "Ollama",
        model: "ollama/gpt-oss:20b",
        path: "",
        url_variable: "OLLAMA_BASE_URL",
        key_variable: "OLLAMA_API_KEY",
        more: &[],
    },
    Protocol {
        name: "Azure OpenAI",
        model: "azure/my-deployment",
        path: "",
        url_variable: "AZURE_OPENAI_ENDPOINT",
        key_variable: "AZURE_OPENAI_API_KEY",
        more: &[("AZURE_OPENAI_API_VERSION", "2024-10-21")],
    },
];

/// Runs the conversation over every protocol.
pub(super) async fn run(program: &Path, servers: &TestServers) -> Result<Vec<CaseResult>> {
    let (_process, address) = serve().await?;
    let mut lines = Vec::new();
    let mut progress = Progress::new("aimock plays a conversation with tools", PROTOCOLS.len() as u64);
    for (number, protocol) in (FIRST..).zip(PROTOCOLS) {
        let mut variables = vec![
            ("HOUSTON_MODEL", protocol.model.to_owned()),
            (protocol.url_variable, format!("http://{address}{}", protocol.path)),
            (protocol.key_variable, "sk-not-a-key".to_owned()),
        ];
        variables.extend(protocol.more.iter().map(|(name, value)| (*name, (*value).to_owned())));
        let client = Client::start(program, servers, number, &variables).await;
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
