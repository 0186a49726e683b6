//! OpenAI's Responses, Conversations and Chat Completions, as Houston answers in them: the types of its own fields and of
//! what clients need. Their contract is OpenAI's document; fields that Houston has nothing to say about have the value that
//! means so there.

pub mod chat;
pub mod error;
pub mod event;
pub mod input;
pub mod item;
pub mod list;
pub mod parameters;
pub mod request;
pub mod response;
pub mod stored_item;
