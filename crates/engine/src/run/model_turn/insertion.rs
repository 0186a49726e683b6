//! What a request has besides the texts of its history: images and files, each after the text that refers to it.

use std::borrow::Cow;

use houston_domain::history::{Block, Entry};

/// A block that follows another one.
pub(super) struct Insertion {
    /// The position of the entry.
    pub(super) entry: usize,
    /// The position of the block in it.
    pub(super) block: usize,
    pub(super) added: Block,
}

/// The history with these blocks. Those after the same block are in the given order.
pub(super) fn inserted(history: &[Entry], mut insertions: Vec<Insertion>) -> Cow<'_, [Entry]> {
    if insertions.is_empty() {
        return Cow::Borrowed(history);
    }
    insertions.sort_by_key(|insertion| (insertion.entry, insertion.block));
    let mut entries = history.to_vec();
    // From the end, so that the positions of those before stay.
    for Insertion { entry, block, added } in insertions.into_iter().rev() {
        if let Some(content) = entries.get_mut(entry).map(|entry| &mut entry.content) {
            content.insert((block + 1).min(content.len()), added);
        }
    }
    Cow::Owned(entries)
}
