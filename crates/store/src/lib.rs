//! Postgres: every fact of Houston, behind the fence.
//!
//! # Invariants
//! - Every write of a run goes through [`Store::commit`] (or a [`record::FencedTx`]): it locks the agentable's
//!   lock row by epoch and token first, and finds nothing when the caller is a zombie.
//! - Positions (`seq`, `position`) are handed out under that row's lock, so they have no gap and no reader can
//!   overtake a slow writer.
//! - Whoever stores a reason to look at an agentable sets `wake` in the same transaction; the sweep needs nothing
//!   else. A lost hint costs seconds.
//! - The database's clock decides about leases.
//! - One user holds [`Fairness::max_running`] runs at once at most, whoever claims; what waits behind them is
//!   awake, is named by the step that ends one of them, and is found by the sweep.
//! - The index `run_locks_awake (user_id, due_at) where wake` answers who waits, `runs_held (held_for)` who is
//!   held: nothing else is read for either, however many there are.
//! - A session is closed under its agentable's row lock, while no run is held, by moving `session_position`: entries
//!   belong to it by their position. Who looks for sessions that are over reads `session_states_due`: only what may be.
//! - No transaction stays open across a model or tool call.
//!
//! # Deliberately absent
//! Traits in the place of Postgres (there is one), ORM, queries built from strings, caches.
//!
//! # Add a table
//! A migration `migrations/<time>_<what>.sql` (one-way; expand, then contract); a file here named after its noun,
//! with `impl Store` and `query!` texts that begin `-- store::<file>::<function>`; `tenant_id` on it and in every
//! query the API asks; then `cargo xtask prepare` to refresh `.sqlx`.

pub mod agent;
pub mod agentable;
pub mod api_key;
mod bound;
pub mod cancel;
pub mod check_in;
pub mod claim;
pub mod compression;
pub mod conversation;
pub mod cost;
pub mod custom_instruction;
pub mod directory;
pub mod erasure;
pub mod error;
pub mod event;
pub mod excerpt;
pub mod fairness;
pub mod feed;
pub mod feed_item;
pub mod health;
pub mod history;
pub mod idempotency;
pub mod knowledge_item;
pub mod learning;
pub mod lease;
pub mod listen;
pub mod memory;
pub mod message;
pub mod note;
pub mod pool;
pub mod profile;
pub mod record;
pub mod run;
pub mod schema;
pub mod serving;
pub mod session;
mod session_search;
pub mod session_summary;
pub mod settings;
pub mod state;
pub mod stats;
pub mod step;
mod stored_block;
pub mod sweep;
pub mod task;
pub mod task_result;
pub mod team;
mod system_message;
pub mod title;
pub mod tool_result;
pub mod user;

pub use error::{Error, Result};
pub use fairness::Fairness;
pub use pool::{Config, Store};
pub use session::Archiving;
