//! A Houston process configured for one fake provider.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use houston_protocol::message::AcceptedMessageResponse;
use houston_protocol::run::RunResponse;
use houston_testkit::servers::TestServers;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::http::Connection;
use crate::installation::{Installation, goal};
use houston_xtask::psql::Psql;

/// How long one answer may take, including retries and the idle timeout for a stalled stream.
const PATIENCE: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(50);

/// A Houston process and a connection to it.
pub(crate) struct ProviderInstallation {
    installation: Installation,
    connection: Connection,
    user: String,
}

impl ProviderInstallation {
    /// Starts a process with the database `provider_<number>` and the Redis database `number` modulo 16.
    pub(crate) async fn start(
        program: &Path,
        servers: &TestServers,
        number: usize,
        variables: &[(&str, String)],
    ) -> Result<Self> {
        let database = format!("provider_{number}");
        Psql::of(servers)?.query(&format!("create database {database}"))?;
        let mut variables = variables.to_vec();
        variables.push((
            "DATABASE_URL",
            servers.database_url().replacen("/houston?", &format!("/{database}?"), 1),
        ));
        // Redis has 16 databases; installations that share one do not run at the same time.
        variables.push(("HOUSTON_REDIS_URL", format!("{}?db={}", servers.redis_url(), number % 16)));
        let installation = Installation::start(program, servers, &variables).await?;
        let user = installation.user("Ann").await?;
        let connection = installation.connect().await?;
        Ok(Self { installation, connection, user })
    }

    /// Creates a goal, over a new connection; returns its id.
    pub(crate) async fn goal(&mut self, title: &str) -> Result<String> {
        // Houston closes a connection on which no request comes for 10 s, and others may take longer to be ready.
        self.connection = self.installation.connect().await?;
        goal(&mut self.connection, &self.user, title).await
    }

    /// Posts a message and waits until its run has ended.
    pub(crate) async fn post_and_wait(&mut self, goal: &str, text: &str) -> Result<RunResponse> {
        let body = json!({ "content": text }).to_string();
        let accepted: AcceptedMessageResponse =
            self.connection.post(&format!("/v1/goals/{goal}/messages"), &body).await?.json()?;
        let run = accepted.message.run_id.context("the message has no run")?;
        let end = Instant::now() + PATIENCE;
        loop {
            let run: RunResponse = self.connection.get(&format!("/v1/runs/{run}")).await?.json()?;
            if !matches!(run.status.as_str(), "queued" | "running" | "retrying" | "waiting") {
                return Ok(run);
            }
            if Instant::now() >= end {
                bail!("the run is still {} after {PATIENCE:?}", run.status.as_str());
            }
            sleep(POLL).await;
        }
    }

    /// The agent's last message of a thread; empty without one.
    pub(crate) async fn answer(&mut self, goal: &str) -> Result<String> {
        let page: Value =
            self.connection.get(&format!("/v1/goals/{goal}/messages?limit=50")).await?.json()?;
        let messages = page["data"].as_array().context("the page of messages has no `data`")?;
        let answer =
            messages.iter().find(|message| message["source"] == "agent" && message["message_type"] == "text");
        Ok(answer.and_then(|message| message["content"].as_str()).unwrap_or_default().to_owned())
    }

    /// GETs any path of the API.
    pub(crate) async fn get(&mut self, path: &str) -> Result<Value> {
        self.connection.get(path).await?.json()
    }
}
