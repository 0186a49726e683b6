//! Thread messages: what users and agents write to each other.

pub(crate) mod attachments;
pub(crate) mod get;
pub(crate) mod images;
pub(crate) mod list;
pub(crate) mod post;

use houston_domain::message::result_of;
use houston_protocol::message::MessageResponse;
use houston_protocol::time::Time;
use houston_store::message::ThreadMessage;

use crate::agentable_path::Owner;

/// The response for a message.
fn response(thread: ThreadMessage) -> MessageResponse {
    let ThreadMessage { message, agentable, kind, status, processed_at } = thread;
    let result = result_of(&message.metadata, &message.content);
    MessageResponse {
        result,
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
