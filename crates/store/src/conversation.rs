//! Conversations as documents: read whole, made from one, emptied.
//!
//! A document is checked before it comes here ([`houston_domain::conversation::Conversation::check`]); what is made of
//! it is one transaction, whatever its size.

mod events;
mod make;
mod read;
mod reset;

pub use make::{NewConversation, Origin};
pub use read::Reading;
pub use reset::Reset;
