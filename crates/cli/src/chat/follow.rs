//! A stream that is read to its end, however often the connection breaks: each new one goes on after the last
//! whole event, so that nothing is lost and nothing comes twice.

use std::time::Duration;

use houston_protocol::sse::SseDecoder;
use rand::Rng as _;
use reqwest::Response;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::error::ChatError;
use super::event::Event;
use super::server::Server;

/// Longer than any server is silent: heartbeats come every 8 s.
const SILENCE: Duration = Duration::from_secs(30);
/// The first pause before a reconnection; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest one, until the server says otherwise.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// A break that is mended sooner is not worth a word.
const UNSPOKEN_FAILURES: u32 = 3;

/// What a stream tells.
#[derive(Debug)]
pub(crate) enum Heard {
    /// An event, and the JSON it was read from.
    Event(Box<Event>, String),
    /// The connection is gone, and does not come back at once.
    Lost(String),
    /// It is back.
    Back,
    /// There is nothing more to come.
    Over,
    /// It cannot go on.
    Failed(ChatError),
}

/// Follows the stream at `path` until it is over or nobody listens.
pub(crate) fn follow(server: Server, path: String, tasks: &TaskTracker) -> mpsc::Receiver<Heard> {
    let (heard, listener) = mpsc::channel(256);
    let reader =
        Reader { server, path, last_id: None, ceiling: LONGEST_PAUSE, failures: 0, ended: false, heard };
    tasks.spawn(async move {
        let listener = reader.heard.clone();
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
    /// The last event ended a run.
    ended: bool,
    heard: mpsc::Sender<Heard>,
}

impl Reader {
    async fn run(mut self) {
        loop {
            let lost = match self.server.stream(&self.path, self.last_id.as_deref()).await {
                Ok(None) => return self.tell(Heard::Over).await,
                Ok(Some(response)) => match self.read(response).await {
                    // A clean end in mid-run is some proxy's, not the server's.
                    Lost::Cleanly if self.ended && !self.path.contains("follow=true") => {
                        return self.tell(Heard::Over).await;
                    }
                    Lost::Cleanly => "the connection was closed".to_owned(),
                    Lost::Broken(reason) => reason,
                },
                Err(ChatError::Unreachable { reason, .. }) => reason,
                Err(error) if error.may_pass() => error.to_string(),
                Err(error) => return self.tell(Heard::Failed(error)).await,
            };
            self.failures += 1;
            if self.failures == UNSPOKEN_FAILURES {
                self.tell(Heard::Lost(lost)).await;
            }
            let chance = rand::rng().random();
            tokio::time::sleep(pause(self.failures, self.ceiling, chance)).await;
        }
    }

    async fn read(&mut self, mut response: Response) -> Lost {
        let mut decoder = SseDecoder::default();
        loop {
            let bytes = match tokio::time::timeout(SILENCE, response.chunk()).await {
                Ok(Ok(Some(bytes))) => bytes,
                Ok(Ok(None)) => return Lost::Cleanly,
                Ok(Err(error)) => return Lost::Broken(error.to_string()),
                Err(_) => return Lost::Broken(format!("silence for {} s", SILENCE.as_secs())),
            };
            if std::mem::take(&mut self.failures) >= UNSPOKEN_FAILURES {
                self.tell(Heard::Back).await;
            }
            let complete = match decoder.push(&bytes) {
                Ok(complete) => complete,
                Err(error) => return Lost::Broken(error.to_string()),
            };
            for frame in complete {
                if let Some(ms) = frame.retry_ms {
                    self.ceiling = Duration::from_millis(ms);
                }
                let event = Event::read(&frame.data);
                self.ended = event.ends_run();
                self.tell(Heard::Event(Box::new(event), frame.data)).await;
                self.last_id = frame.id.or(self.last_id.take());
            }
        }
    }

    /// When nobody listens any more, the task is about to be dropped.
    async fn tell(&self, heard: Heard) {
        let _ = self.heard.send(heard).await;
    }
}

/// How a connection ended.
enum Lost {
    Cleanly,
    Broken(String),
}

/// The pause after that many failures in a row, spread over its upper half so that many clients do not come back
/// together. `chance` is in 0..1.
pub(crate) fn pause(failures: u32, ceiling: Duration, chance: f64) -> Duration {
    let doubled = FIRST_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(10));
    doubled.min(ceiling).mul_f64(0.5 + chance / 2.0)
}

#[cfg(test)]
mod tests;
