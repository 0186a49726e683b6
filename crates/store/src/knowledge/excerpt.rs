//! Excerpts: the beginnings of texts, for prompts and for the lists that tools return.

use uuid::Uuid;

/// The beginning of a knowledge item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// The item's id.
    pub id: Uuid,
    /// Its title, if items of its kind have one.
    pub title: Option<String>,
    /// The beginning of its text.
    pub text: String,
    /// Number of characters of the whole text.
    pub chars: i32,
    /// Whether a session wrote it that had read what strangers wrote.
    pub untrusted: bool,
}

/// The first rows of a user's data of one sort, shortened for a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortened<Id> {
    /// Ids and texts; a text that was cut ends with `…`.
    pub items: Vec<(Id, String)>,
    /// Whether there are more rows.
    pub more: bool,
}

impl<Id> Default for Shortened<Id> {
    fn default() -> Self {
        Self { items: Vec::new(), more: false }
    }
}

impl<Id> Shortened<Id> {
    /// Adds a row, unless there are already `most`.
    pub(crate) fn push(&mut self, most: i32, id: Id, text: String) {
        if self.items.len() < usize::try_from(most).unwrap_or(0) {
            self.items.push((id, text));
        } else {
            self.more = true;
        }
    }
}

/// Cuts `text` after `chars` characters and marks the cut with `…`.
pub(crate) fn cut(mut text: String, chars: i32) -> String {
    let most = usize::try_from(chars).unwrap_or(0);
    if let Some((end, _)) = text.char_indices().nth(most) {
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_between_characters_and_marked() {
        assert_eq!(cut("äöü".into(), 3), "äöü");
        assert_eq!(cut("äöüß".into(), 3), "äöü…");
        assert_eq!(cut("x".into(), 0), "…");
    }

    #[test]
    fn rows_over_the_limit_set_more() {
        let mut shortened = Shortened::default();
        for nth in 0..3 {
            shortened.push(2, nth, "x".into());
        }
        assert_eq!((shortened.items.len(), shortened.more), (2, true));
    }
}
