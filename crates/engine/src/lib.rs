//! Drives one run: claim, context, model, tools, commit, release.
//!
//! # Invariants
//! - The decisions are [`houston_domain::agent::AgentRun`]'s; this crate does what it says and commits what it
//!   returns, each step behind the fence.
//! - No transaction and no connection is held across a model or tool call.
//! - A tool that acts outside is started only after its intent is committed and while the lease is trusted.
//! - What was streamed live is a prefix of what is committed, or it is voided in the stream.
//! - A run that somebody asked to cancel reads nothing more; its calls are stopped, each in its own way, and every
//!   one of them gets its result, in the history and in the thread.
//! - A drive that ends early (lost lock, hand-over) has written nothing it may not write, and loses nothing.
//! - While its worker lives, a drive that ends early has let go of the lock: nobody else could take it.
//!
//! # Deliberately absent
//! SQL, HTTP, the queue's mechanics, leases (the worker's), retries of a single model call (`llm`).
//!
//! # Add a step kind
//! Give `AgentRun` a `Next` for it, drive it in [`drive`], commit it through [`commit`].

mod commit;
pub mod config;
mod context;
pub mod drive;
pub mod engine;
pub mod error;
mod failure;
pub mod holder;
mod intervention;
pub mod live;
mod model_call;
pub mod prompt;
mod release;
mod tool_call;
mod turn;

pub use config::Config;
pub use drive::Driven;
pub use engine::{Engine, Parts, Setup, SetupError};
pub use holder::Holder;
pub use live::LiveRuns;
