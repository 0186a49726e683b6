//! Ollama's own chat API: one JSON object per line.
//!
//! Peculiarities: tool calls are sent as a whole, often without ids; arguments are objects in requests and answers;
//! tool results name their tool. Ollama silently truncates the beginning of a conversation that exceeds its context
//! window, so each request sets the window it needs.

pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod stream;

/// The wire's name in raw blocks of reasoning.
const NAME: &str = "ollama";

#[cfg(test)]
mod tests;
