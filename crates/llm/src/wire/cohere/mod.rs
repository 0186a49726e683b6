//! Cohere's Chat, version 2.
//!
//! Its own: a plan before tool calls, which is reasoning; citations, which go back as they came; and usage in two
//! counts, of which the one of all tokens is ours, not the one that is billed.

pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod stream;

/// This wire's name on what it keeps raw.
const NAME: &str = "cohere";

#[cfg(test)]
mod tests;
