//! The payload of a PUBLISH: 1 byte version, 16 bytes id of the sending process, 16 bytes id of the agentable, then the
//! item as JSON.
//!
//! The head is binary, so that a process can ignore its own items without parsing JSON.

use houston_domain::event::{Committed, Live, LiveItem};
use houston_domain::id::AgentableId;
use uuid::Uuid;

/// The version of the payload that this build writes and reads.
const VERSION: u8 = 1;
const HEAD_BYTES: usize = 33;
/// Maximum length of a payload. A longer item is replaced by a nudge to read Postgres.
const MAX_BYTES: usize = 256 * 1024;

/// The payload of `item` as sent by `process`; `None` if it cannot be serialised, which does not happen.
pub(super) fn encode(process: Uuid, item: &LiveItem) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(256);
    bytes.push(VERSION);
    bytes.extend_from_slice(process.as_bytes());
    bytes.extend_from_slice(item.agentable.0.as_bytes());
    serde_json::to_writer(&mut bytes, &item.live).ok()?;
    if bytes.len() > MAX_BYTES {
        bytes.truncate(HEAD_BYTES);
        serde_json::to_writer(&mut bytes, &Live::Nudge).ok()?;
    }
    Some(bytes)
}

/// A received payload whose item is not decoded yet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Head<'a> {
    /// Id of the sending process.
    pub(super) process: Uuid,
    /// The agentable of the item.
    pub(super) agentable: AgentableId,
    body: &'a [u8],
}

impl<'a> Head<'a> {
    /// Decodes the head; `None` if the payload is not Houston's or has another version.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let (head, body) = bytes.split_at_checked(HEAD_BYTES)?;
        if head[0] != VERSION {
            return None;
        }
        let process = Uuid::from_slice(&head[1..17]).ok()?;
        let agentable = AgentableId(Uuid::from_slice(&head[17..]).ok()?);
        Some(Self { process, agentable, body })
    }

    /// Decodes the item; `None` if this build cannot, because a newer release sent it or it is damaged.
    pub(super) fn live(&self) -> Option<Live> {
        serde_json::from_slice(self.body).ok()
    }
}

/// Approximate size of an item in bytes, for limits only.
pub(super) fn weight(live: &Live) -> usize {
    const SMALL: usize = 128;
    match live {
        Live::Delta(delta) => SMALL + delta.text.len(),
        Live::Progress(progress) => SMALL + progress.message.len(),
        Live::Committed(events) => events.iter().map(|event| SMALL + 2 * SMALL + texts(event)).sum(),
        Live::Nudge | Live::TranscriptWanted | Live::CancelRequested(_) => SMALL,
    }
}

fn texts(committed: &Committed) -> usize {
    use houston_domain::event::Event;
    let event = match &committed.event {
        Event::Thought { text, .. } => text.len(),
        Event::ToolCalled { input, .. } => json(input),
        Event::ToolReturned { content, .. } => content.len(),
        Event::RetryScheduled { message, .. } | Event::ModelFallback { message, .. } => message.len(),
        Event::TeamRouted { reason, agent_name, .. } => reason.len() + agent_name.len(),
        Event::ErrorShown { content, metadata, .. } => content.len() + json(metadata),
        Event::QuestionAsked(question) => {
            question.text.len()
                + [&question.schema, &question.default_value].into_iter().flatten().map(json).sum::<usize>()
        }
        Event::QuestionClosed(closed) => closed.answer.as_ref().map_or(0, json),
        Event::RunFinished { message, .. } => message.as_deref().map_or(0, str::len),
        _ => 0,
    };
    event + committed.body.as_ref().map_or(0, |body| body.content.len() + json(&body.metadata))
}

fn json(value: &serde_json::Value) -> usize {
    use serde_json::Value;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 32,
        Value::String(text) => 32 + text.len(),
        Value::Array(items) => 32 + items.iter().map(json).sum::<usize>(),
        Value::Object(fields) => {
            32 + fields.iter().map(|(name, value)| 32 + name.len() + json(value)).sum::<usize>()
        }
    }
}

#[cfg(test)]
mod tests {
    use houston_domain::event::{Delta, Event, Part};
    use houston_domain::id::RunId;

    use super::*;

    const HERE: Uuid = Uuid::from_u128(1);

    fn item(live: Live) -> LiveItem {
        LiveItem { agentable: AgentableId(Uuid::from_u128(3)), live }
    }

    fn thought(text: String) -> Live {
        Live::Committed(vec![Committed {
            seq: 1,
            run_id: RunId(Uuid::from_u128(4)),
            at: chrono::DateTime::UNIX_EPOCH,
            event: Event::Thought { text, withdrawn_at: None },
            body: None,
        }])
    }

    fn read(bytes: &[u8]) -> Option<(Uuid, LiveItem)> {
        let head = Head::read(bytes)?;
        Some((head.process, LiveItem { agentable: head.agentable, live: head.live()? }))
    }

    #[test]
    fn items_round_trip_through_the_payload() {
        let delta = Delta {
            message_id: Uuid::from_u128(5).into(),
            part: Part::Message,
            reasoning_chars: 3,
            offset: 9,
            text: "grüße".into(),
            is_draft: true,
        };
        for live in [
            Live::Delta(delta),
            thought("hm".into()),
            Live::Nudge,
            Live::TranscriptWanted,
            Live::CancelRequested(RunId(Uuid::from_u128(6))),
        ] {
            let bytes = encode(HERE, &item(live.clone())).unwrap();
            assert_eq!(read(&bytes), Some((HERE, item(live))));
        }
    }

    #[test]
    fn too_long_item_becomes_a_nudge() {
        let long = item(thought("x".repeat(MAX_BYTES)));
        let bytes = encode(HERE, &long).unwrap();
        assert_eq!(read(&bytes), Some((HERE, item(Live::Nudge))));
        assert!(weight(&long.live) > MAX_BYTES);
    }

    #[test]
    fn foreign_and_newer_payloads_are_distinguished() {
        assert_eq!(Head::read(b""), None);
        assert_eq!(Head::read(&[9; 64]), None);
        let mut bytes = encode(HERE, &item(Live::Nudge)).unwrap();
        bytes.extend_from_slice(b"!");
        let head = Head::read(&bytes).unwrap();
        assert_eq!((head.agentable, head.live()), (item(Live::Nudge).agentable, None));
    }
}
