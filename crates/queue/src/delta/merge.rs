//! Merges deltas that wait for the publisher, so that fewer and longer ones are sent.

use std::collections::HashMap;
use std::sync::Arc;

use houston_domain::event::{Delta, Live, LiveItem};

use super::topics::Channel;

/// Maximum length of a merged delta's text in bytes, unless a single delta is longer.
const MAX_BYTES: usize = 16 * 1024;

/// Joins neighbouring deltas of one channel if the second continues the first: same message, same part, and it begins
/// where the first ends. Keeps the order within each channel, but not between channels.
pub(super) fn merge(items: Vec<(Channel, Arc<LiveItem>)>) -> Vec<(Channel, Arc<LiveItem>)> {
    let mut merged: Vec<(Channel, Arc<LiveItem>)> = Vec::with_capacity(items.len());
    // For each channel: the index of its latest item, and the end of its text if it is a delta.
    let mut latest: HashMap<Channel, (usize, Option<u32>)> = HashMap::new();
    for (channel, item) in items {
        let Live::Delta(delta) = &item.live else {
            latest.insert(channel, (merged.len(), None));
            merged.push((channel, item));
            continue;
        };
        let end = end(delta);
        if let Some((at, Some(before))) = latest.get_mut(&channel) {
            let last = &mut merged[*at].1;
            if continues(&last.live, *before, delta)
                // Clones the item if local streams share it.
                && let Live::Delta(last) = &mut Arc::make_mut(last).live
            {
                last.text.push_str(&delta.text);
                *before = end;
                continue;
            }
        }
        latest.insert(channel, (merged.len(), Some(end)));
        merged.push((channel, item));
    }
    merged
}

fn end(delta: &Delta) -> u32 {
    let characters = u32::try_from(delta.text.chars().count()).unwrap_or(u32::MAX);
    delta.offset.saturating_add(characters)
}

fn continues(last: &Live, end: u32, next: &Delta) -> bool {
    let Live::Delta(last) = last else { return false };
    last.message_id == next.message_id
        && last.part == next.part
        && last.reasoning_chars == next.reasoning_chars
        && end == next.offset
        && last.text.len() + next.text.len() <= MAX_BYTES
}

#[cfg(test)]
mod tests {
    use houston_domain::event::Part;
    use houston_domain::id::{AgentableId, MessageId};
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    /// Everything a stream can observe: deltas as single characters, other items as they are.
    fn observable(
        items: &[(Channel, Arc<LiveItem>)],
        channel: Channel,
    ) -> Vec<(Option<Delta>, Option<Live>)> {
        let mut observable: Vec<(Option<Delta>, Option<Live>)> = Vec::new();
        for (_, item) in items.iter().filter(|(of, _)| *of == channel) {
            let Live::Delta(delta) = &item.live else {
                observable.push((None, Some(item.live.clone())));
                continue;
            };
            // One character at a time: merging must not be observable.
            for (i, character) in delta.text.chars().enumerate() {
                let offset = delta.offset + u32::try_from(i).unwrap();
                observable.push((Some(Delta { offset, text: character.into(), ..delta.clone() }), None));
            }
        }
        observable
    }

    fn channel(n: u8) -> Channel {
        Channel::Live(AgentableId(Uuid::from_u128(n.into())))
    }

    #[derive(Debug, Clone)]
    enum Step {
        Write { channel: u8, text: String },
        NextPart { channel: u8 },
        Restart { channel: u8 },
        Nudge { channel: u8 },
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            8 => (0..3u8, "[a-cäß€𝄞]{1,6}").prop_map(|(channel, text)| Step::Write { channel, text }),
            1 => (0..3u8).prop_map(|channel| Step::NextPart { channel }),
            1 => (0..3u8).prop_map(|channel| Step::Restart { channel }),
            1 => (0..3u8).prop_map(|channel| Step::Nudge { channel }),
        ];
        proptest::collection::vec(step, 0..60)
    }

    fn play(steps: Vec<Step>) -> Vec<(Channel, Arc<LiveItem>)> {
        let mut parts = [(0u128, 0u32); 3];
        let mut items = Vec::new();
        for step in steps {
            let (n, live) = match step {
                Step::NextPart { channel } => {
                    parts[usize::from(channel)] = (parts[usize::from(channel)].0 + 1, 0);
                    continue;
                }
                Step::Restart { channel } => {
                    parts[usize::from(channel)].1 = 0;
                    continue;
                }
                Step::Nudge { channel } => (channel, Live::Nudge),
                Step::Write { channel, text } => {
                    let (message, offset) = &mut parts[usize::from(channel)];
                    let delta = Delta {
                        message_id: MessageId(Uuid::from_u128(*message / 2)),
                        part: if *message % 2 == 0 { Part::Reasoning } else { Part::Message },
                        reasoning_chars: 0,
                        offset: *offset,
                        text,
                    };
                    *offset = end(&delta);
                    (channel, Live::Delta(delta))
                }
            };
            let agentable = AgentableId(Uuid::from_u128(n.into()));
            items.push((channel(n), Arc::new(LiveItem { agentable, live })));
        }
        items
    }

    proptest! {
        #[test]
        fn merging_changes_no_text_and_no_order(steps in steps()) {
            let items = play(steps);
            let merged = merge(items.clone());
            for n in 0..3 {
                prop_assert_eq!(observable(&items, channel(n)), observable(&merged, channel(n)));
            }
            prop_assert!(merged.len() <= items.len());
        }
    }

    #[test]
    fn merging_does_not_change_shared_originals() {
        let steps = (0..1_000).map(|_| Step::Write { channel: 0, text: "ab".into() });
        let items = play(steps.collect());
        let merged = merge(items.clone());
        assert_eq!(merged.len(), 1);
        let Live::Delta(first) = &items[0].1.live else { panic!("not a delta") };
        assert_eq!(first.text, "ab");
    }
}
