//! Latency and processor time of a streamed token, from the provider's socket to the SSE frame at the client.
//!
//! The model writes the time into each token and the client takes the difference. Both are in this process and use one
//! clock.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use houston_protocol::agui::Event;
use houston_testkit::houston::Houston;
use houston_testkit::servers::TestServers;
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::report::Row;
use super::spread::{Spread, round};
use super::workload;
use crate::http::Connection;
use crate::proc;
use houston_testkit::console::Progress;

/// Pause between two tokens of an answer: 50 tokens/s, as a fast model streams.
const GAP: Duration = Duration::from_millis(20);
/// Concurrent answers.
const ANSWERS: usize = 100;

/// The result, over all tokens.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Tokens {
    pub(crate) answers: usize,
    pub(crate) tokens: usize,
    pub(crate) tokens_per_second: f64,
    /// Written by the provider → read by the client.
    pub(crate) overhead_ms: Spread,
    /// Processor time of Houston per token, in µs.
    pub(crate) cpu_us_per_token: f64,
}

impl Tokens {
    pub(crate) fn rows(&self) -> [Row; 2] {
        let what = format!("token, socket to SSE frame, ms p50 / p99 ({:.0}/s)", self.tokens_per_second);
        [
            Row::of(what, format!("{:.2}", self.overhead_ms)),
            Row::of("  CPU of Houston per token, µs", format!("{:.1}", self.cpu_us_per_token)),
        ]
    }
}

/// Measures [`ANSWERS`] answers of `tokens` tokens each.
pub(crate) async fn measure(program: &Path, servers: &TestServers, tokens: usize) -> Result<Tokens> {
    let clock = Instant::now();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    // Ends when it is dropped with this measurement.
    let mut model = JoinSet::new();
    model.spawn(serve(listener, clock, tokens));
    let houston = Houston::builder(program)
        .on([servers])
        .set("HOUSTON_MODEL", "local/bench")
        .set("HOUSTON_LOCAL_URL", format!("http://{address}/v1"))
        .set("HOUSTON_MODEL_TOOLS", "false")
        .set("HOUSTON_ORCHESTRATOR__FAIRNESS__MAX_RUNNING", ANSWERS.to_string())
        .start()?;
    let user = Connection::to(&houston).await?.user("bench").await?;
    let mut readers = JoinSet::new();
    let message: Arc<str> = workload::message().into();
    let (cpu, began) = (proc::cpu_of(&houston)?, Instant::now());
    for _ in 0..ANSWERS {
        let mut connection = Connection::to(&houston).await?;
        let goal = connection.goal(&user, "bench").await?;
        let message = Arc::clone(&message);
        readers.spawn(async move { read(&mut connection, &goal, &message, clock, tokens).await });
    }
    let mut progress = Progress::new("tokens: a hundred answers at once", ANSWERS as u64);
    let mut overheads = Vec::with_capacity(ANSWERS * tokens);
    while let Some(read) = readers.join_next().await {
        overheads.extend(read??);
        progress.step();
    }
    let (spent, seconds) = (proc::cpu_of(&houston)? - cpu, began.elapsed().as_secs_f64());
    let count = overheads.len();
    Ok(Tokens {
        answers: ANSWERS,
        tokens: count,
        tokens_per_second: round(count as f64 / seconds),
        cpu_us_per_token: round(spent.as_secs_f64() * 1e6 / count as f64),
        overhead_ms: Spread::of(overheads),
    })
}

/// Posts a message and reads the stream; returns the latency of each token.
async fn read(
    connection: &mut Connection,
    goal: &str,
    message: &str,
    clock: Instant,
    tokens: usize,
) -> Result<Vec<Duration>> {
    let accepted = connection.send_message(goal, message).await?;
    let mut overheads = Vec::with_capacity(tokens);
    let stream = connection.events(&accepted.events_url).await?;
    let read = stream.read(|event| {
        let Event::TextMessageContent { delta, .. } = event else { return };
        let now = clock.elapsed();
        let written = delta.split_whitespace().filter_map(|stamp| stamp.parse().ok());
        overheads.extend(written.map(|micros| now.saturating_sub(Duration::from_micros(micros))));
    });
    read.await?;
    ensure!(overheads.len() == tokens, "{goal}: received {} of {tokens} tokens", overheads.len());
    Ok(overheads)
}

async fn serve(listener: TcpListener, clock: Instant, tokens: usize) {
    let mut answers = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        answers.spawn(answer(socket, clock, tokens));
    }
}

/// Answers every request of a connection, whatever its content.
async fn answer(mut socket: TcpStream, clock: Instant, tokens: usize) -> Result<()> {
    socket.set_nodelay(true)?;
    let mut received = Vec::new();
    while take_request(&mut socket, &mut received).await? {
        socket
            .write_all(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
            )
            .await?;
        let mut tick = tokio::time::interval(GAP);
        for _ in 0..tokens {
            tick.tick().await;
            let stamp = clock.elapsed().as_micros();
            write(&mut socket, &format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"{stamp} "}}}}]}}"#))
                .await?;
        }
        write(&mut socket, r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#).await?;
        write(&mut socket, "[DONE]").await?;
        socket.write_all(b"0\r\n\r\n").await?;
    }
    Ok(())
}

async fn write(socket: &mut TcpStream, data: &str) -> Result<()> {
    let event = format!("data: {data}\n\n");
    Ok(socket.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()).await?)
}

/// Takes the next request from the connection; `false` at its end.
async fn take_request(socket: &mut TcpStream, received: &mut Vec<u8>) -> Result<bool> {
    loop {
        if let Some(end) = memchr::memmem::find(received, b"\r\n\r\n") {
            let head = std::str::from_utf8(&received[..end])?.to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
            let length: usize = length.context("a request without a length")?.trim().parse()?;
            if received.len() >= end + 4 + length {
                received.drain(..end + 4 + length);
                return Ok(true);
            }
        }
        if socket.read_buf(received).await? == 0 {
            return Ok(false);
        }
    }
}
