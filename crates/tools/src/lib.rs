//! Tools an agent may call, and the registry that offers them.
//!
//! # Invariants
//! - [`tool::Tool::plan`] is pure. Its plan says what a call does: write Houston's own tables (committed with
//!   the result in one fenced transaction) or act outside (executed after its intent is committed).
//! - Every call gets a response; nothing a model sends makes a tool panic.
//! - A tool without a declared effect class is `effect`: executed at most once.
//!
//! # Deliberately absent
//! SQL (a tool names a `Record`, the store writes it), permissions, the order of execution (the engine's).
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
pub use tool::{CallContext, Happened, InvalidInput, Plan, SharedTool, Situation, Tool};

#[cfg(test)]
mod tests;
