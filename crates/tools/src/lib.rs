//! The tools that agents may call, and the registry that offers them.
//!
//! ```text
//! Registry::offer(names) → Offer::definitions() → sent to the model: all, or a few and three that find the others
//! the model's ToolCall   → Offer::plan(call)    → Plan::{Answer, Message, Record, Execute, …} → carried out by the engine
//! Plan::Record(record)   → Record::apply(tx)    → what the model reads, committed with the rows
//! Plan::Ask(ask)         → asked by the engine  → what another model answered, within the budget
//! ```
//!
//! # Invariants
//! - One tool is one file: its definition, its effect class, its effect and what the model reads of it. Its name is
//!   written nowhere else; other code uses the constant.
//! - [`tool::Tool::plan`] is pure. Its plan says what a call does: write Houston's own tables (committed with
//!   the result in one fenced transaction) or act outside (executed after its intent is committed).
//! - A [`Record`] decides and words; the store offers it typed rows ([`RecordTx`](houston_store::record::RecordTx)) inside
//!   the transaction of the step, and nothing else.
//! - Every call gets a response; nothing a model sends makes a tool panic.
//! - A tool without a declared effect class is `effect`: executed at most once.
//! - Requests go through the clients of [`outside::Outside`]; HTML, PDF and code through its sandbox. What strangers wrote
//!   is returned between marks that it cannot end.
//!
//! # Deliberately absent
//! SQL (a [`Record`] calls methods of the store), permissions, the order of execution (decided by the engine).
//!
//! # Add a tool
//! 1. A file `builtin/<tool>.rs` with a struct that implements [`tool::Tool`]: its definition (name, description
//!    for the model, JSON Schema, effect class, time-out) and its `plan`. If it reads or writes Houston's own tables, its
//!    arguments implement [`Record`]. `builtin/create_note.rs` is a good example.
//! 2. A line in [`builtin::all`], or `houston_cli::App::with_tool` from a binary of your own
//!    (`crates/cli/examples/custom_tool.rs`).
//! 3. Its name under `tools` in the agent types that may call it (`jobs/agents/*.toml`).
//!
//! A tool that takes long reports how far it is with [`CallContext::progress`]: `context.progress.report(3.0, Some(10.0),
//! "page 3")`, as often as it likes; streams show at most four reports a second of a call, and nothing is stored. One that
//! needs a person in its middle, or that starts something and asks for it later, returns [`Plan::Begin`], and goes on in
//! [`Tool::go_on`]: the run waits meanwhile, and holds nothing.

pub mod ask;
pub mod builtin;
pub mod client;
pub mod code;
pub mod endpoint;
mod files;
pub mod input;
mod listing;
mod many;
pub mod offer;
pub mod outside;
pub mod pausing;
pub mod pdf;
mod plans;
pub mod progress;
mod reach;
pub mod record;
pub mod registry;
mod scripts;
pub mod servers;
pub mod shared_state;
pub mod skills;
mod snippets;
mod source;
mod tables;
pub mod tool;
pub mod untrusted;

pub use ask::Ask;
pub use code::{Code, CodeAnswer, CodeCall, CodeCalls, CodeHost};
pub use offer::{FINDING_TOOLS, Offer};
pub use outside::Outside;
pub use pausing::{Acted, CallQuestion, Pause, Paused, Until};
pub use progress::{Progress, Report, Reports};
pub use record::{NewTaskInfo, Record, RecordFuture};
pub use registry::Registry;
pub use skills::Skills;
pub use tool::{CallContext, CheckOutcome, InvalidInput, Plan, SharedTool, Situation, TaskKind, Tool};

#[cfg(test)]
mod tests;
