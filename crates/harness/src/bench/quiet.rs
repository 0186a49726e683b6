//! A tenant who chats: one message after the other, each read to the end of its answer.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio_util::sync::CancellationToken;

use crate::bench::workload;
use crate::http::Connection;

/// Pause between an answer and the next message.
const PAUSE: Duration = Duration::from_millis(500);

/// A tenant with a goal.
pub(super) struct Quiet {
    address: SocketAddr,
    key: String,
    connection: Connection,
    goal: String,
}

/// What it has seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) first_events: Vec<Duration>,
    pub(super) failed: Vec<String>,
}

impl Quiet {
    pub(super) async fn begin(address: SocketAddr, key: &str) -> Result<Self> {
        let mut connection = Connection::open(address, key).await?;
        let user = connection.user("quiet").await?;
        let goal = connection.goal(&user, "quiet").await?;
        Ok(Self { address, key: key.to_owned(), connection, goal })
    }

    /// Sends a message and reads its answer. Returns how long its first event took.
    pub(super) async fn once(&mut self) -> Result<Duration> {
        let (message, answer) = (workload::message(), workload::answer());
        let run = workload::run(&mut self.connection, &self.goal, &message, &answer).await;
        if run.is_err() {
            // The connection may be in the middle of an answer.
            if let Ok(connection) = Connection::open(self.address, &self.key).await {
                self.connection = connection;
            }
        }
        run.map(|timing| timing.first_event())
    }

    pub(super) async fn chat(mut self, stop: CancellationToken) -> Seen {
        let mut seen = Seen::default();
        while !stop.is_cancelled() {
            match self.once().await {
                Ok(first_event) => seen.first_events.push(first_event),
                Err(error) => seen.failed.push(format!("{error:#}")),
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
        seen
    }
}

/// Waits a little, so that a refusal is not repeated thousands of times a second.
pub(super) async fn breathe(since: Instant) {
    tokio::time::sleep(Duration::from_millis(20).saturating_sub(since.elapsed())).await;
}
