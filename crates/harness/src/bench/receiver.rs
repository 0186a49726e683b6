//! A receiver of webhooks.

use std::net::SocketAddr;

use anyhow::Result;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Of secrets of webhooks; it protects nothing here.
const SECRETS_KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

/// It listens until it is dropped.
pub(crate) struct Receiver {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Receiver {
    /// Listens. `answers`: at once, or never.
    pub(crate) async fn start(answers: bool) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let answer: &[u8] = if answers { b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n" } else { b"" };
            let mut sockets = JoinSet::new();
            while let Ok((mut socket, _)) = listener.accept().await {
                sockets.spawn(async move {
                    let mut read = vec![0; 16 << 10];
                    // A request is small, and comes at once.
                    while socket.read(&mut read).await.is_ok_and(|count| count > 0) {
                        if socket.write_all(answer).await.is_err() {
                            break;
                        }
                    }
                });
            }
        });
        Ok(Self { address, _tasks: tasks })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What the service needs to send to it.
    pub(crate) fn settings(&self) -> Vec<(String, String)> {
        let hosts = ("HOUSTON_WEBHOOKS__HOSTS", format!("[\"{}\"]", self.url()));
        let key = ("HOUSTON_SECRETS_KEY", SECRETS_KEY.to_owned());
        [hosts, key].map(|(name, value)| (name.to_owned(), value)).to_vec()
    }
}
