//! Thread messages: what users and agents say to each other.

pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod post;

use houston_domain::id::{MessageId, RunId};
use houston_domain::message::{MessageStatus, MessageType, Source};
use houston_store::message::ThreadMessage;
use serde::Serialize;
use serde_json::Value;

use crate::place::Owner;
use crate::rfc3339::Time;

/// A message as clients see it.
#[derive(Debug, Serialize)]
struct Shown {
    id: MessageId,
    #[serde(flatten)]
    owner: Owner,
    source: Source,
    message_type: MessageType,
    content: String,
    metadata: Value,
    /// How far it has come; null for what an agent said.
    status: Option<MessageStatus>,
    /// The run that answers it, or that wrote it.
    run_id: Option<RunId>,
    seq: i64,
    created_at: Time,
    processed_at: Option<Time>,
}

impl From<ThreadMessage> for Shown {
    fn from(thread: ThreadMessage) -> Self {
        let ThreadMessage { message, agentable, kind, status, processed_at } = thread;
        Self {
            id: message.id,
            owner: Owner { kind, id: agentable },
            source: message.source,
            message_type: message.message_type,
            content: message.content,
            metadata: message.metadata,
            status,
            run_id: message.run_id,
            seq: message.seq,
            created_at: Time(message.created_at),
            processed_at: processed_at.map(Time),
        }
    }
}
