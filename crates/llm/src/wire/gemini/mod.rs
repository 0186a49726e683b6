//! Google's Gemini: chunks of parts, each a text, a thought, or a whole call.
//!
//! A part may be signed, and must come back as it came, on its own: a call of a Gemini 3 without its signature is
//! refused. So what holds a signed part is kept as the provider sent it ([`RawBlock`]): a text as the list of its
//! parts, a call as its part.
//!
//! The stream has no mark of its end. A reason to finish may even stand in the middle, before the results of
//! code that ran on the provider's side. So an answer is complete when the connection ends after such a reason.
//!
//! [`RawBlock`]: houston_domain::history::RawBlock

pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod stream;

/// This wire's name on the blocks it keeps.
const NAME: &str = "gemini";

#[cfg(test)]
mod tests;
