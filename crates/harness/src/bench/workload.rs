//! The workload: a message of 250 bytes, and an answer of 250 bytes in 20 pieces.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use houston_protocol::agui::Event;
use serde_json::json;

use crate::http::Connection;

/// Number of pieces of an answer.
pub(crate) const PIECES: usize = 20;
/// Size of a message, and of an answer, in bytes.
pub(crate) const BYTES: usize = 250;

/// The answer. Its pieces differ, so that a lost or doubled one is noticed.
pub(crate) fn answer() -> String {
    let mut text: String = (0..PIECES).map(|piece| format!("piece {piece:02} of 20, ")).collect();
    text.truncate(BYTES);
    text
}

/// The request body of a post.
pub(crate) fn message() -> String {
    json!({ "content": content() }).to_string()
}

/// The message's text.
pub(crate) fn content() -> String {
    let mut text = "Tell me something about the weather on the way to the moon, please. ".repeat(4);
    text.truncate(BYTES);
    text
}

/// Times of a run, as its client saw them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    pub(crate) posted: Instant,
    pub(crate) accepted: Instant,
    pub(crate) first_event: Instant,
    pub(crate) first_text: Instant,
    pub(crate) done: Instant,
    /// Number of pieces the text came in.
    pub(crate) pieces: usize,
}

/// One run: posts a message, reads the stream to its end, and checks the answer.
pub(crate) async fn run(
    connection: &mut Connection,
    goal: &str,
    message: &str,
    answer: &str,
) -> Result<Timing> {
    let posted = Instant::now();
    let accepted = connection.send_message(goal, message).await?;
    let accepted_at = Instant::now();
    let (mut first_event, mut first_text) = (None, None);
    let stream = connection.events(&accepted.events_url).await?;
    let read = stream
        .read(|event| {
            first_event.get_or_insert_with(Instant::now);
            if matches!(event, Event::TextMessageContent { .. }) {
                first_text.get_or_insert_with(Instant::now);
            }
        })
        .await
        .with_context(|| format!("{goal}: {}", accepted.events_url))?;
    let done = Instant::now();
    ensure!(read.text == answer, "the stream of {goal} has the text `{}` instead of `{answer}`", read.text);
    Ok(Timing {
        posted,
        accepted: accepted_at,
        first_event: first_event.unwrap_or(done),
        first_text: first_text.unwrap_or(done),
        done,
        pieces: read.pieces,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_the_stated_length() {
        assert_eq!((answer().len(), content().len()), (BYTES, BYTES));
    }
}
