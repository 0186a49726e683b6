//! What tests and measurements stand on: fakes with faults, and witnesses outside the service.
//!
//! - [`crowd`]: a database full of agentables that have nothing to do.
//! - [`documentation`]: links and commands in Markdown files.
//! - [`model_server`]: a model that answers as a script says, over OpenAI's and Anthropic's wire, and keeps a journal.
//! - [`fault_proxy`]: a network that is slow, stalls, resets, swallows and cuts, when told to.
//! - [`database`]: a migrated database for a test, cloned on a Postgres that all tests of a run share.
//! - [`installation`]: such a database and a Redis.
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
//! # Recipe: test against a database
//!
//! `houston_testkit::shared_postgres!();` in the root of the test crate; in the test
//! [`database::TestDatabase::shared`], or [`installation::TestInstallation::start`] if it needs Redis, too. A test
//! that stops, fills or configures Postgres, or reads its log, takes one of its own: `on_own_server`,
//! `start_with_own_postgres`.
//!
//! # Recipe: add a fault
//!
//! A variant of [`model_server::Fault`] with what it does to an answer; its arm in `Plan::of`
//! (`model_server/plan.rs`), which turns an answer into writes, pauses and an end; a case in
//! `tests/it/faults.rs`. A fault that concerns one wire only is a reply of its own in `openai_chat.rs` or
//! `anthropic.rs`.

pub mod crowd;
pub mod database;
pub mod documentation;
pub mod fault_proxy;
pub mod history;
pub mod installation;
pub mod model_server;
pub mod process;
mod psql;
pub mod servers;
pub mod shared_postgres;
mod signal;
pub mod tool_ledger;
