//! What is said: a message of 250 bytes, and an answer of 250 bytes in 20 pieces.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use houston_protocol::agui::Event;
use serde::Deserialize;
use serde_json::json;

use crate::http::Connection;

/// Pieces of an answer.
pub(crate) const PIECES: usize = 20;
/// Bytes of a message, and of an answer.
pub(crate) const BYTES: usize = 250;

/// The answer; each of its pieces is another, so that a lost or doubled one shows.
pub(crate) fn answer() -> String {
    let mut text: String = (0..PIECES).map(|piece| format!("piece {piece:02} of 20, ")).collect();
    text.truncate(BYTES);
    text
}

/// What is posted, as JSON.
pub(crate) fn message() -> String {
    json!({ "content": content() }).to_string()
}

/// The message's text.
pub(crate) fn content() -> String {
    let mut text = "Tell me something about the weather on the way to the moon, please. ".repeat(4);
    text.truncate(BYTES);
    text
}

/// When what happened in a run, as its client saw it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    pub(crate) posted: Instant,
    pub(crate) accepted: Instant,
    pub(crate) first_event: Instant,
    pub(crate) first_text: Instant,
    pub(crate) done: Instant,
    /// In how many pieces the text came.
    pub(crate) pieces: usize,
}

#[derive(Deserialize)]
struct Accepted {
    events_url: String,
}

/// One run: posts, reads the stream to its end, and checks that the whole answer has come.
pub(crate) async fn run(
    connection: &mut Connection,
    goal: &str,
    message: &str,
    answer: &str,
) -> Result<Timing> {
    let posted = Instant::now();
    let accepted: Accepted = connection.post(&format!("/v1/goals/{goal}/messages"), message).await?.json()?;
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
    ensure!(read.text == answer, "the stream of {goal} said `{}` instead of `{answer}`", read.text);
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
    fn texts_are_as_long_as_they_say() {
        assert_eq!((answer().len(), content().len()), (BYTES, BYTES));
    }
}
