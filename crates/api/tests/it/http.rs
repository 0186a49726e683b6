//! An HTTP client that reads bodies chunk by chunk.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use axum::http::{HeaderMap, Request};
use bytes::Bytes;
use houston_protocol::sse::{SseDecoder, SseEvent};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Time limit of every wait in these tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no json: {}", self.text()))
    }

    pub(crate) fn ok(&self) -> Value {
        assert!((200..300).contains(&self.status), "{}: {}", self.status, self.text());
        self.json()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Checks that this is a problem with this status and code. Returns its body.
    pub(crate) fn refused(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.header("content-type"), "application/problem+json");
        let problem = self.json();
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(problem["status"], status);
        let kind = match code {
            "rate_limited" => "https://iana.org/assignments/http-problem-types#quota-exceeded".to_owned(),
            _ => format!("urn:houston:problem:{code}"),
        };
        assert_eq!(problem["type"], kind);
        assert_eq!(problem["request_id"], self.header("x-request-id"));
        let waits = self.header("retry-after").parse::<u64>().is_ok_and(|seconds| seconds > 0);
        assert!(waits || ![429, 503].contains(&status), "it says when to try again: {:?}", self.headers);
        for field in ["title", "detail", "instance", "request_id"] {
            assert!(problem[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {problem}");
        }
        problem
    }
}

async fn connect(address: SocketAddr) -> (http1::SendRequest<Full<Bytes>>, JoinSet<()>) {
    let socket = TcpStream::connect(address).await.unwrap();
    let (sender, connection) = http1::handshake(TokioIo::new(socket)).await.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async {
        let _ = connection.await;
    });
    (sender, tasks)
}

fn build(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Request<Full<Bytes>> {
    let mut request = Request::builder().method(method).uri(path).header("host", "houston.test");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Full::new(body.to_owned().into())).unwrap()
}

pub(crate) async fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let send = async {
        let (mut sender, _connection) = connect(address).await;
        let response = sender.send_request(build(method, path, headers, body)).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer { status: parts.status.as_u16(), headers: parts.headers, body }
    };
    tokio::time::timeout(PATIENCE, send).await.unwrap()
}

/// One parsed frame of a stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Frame {
    pub(crate) id: String,
    pub(crate) retry_ms: Option<u64>,
    pub(crate) data: Value,
}

impl Frame {
    pub(crate) fn kind(&self) -> &str {
        let kind = if self.data["type"] == "CUSTOM" { &self.data["name"] } else { &self.data["type"] };
        kind.as_str().unwrap()
    }
}

/// An open event stream.
pub(crate) struct Stream {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    _connection: JoinSet<()>,
    decoder: SseDecoder,
    events: VecDeque<SseEvent>,
}

/// How a stream ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    Clean,
    Aborted,
}

impl Stream {
    /// Opens a stream; `None` if the connection broke before there was a response.
    pub(crate) async fn open(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Option<Self> {
        Self::send(address, "GET", path, headers, "").await
    }

    /// Opens a stream with any method and a body.
    pub(crate) async fn send(
        address: SocketAddr,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Option<Self> {
        let (mut sender, connection) = connect(address).await;
        let sent = sender.send_request(build(method, path, headers, body));
        let response = tokio::time::timeout(PATIENCE, sent).await.unwrap().ok()?;
        let (parts, body) = response.into_parts();
        Some(Self {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body,
            _connection: connection,
            decoder: SseDecoder::default(),
            events: VecDeque::new(),
        })
    }

    /// The next chunk of the body.
    pub(crate) async fn chunk(&mut self) -> Result<Bytes, End> {
        match tokio::time::timeout(PATIENCE, self.body.frame()).await.expect("the stream is silent") {
            None => Err(End::Clean),
            Some(Err(_)) => Err(End::Aborted),
            Some(Ok(frame)) => Ok(frame.into_data().unwrap()),
        }
    }

    pub(crate) async fn next(&mut self) -> Result<Frame, End> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Frame::from(event));
            }
            let chunk = self.chunk().await?;
            self.events.extend(self.decoder.push(&chunk).unwrap());
        }
    }

    /// Reads frames up to and including the first of this kind.
    pub(crate) async fn until(&mut self, kind: &str) -> Vec<Frame> {
        let mut frames = Vec::new();
        loop {
            let frame = self.next().await.unwrap_or_else(|end| panic!("{end:?} before {kind}: {frames:#?}"));
            frames.push(frame);
            if frames.last().unwrap().kind() == kind {
                return frames;
            }
        }
    }

    /// Reads all frames to the end of the stream.
    pub(crate) async fn rest(&mut self) -> (Vec<Frame>, End) {
        let mut frames = Vec::new();
        loop {
            match self.next().await {
                Ok(frame) => frames.push(frame),
                Err(end) => return (frames, end),
            }
        }
    }
}

impl From<SseEvent> for Frame {
    fn from(event: SseEvent) -> Self {
        Self {
            // Those of an MCP call have none.
            id: event.id.unwrap_or_default(),
            retry_ms: event.retry_ms,
            data: serde_json::from_str(&event.data).unwrap(),
        }
    }
}

pub(crate) fn kinds(frames: &[Frame]) -> Vec<&str> {
    frames.iter().map(Frame::kind).collect()
}
