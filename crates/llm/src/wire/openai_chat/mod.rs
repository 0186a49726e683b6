//! OpenAI's Chat Completions, as OpenAI and a dozen others speak it.
//!
//! What differs between them and is handled for all: reasoning under two names, tool calls in pieces or whole,
//! interleaved or numbered alike, without ids or arguments, usage in the last chunk or after it, chunks without
//! choices, and errors in mid-stream.

pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod stream;

/// This wire's name on reasoning it wraps.
const NAME: &str = "openai_chat";

#[cfg(test)]
mod tests;
