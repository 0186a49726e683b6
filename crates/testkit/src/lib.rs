//! Test infrastructure: throw-away servers, fakes that can inject faults, and records kept outside the service.
//!
//! - [`seed_data`]: fills a database with idle agentables.
//! - [`documentation`]: links and commands in Markdown files; [`sources`]: the Rust files.
//! - [`model_server`]: a scripted model with a journal, over OpenAI's and Anthropic's wire.
//! - [`fault_proxy`]: a TCP proxy that injects latency, stalls, resets, lost bytes and cuts.
//! - [`database`]: a migrated database for a test, cloned on a Postgres that all tests of a run share.
//! - [`event_stream`]: the event streams of a database as rows.
//! - [`installation`]: a migrated database and a Redis.
//! - [`houston`]: the processes of a running Houston, on such servers.
//! - [`servers`]: a Postgres and a Redis of one test, which it may kill and stall, and a standby of that Postgres.
//! - [`process`]: a child process, usually `houston`: signals, output, readiness.
//! - [`history`]: checks whether a provider would accept a conversation.
//! - [`snapshot`]: files that record what the program said, to notice when it says something else.
//! - [`tool_ledger`]: a file that records each execution of a tool.
//! - [`evidence`]: what `cargo xtask evidence` has recorded, and the documents that quote it.
//!
//! And what the commands of `xtask` and `harness` share: [`repository`] (paths, cargo), [`child`], [`programs`] (finds and
//! installs them), [`scratch`], [`console`] and [`signals`].
//!
//! # Invariants
//!
//! - **Records are independent of the service.** Journal and ledger are written here, from what arrived.
//! - **No leftovers.** Processes, servers and databases end when their value is dropped.
//! - **No sleeps.** Tests wait for a condition, with a timeout.
//! - **The fakes are cheap**: a held answer costs one task and a prepared reply one write, so that a benchmark measures
//!   the service.
//!
//! # Deliberately absent
//!
//! HTTP frameworks, TLS, and answers without streaming (`"stream": false`). The model server does not check requests: a
//! script can do that.
//!
//! # Recipe: test against a database
//!
//! Write `houston_testkit::shared_postgres!();` in the root of the test crate, and in the test
//! [`database::TestDatabase::shared`], or [`installation::TestInstallation::start`] if it also needs Redis. A test that
//! stops, fills or configures Postgres, or reads its log, uses its own server: `on_own_server` or
//! `start_with_own_postgres`.
//!
//! # Recipe: add a fault
//!
//! A variant of [`model_server::Fault`]; its arm in `Plan::of` (`model_server/plan.rs`), which turns an answer into
//! writes, pauses and an end; a case in `tests/it/faults.rs`. A fault of one wire only is a separate reply in
//! `openai_chat.rs` or `anthropic.rs`.

pub mod child;
pub mod console;
pub mod database;
pub mod documentation;
pub mod event_stream;
pub mod evidence;
pub mod fault_proxy;
pub mod history;
pub mod houston;
pub mod installation;
pub mod model_server;
pub mod pdf;
pub mod process;
pub mod programs;
pub mod psql;
pub mod repository;
pub mod scratch;
pub mod seed_data;
pub mod servers;
pub mod shared_postgres;
pub mod signals;
pub mod snapshot;
pub mod sources;
mod standby;
pub mod tool_ledger;
