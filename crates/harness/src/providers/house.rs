//! A Houston that talks with one provider.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use houston_testkit::servers::TestServers;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::http::Connection;
use crate::installation::{Installation, goal};
use houston_xtask::psql::Psql;

/// How long one answer may take: retries, and the patience that Houston is given for a stalled stream, included.
const PATIENCE: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(50);

/// One Houston and the connection to it.
pub(crate) struct House {
    _installation: Installation,
    connection: Connection,
    user: String,
}

/// How a run ended.
#[derive(Debug, Deserialize)]
pub(crate) struct Ended {
    pub(crate) status: String,
    pub(crate) error: Option<Value>,
}

/// A message that was posted.
#[derive(Debug, Deserialize)]
struct Posted {
    run_id: String,
}

impl House {
    /// Starts one as number `number`, for which it gets a database and a Redis database of its own.
    pub(crate) async fn start(
        program: &Path,
        servers: &TestServers,
        number: usize,
        variables: &[(&str, String)],
    ) -> Result<Self> {
        let database = format!("provider_{number}");
        Psql::of(servers)?.ask(&format!("create database {database}"))?;
        let mut variables = variables.to_vec();
        variables.push((
            "DATABASE_URL",
            servers.database_url().replacen("/houston?", &format!("/{database}?"), 1),
        ));
        // Redis has 16; those who share one do not live at the same time.
        variables.push(("HOUSTON_REDIS_URL", format!("{}?db={}", servers.redis_url(), number % 16)));
        let installation = Installation::start(program, servers, &variables).await?;
        let user = installation.user("Ann").await?;
        let connection = installation.connect().await?;
        Ok(Self { _installation: installation, connection, user })
    }

    /// A new goal.
    pub(crate) async fn goal(&mut self, title: &str) -> Result<String> {
        goal(&mut self.connection, &self.user, title).await
    }

    /// Says something and waits for the run to end.
    pub(crate) async fn say(&mut self, goal: &str, text: &str) -> Result<Ended> {
        let body = json!({ "content": text }).to_string();
        let posted: Posted =
            self.connection.post(&format!("/v1/goals/{goal}/messages"), &body).await?.json()?;
        let end = Instant::now() + PATIENCE;
        loop {
            let ended: Ended = self.connection.get(&format!("/v1/runs/{}", posted.run_id)).await?.json()?;
            if !matches!(&*ended.status, "queued" | "running" | "retrying") {
                return Ok(ended);
            }
            if Instant::now() >= end {
                bail!("the run is still {} after {PATIENCE:?}", ended.status);
            }
            sleep(POLL).await;
        }
    }

    /// What the agent said last in a thread.
    pub(crate) async fn answer(&mut self, goal: &str) -> Result<String> {
        let page: Value =
            self.connection.get(&format!("/v1/goals/{goal}/messages?limit=50")).await?.json()?;
        let messages = page["data"].as_array().context("no messages")?;
        let said =
            messages.iter().find(|message| message["source"] == "agent" && message["message_type"] == "text");
        Ok(said.and_then(|message| message["content"].as_str()).unwrap_or_default().to_owned())
    }

    /// Any page of the API.
    pub(crate) async fn get(&mut self, path: &str) -> Result<Value> {
        self.connection.get(path).await?.json()
    }
}
