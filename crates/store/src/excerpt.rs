//! Beginnings of texts: what enters a prompt or a tool's list, instead of the whole.

/// A row as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Excerpt {
    /// Its id, as shown.
    pub(crate) id: String,
    /// Its title, when it has one.
    pub(crate) title: Option<String>,
    /// Its beginning.
    pub(crate) text: String,
    /// Characters of the whole.
    pub(crate) chars: i32,
}

/// The first of a user's rows of one sort, shortened for a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortened<Id> {
    /// Ids and texts; a text that was cut ends with `…`.
    pub items: Vec<(Id, String)>,
    /// Whether there are more.
    pub more: bool,
}

impl<Id> Default for Shortened<Id> {
    fn default() -> Self {
        Self { items: Vec::new(), more: false }
    }
}

impl<Id> Shortened<Id> {
    /// Adds one, unless there are `most` already.
    pub(crate) fn push(&mut self, most: i32, id: Id, text: String) {
        if self.items.len() < usize::try_from(most).unwrap_or(0) {
            self.items.push((id, text));
        } else {
            self.more = true;
        }
    }
}

/// `text`, which has more than `chars` characters only if it is longer than shown, cut there.
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
    fn a_long_text_is_cut_between_characters_and_says_so() {
        assert_eq!(cut("äöü".into(), 3), "äöü");
        assert_eq!(cut("äöüß".into(), 3), "äöü…");
        assert_eq!(cut("x".into(), 0), "…");
    }

    #[test]
    fn one_too_many_is_left_out_and_told() {
        let mut shortened = Shortened::default();
        for nth in 0..3 {
            shortened.push(2, nth, "x".into());
        }
        assert_eq!((shortened.items.len(), shortened.more), (2, true));
    }
}
