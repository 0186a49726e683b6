//! The LLM history: what the model saw, for people who want to know. Never part of the thread.

pub(crate) mod list;
