//! Events that follow from a message or from a run, so that they are not stored a second time.
//!
//! A writer leaves an event out if it equals the one made here from the rows it writes; otherwise it stores the event,
//! which then takes precedence. A reader makes the event again from the same rows. What they state must not change once
//! the event was committed: source, type and id of a message never do, and of a run only facts of its beginning and of
//! its end are used.

use super::Event;
use crate::id::MessageId;
use crate::message::{MessageType, Source};
use crate::model::Usage;
use crate::run::RunStatus;

/// The event that a message was stored with, unless that has more to say than the message: tool calls and error messages
/// have events of their own.
pub fn of_message(source: Source, message_type: MessageType, id: MessageId) -> Option<Event> {
    match (source, message_type) {
        (Source::User | Source::System, MessageType::Text) => Some(Event::MessagePosted { message_id: id }),
        (Source::Agent, MessageType::Text) => Some(Event::MessageSent { message_id: id }),
        _ => None,
    }
}

/// The event of the first attempt of a run. Later ones are stored.
pub fn of_first_attempt(next_message_id: MessageId) -> Event {
    Event::AttemptStarted { attempt: 1, iteration: 1, next_message_id, takeover: false, resumed: false }
}

/// What a run states about its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEnd {
    /// How it ended.
    pub status: RunStatus,
    /// Number of its iterations; 0 when no worker held it.
    pub iterations: u32,
    /// Tokens of all its model calls, and their cost as it was known then.
    pub usage: Usage,
    /// The error code, when it failed.
    pub error_code: Option<String>,
    /// The error for people, when it failed.
    pub error_message: Option<String>,
}

impl RunEnd {
    /// The run's last event.
    pub fn event(self) -> Event {
        Event::RunFinished {
            status: self.status,
            iteration: (self.iterations > 0).then_some(self.iterations),
            usage: self.usage,
            message: self.error_message,
            code: self.error_code,
            result: None,
        }
    }
}
