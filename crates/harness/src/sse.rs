//! Reading an event stream event by event.

use std::collections::VecDeque;

use anyhow::{Context, Result, bail};
use houston_protocol::agui::{Event, RunResult, TokenUsage};
use houston_protocol::sse::{SseDecoder, SseEvent};

use crate::http::Connection;

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

impl<'c> EventStream<'c> {
    pub(crate) fn new(connection: &'c mut Connection) -> Self {
        Self { connection, decoder: SseDecoder::default(), complete: VecDeque::new() }
    }

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
