//! The tools that agents may call, and the registry that offers them.
//!
//! ```text
//! Registry::offer(names) → Offer::definitions() → sent to the model
//! the model's ToolCall   → Offer::plan(call)    → Plan::{Answer, Record, Execute} → carried out by the engine
//! ```
//!
//! # Invariants
//! - [`tool::Tool::plan`] is pure. Its plan says what a call does: write Houston's own tables (committed with
//!   the result in one fenced transaction) or act outside (executed after its intent is committed).
//! - Every call gets a response; nothing a model sends makes a tool panic.
//! - A tool without a declared effect class is `effect`: executed at most once.
//!
//! # Deliberately absent
//! SQL (a tool returns a `Record`, which the store writes), permissions, the order of execution (decided by the
//! engine).
//!
//! # Add a tool
//! 1. A file `builtin/<tool>.rs` with a struct that implements [`tool::Tool`]: its definition (name, description
//!    for the model, JSON Schema, effect class, time-out) and its `plan`. `builtin/create_note.rs` is a good example.
//! 2. A line in [`builtin::all`], or `houston_cli::App::with_tool` from a binary of your own
//!    (`crates/cli/examples/custom_tool.rs`).
//! 3. Its name under `tools` in the agent types that may call it (`jobs/agents/*.toml`).

pub mod builtin;
pub mod input;
mod listing;
pub mod registry;
pub mod tool;

pub use registry::{Offer, Registry};
pub use tool::{CallContext, CheckOutcome, InvalidInput, Plan, SharedTool, Situation, Tool};

#[cfg(test)]
mod tests;
