//! Shortens text from providers for messages and logs.

/// The first `longest` characters of `text`, followed by `…` if there are more.
pub(crate) fn shortened(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
