//! Cohere Chat, version 2.
//!
//! Peculiarities: a plan before tool calls, which is treated as reasoning; citations, which are sent back unchanged;
//! and two usage counts: Houston uses the one of all tokens for the context, and `billed_units` for the cost.

pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod stream;

/// The wire's name in raw blocks.
const NAME: &str = "cohere";

#[cfg(test)]
mod tests;
