//! Reads an event stream to its end. When the connection breaks, it reconnects with `Last-Event-ID`, so that no event
//! is lost or read twice.

use std::time::Duration;

use houston_protocol::agui::Event;
use houston_protocol::sse::SseDecoder;
use rand::RngExt as _;
use reqwest::Response;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::error::ChatError;
use super::server::Server;

/// A connection without a byte for this long counts as broken: the server sends a heartbeat every 8 s.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// The delay before the first reconnection; doubled each time.
const MIN_DELAY: Duration = Duration::from_millis(100);
/// The longest delay, unless the server sends another in `retry`.
const MAX_DELAY: Duration = Duration::from_secs(2);
/// How many failed connections in a row are reported to the user: a shorter outage is not worth a line.
const REPORT_AFTER_FAILURES: u32 = 3;

/// What the reader of a stream reports.
#[derive(Debug)]
pub(crate) enum StreamEvent {
    /// An event, and the JSON it was parsed from.
    Event(Box<Event<'static>>, String),
    /// Several connections in a row failed; the reader goes on trying. The reason of the last failure.
    Disconnected(String),
    /// The connection works again.
    Reconnected,
    /// The stream is complete.
    Ended,
    /// The server refused the stream; the reader has stopped.
    Failed(ChatError),
}

/// Follows the stream at `path` until it ends or the receiver is dropped.
pub(crate) fn follow(server: Server, path: String, tasks: &TaskTracker) -> mpsc::Receiver<StreamEvent> {
    let (events, listener) = mpsc::channel(256);
    let reader =
        Reader { server, path, last_id: None, ceiling: MAX_DELAY, failures: 0, ended: false, events };
    tasks.spawn(async move {
        let listener = reader.events.clone();
        tokio::select! {
            () = listener.closed() => {}
            () = reader.run() => {}
        }
    });
    listener
}

struct Reader {
    server: Server,
    path: String,
    last_id: Option<String>,
    ceiling: Duration,
    /// Failed connections in a row.
    failures: u32,
    /// Whether the last event ended a run.
    ended: bool,
    events: mpsc::Sender<StreamEvent>,
}

impl Reader {
    async fn run(mut self) {
        loop {
            let lost = match self.server.stream(&self.path, self.last_id.as_deref()).await {
                Ok(None) => return self.send(StreamEvent::Ended).await,
                Ok(Some(response)) => match self.read(response).await {
                    // A clean end in the middle of a run comes from a proxy, not from the server.
                    Ok(()) if self.ended && !self.path.contains("follow=true") => {
                        return self.send(StreamEvent::Ended).await;
                    }
                    Ok(()) => "the connection was closed".to_owned(),
                    Err(reason) => reason,
                },
                Err(ChatError::Unreachable { reason, .. }) => reason,
                Err(error) if error.is_transient() => error.to_string(),
                Err(error) => return self.send(StreamEvent::Failed(error)).await,
            };
            self.failures += 1;
            if self.failures == REPORT_AFTER_FAILURES {
                self.send(StreamEvent::Disconnected(lost)).await;
            }
            let chance = rand::rng().random();
            tokio::time::sleep(backoff(self.failures, self.ceiling, chance)).await;
        }
    }

    /// Reads until the connection ends; the error is why it ended.
    async fn read(&mut self, mut response: Response) -> Result<(), String> {
        let mut decoder = SseDecoder::default();
        loop {
            let bytes = match tokio::time::timeout(IDLE_TIMEOUT, response.chunk()).await {
                Ok(Ok(Some(bytes))) => bytes,
                Ok(Ok(None)) => return Ok(()),
                Ok(Err(error)) => return Err(error.to_string()),
                Err(_) => return Err(format!("no data for {} s", IDLE_TIMEOUT.as_secs())),
            };
            if std::mem::take(&mut self.failures) >= REPORT_AFTER_FAILURES {
                self.send(StreamEvent::Reconnected).await;
            }
            for frame in decoder.push(&bytes).map_err(|error| error.to_string())? {
                if let Some(ms) = frame.retry_ms {
                    self.ceiling = Duration::from_millis(ms);
                }
                let event = Event::read(&frame.data);
                self.ended = event.ends_run();
                self.send(StreamEvent::Event(Box::new(event), frame.data)).await;
                self.last_id = frame.id.or(self.last_id.take());
            }
        }
    }

    /// Fails only when the receiver is dropped; then the task is cancelled.
    async fn send(&self, event: StreamEvent) {
        let _ = self.events.send(event).await;
    }
}

/// The delay after this many failures in a row: doubled each time up to `ceiling`, of which the upper half is random
/// (`chance` is in 0..1) so that many clients do not reconnect at the same instant.
pub(crate) fn backoff(failures: u32, ceiling: Duration, chance: f64) -> Duration {
    let doubled = MIN_DELAY.saturating_mul(1 << failures.saturating_sub(1).min(10));
    doubled.min(ceiling).mul_f64(0.5 + chance / 2.0)
}

#[cfg(test)]
mod tests;
