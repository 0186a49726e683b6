//! A scripted model server: OpenAI's `/v1/chat/completions` and Anthropic's `/v1/messages`, streamed, and its batches.
//!
//! The script gets each [`Call`] and returns a [`Reply`]: text and tool calls, streamed in pieces, or a
//! [`Fault`]. The [`Journal`] records every request independently of the service: its body and time, and how it
//! ended.
//!
//! ```ignore
//! let model = ModelServer::start(script::in_turn([Reply::status(429), Reply::text("Hello!").in_pieces(3)])).await?;
//! // … run Houston with HOUSTON_LOCAL_URL=model.url() …
//! assert_eq!(model.journal().calls(), 2);
//! ```

mod anthropic;
mod batches;
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
use tokio::task::JoinSet;

pub use call::{Call, ToolResult, Wire, without_system_context};
pub use journal::{Ending, Exchange, Journal, JournalDetail};
pub use plan::Prepared;
pub use reply::{Fault, Gate, Reply};

/// Listen backlog: a load test opens thousands of connections at once. The system may allow fewer.
const BACKLOG: u32 = 4096;

/// A running model server. Dropping it stops it and closes every connection.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    journal: Arc<Journal>,
    _tasks: JoinSet<()>,
}

impl ModelServer {
    /// Listens on a free loopback port and answers every call with the reply of `script`.
    ///
    /// Needs a tokio runtime. The script is called once per request, from any task, and must not block.
    ///
    /// # Errors
    ///
    /// If no port is free.
    // Async so that it cannot be called without a runtime.
    #[expect(clippy::unused_async, reason = "see above")]
    pub async fn start(script: impl Fn(&Call) -> Reply + Send + Sync + 'static) -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let listener = socket.listen(BACKLOG)?;
        let address = listener.local_addr()?;
        let (journal, mut tasks) = (Arc::new(Journal::default()), JoinSet::new());
        let (script, batches) = (Arc::new(script), batches::Batches::default());
        tasks.spawn(serve::accept(listener, serve::Server { script, journal: journal.clone(), batches }));
        Ok(Self { address, journal, _tasks: tasks })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL for both wires: `http://127.0.0.1:<port>/v1`.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The recorded requests.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }
}
