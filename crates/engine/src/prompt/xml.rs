//! XML as prompts use it; texts from outside are escaped, so that nobody can close an element.

/// Text inside an element.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// An element on lines of its own; nothing for no content.
pub(crate) fn element(name: &str, content: &str) -> String {
    let content = content.trim();
    if content.is_empty() { String::new() } else { format!("<{name}>\n{content}\n</{name}>\n") }
}
