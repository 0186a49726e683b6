//! `/compat/ai-sdk/{target}`: the Vercel AI SDK, whose `DefaultChatTransport` has this address as `api`.
//!
//! - [`post`]: `POST /compat/ai-sdk/{target}` posts the user's message, or answers what the run waits for, and streams the run.
//! - [`stream`]: `GET /compat/ai-sdk/{target}/{chat_id}/stream` is what `resumeStream()` asks for: the open run from its start.
//! - [`cancel`]: `POST /compat/ai-sdk/{target}/{chat_id}/cancel`; the client's `stop()` only disconnects.
//!
//! [`request`] reads what the client has; [`chunks`] translates the events.

pub(crate) mod cancel;
pub(crate) mod chunks;
pub(crate) mod post;
mod request;
pub(crate) mod stream;

use std::fmt::Write as _;

use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use houston_protocol::ai_sdk::STREAM_HEADER;

use crate::error::ApiError;
use crate::events::get::Options;
use crate::events::position::Position;
use crate::threads::Thread;

use self::chunks::Chunks;

/// Opens the stream of a chat. `path`: that of [`stream`], from which it can be resumed.
async fn open(
    thread: Thread,
    at: Option<Position>,
    chunks: Chunks,
    path: String,
) -> Result<Response, ApiError> {
    let location = move |at: Position| format!("{path}?after={at}");
    let mut response = thread.open(at, &Options::with_interrupts(), (chunks, location)).await?;
    let (name, value) = STREAM_HEADER;
    response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    Ok(response)
}

/// The path from which the stream of a chat can be resumed.
fn stream_path(target: &str, chat: &str) -> String {
    format!("/compat/ai-sdk/{}/{}/stream", escaped(target), escaped(chat))
}

/// A segment of a path.
fn escaped(segment: &str) -> String {
    let mut path = String::with_capacity(segment.len());
    for byte in segment.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                path.push(char::from(byte))
            }
            // Writing to memory does not fail.
            _ => drop(write!(path, "%{byte:02X}")),
        }
    }
    path
}
