//! The events of an imported thread: those its run would have emitted, in the order of its messages.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use houston_domain::conversation::{Conversation, ThreadMessage};
use houston_domain::event::Event;
use houston_domain::event::derived::{RunEnd, of_message};
use houston_domain::history::Block;
use houston_domain::id::MessageId;
use houston_domain::inner_call::inner_call;
use houston_domain::message::{MessageType, Source};
use houston_domain::model::Usage;
use houston_domain::run::RunStatus;
use serde_json::{Map, Value};

/// A tool call of the history, for its cell in the thread.
struct Call<'c> {
    input: Cow<'c, Value>,
    /// The result's text, and whether it is an error.
    result: Option<(&'c str, bool)>,
}

/// An event of an imported thread.
pub(super) struct Imported {
    pub(super) event: Event,
    /// The message it names.
    pub(super) message: Option<MessageId>,
    /// Whether it follows from the run or from a message, so that it is not stored.
    pub(super) follows: bool,
}

/// The events of a conversation. The first event of a message is the one it is stored with.
pub(super) fn of<'c>(
    conversation: &'c Conversation,
    ids: &'c [MessageId],
) -> impl Iterator<Item = Imported> + use<'c> {
    let mut calls = calls(conversation);
    let messages = conversation.messages.iter().zip(ids).flat_map(move |(message, id)| {
        let (own, returned) = match (message.source, message.message_type) {
            (Source::User | Source::System, _) => (Event::MessagePosted { message_id: *id }, None),
            (Source::Agent, MessageType::Text) => (Event::MessageSent { message_id: *id }, None),
            (Source::Error, _) => {
                let metadata = Value::Object(message.metadata.clone());
                let content = message.content.clone();
                (Event::ErrorShown { message_id: *id, content, metadata }, None)
            }
            (Source::Agent, MessageType::Tool) => {
                let (called, returned) = tool(message, *id, &mut calls);
                (called, Some(returned))
            }
        };
        let follows = of_message(message.source, message.message_type, *id).as_ref() == Some(&own);
        let named = |event, follows| Imported { event, message: Some(*id), follows };
        std::iter::once(named(own, follows)).chain(returned.map(|event| named(event, false)))
    });
    let end = RunEnd {
        status: RunStatus::Completed,
        iterations: 0,
        usage: Usage::default(),
        error_code: None,
        error_message: None,
    };
    let of_run = |event| Imported { event, message: None, follows: true };
    std::iter::once(of_run(Event::RunQueued {})).chain(messages).chain([of_run(end.event())])
}

/// How many events a message has.
pub(super) fn count(message: &ThreadMessage) -> i64 {
    1 + i64::from(message.message_type == MessageType::Tool)
}

/// The tool calls of the history by call id, in order: an id may occur again in a later run.
fn calls(conversation: &Conversation) -> HashMap<&str, VecDeque<Call<'_>>> {
    let mut calls: HashMap<&str, VecDeque<Call<'_>>> = HashMap::new();
    for block in conversation.history.iter().flat_map(|entry| &entry.content) {
        match block {
            Block::ToolUse { id, name, input, .. } => {
                let (_, input) = inner_call(name, input);
                calls.entry(id).or_default().push_back(Call { input, result: None });
            }
            Block::ToolResult { tool_use_id, content, is_error } => {
                let asked = calls.get_mut(tool_use_id.as_str()).and_then(VecDeque::back_mut);
                if let Some(call) = asked {
                    call.result = Some((content, *is_error));
                }
            }
            _ => {}
        }
    }
    calls
}

/// The events for a tool's call and its result.
fn tool(
    message: &ThreadMessage,
    id: MessageId,
    calls: &mut HashMap<&str, VecDeque<Call<'_>>>,
) -> (Event, Event) {
    let field = |name: &str| message.metadata.get(name).and_then(Value::as_str);
    let call_id = field("call_id").unwrap_or_default().to_owned();
    let call = calls.get_mut(call_id.as_str()).and_then(VecDeque::pop_front);
    let failed = field("status") == Some("failed");
    let (content, is_error) = call.as_ref().and_then(|call| call.result).unwrap_or(("", failed));
    let returned = Event::ToolReturned {
        call_id: call_id.clone(),
        content: content.to_owned(),
        is_error,
        message_id: id,
    };
    let called = Event::ToolCalled {
        call_id,
        name: field("tool").unwrap_or(&message.content).to_owned(),
        input: call.map_or_else(|| Value::Object(Map::new()), |call| call.input.into_owned()),
        message_id: id,
        decided_by: None,
    };
    (called, returned)
}
