//! A2A 1.0: agents of other platforms talk with Houston's, over JSON-RPC (`POST /a2a/{target}`) and HTTP+JSON below it. The
//! target is a kind or an agent of the tenant.
//!
//! | A2A | Houston |
//! |---|---|
//! | context | a thread ([`threads`](crate::threads)): the client's own id for it, or Houston's |
//! | task | a run, under its id |
//! | message to a task | a message, or the answer to its question |
//! | artifact | a message of the agent, under its id |
//! | `INPUT_REQUIRED` | the run waits, and a question is open |
//! | push notification configuration | a webhook of the run ([`push`]) |
//! | `tenant` of a request | the user, if the key is not of one |
//!
//! # Streams
//! They are event streams like all others, and [`dialect`] translates: they are aborted, not ended, while the task is at
//! work. The first frame is the task; then come updates, until the task has ended or waits for a person.
//!
//! # Of the official crates
//! The types are those of `a2a-lf`. The routes are Houston's own: those of `a2a-server-lf` end streams of drained servers as
//! if the task had ended, send heartbeats that some clients take for events, keep tasks in a store of their own, and bring a
//! second HTTP client with another TLS.
//!
//! Not in the OpenAPI document: the protocol has its own, and a client reads the agent card.

mod answer;
mod card;
mod content;
mod dialect;
mod endpoint;
mod error;
mod http;
mod operations;
mod push;
mod send;
mod task;
mod task_stream;

pub(crate) use endpoint::{CARD, endpoints, main_card};
