//! A tenant who chats: one message after the other, each read to the end of its answer.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use houston_testkit::console::Progress;

use super::workload::{self, Timing};
use crate::http::Connection;

/// Pause between two messages that are counted.
const GAP: Duration = Duration::from_millis(20);

/// A tenant with a goal.
pub(crate) struct Quiet {
    address: SocketAddr,
    key: String,
    connection: Connection,
    goal: String,
}

impl Quiet {
    pub(crate) async fn begin(address: SocketAddr, key: &str) -> Result<Self> {
        let mut connection = Connection::open(address, key).await?;
        let user = connection.user("quiet").await?;
        let goal = connection.goal(&user, "quiet").await?;
        Ok(Self { address, key: key.to_owned(), connection, goal })
    }

    /// Sends a message and reads its answer.
    pub(crate) async fn once(&mut self) -> Result<Timing> {
        let run = workload::run(&mut self.connection, &self.goal).await;
        if run.is_err() {
            // The connection may be in the middle of an answer.
            if let Ok(connection) = Connection::open(self.address, &self.key).await {
                self.connection = connection;
            }
        }
        run
    }

    /// Sends so many messages, one after the other.
    pub(crate) async fn messages(&mut self, count: usize, label: &str) -> Result<Vec<Timing>> {
        // The last one may have been closed meanwhile.
        self.connection = Connection::open(self.address, &self.key).await?;
        let mut progress = Progress::new(label, count as u64);
        let mut timings = Vec::with_capacity(count);
        for _ in 0..count {
            tokio::time::sleep(GAP).await;
            timings.push(self.once().await?);
            progress.step();
        }
        Ok(timings)
    }
}
