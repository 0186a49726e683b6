//! A model that needs no network and no key: rules instead of thought, real tool calls, deterministic.
//!
//! It looks at the last turn of the user and at the tools offered:
//!
//! | asked for | calls | then |
//! |---|---|---|
//! | a note | `create_note {title, content}` | `send_message {content}` with the note's id |
//! | "list my notes" | `list_notes {}` | `send_message` with them |
//! | "remember that …" | `manage_learning {action: "add", content}` | `send_message` |
//! | the time or date | `get_current_time {time_zone?}` | `send_message` |
//! | anything else | `send_message`, saying that it is simulated | – |
//!
//! A tool that is not offered is not called; without `send_message` it answers in plain text. Once a message
//! is sent it ends with "Done.".
//!
//! A line of the user's text may order more, for load and fault drills. `/sim` is followed by any of
//!
//! | order | what it does |
//! |---|---|
//! | `chunks=20` | the answer has that many words, one piece each |
//! | `think=5` | that many words of reasoning come first |
//! | `delay_ms=0` | the pause before each piece |
//! | `hold_ms=2000` | a pause before the first |
//! | `fail=rate_limited` | fails with that code ([`ModelErrorCode`], in lower case) |
//! | `fail_after=3` | … after that many events of the answer, in mid-stream |
//! | `retry_after_ms=500` | … asking to wait that long |
//! | `tool=x args={"a":1}` | calls `x`; may be repeated for parallel calls; text that is no JSON object is sent as it is |
//! | `loop=x` | calls `x` again after each answer, for ever |
//!
//! [`ModelErrorCode`]: houston_domain::model::ModelErrorCode

mod directive;
mod pace;
mod rules;

use std::time::Duration;

use futures_util::future::BoxFuture;
use houston_domain::history::{Block, Entry};
use houston_domain::model::{ModelError, ModelTurn, StopReason, Usage};
use serde_json::Value;

use self::pace::Paced;
use self::rules::{Say, Situation};
use crate::model::{Description, Event, EventStream, Model, Request};
use crate::wire::arguments;

/// The simulated model.
#[derive(Debug, Clone)]
pub struct Simulated {
    description: Description,
    delay: Duration,
}

impl Simulated {
    /// With 15 ms before each piece, about the pace of a fast provider.
    #[must_use]
    pub fn new() -> Self {
        let description = Description {
            provider: "simulated".to_owned(),
            model: "simulated".to_owned(),
            simulated: true,
            supports_tools: true,
        };
        Self { description, delay: Duration::from_millis(15) }
    }

    /// With another pause before each piece; zero is allowed.
    #[must_use]
    pub fn with_delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}

impl Default for Simulated {
    fn default() -> Self {
        Self::new()
    }
}

impl Model for Simulated {
    fn description(&self) -> &Description {
        &self.description
    }

    fn stream<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Result<EventStream, ModelError>> {
        let situation = Situation::of(request);
        let orders = &situation.orders;
        let mut events = events(request, orders.think, &situation.decide());
        let error = orders.fail.map(|code| ModelError {
            retry_after: orders.retry_after,
            ..ModelError::new(code, "ordered by /sim fail")
        });
        if error.is_some() {
            events.truncate(orders.fail_after.min(events.len() - 1));
        }
        let (hold, delay) = (orders.hold, orders.delay.unwrap_or(self.delay));
        Box::pin(async move {
            if !hold.is_zero() {
                tokio::time::sleep(hold).await;
            }
            match error {
                Some(error) if events.is_empty() => Err(error),
                error => {
                    let events = events.into_iter().map(Ok).chain(error.map(Err)).collect();
                    Ok(Box::pin(Paced::new(events, delay)) as EventStream)
                }
            }
        })
    }
}

/// The events of an answer that says `say`, after so many words of reasoning.
fn events(request: &Request<'_>, think: usize, say: &Say) -> Vec<Event> {
    let mut events = Vec::new();
    let (mut content, mut malformed, mut written) = (Vec::new(), Vec::new(), 0);
    if think > 0 {
        let text = vec!["hmm"; think].join(" ");
        written += text.len();
        events.extend(pieces(&text).map(|piece| Event::Thinking(piece.to_owned())));
        content.push(Block::Thinking { text, raw: None });
    }
    match say {
        Say::Text(text) => {
            written += text.len();
            events.extend(pieces(text).map(|piece| Event::Text(piece.to_owned())));
            content.push(Block::text(text));
        }
        Say::Calls(calls) => {
            for (index, call) in calls.iter().enumerate() {
                let id = format!("sim_{:08x}_{index}", fingerprint(request.entries));
                written += call.name.len() + call.json.len();
                events.push(Event::ToolStart { index, id: id.clone(), name: call.name.clone() });
                events.extend(
                    pieces(&call.json).map(|piece| Event::ToolArguments { index, json: piece.to_owned() }),
                );
                let input = arguments::parse(&call.json).unwrap_or_else(|sent| {
                    malformed.push((id.clone(), sent));
                    Value::Object(serde_json::Map::new())
                });
                content.push(Block::ToolUse { id, name: call.name.clone(), input, raw: None });
            }
        }
    }
    let stop = if matches!(say, Say::Calls(_)) { StopReason::ToolUse } else { StopReason::EndTurn };
    let turn = ModelTurn { content, malformed, stop, usage: usage(request, written) };
    events.push(Event::Done(Box::new(turn)));
    events
}

/// What a provider would report, at four characters a token.
fn usage(request: &Request<'_>, written: usize) -> Usage {
    let tokens = |chars: usize| u64::try_from(chars.div_ceil(4)).unwrap_or(u64::MAX);
    let cached: usize = request.system.iter().filter(|part| part.cached).map(|part| part.text.len()).sum();
    let system: usize = request.system.iter().map(|part| part.text.len()).sum();
    let context = request.system_context.map_or(0, str::len);
    let tools: usize = request.tools.iter().map(|tool| tool.name.len() + tool.description.len()).sum();
    let history: usize = request.entries.iter().flat_map(|entry| &entry.content).map(block_length).sum();
    Usage {
        input_tokens: tokens(system + tools + history + context),
        output_tokens: tokens(written),
        cache_read_tokens: if request.entries.len() > 1 { tokens(cached) } else { 0 },
        ..Usage::default()
    }
}

fn block_length(block: &Block) -> usize {
    match block {
        Block::Text { text, .. } | Block::Thinking { text, .. } => text.len(),
        Block::ToolUse { name, .. } => name.len() + 40,
        Block::ToolResult { content, .. } => content.len(),
        Block::Opaque { .. } => 0,
    }
}

/// Differs from turn to turn and is the same for the same history (FNV-1a over the last entries), so that
/// call ids are unique within a run and tests can foretell them.
fn fingerprint(entries: &[Entry]) -> u32 {
    let mut hash = 0x811c_9dc5_u32;
    let mut feed = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
    };
    feed(&entries.len().to_le_bytes());
    for block in entries.iter().rev().take(2).flat_map(|entry| &entry.content) {
        match block {
            Block::Text { text, .. } | Block::Thinking { text, .. } => feed(text.as_bytes()),
            Block::ToolUse { id, .. } => feed(id.as_bytes()),
            Block::Opaque { raw } => feed(raw.json.as_bytes()),
            Block::ToolResult { tool_use_id, content, .. } => {
                feed(tool_use_id.as_bytes());
                feed(content.as_bytes());
            }
        }
    }
    hash
}

/// Cuts a text after each space, and what is still long once more, as providers cut anywhere.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    const LONG: usize = 24;
    text.split_inclusive(' ').flat_map(|word| {
        let middle = (word.len() / 2..word.len()).find(|at| word.is_char_boundary(*at)).unwrap_or(0);
        let (first, second) = word.split_at(if word.len() > LONG { middle } else { word.len() });
        [first, second].into_iter().filter(|piece| !piece.is_empty())
    })
}

#[cfg(test)]
mod tests;
