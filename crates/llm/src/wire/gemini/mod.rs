//! Google Gemini. A stream consists of chunks of parts; a part is a text, a thought, or a complete tool call.
//!
//! A signed part must be sent back unchanged and separately: Gemini 3 rejects its own tool call without the
//! signature. So blocks with signed parts are stored as the provider sent them ([`RawBlock`]): a text as the list of
//! its parts, a call as its part.
//!
//! The stream has no end mark. A finish reason may even come in the middle, before the results of code executed by
//! the provider. So an answer is complete when the connection ends after a finish reason.
//!
//! [`RawBlock`]: houston_domain::history::RawBlock

pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod stream;

/// The wire's name in raw blocks.
const NAME: &str = "gemini";

#[cfg(test)]
mod tests;
