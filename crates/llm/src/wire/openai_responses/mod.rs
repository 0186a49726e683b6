//! OpenAI Responses, used without server-side state (`store: false`): encrypted reasoning is part of each answer and
//! is sent back with the next request.
//!
//! An answer is a list of items, each opened, continued and closed by its index in the list. Reasoning, the
//! provider's own tools, and messages with annotations are stored as the provider sent them ([`RawBlock`]). Item ids
//! are not used: a few servers change them from event to event.
//!
//! [`RawBlock`]: houston_domain::history::RawBlock

pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod stream;

/// The wire's name in raw blocks.
const NAME: &str = "openai_responses";

#[cfg(test)]
mod tests;
