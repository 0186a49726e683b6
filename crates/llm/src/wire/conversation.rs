//! A history as turns: user and assistant in alternation, without what a wire cannot say.

use std::borrow::Cow;

use houston_domain::history::{Block, Entry, RawBlock, Role};

use crate::model::SystemPart;

/// What a wire makes of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Sends it.
    Send,
    /// Sends it if something follows it in the turn: providers refuse a turn that ends with reasoning.
    SendBeforeOthers,
    /// Leaves it out.
    Drop,
}

/// Consecutive entries of one role.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Turn<'a> {
    pub(crate) role: Role,
    /// Never empty; of a user, the tool results come first.
    pub(crate) blocks: Vec<&'a Block>,
}

/// Joins entries into turns. A turn of which nothing remains is left out, and its neighbours become one.
/// Blank text of the model is left out; `judge` decides on the rest.
pub(crate) fn turns<'a>(entries: &'a [Entry], judge: impl Fn(&Block) -> Use) -> Vec<Turn<'a>> {
    let mut turns: Vec<Turn<'a>> = Vec::with_capacity(entries.len());
    for entry in entries {
        let judge = |block: &Block| match block {
            Block::Text { text, .. } if entry.role == Role::Assistant && is_blank(text) => Use::Drop,
            block => judge(block),
        };
        let mut blocks: Vec<&Block> =
            entry.content.iter().filter(|block| judge(block) != Use::Drop).collect();
        let last = blocks.iter().rposition(|block| judge(block) == Use::Send).map_or(0, |at| at + 1);
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

/// Adds the system context to what was said last, a message of the user or a tool's answer. No message is added for it:
/// which role may follow which differs from server to server, and what is sent without it is in order.
pub(crate) fn append_context(said: &mut Cow<'_, str>, context: &str) {
    let said = said.to_mut();
    said.push_str("\n\n");
    said.push_str(context);
}

/// What is made of a block where reasoning goes back to who wrote it, and to nobody else: `is_own` says whose it is.
pub(crate) fn judge(block: &Block, is_own: impl Fn(&RawBlock) -> bool) -> Use {
    match block {
        Block::Thinking { raw: Some(raw), .. } if is_own(raw) => Use::SendBeforeOthers,
        Block::Opaque { raw } if is_own(raw) => Use::Send,
        Block::Thinking { .. } | Block::Opaque { .. } => Use::Drop,
        _ => Use::Send,
    }
}

/// Whether a text says nothing. Providers refuse such a block.
pub(crate) fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// What a user said, or a word for nothing: the turn must stand.
pub(crate) fn user_text(text: &str) -> &str {
    if is_blank(text) { "(empty message)" } else { text }
}

/// The system prompt as one text; `None` when it says nothing.
pub(crate) fn system_text(parts: &[SystemPart]) -> Option<String> {
    joined(parts.iter().map(|part| part.text.as_str()).filter(|text| !is_blank(text)))
}

/// The texts with blank lines between them; `None` when there are none.
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
    fn entries_are_joined_and_reasoning_never_ends_a_turn() {
        let result = Block::ToolResult { tool_use_id: "a".into(), content: "ok".into(), is_error: false };
        let thinking = || Block::Thinking { text: "hm".into(), raw: None };
        let history = [
            Entry::user(vec![Block::text("1")]),
            Entry::assistant(vec![thinking()]),
            Entry::user(vec![Block::text("2")]),
            Entry::user(vec![result.clone(), Block::text("3")]),
            Entry::assistant(vec![thinking(), Block::text("4"), thinking(), Block::text(" ")]),
        ];
        let judge = |block: &Block| match block {
            Block::Thinking { .. } => Use::SendBeforeOthers,
            _ => Use::Send,
        };
        let turns = turns(&history, judge);
        assert_eq!(turns.len(), 2);
        assert_eq!(turns[0].blocks, [&result, &Block::text("1"), &Block::text("2"), &Block::text("3")]);
        assert_eq!(turns[1].blocks, [&thinking(), &Block::text("4")]);
    }
}
