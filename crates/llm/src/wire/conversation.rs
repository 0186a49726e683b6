//! Converts a history into alternating user and assistant turns, without blocks that a wire cannot express.

use std::borrow::Cow;

use houston_domain::attachment::SentDocument;
use houston_domain::history::{Block, Entry, RawBlock, Role};
use houston_domain::image::SentImage;
use serde_json::value::RawValue;

use crate::model::SystemPart;
use crate::profile::Profile;

/// What a wire does with a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockUse {
    /// It is sent.
    Send,
    /// It is sent if another block follows in the turn: providers reject a turn that ends with reasoning.
    SendBeforeOthers,
    /// It is left out.
    Drop,
}

/// Consecutive entries of one role.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Turn<'a> {
    pub(crate) role: Role,
    /// Never empty. In a user turn, tool results come first.
    pub(crate) blocks: Vec<&'a Block>,
}

/// Joins entries into turns. A turn without remaining blocks is left out, and its neighbours are joined. Blank
/// assistant text is left out; `block_use` decides about all other blocks.
pub(crate) fn turns<'a>(entries: &'a [Entry], block_use: impl Fn(&Block) -> BlockUse) -> Vec<Turn<'a>> {
    let mut turns: Vec<Turn<'a>> = Vec::with_capacity(entries.len());
    for entry in entries {
        let block_use = |block: &Block| match block {
            Block::Text { text, .. } if entry.role == Role::Assistant && is_blank(text) => BlockUse::Drop,
            block => block_use(block),
        };
        let mut blocks: Vec<&Block> =
            entry.content.iter().filter(|block| block_use(block) != BlockUse::Drop).collect();
        let last = blocks.iter().rposition(|block| block_use(block) == BlockUse::Send).map_or(0, |at| at + 1);
        blocks.truncate(last);
        if blocks.is_empty() {
            continue;
        }
        match turns.last_mut() {
            Some(turn) if turn.role == entry.role => turn.blocks.append(&mut blocks),
            _ => turns.push(Turn { role: entry.role, blocks }),
        }
    }
    for turn in turns.iter_mut().filter(|turn| turn.role == Role::User) {
        turn.blocks.sort_by_key(|block| !matches!(block, Block::ToolResult { .. }));
    }
    turns
}

/// A message of a wire on which each result of a tool, and what the user says in a turn, is a message of its own.
pub(crate) enum Message<'a> {
    /// The user's text, and the blocks of the turn, tool results included; none for a system context alone.
    User {
        text: Cow<'a, str>,
        blocks: Vec<&'a Block>,
    },
    /// The result of the call with this id.
    Result {
        id: &'a str,
        text: Cow<'a, str>,
    },
    Assistant(Turn<'a>),
}

/// The history as such messages, with the system context at the end of the last text. Reasoning is sent if its raw block
/// `is_own`; opaque blocks are not sent.
pub(crate) fn messages<'a>(
    entries: &'a [Entry],
    context: Option<Cow<'a, str>>,
    is_own: impl Fn(&RawBlock) -> bool,
) -> Vec<Message<'a>> {
    let mut messages = Vec::new();
    let reasoning = |block: &Block| match block {
        Block::Opaque { .. } => BlockUse::Drop,
        block => block_use(block, &is_own),
    };
    for turn in turns(entries, reasoning) {
        if turn.role == Role::Assistant {
            messages.push(Message::Assistant(turn));
            continue;
        }
        messages.extend(turn.blocks.iter().filter_map(|block| match block {
            Block::ToolResult { tool_use_id: id, content, .. } => {
                Some(Message::Result { id, text: content.into() })
            }
            _ => None,
        }));
        let text = joined(user_texts(&turn));
        messages.extend(text.map(|text| Message::User { text: text.into(), blocks: turn.blocks }));
    }
    match (context, messages.last_mut()) {
        (Some(context), Some(Message::User { text, .. } | Message::Result { text, .. })) => {
            append_context(text, &context);
        }
        (Some(text), _) => messages.push(Message::User { text, blocks: Vec::new() }),
        (None, _) => {}
    }
    messages
}

/// Appends the system context to the last text, a user message or a tool result. It is not sent as a message of its
/// own: servers differ in which role may follow which, and the order without it is valid.
pub(crate) fn append_context(text: &mut Cow<'_, str>, context: &str) {
    let text = text.to_mut();
    text.push_str("\n\n");
    text.push_str(context);
}

/// The decision for wires that send reasoning back only to the provider that wrote it, which `is_own` checks.
pub(crate) fn block_use(block: &Block, is_own: impl Fn(&RawBlock) -> bool) -> BlockUse {
    match block {
        Block::Thinking { raw: Some(raw), .. } if is_own(raw) => BlockUse::SendBeforeOthers,
        Block::Opaque { raw } if is_own(raw) => BlockUse::Send,
        Block::Thinking { .. } | Block::Opaque { .. } => BlockUse::Drop,
        _ => BlockUse::Send,
    }
}

/// The JSON of a raw block, if it is one of this wire and provider.
pub(crate) fn own_json<'a>(raw: &'a RawBlock, wire: &str, provider: &str) -> Option<&'a RawValue> {
    serde_json::from_str(raw.of(wire, provider)?).ok()
}

/// Whether a text is blank. Providers reject blank blocks.
pub(crate) fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// The user's text, or a placeholder if it is blank: the turn must not be left out.
pub(crate) fn user_text(text: &str) -> &str {
    if is_blank(text) { "(empty message)" } else { text }
}

/// What the user says or shows.
pub(crate) enum Shown<'a> {
    Text(&'a str),
    Image(&'a SentImage),
    Document(&'a SentDocument),
}

impl<'a> Shown<'a> {
    /// What a block of the user's has for a model; a line takes the place of an image or a document that it is not sent.
    pub(crate) fn of(block: &'a Block, profile: &Profile) -> Option<Self> {
        match block {
            Block::Text { text, .. } => Some(Self::Text(user_text(text))),
            Block::Image(image) if profile.sees() => Some(Self::Image(image)),
            Block::Image(image) => Some(Self::Text(&image.unseen)),
            Block::Document(document) if profile.takes_documents() => Some(Self::Document(document)),
            Block::Document(document) => Some(Self::Text(&document.unread)),
            _ => None,
        }
    }
}

/// What the user says in a turn, for a wire without images and documents: a line says that there is one.
fn user_texts<'a>(turn: &Turn<'a>) -> impl Iterator<Item = &'a str> {
    turn.blocks.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(user_text(text)),
        Block::Image(image) => Some(image.unseen.as_str()),
        Block::Document(document) => Some(document.unread.as_str()),
        _ => None,
    })
}

/// The texts of a turn.
pub(crate) fn texts<'a>(turn: &Turn<'a>) -> impl Iterator<Item = &'a str> {
    turn.blocks.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    })
}

/// The system prompt as one text; `None` when it is blank.
pub(crate) fn system_text(parts: &[SystemPart]) -> Option<String> {
    joined(parts.iter().map(|part| part.text.as_str()).filter(|text| !is_blank(text)))
}

/// Joins texts with blank lines; `None` when there are none.
pub(crate) fn joined<'a>(mut texts: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut joined = texts.next()?.to_owned();
    for text in texts {
        joined.push_str("\n\n");
        joined.push_str(text);
    }
    Some(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_join_into_turns_not_ending_with_reasoning() {
        let result =
            Block::ToolResult { tool_use_id: "a".into(), content: "ok".into(), is_error: false, code: None };
        let thinking = || Block::Thinking { text: "hm".into(), raw: None };
        let history = [
            Entry::user(vec![Block::text("1")]),
            Entry::assistant(vec![thinking()]),
            Entry::user(vec![Block::text("2")]),
            Entry::user(vec![result.clone(), Block::text("3")]),
            Entry::assistant(vec![thinking(), Block::text("4"), thinking(), Block::text(" ")]),
        ];
        let block_use = |block: &Block| match block {
            Block::Thinking { .. } => BlockUse::SendBeforeOthers,
            _ => BlockUse::Send,
        };
        let turns = turns(&history, block_use);
        assert_eq!(turns.len(), 2);
        assert_eq!(turns[0].blocks, [&result, &Block::text("1"), &Block::text("2"), &Block::text("3")]);
        assert_eq!(turns[1].blocks, [&thinking(), &Block::text("4")]);
    }
}
