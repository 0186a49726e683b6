//! OpenAI's Responses, spoken without state on their side: nothing is stored there, and what the model needs of
//! its own reasoning comes to us encrypted and goes back with the next request.
//!
//! An answer is a list of items, each opened, continued and closed by its place in the list. Reasoning, tools
//! that ran on the provider's side, and messages that say more than their text are kept as the provider sent
//! them ([`RawBlock`]). Ids of items are not: a few servers give another one in every event.
//!
//! [`RawBlock`]: houston_domain::history::RawBlock

pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod stream;

/// This wire's name on the blocks it keeps.
const NAME: &str = "openai_responses";

#[cfg(test)]
mod tests;
