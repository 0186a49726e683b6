//! Ollama's own chat: a JSON object a line.
//!
//! Its own: tool calls come whole, often without ids; arguments are objects both ways; results name their tool; and
//! a conversation longer than the window it was given is cut off at its beginning without a word, so each
//! request says how much it needs.

pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod stream;

/// This wire's name on reasoning it wraps.
const NAME: &str = "ollama";

#[cfg(test)]
mod tests;
