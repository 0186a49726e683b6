//! Anthropic's Messages: named blocks, opened, continued and closed by index.
//!
//! Reasoning comes signed and must go back byte-equal, so a block that says more than text or a call is kept as
//! the provider sent it ([`RawBlock`]), tools that ran on the provider's side and citations included.
//!
//! [`RawBlock`]: houston_domain::history::RawBlock

pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod stream;

/// This wire's name on the blocks it keeps.
const NAME: &str = "anthropic";

/// The version of the API this was written against: <https://docs.anthropic.com/en/api/versioning>.
pub(crate) const VERSION: &str = "2023-06-01";

#[cfg(test)]
mod tests;
