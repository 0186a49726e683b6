//! Conversations as documents: exported, imported and reset.
//!
//! A document is validated before it comes here ([`houston_domain::conversation::Conversation::check`]). An import
//! is one transaction, whatever its size.

pub mod client_items;
mod make;
mod read;
mod reset;

pub use make::{NewConversation, Origin};
pub use read::ExportOptions;
pub use reset::Reset;
