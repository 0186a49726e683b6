//! A minimal HTTP/1.1 client for measurements: one keep-alive connection, and only the parts of HTTP the API uses. It
//! takes less of the processor, which it shares with the service, than a client that can do more.

use std::collections::VecDeque;
use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use bytes::{Buf, Bytes, BytesMut};
use houston_protocol::agentable::AgentableResponse;
use houston_protocol::agui::{Event, RunResult, TokenUsage};
use houston_protocol::message::AcceptedMessageResponse;
use houston_protocol::sse::{SseDecoder, SseEvent};
use houston_protocol::user::UserResponse;
use houston_testkit::houston::Houston;
use memchr::memmem;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const JSON: &str = "content-type: application/json\r\n";

/// A connection to the API.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: TcpStream,
    received: BytesMut,
    /// Header fields of every request.
    fields: String,
}

/// A response with its complete body.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: Bytes,
}

impl Response {
    /// The parsed body of a 2xx response; an error with status and body otherwise.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T> {
        if !(200..300).contains(&self.status) {
            bail!("{} {}", self.status, String::from_utf8_lossy(&self.body));
        }
        serde_json::from_slice(&self.body).context("the response body cannot be parsed")
    }
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr, key: &str) -> Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let fields = format!("host: {address}\r\nauthorization: Bearer {key}\r\n");
        Ok(Self { socket, received: BytesMut::new(), fields })
    }

    pub(crate) async fn to(houston: &Houston) -> Result<Self> {
        Self::open(houston.address, &houston.key).await
    }

    /// Creates a user; returns its id.
    pub(crate) async fn user(&mut self, name: &str) -> Result<String> {
        let body = json!({ "name": name }).to_string();
        Ok(self.post("/v1/users", &body).await?.json::<UserResponse>()?.id.to_string())
    }

    /// Creates so many users; returns their ids.
    pub(crate) async fn users(&mut self, name: &str, count: usize) -> Result<Vec<String>> {
        let mut users = Vec::with_capacity(count);
        for _ in 0..count {
            users.push(self.user(name).await?);
        }
        Ok(users)
    }

    /// Creates a goal of `user`; returns its id.
    pub(crate) async fn goal(&mut self, user: &str, title: &str) -> Result<String> {
        let body = json!({"user_id": user, "title": title}).to_string();
        Ok(self.post("/v1/goals", &body).await?.json::<AgentableResponse>()?.id)
    }

    /// Posts a message, `{"content": …}`, to a goal.
    pub(crate) async fn send_message(&mut self, goal: &str, body: &str) -> Result<AcceptedMessageResponse> {
        self.post(&format!("/v1/goals/{goal}/messages"), body).await?.json()
    }

    pub(crate) async fn get(&mut self, path: &str) -> Result<Response> {
        self.request("GET", path, "", "").await
    }

    pub(crate) async fn post(&mut self, path: &str, body: &str) -> Result<Response> {
        self.request("POST", path, JSON, body).await
    }

    pub(crate) async fn put(&mut self, path: &str, body: &str) -> Result<Response> {
        self.request("PUT", path, JSON, body).await
    }

    /// A POST with an idempotency key: repeated, it takes effect once.
    pub(crate) async fn post_once(&mut self, path: &str, body: &str, key: &str) -> Result<Response> {
        self.request("POST", path, &format!("{JSON}idempotency-key: {key}\r\n"), body).await
    }

    async fn request(&mut self, method: &str, path: &str, fields: &str, body: &str) -> Result<Response> {
        self.send(method, path, fields, body).await?;
        self.response().await.with_context(|| format!("{method} {path}"))
    }

    /// Requests an event stream from `last_event_id` on (empty: from the beginning); read it with [`Self::chunk`].
    /// Returns the status.
    pub(crate) async fn resume(&mut self, path: &str, last_event_id: &str) -> Result<u16> {
        let last = match last_event_id {
            "" => String::new(),
            id => format!("last-event-id: {id}\r\n"),
        };
        self.send("GET", path, &format!("accept: text/event-stream\r\n{last}"), "").await?;
        Ok(self.head().await?.0)
    }

    /// Opens an event stream, which must be read to its end before this connection is used again.
    pub(crate) async fn events(&mut self, path: &str) -> Result<EventStream<'_>> {
        match self.resume(path, "").await.with_context(|| format!("GET {path}"))? {
            200 => {}
            // The run has ended: there is nothing to stream.
            204 => bail!("GET {path}: the run had ended before its stream was opened"),
            status => bail!("GET {path}: {status}"),
        }
        Ok(EventStream { connection: self, decoder: SseDecoder::default(), complete: VecDeque::new() })
    }

    async fn send(&mut self, method: &str, path: &str, more: &str, body: &str) -> Result<()> {
        let length = body.len();
        let fields = &self.fields;
        let request =
            format!("{method} {path} HTTP/1.1\r\n{fields}{more}content-length: {length}\r\n\r\n{body}");
        self.socket.write_all(request.as_bytes()).await?;
        Ok(())
    }

    async fn response(&mut self) -> Result<Response> {
        let (status, length) = self.head().await?;
        let body = match length {
            Some(length) => {
                while self.received.len() < length {
                    self.receive().await?;
                }
                self.received.split_to(length).freeze()
            }
            None => {
                let mut body = BytesMut::new();
                while let Some(chunk) = self.chunk().await? {
                    body.extend_from_slice(&chunk);
                }
                body.freeze()
            }
        };
        Ok(Response { status, body })
    }

    /// Reads the head of a response: its status, and the length of its body; `None` if that comes in chunks.
    async fn head(&mut self) -> Result<(u16, Option<usize>)> {
        let end = loop {
            if let Some(end) = memmem::find(&self.received, b"\r\n\r\n") {
                break end;
            }
            self.receive().await?;
        };
        let head = self.received.split_to(end + 4);
        let head = std::str::from_utf8(&head)?;
        let status = head.get(9..12).and_then(|status| status.parse().ok()).context("no HTTP status")?;
        let field = |name: &str| {
            let mut fields = head.lines().filter_map(|line| line.split_once(':'));
            fields.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
        };
        let length = match field("content-length") {
            Some(length) => Some(length.parse()?),
            None if field("transfer-encoding").is_some() => None,
            None => Some(0),
        };
        Ok((status, length))
    }

    /// The next chunk of a body; `None` after the last one.
    pub(crate) async fn chunk(&mut self) -> Result<Option<BytesMut>> {
        loop {
            if let Some(line) = memmem::find(&self.received, b"\r\n") {
                let size = std::str::from_utf8(&self.received[..line])?;
                let size = usize::from_str_radix(size.trim(), 16).context("a chunk without its size")?;
                if self.received.len() >= line + 2 + size + 2 {
                    self.received.advance(line + 2);
                    let chunk = self.received.split_to(size);
                    self.received.advance(2);
                    return Ok((size > 0).then_some(chunk));
                }
            }
            self.receive().await?;
        }
    }

    async fn receive(&mut self) -> Result<()> {
        if self.received.capacity() - self.received.len() < 1024 {
            self.received.reserve(8 << 10);
        }
        if self.socket.read_buf(&mut self.received).await? == 0 {
            bail!("the connection was closed in the middle of a response");
        }
        Ok(())
    }
}

/// An open event stream.
#[derive(Debug)]
pub(crate) struct EventStream<'c> {
    connection: &'c mut Connection,
    decoder: SseDecoder,
    complete: VecDeque<SseEvent>,
}

/// The result of a stream read to its end.
#[derive(Debug)]
pub(crate) struct FinishedStream {
    /// The joined text of the messages.
    pub(crate) text: String,
    /// The number of pieces the text came in.
    pub(crate) pieces: usize,
    /// From `RUN_FINISHED`.
    pub(crate) result: RunResult<'static>,
    pub(crate) usage: Option<TokenUsage>,
}

impl EventStream<'_> {
    /// The next event; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<Event<'static>>> {
        loop {
            if let Some(event) = self.complete.pop_front() {
                let read = serde_json::from_str(&event.data);
                return read.with_context(|| format!("the event cannot be parsed: {}", event.data)).map(Some);
            }
            match self.connection.chunk().await? {
                Some(chunk) => self.complete.extend(self.decoder.push(&chunk)?),
                None => return Ok(None),
            }
        }
    }

    /// Reads to the end of the run; calls `on_event` with each event as it arrives.
    pub(crate) async fn read(mut self, mut on_event: impl FnMut(&Event<'static>)) -> Result<FinishedStream> {
        let (mut text, mut pieces, mut end) = (String::new(), 0, None);
        while let Some(event) = self.next().await? {
            on_event(&event);
            match event {
                Event::TextMessageContent { delta, .. } => {
                    pieces += 1;
                    text.push_str(&delta);
                }
                Event::RunError { message, metadata, .. } => {
                    let cause = metadata.and_then(|metadata| metadata.houston.cause);
                    bail!("the run failed: {}", cause.unwrap_or(message));
                }
                Event::RunFinished { result, usage, .. } => end = Some((result, usage)),
                _ => {}
            }
        }
        let Some((result, usage)) = end else { bail!("the stream ended before its run") };
        Ok(FinishedStream { text, pieces, result, usage: usage.map(|[usage]| usage) })
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    const FRAMES: &str = concat!(
        "id: 1\nretry: 2000\ndata: {\"type\":\"BRAND_NEW\"}\n\n:\n:\n",
        "id: 2:3\ndata: {\"type\":\"TEXT_MESSAGE_CONTENT\",",
        "\"messageId\":\"msg_00000000000000000000000000000001\",\"delta\":\"h\\u00e4 \"}\n\n",
        "id: 2:5\ndata: {\"type\":\"TEXT_MESSAGE_CONTENT\",",
        "\"messageId\":\"msg_00000000000000000000000000000001\",\"delta\":\"ho\"}\n\n",
        "id: 3\ndata: {\"type\":\"RUN_FINISHED\",\"threadId\":\"goal_1\",",
        "\"runId\":\"run_00000000000000000000000000000002\",\"result\":{\"status\":\"completed\"},",
        "\"outcome\":{\"type\":\"success\"}}\n\n",
    );

    /// Serves `body` in HTTP chunks of seven bytes, sent three bytes at a time, to two requests.
    async fn serve(listener: TcpListener, body: &str, end: &str) {
        let mut socket = listener.accept().await.unwrap().0;
        for _ in 0..2 {
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                assert_ne!(socket.read_buf(&mut request).await.unwrap(), 0);
            }
            let mut answer = String::from("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            for chunk in body.as_bytes().chunks(7) {
                answer.push_str(&format!("{:x}\r\n{}\r\n", chunk.len(), str::from_utf8(chunk).unwrap()));
            }
            answer.push_str(end);
            for piece in answer.as_bytes().chunks(3) {
                socket.write_all(piece).await.unwrap();
            }
        }
    }

    async fn read(body: &str, end: &str) -> Vec<Result<FinishedStream>> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut connection = Connection::open(listener.local_addr().unwrap(), "key").await.unwrap();
        let (reads, ()) = tokio::join!(
            async {
                let mut reads = Vec::new();
                for _ in 0..2 {
                    let stream = connection.events("/events").await.unwrap();
                    reads.push(stream.read(|_| {}).await);
                }
                reads
            },
            serve(listener, body, end)
        );
        reads
    }

    #[tokio::test]
    async fn frames_are_read_however_they_are_cut() {
        for read in read(FRAMES, "0\r\n\r\n").await {
            let read = read.unwrap();
            assert_eq!((read.text.as_str(), read.pieces), ("hä ho", 2));
            assert_eq!(read.result.status.as_str(), "completed");
        }
    }

    #[tokio::test]
    async fn stream_that_ends_before_its_run_is_an_error() {
        let cut = FRAMES.split("id: 3").next().unwrap();
        for read in read(cut, "0\r\n\r\n").await {
            assert!(read.unwrap_err().to_string().contains("ended before its run"));
        }
    }
}
