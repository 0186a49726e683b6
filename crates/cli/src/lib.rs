//! The `houston` binary: commands, settings, wiring and lifecycle.
//!
//! # Invariants
//! - The environment is read here and nowhere else. Everything is built once and passed down; there are no globals.
//! - `serve` and `work` start a database of their own only with `--embedded`: a missing variable must not create an
//!   empty installation.
//! - Only `dev`, and `serve`, `work` and `migrate` with `--embedded`, create a database. All other commands use an
//!   existing one.
//! - Data goes to stdout, messages to stderr, both through `output`, which makes escape sequences in text harmless.
//! - Exit codes: 0 success, 1 failure, 2 wrong usage or settings. `houston chat` adds more, see its help.
//!
//! # Deliberately absent
//! Decisions about runs (`engine`), SQL (`store`), HTTP (`api`).
//!
//! # Add a command
//! 1. Add `commands/<command>.rs` with the arguments and a `run`. A command about one agent takes
//!    `commands::agentable::AgentArg`, which finds the agent by its id. One that reads or changes what an endpoint does asks that
//!    endpoint: `with_api` has the routes over the databases, within the process, so that no server needs to run.
//! 2. Add its line to `commands!`, with `#[command(subcommand)]` if it has subcommands.
//!
//! # Add a tool, a driver, a hook
//! Build a binary of your own, as in `examples/custom_tool.rs`. A program that is no `houston` embeds the engine with the crate
//! `houston`, which starts it through [`process`].

mod app;
mod chat;
mod commands;
mod config;
mod connect;
mod console_sign_in;
mod context;
mod environment;
mod explain;
mod failure;
mod foreign_servers;
mod instruments;
mod keys;
mod lifecycle;
mod metrics_listener;
mod model_catalogue;
mod models;
mod output;
pub mod process;
mod runtime;
mod skill_source;
mod span_export;
mod system;
mod telemetry;
mod tokens;
mod toolbox;
mod trial;

pub use app::App;

/// What an implementation of a driver needs.
pub mod driver {
    pub use houston_domain::agent::Next;
    pub use houston_domain::question::{NewQuestion, Question, QuestionKind, QuestionState};
    pub use houston_engine::driver::{Decision, DrivenRun, Driver, Then};
}

/// What hooks and observers need.
pub mod hook {
    pub use houston_engine::hook::{PromptSection, RunHook, RunInfo, RunSetup};
    pub use houston_engine::observer::{Observation, Observed, Observer};
}

/// What an implementation of a tool needs.
pub mod tool {
    pub use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolErrorCode, ToolResponse};
    pub use houston_tools::{CallContext, CheckOutcome, InvalidInput, Plan, SharedTool, Tool};
}
