//! A stream of events, read frame by frame.

use std::borrow::Cow;

use anyhow::{Context, Result, bail};
use bytes::BytesMut;
use memchr::memmem;
use serde::Deserialize;

use crate::http::Connection;

/// A stream that is open.
#[derive(Debug)]
pub(crate) struct EventStream<'c> {
    connection: &'c mut Connection,
    text: BytesMut,
}

/// One frame's data.
#[derive(Debug)]
pub(crate) struct Frame(BytesMut);

/// What is read of an event; which fields it has depends on its kind.
#[derive(Debug, Deserialize)]
pub(crate) struct Event<'f> {
    #[serde(rename = "type", borrow)]
    pub(crate) kind: Cow<'f, str>,
    #[serde(default, borrow)]
    pub(crate) delta: Option<Cow<'f, str>>,
    #[serde(default, borrow)]
    pub(crate) message: Option<Cow<'f, str>>,
    #[serde(default)]
    pub(crate) result: Option<serde_json::Value>,
    #[serde(default)]
    pub(crate) usage: Option<serde_json::Value>,
}

/// What a finished stream came to.
#[derive(Debug, Default)]
pub(crate) struct Read {
    /// The text of the messages, put together from their pieces.
    pub(crate) text: String,
    /// How many pieces it came in.
    pub(crate) pieces: usize,
    /// The last event: `RUN_FINISHED` with its result and usage.
    pub(crate) result: serde_json::Value,
    pub(crate) usage: serde_json::Value,
}

impl Frame {
    pub(crate) fn event(&self) -> Result<Event<'_>> {
        let data = memmem::find(&self.0, b"data: ").map_or(&[][..], |at| &self.0[at + 6..]);
        let line = memchr::memchr(b'\n', data).map_or(data, |end| &data[..end]);
        serde_json::from_slice(line)
            .with_context(|| format!("an event that cannot be read: {}", String::from_utf8_lossy(&self.0)))
    }
}

impl<'c> EventStream<'c> {
    pub(crate) fn new(connection: &'c mut Connection) -> Self {
        Self { connection, text: BytesMut::new() }
    }

    /// The next frame; `None` at the clean end of the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<Frame>> {
        loop {
            if let Some(end) = memmem::find(&self.text, b"\n\n") {
                return Ok(Some(Frame(self.text.split_to(end + 2))));
            }
            match self.connection.chunk().await? {
                Some(chunk) if self.text.is_empty() => self.text = chunk,
                Some(chunk) => self.text.extend_from_slice(&chunk),
                None => return Ok(None),
            }
        }
    }

    /// Reads to the end of the run, telling `seen` of each event as it comes.
    pub(crate) async fn read(mut self, mut seen: impl FnMut(&Event<'_>)) -> Result<Read> {
        let mut read = Read::default();
        let mut is_over = false;
        while let Some(frame) = self.next().await? {
            let event = frame.event()?;
            seen(&event);
            match &*event.kind {
                "TEXT_MESSAGE_CONTENT" => {
                    read.pieces += 1;
                    read.text.push_str(event.delta.as_deref().unwrap_or_default());
                }
                "RUN_ERROR" => bail!("the run failed: {}", event.message.as_deref().unwrap_or_default()),
                "RUN_FINISHED" => {
                    is_over = true;
                    read.result = event.result.unwrap_or_default();
                    read.usage = event.usage.unwrap_or_default();
                }
                _ => {}
            }
        }
        if !is_over {
            bail!("the stream ended before its run");
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    const FRAMES: &str = "id: 1\nretry: 2000\ndata: {\"type\":\"RUN_STARTED\"}\n\n:\n:\n\
        id: 2:3\ndata: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"delta\":\"h\\u00e4 \"}\n\n\
        id: 2:5\ndata: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"delta\":\"ho\"}\n\n\
        id: 3\ndata: {\"type\":\"RUN_FINISHED\",\"result\":{\"status\":\"completed\"}}\n\n";

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

    async fn read(body: &str, end: &str) -> Vec<Result<Read>> {
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
    async fn frames_are_read_however_they_are_cut_and_the_connection_goes_on() {
        for read in read(FRAMES, "0\r\n\r\n").await {
            let read = read.unwrap();
            assert_eq!((read.text.as_str(), read.pieces), ("hä ho", 2));
            assert_eq!(read.result["status"], "completed");
        }
    }

    #[tokio::test]
    async fn a_stream_that_ends_before_its_run_is_an_error() {
        let cut = FRAMES.split("id: 3").next().unwrap();
        for read in read(cut, "0\r\n\r\n").await {
            assert!(read.unwrap_err().to_string().contains("ended before its run"));
        }
    }
}
