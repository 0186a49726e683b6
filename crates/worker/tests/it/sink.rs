//! [`Sink`]: a receiver of webhooks on this machine, which answers as a test says and keeps what it has received.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use houston_domain::id::AgentableId;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::TaskTracker;

/// What a receiver does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Does {
    /// Answers with this status.
    Answer(u16),
    /// Answers nothing until the client gives up.
    Hang,
}

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    /// By name, in small letters.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
    pub(crate) answered: Does,
}

impl Received {
    pub(crate) fn event(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn id(&self) -> &str {
        &self.headers["webhook-id"]
    }
}

#[derive(Clone)]
pub(crate) struct Sink {
    pub(crate) url: String,
    does: Arc<Mutex<Does>>,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Sink {
    pub(crate) async fn start(tracker: &TaskTracker, does: Does) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let sink = Self { url, does: Arc::new(Mutex::new(does)), received: Arc::default() };
        let (own, connections) = (sink.clone(), tracker.clone());
        tracker.spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let own = own.clone();
                connections.spawn(async move { own.serve(socket).await });
            }
        });
        sink
    }

    pub(crate) fn now(&self, does: Does) {
        *self.does.lock().unwrap() = does;
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// The positions of the events of an agentable that were accepted, in the order in which they came.
    pub(crate) fn accepted(&self, agentable: AgentableId) -> Vec<i64> {
        let id = agentable.public_id("goal");
        let own = self.received().into_iter().filter(|one| one.answered == Does::Answer(204));
        own.map(|one| one.event())
            .filter(|event| event["data"]["agentable_id"] == id.as_str())
            .map(|event| event["data"]["seq"].as_i64().unwrap())
            .collect()
    }

    async fn serve(&self, mut socket: TcpStream) {
        let mut read = Vec::new();
        loop {
            let Some((head, headers)) = Self::head(&mut socket, &mut read).await else { return };
            let length: usize = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
            while read.len() < head + length {
                if socket.read_buf(&mut read).await.unwrap_or(0) == 0 {
                    return;
                }
            }
            let body = read[head..head + length].to_vec();
            read.drain(..head + length);
            let answered = *self.does.lock().unwrap();
            self.received.lock().unwrap().push(Received { headers, body, answered });
            match answered {
                Does::Answer(status) => {
                    let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n");
                    let answer = if status == 204 { "HTTP/1.1 204 X\r\n\r\n".to_owned() } else { answer };
                    if socket.write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                }
                Does::Hang => {
                    let mut rest = [0; 1];
                    let _ = tokio::time::timeout(Duration::from_secs(60), socket.read(&mut rest)).await;
                    return;
                }
            }
        }
    }

    /// Reads until the end of the head. Returns where it ends, and the headers.
    async fn head(socket: &mut TcpStream, read: &mut Vec<u8>) -> Option<(usize, BTreeMap<String, String>)> {
        loop {
            if let Some(end) = read.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                let text = String::from_utf8_lossy(&read[..end]).into_owned();
                let headers = text.lines().skip(1).filter_map(|line| line.split_once(": "));
                let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned()));
                return Some((end + 4, headers.collect()));
            }
            if socket.read_buf(read).await.ok()? == 0 {
                return None;
            }
        }
    }
}
