//! Anthropic's Messages: named blocks, opened, continued and closed by index.
//!
//! Reasoning comes signed and must go back byte-equal, so a block that is neither text nor a tool call is kept
//! as the provider sent it ([`Block::Thinking`] with `raw`), tools that ran on the provider's side included.
//!
//! [`Block::Thinking`]: houston_domain::history::Block::Thinking

pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod stream;

/// The version of the API this was written against: <https://docs.anthropic.com/en/api/versioning>.
pub(crate) const VERSION: &str = "2023-06-01";

#[cfg(test)]
mod tests;
