//! Cuts text that others wrote to what is worth showing.

/// The first `longest` characters of `text`, with `…` when there is more.
pub(crate) fn shortened(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
