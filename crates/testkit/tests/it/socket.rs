//! A model client at the level of bytes.

use std::net::SocketAddr;
use std::time::Duration;

use houston_testkit::model_server::{ModelServer, Wire};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Timeout of every wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A connection to a model server.
pub(crate) struct Socket(pub(crate) TcpStream);

/// A response: the head, and the body with its chunks joined.
pub(crate) struct Answer {
    pub(crate) head: String,
    pub(crate) body: String,
    /// Whether the body ended properly.
    pub(crate) whole: bool,
}

impl Answer {
    /// The data of the events, parsed; data that is not JSON is a string.
    pub(crate) fn events(&self) -> Vec<Value> {
        let data =
            self.body.split("\n\n").filter_map(|event| event.lines().find_map(|l| l.strip_prefix("data: ")));
        data.map(|data| serde_json::from_str(data).unwrap_or_else(|_| data.into())).collect()
    }
}

impl Socket {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self(TcpStream::connect(address).await.unwrap())
    }

    pub(crate) async fn send(&mut self, wire: Wire, user: &str) {
        let body = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": user}]});
        self.send_body(wire, &body).await;
    }

    pub(crate) async fn send_body(&mut self, wire: Wire, body: &Value) {
        let path = if wire == Wire::Anthropic { "/v1/messages" } else { "/v1/chat/completions" };
        let body = body.to_string();
        let request =
            format!("POST {path} HTTP/1.1\r\nhost: model\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        self.0.write_all(request.as_bytes()).await.unwrap();
    }

    /// Reads one answer to its end, or to the end of the connection.
    pub(crate) async fn receive(&mut self) -> Answer {
        let mut bytes = Vec::new();
        loop {
            if let Some(answer) = parse(&bytes, false) {
                return answer;
            }
            let read = tokio::time::timeout(PATIENCE, self.0.read_buf(&mut bytes)).await.unwrap();
            if read.unwrap_or(0) == 0 {
                return parse(&bytes, true).unwrap();
            }
        }
    }

    /// Reads until the bytes so far contain `what`.
    pub(crate) async fn receive_until(&mut self, what: &str) -> String {
        let mut bytes = Vec::new();
        while !String::from_utf8_lossy(&bytes).contains(what) {
            let read = tokio::time::timeout(PATIENCE, self.0.read_buf(&mut bytes)).await.unwrap();
            assert_ne!(read.unwrap(), 0, "closed before {what}");
        }
        String::from_utf8(bytes).unwrap()
    }
}

/// The answer in `bytes`, if it is complete or the connection is closed.
fn parse(bytes: &[u8], closed: bool) -> Option<Answer> {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, mut rest)) = text.split_once("\r\n\r\n") else {
        return closed.then(|| Answer { head: text.into_owned(), body: String::new(), whole: false });
    };
    let answer = |body: &str, whole| Answer { head: head.to_owned(), body: body.to_owned(), whole };
    if let Some(length) = head.lines().find_map(|line| line.strip_prefix("content-length: ")) {
        let whole = rest.len() == length.parse::<usize>().unwrap();
        return (whole || closed).then(|| answer(rest, whole));
    }
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return Some(answer(&body, true));
        }
        body.push_str(&after[..size.min(after.len())]);
        let Some(next) = after.get(size + 2..) else { break };
        rest = next;
    }
    closed.then(|| answer(&body, false))
}

/// Sends one request over a new connection.
pub(crate) async fn ask(server: &ModelServer, wire: Wire, user: &str) -> Answer {
    let mut socket = Socket::connect(server.address()).await;
    socket.send(wire, user).await;
    socket.receive().await
}
