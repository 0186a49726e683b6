//! Tests of Houston against fake providers written by others: `llmock` injects faults into calls and evaluates how the
//! client reacts, `aimock` plays a conversation with tools over every protocol.
//!
//! Each provider gets its own Houston process and database, so that everything from the posted message to the answer
//! is tested, including retries across attempts.

mod aimock;
pub(crate) mod endpoint;
mod llmock;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use houston_protocol::run::RunResponse;
use houston_testkit::houston::Houston;
use houston_testkit::servers::TestServers;
use serde_json::{Value, json};

use crate::http::Connection;
use crate::service::build_like_tests;
use crate::wait::wait_for;
use houston_testkit::console::print;
use houston_testkit::programs;

/// Runs the tests with both fake providers, and prints their results.
pub(crate) async fn run() -> Result<ExitCode> {
    let program = build_like_tests("houston").await?;
    let servers = programs::servers(|config| config.max_connections = 300)?;
    let mut results = Box::pin(llmock::run(&program, &servers)).await?;
    results.extend(Box::pin(aimock::run(&program, &servers)).await?);
    print(&table(&results))?;
    Ok(if failed(&results) == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The result of one case with one provider.
#[derive(Debug)]
struct CaseResult {
    judge: &'static str,
    provider: &'static str,
    case: &'static str,
    /// What went wrong; empty if the case passed.
    faults: Vec<String>,
}

/// How many cases did not pass.
fn failed(results: &[CaseResult]) -> usize {
    results.iter().filter(|result| !result.faults.is_empty()).count()
}

/// A row per provider, followed by its faults.
fn table(results: &[CaseResult]) -> String {
    let mut table = String::new();
    let mut rows: Vec<(&str, &str)> = Vec::new();
    for result in results {
        if !rows.contains(&(result.judge, result.provider)) {
            rows.push((result.judge, result.provider));
        }
    }
    for (judge, provider) in rows {
        let of_row = || results.iter().filter(|result| (result.judge, result.provider) == (judge, provider));
        let clean = of_row().filter(|result| result.faults.is_empty()).count();
        table += &format!("{judge:<8} {provider:<18} {clean:>2} of {} clean\n", of_row().count());
        for result in of_row() {
            for fault in &result.faults {
                table += &format!("           {}: {fault}\n", result.case);
            }
        }
    }
    let total = results.len();
    table + &format!("providers: {} of {total} conversations clean", total - failed(results))
}

/// How long one answer may take, including retries and the idle timeout for a stalled stream.
const PATIENCE: Duration = Duration::from_secs(90);

/// A Houston process configured for one fake provider.
struct Client {
    houston: Houston,
    connection: Connection,
    user: String,
}

impl Client {
    /// Starts a process with the database `provider_<number>` and the Redis database `number` modulo 16: installations that
    /// share one do not run at the same time.
    async fn start(
        program: &Path,
        servers: &TestServers,
        number: usize,
        variables: Vec<(String, String)>,
    ) -> Result<Self> {
        let database = format!("provider_{number}");
        servers.sql(&format!("create database {database}"))?;
        let database = servers.database_url().replacen("/houston?", &format!("/{database}?"), 1);
        let redis = format!("{}?db={}", servers.redis_url(), number % 16);
        let houston = Houston::builder(program).cell(&database, &redis).set_all(variables).start()?;
        let mut connection = Connection::to(&houston).await?;
        let user = connection.user("Ann").await?;
        Ok(Self { houston, connection, user })
    }

    /// Creates a goal, over a new connection; returns its id.
    async fn goal(&mut self, title: &str) -> Result<String> {
        // Houston closes a connection on which no request comes for 10 s, and others may take longer to be ready.
        self.connection = Connection::to(&self.houston).await?;
        self.connection.goal(&self.user, title).await
    }

    /// Posts a message and waits until its run has ended.
    async fn post_and_wait(&mut self, goal: &str, text: &str) -> Result<RunResponse> {
        let accepted = self.connection.send_message(goal, &json!({ "content": text }).to_string()).await?;
        let path = format!("/v1/runs/{}", accepted.message.run_id.context("the message has no run")?);
        let has_ended = async || {
            let run: RunResponse = self.connection.get(&path).await?.json()?;
            let is_open = matches!(run.status.as_str(), "queued" | "running" | "retrying" | "waiting");
            Ok((!is_open).then_some(run))
        };
        wait_for(PATIENCE, has_ended, || "the run has not ended".to_owned()).await
    }

    /// The agent's last message of a thread; empty without one.
    async fn answer(&mut self, goal: &str) -> Result<String> {
        let page = self.get(&format!("/v1/goals/{goal}/messages?limit=50")).await?;
        let messages = page["data"].as_array().context("the page of messages has no `data`")?;
        let answer =
            messages.iter().find(|message| message["source"] == "agent" && message["message_type"] == "text");
        Ok(answer.and_then(|message| message["content"].as_str()).unwrap_or_default().to_owned())
    }

    /// GETs any path of the API.
    async fn get(&mut self, path: &str) -> Result<Value> {
        self.connection.get(path).await?.json()
    }
}
