//! The thread as a snapshot shows it, made of the events a client has seen: what people and agents said, and what
//! tools were called and returned. A client replaces its messages with it, so what is left out here is lost there.

use houston_domain::error_message::ErrorMessage;
use houston_domain::event::{Committed, Event};
use houston_domain::message::Source;

use crate::events::agui::{ERROR_ACTIVITY, EntityId};
use crate::events::snapshot_message::{Content, RolledBack, SnapshotMessage, ToolCalls};

/// How many messages a snapshot holds at most.
pub(crate) const MOST_MESSAGES: i64 = 1_000;
/// And about how many bytes: clients give up on frames of 10 MB.
const MOST_BYTES: usize = 6 * 1024 * 1024;

/// The snapshot of a thread whose events are given newest first.
pub(crate) fn of(newest_first: Vec<Committed>) -> Vec<SnapshotMessage> {
    let mut bytes = 0;
    let mut messages: Vec<SnapshotMessage> = Vec::new();
    for message in newest_first.into_iter().filter_map(message) {
        bytes += message.size();
        if bytes > MOST_BYTES {
            break;
        }
        // An error message stands where it first appeared, and says what it said last.
        let later = message
            .activity_type
            .and_then(|_| messages.iter().position(|later| later.id == message.id))
            .map(|at| messages.remove(at));
        messages.push(later.unwrap_or(message));
    }
    messages.reverse();
    messages
}

/// What a client keeps of an event.
pub(crate) fn message(committed: Committed) -> Option<SnapshotMessage> {
    let metadata = committed.body.as_ref().and_then(|body| RolledBack::of(&body.metadata));
    let text = |role, id, content| SnapshotMessage {
        id: EntityId::Message(id),
        role,
        metadata,
        ..SnapshotMessage::said(content)
    };
    let is_system = committed.body.as_ref().is_some_and(|body| body.source == Source::System);
    let content = committed.body.map(|body| body.content).unwrap_or_default();
    match committed.event {
        Event::MessagePosted { message_id } => {
            Some(text(if is_system { "system" } else { "user" }, message_id, content))
        }
        Event::MessageSent { message_id } => Some(text("assistant", message_id, content)),
        Event::ToolCalled { call_id, name, input, message_id } => Some(SnapshotMessage {
            id: EntityId::Message(message_id),
            role: "assistant",
            content: None,
            activity_type: None,
            tool_calls: Some(ToolCalls::one(EntityId::Message(message_id), call_id, name, input.to_string())),
            tool_call_id: None,
            metadata,
        }),
        Event::ToolReturned { content, message_id, .. } => Some(SnapshotMessage {
            id: EntityId::Result(message_id),
            role: "tool",
            tool_call_id: Some(EntityId::Message(message_id)),
            metadata,
            ..SnapshotMessage::said(content)
        }),
        Event::ErrorShown { message_id, content, metadata } => Some(SnapshotMessage {
            id: EntityId::Message(message_id),
            role: "activity",
            content: Some(Content::Fields(ErrorMessage::shown(&content, &metadata))),
            activity_type: Some(ERROR_ACTIVITY),
            ..SnapshotMessage::said(String::new())
        }),
        _ => None,
    }
}
