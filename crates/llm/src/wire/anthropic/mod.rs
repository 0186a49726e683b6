//! Anthropic Messages. An answer is a list of typed blocks, each opened, continued and closed by its index.
//!
//! Reasoning is signed and must be sent back byte for byte. So blocks other than plain text and tool calls are stored
//! as the provider sent them ([`RawBlock`]), including citations and the results of server-side tools.
//!
//! [`RawBlock`]: houston_domain::history::RawBlock

pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod stream;

/// The wire's name in raw blocks.
const NAME: &str = "anthropic";

/// API version this was written for: <https://docs.anthropic.com/en/api/versioning>.
pub(crate) const VERSION: &str = "2023-06-01";

#[cfg(test)]
mod tests;
