//! OpenAI's Responses, Conversations and Chat Completions: what Houston reads of their requests, and the parts of its answers that
//! change while they are written; the rest of an answer is JSON where it is made. Their contract is OpenAI's document; fields that
//! Houston has nothing to say about have the value that means so there.

pub mod event;
pub mod input;
pub mod item;
pub mod parameters;
pub mod request;
pub mod response;
pub mod stored_item;
