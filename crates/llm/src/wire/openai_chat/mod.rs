//! OpenAI Chat Completions, as used by OpenAI and a dozen compatible providers.
//!
//! The decoder handles the differences between servers: reasoning in two different fields; tool calls in pieces or
//! complete, interleaved or with the same index, without ids or arguments; usage in the last chunk or after it;
//! chunks without choices; errors within a stream.

pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod stream;

/// The wire's name in raw blocks of reasoning.
const NAME: &str = "openai_chat";

#[cfg(test)]
mod tests;
