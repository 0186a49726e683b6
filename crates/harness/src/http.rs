//! A minimal HTTP/1.1 client for measurements: one keep-alive connection, and only the parts of HTTP the API uses.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use bytes::{Buf, Bytes, BytesMut};
use memchr::memmem;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::sse::EventStream;

/// A connection to the API.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: TcpStream,
    pub(crate) received: BytesMut,
    address: SocketAddr,
    /// Header fields of every request.
    fields: String,
    /// The cookie that the last response has set.
    cookie: Option<String>,
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

/// How a response body is delimited.
#[derive(Debug, Clone, Copy)]
enum Length {
    Fixed(usize),
    Chunked,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr, key: &str) -> Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let mut connection =
            Self { socket, received: BytesMut::new(), address, fields: String::new(), cookie: None };
        connection.set_key(key);
        Ok(connection)
    }

    /// Sends another key from now on.
    pub(crate) fn set_key(&mut self, key: &str) {
        self.fields = format!("host: {}\r\nauthorization: Bearer {key}\r\n", self.address);
    }

    /// Begins a session of the console at `path` with this key. From now on the session's cookie is sent in place of a key.
    pub(crate) async fn sign_in(&mut self, path: &str, key: &str) -> Result<()> {
        let address = self.address;
        let fields =
            format!("origin: http://{address}\r\ncontent-type: application/x-www-form-urlencoded\r\n");
        self.send("POST", &format!("{path}/sign-in"), &fields, &format!("key={key}")).await?;
        let status = self.response().await?.status;
        let cookie = self.cookie.take().with_context(|| format!("signing in: {status}, and no session"))?;
        self.fields = format!("host: {address}\r\ncookie: {cookie}\r\n");
        Ok(())
    }

    pub(crate) async fn get(&mut self, path: &str) -> Result<Response> {
        self.send("GET", path, "", "").await?;
        self.response().await.with_context(|| format!("GET {path}"))
    }

    pub(crate) async fn post(&mut self, path: &str, body: &str) -> Result<Response> {
        self.send("POST", path, "content-type: application/json\r\n", body).await?;
        self.response().await.with_context(|| format!("POST {path}"))
    }

    /// A POST with an idempotency key: repeated, it takes effect once.
    pub(crate) async fn post_once(&mut self, path: &str, body: &str, key: &str) -> Result<Response> {
        let fields = format!("content-type: application/json\r\nidempotency-key: {key}\r\n");
        self.send("POST", path, &fields, body).await?;
        self.response().await.with_context(|| format!("POST {path}"))
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

    /// Requests the stream that answers a POST; read it with [`Self::chunk`]. Returns the status.
    pub(crate) async fn post_stream(&mut self, path: &str, body: &str) -> Result<u16> {
        let fields = "content-type: application/json\r\naccept: text/event-stream\r\n";
        self.send("POST", path, fields, body).await?;
        Ok(self.head().await?.0)
    }

    /// Opens an event stream, which must be read to its end before this connection is used again.
    pub(crate) async fn events(&mut self, path: &str) -> Result<EventStream<'_>> {
        self.send("GET", path, "accept: text/event-stream\r\n", "").await?;
        match self.head().await.with_context(|| format!("GET {path}"))? {
            (200, Length::Chunked) => Ok(EventStream::new(self)),
            // The run has ended: there is nothing to stream.
            (204, _) => bail!("GET {path}: the run had ended before its stream was opened"),
            (status, _) => bail!("GET {path}: {status}"),
        }
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
            Length::Fixed(length) => {
                while self.received.len() < length {
                    self.receive().await?;
                }
                self.received.split_to(length).freeze()
            }
            Length::Chunked => self.chunks().await?,
        };
        Ok(Response { status, body })
    }

    async fn head(&mut self) -> Result<(u16, Length)> {
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
        let cookie = field("set-cookie").and_then(|cookie| cookie.split(';').next());
        self.cookie = cookie.map(str::to_owned);
        let length = match field("content-length") {
            Some(length) => Length::Fixed(length.parse()?),
            None if field("transfer-encoding").is_some() => Length::Chunked,
            None => Length::Fixed(0),
        };
        Ok((status, length))
    }

    async fn chunks(&mut self) -> Result<Bytes> {
        let mut body = BytesMut::new();
        while let Some(chunk) = self.chunk().await? {
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
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
