//! The one binary: wiring, commands, lifecycle.
//!
//! # Invariants
//! - The environment is read here and nowhere else; everything is built once and handed down, nothing is global.
//! - `serve` and `work` never start a database of their own unless told to: a missing variable must not begin an
//!   empty installation.
//! - Only `dev` and, when told to, `serve`, `work` and `migrate` make a database; other commands use one that exists.
//! - Data goes to stdout, talk to stderr, all of it through `output`, where no text of others can command a terminal.
//!   Exit codes: 0 ok, 1 failure, 2 wrong usage or settings.
//!
//! # Deliberately absent
//! Decisions about runs (`engine`), SQL (`store`), HTTP (`api`).
//!
//! # Add a command
//! One about an agent takes `commands::agentable::Which`, which finds it.
//! A file `commands/<command>.rs` with its arguments and a `run`, a variant in `commands::Command`. To add a tool
//! of your own, build a binary like `examples/custom_tool.rs`.

mod app;
mod azure;
mod chat;
mod commands;
mod config;
mod connect;
mod explain;
mod file_limit;
mod github;
mod invocation;
mod lifecycle;
mod models;
mod output;
mod system;
mod telemetry;

pub use app::App;

/// What a tool of one's own is made of.
pub mod tool {
    pub use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolErrorCode, ToolResponse};
    pub use houston_tools::{CallContext, Happened, InvalidInput, Plan, SharedTool, Tool};
}
