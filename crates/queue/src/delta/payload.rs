//! What a PUBLISH carries: one version byte, who sent it, about which agentable, then the JSON of the item.
//!
//! The head is raw bytes, so that a process knows its own echo without parsing anything.

use houston_domain::event::{Committed, Live, LiveItem};
use houston_domain::id::AgentableId;
use uuid::Uuid;

/// The version of the head this build writes and reads.
const VERSION: u8 = 1;
const HEAD: usize = 33;
/// The longest item that is sent as it is. Of a longer one only the news is sent: look into Postgres.
const LONGEST: usize = 256 * 1024;

/// The bytes of `item` as sent by `process`; none if it cannot be written, which no item of ours ever is.
pub(super) fn encode(process: Uuid, item: &LiveItem) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(256);
    bytes.push(VERSION);
    bytes.extend_from_slice(process.as_bytes());
    bytes.extend_from_slice(item.agentable.0.as_bytes());
    serde_json::to_writer(&mut bytes, &item.live).ok()?;
    if bytes.len() > LONGEST {
        bytes.truncate(HEAD);
        serde_json::to_writer(&mut bytes, &Live::Nudge).ok()?;
    }
    Some(bytes)
}

/// A received payload, its item not read yet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Head<'a> {
    /// Who sent it.
    pub(super) process: Uuid,
    /// What it is about.
    pub(super) agentable: AgentableId,
    body: &'a [u8],
}

impl<'a> Head<'a> {
    /// Reads the head; none when the bytes are not ours, or of a version to come.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let (head, body) = bytes.split_at_checked(HEAD)?;
        if head[0] != VERSION {
            return None;
        }
        let process = Uuid::from_slice(&head[1..17]).ok()?;
        let agentable = AgentableId(Uuid::from_slice(&head[17..]).ok()?);
        Some(Self { process, agentable, body })
    }

    /// The item; none when this build cannot read it, since it is of a newer release or damaged.
    pub(super) fn live(&self) -> Option<Live> {
        serde_json::from_slice(self.body).ok()
    }
}

/// About how many bytes an item holds, for bounds only.
pub(super) fn weight(live: &Live) -> usize {
    const SMALL: usize = 128;
    match live {
        Live::Delta(delta) => SMALL + delta.text.len(),
        Live::Committed(events) => events.iter().map(|event| SMALL + 2 * SMALL + texts(event)).sum(),
        Live::Nudge | Live::TranscriptWanted | Live::CancelRequested(_) => SMALL,
    }
}

fn texts(committed: &Committed) -> usize {
    use houston_domain::event::Event;
    let event = match &committed.event {
        Event::Thought { text } => text.len(),
        Event::ToolCalled { input, .. } => json(input),
        Event::ToolReturned { content, .. } => content.len(),
        Event::RetryScheduled { message, .. } | Event::ModelFallback { message, .. } => message.len(),
        Event::TeamRouted { reason, agent_name, .. } => reason.len() + agent_name.len(),
        Event::ErrorShown { content, metadata, .. } => content.len() + json(metadata),
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
            event: Event::Thought { text },
            body: None,
        }])
    }

    fn read(bytes: &[u8]) -> Option<(Uuid, LiveItem)> {
        let head = Head::read(bytes)?;
        Some((head.process, LiveItem { agentable: head.agentable, live: head.live()? }))
    }

    #[test]
    fn an_item_survives_the_way() {
        let delta = Delta {
            message_id: Uuid::from_u128(5).into(),
            part: Part::Message,
            reasoning_chars: 3,
            offset: 9,
            text: "grüße".into(),
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
    fn what_is_too_long_becomes_a_nudge() {
        let long = item(thought("x".repeat(LONGEST)));
        let bytes = encode(HERE, &long).unwrap();
        assert_eq!(read(&bytes), Some((HERE, item(Live::Nudge))));
        assert!(weight(&long.live) > LONGEST);
    }

    #[test]
    fn what_is_not_ours_is_told_from_what_is_newer() {
        assert_eq!(Head::read(b""), None);
        assert_eq!(Head::read(&[9; 64]), None);
        let mut bytes = encode(HERE, &item(Live::Nudge)).unwrap();
        bytes.extend_from_slice(b"!");
        let head = Head::read(&bytes).unwrap();
        assert_eq!((head.agentable, head.live()), (item(Live::Nudge).agentable, None));
    }
}
