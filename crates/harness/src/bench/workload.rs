//! The workload: a message of 250 bytes, and an answer of 250 bytes in 20 pieces.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use houston_protocol::agui::Event;
use serde_json::json;

use super::report::Row;
use crate::http::{Connection, FinishedStream};

/// Number of pieces of an answer.
pub(crate) const PIECES: usize = 20;
/// Size of a message, and of an answer, in bytes.
pub(crate) const BYTES: usize = 250;

/// The answer. Its pieces differ, so that a lost or doubled one is noticed.
pub(crate) static ANSWER: LazyLock<String> = LazyLock::new(|| {
    let mut text: String = (0..PIECES).map(|piece| format!("piece {piece:02} of 20, ")).collect();
    text.truncate(BYTES);
    text
});

/// The request body of a post.
pub(crate) static MESSAGE: LazyLock<String> = LazyLock::new(|| {
    let mut text = "Tell me something about the weather on the way to the moon, please. ".repeat(4);
    text.truncate(BYTES);
    json!({ "content": text }).to_string()
});

/// Times of a run, as its client saw them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    pub(crate) posted: Instant,
    accepted: Instant,
    opened: Instant,
    first_event: Instant,
    first_text: Instant,
    done: Instant,
    /// Number of pieces the text came in.
    pub(crate) pieces: usize,
}

impl Timing {
    /// POST sent → first event of the stream.
    pub(crate) fn first_event(&self) -> Duration {
        self.first_event - self.posted
    }

    /// POST sent → end of the stream.
    pub(crate) fn done(&self) -> Duration {
        self.done - self.posted
    }

    /// POST sent → first event, and → done; then the phases between.
    pub(crate) fn rows(timings: &[Self]) -> [Row; 6] {
        let row = |what, time: fn(&Self) -> Duration| Row::spread(what, timings.iter().map(time));
        [
            row("POST → first event", Self::first_event),
            row("POST → done", Self::done),
            row("  POST → accepted", |timing| timing.accepted - timing.posted),
            row("  opening the stream", |timing| timing.opened - timing.accepted),
            row("  stream open → first text", |timing| timing.first_text - timing.opened),
            row("  first text → done", |timing| timing.done - timing.first_text),
        ]
    }
}

/// One run: posts the message, reads the stream to its end, and checks the answer.
pub(crate) async fn run(connection: &mut Connection, goal: &str) -> Result<Timing> {
    let posted = Instant::now();
    let message = connection.send_message(goal, &MESSAGE).await?;
    let accepted = Instant::now();
    let (mut first_event, mut first_text) = (None, None);
    let stream = connection.events(&message.events_url).await?;
    let opened = Instant::now();
    let read = stream
        .read(|event| {
            first_event.get_or_insert_with(Instant::now);
            if matches!(event, Event::TextMessageContent { .. }) {
                first_text.get_or_insert_with(Instant::now);
            }
        })
        .await
        .with_context(|| format!("{goal}: {}", message.events_url))?;
    let done = Instant::now();
    let FinishedStream { text, pieces, .. } = read;
    ensure!(text == *ANSWER, "the stream of {goal} has the text `{text}` instead of `{}`", *ANSWER);
    let (first_event, first_text) = (first_event.unwrap_or(done), first_text.unwrap_or(done));
    Ok(Timing { posted, accepted, opened, first_event, first_text, done, pieces })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_the_stated_length() {
        let content: serde_json::Value = serde_json::from_str(&MESSAGE).unwrap();
        assert_eq!((ANSWER.len(), content["content"].as_str().map(str::len)), (BYTES, Some(BYTES)));
    }
}
