//! The thread as a snapshot shows it: what people and agents said, newest last.

use houston_domain::message::{MessageType, Source};
use houston_store::message::ThreadMessage;

use crate::events::agui::SnapshotMessage;

/// How many messages a snapshot holds at most.
pub(crate) const MOST_MESSAGES: i64 = 1_000;
/// And about how many bytes: clients give up on frames of 10 MB.
const MOST_BYTES: usize = 6 * 1024 * 1024;

/// The snapshot of a thread whose messages are given newest first.
pub(crate) fn of(newest_first: Vec<ThreadMessage>) -> Vec<SnapshotMessage> {
    let mut bytes = 0;
    let mut messages: Vec<SnapshotMessage> = newest_first
        .into_iter()
        .map(|thread| thread.message)
        .filter(|message| message.message_type == MessageType::Text)
        .map(|message| {
            let role = if message.source == Source::User { "user" } else { "assistant" };
            SnapshotMessage { id: message.id, role, content: message.content }
        })
        .take_while(|message| {
            bytes += message.content.len() + 100;
            bytes <= MOST_BYTES
        })
        .collect();
    messages.reverse();
    messages
}
