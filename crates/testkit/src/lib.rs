//! What tests and measurements stand on: fakes with faults, and witnesses outside the service.
//!
//! - [`crowd`]: a database full of agentables that have nothing to do.
//! - [`model_server`]: a model that answers as a script says, over OpenAI's and Anthropic's wire, and keeps a journal.
//! - [`fault_proxy`]: a network that is slow, stalls, resets, swallows and cuts, when told to.
//! - [`servers`]: a Postgres and a Redis of one's own, to be killed and stalled.
//! - [`process`]: the `houston` binary as a child, to be killed, stopped and read.
//! - [`history`]: whether a provider would accept a conversation.
//! - [`tool_ledger`]: a file that knows which tool acted on the world, how often.
//!
//! # Invariants
//!
//! - **A witness does not believe the service.** The journal and the ledger are written here, from what arrived.
//! - **Nothing is left behind.** Whatever is started ends with the value that stands for it.
//! - **No sleeps.** Waiting is for a condition, with a patience after which it is given up.
//! - **The fakes are cheap**: thousands of held answers cost a task each, and a reply that was rendered once is
//!   one write, so that a measurement measures the service.
//!
//! # Deliberately absent
//!
//! HTTP frameworks, TLS, answers in one piece (`"stream": false`), checks of what the service asks for: a script
//! that wants some makes them itself.
//!
//! # Recipe: add a fault
//!
//! A variant of [`model_server::Fault`] with what it does to an answer; its arm in `Plan::of`
//! (`model_server/plan.rs`), which turns an answer into writes, pauses and an end; a case in
//! `tests/it/faults.rs`. A fault that concerns one wire only is a reply of its own in `openai_chat.rs` or
//! `anthropic.rs`.

pub mod crowd;
pub mod fault_proxy;
pub mod history;
pub mod model_server;
pub mod process;
mod psql;
pub mod servers;
mod signal;
pub mod tool_ledger;
