//! Snapshots of a thread, built from the events a client has seen: messages of users and agents, tool calls and their
//! results. A client replaces its messages with the snapshot, so it loses what is missing here.

use houston_domain::error_message::ErrorMessage;
use houston_domain::event::{Committed, Event};
use houston_domain::message::Source;
use houston_protocol::agui::{
    ERROR_ACTIVITY, EntityId, HoustonMetadata, Metadata, Role, SnapshotContent, SnapshotMessage, ToolCall,
    ToolCallType, ToolFunction,
};
use serde_json::Value;

/// Maximum number of messages in a snapshot.
pub(crate) const MAX_MESSAGES: i64 = 1_000;
/// Approximate maximum size of a snapshot in bytes; clients fail on frames of 10 MB.
const MAX_BYTES: usize = 6 * 1024 * 1024;

/// The snapshot of a thread from its events, newest first.
pub(crate) fn of(newest_first: Vec<Committed>) -> Vec<SnapshotMessage> {
    let mut bytes = 0;
    let mut messages: Vec<SnapshotMessage> = Vec::new();
    for message in newest_first.into_iter().filter_map(message) {
        bytes += size(&message);
        if bytes > MAX_BYTES {
            break;
        }
        // An error message keeps its first position and its latest content.
        let later = message
            .activity_type
            .as_ref()
            .and_then(|_| messages.iter().position(|later| later.id == message.id))
            .map(|at| messages.remove(at));
        messages.push(later.unwrap_or(message));
    }
    messages.reverse();
    messages
}

/// The message of an event in a snapshot; `None` if the event has none.
pub(crate) fn message(committed: Committed) -> Option<SnapshotMessage> {
    let metadata = committed.body.as_ref().and_then(|body| rolled_back(&body.metadata));
    let is_system = committed.body.as_ref().is_some_and(|body| body.source == Source::System);
    let content = committed.body.map(|body| body.content).unwrap_or_default();
    let message = match committed.event {
        Event::MessagePosted { message_id } => {
            let role = if is_system { Role::System } else { Role::User };
            SnapshotMessage::text(EntityId::Message(message_id), role, content)
        }
        Event::MessageSent { message_id } => {
            SnapshotMessage::text(EntityId::Message(message_id), Role::Assistant, content)
        }
        Event::ToolCalled { call_id, name, input, message_id, .. } => {
            let id = EntityId::Message(message_id);
            let call = ToolCall {
                id,
                kind: ToolCallType::Function,
                function: ToolFunction { name, arguments: input.to_string() },
                metadata: HoustonMetadata { call_id: Some(call_id.into()), ..Default::default() }.into(),
            };
            let said = SnapshotMessage::text(id, Role::Assistant, String::new());
            SnapshotMessage { content: None, tool_calls: Some([call]), ..said }
        }
        Event::ToolReturned { content, message_id, .. } => SnapshotMessage {
            tool_call_id: Some(EntityId::Message(message_id)),
            ..SnapshotMessage::text(EntityId::Result(message_id), Role::Tool, content)
        },
        Event::ErrorShown { message_id, content, metadata } => SnapshotMessage {
            content: Some(SnapshotContent::Fields(ErrorMessage::client_fields(&content, &metadata))),
            activity_type: Some(ERROR_ACTIVITY.to_owned()),
            ..SnapshotMessage::text(EntityId::Message(message_id), Role::Activity, String::new())
        },
        _ => return None,
    };
    // Error messages have no body and are never rolled back.
    Some(SnapshotMessage { metadata, ..message })
}

/// The `rolled_back` flag for clients, if the message's metadata has it.
fn rolled_back(metadata: &Value) -> Option<Metadata<'static>> {
    let rolled_back = metadata["rolled_back"] == true;
    rolled_back.then(|| HoustonMetadata { rolled_back, ..Default::default() }.into())
}

/// Approximate size of a message in bytes.
fn size(message: &SnapshotMessage) -> usize {
    let calls =
        message.tool_calls.iter().flatten().map(|call| call.function.arguments.len() + 100).sum::<usize>();
    let content = match &message.content {
        Some(SnapshotContent::Text(text)) => text.len(),
        Some(SnapshotContent::Fields(fields)) => fields["text"].as_str().map_or(0, str::len) + 200,
        None => 0,
    };
    content + calls + 100
}
