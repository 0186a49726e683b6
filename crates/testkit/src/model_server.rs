//! A model that answers as a script says: OpenAI's `/v1/chat/completions` and Anthropic's `/v1/messages`, streamed.
//!
//! The script sees each [`Call`] and returns a [`Reply`]: text, reasoning and tool calls cut into pieces, or a
//! [`Fault`]. The [`Journal`] is what a test believes instead of the service: every request as it came, when, over
//! which connection, and how it ended.

mod anthropic;
mod call;
mod http;
mod journal;
mod openai_chat;
mod plan;
mod reply;
pub mod script;
mod serve;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpSocket;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use call::{Call, ToolResult, Wire, said};
pub use journal::{Ending, Exchange, Journal, Keep};
pub use plan::Prepared;
pub use reply::{Fault, Gate, Reply};

/// Connections that wait to be accepted: a load test opens thousands at once. The system may allow fewer.
const BACKLOG: u32 = 4096;

/// A running model server; it ends when it is dropped.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    journal: Arc<Journal>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl ModelServer {
    /// Listens on a free port of the loopback address and answers every call as `script` says.
    ///
    /// Needs a tokio runtime, whose tasks it runs on. The script is called once per request, from any of them,
    /// and must not block.
    ///
    /// # Errors
    ///
    /// When no port can be had.
    // Async so that nobody calls it without the runtime it needs.
    #[expect(clippy::unused_async, reason = "see above")]
    pub async fn start(script: impl Fn(&Call) -> Reply + Send + Sync + 'static) -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let listener = socket.listen(BACKLOG)?;
        let address = listener.local_addr()?;
        let (journal, stop, tasks) =
            (Arc::new(Journal::default()), CancellationToken::new(), TaskTracker::new());
        let server = serve::Server { script: Arc::new(script), journal: journal.clone(), stop: stop.clone() };
        tasks.spawn(serve::accept(listener, server, tasks.clone()));
        Ok(Self { address, journal, stop, tasks })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL as clients of both wires want it: `http://127.0.0.1:<port>/v1`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// What came and how it ended.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Stops listening, cuts every connection, and waits until they are gone.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.stop.cancel();
        self.tasks.close();
    }
}
