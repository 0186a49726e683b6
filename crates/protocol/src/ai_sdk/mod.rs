//! The UI message stream of the Vercel AI SDK, version 1: what its `DefaultChatTransport` sends and reads.
//!
//! | what happens | chunks |
//! |---|---|
//! | a run, or the rest of it after a wait | `start` with the id of the run, … `finish`, `abort` or `error`, then `[DONE]` |
//! | a model call and its tools | `start-step` … `finish-step` |
//! | a message of the agent, its reasoning | `text-start`, `text-delta`…, `text-end`; `reasoning-…` |
//! | a tool call of Houston (`providerExecuted`), or of the client | `tool-input-start`, `tool-input-delta`, `tool-input-available` |
//! | its result | `tool-output-available`, `tool-output-error` |
//! | a call that a person must allow | `tool-approval-request` |
//! | any other question | `data-houston-question` |
//! | anything else | `data-houston`, transient: the AG-UI event |

mod chunk;
mod request;

pub use self::chunk::{Chunk, FinishReason};
pub use self::request::{ChatRequest, Trigger, UiMessage};

/// The header with which a stream says what it is, and its value.
pub const STREAM_HEADER: (&str, &str) = ("x-vercel-ai-ui-message-stream", "v1");

/// The text after the last chunk.
pub const DONE: &str = "[DONE]";
