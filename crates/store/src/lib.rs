//! Storage: every durable fact of Houston is a row in Postgres, and this crate is the only one that reads or writes
//! them.
//!
//! # How a run uses it
//! 1. [`Store::post_message`] stores a message and opens a run.
//! 2. [`Store::claim_run`] takes the lock and returns a [`claim::Fence`]; [`Store::run_context`] reads what the run
//!    starts from.
//! 3. [`Store::commit`] writes each [`Step`](houston_domain::step::Step) behind the fence. A tool that writes Houston's own tables does so in
//!    a [`record::FencedTx`] from [`Store::begin_fenced`], which is committed together with the step.
//! 4. The last step ([`RunTransition::Complete`](houston_domain::step::RunTransition::Complete), …) ends the run and releases the lock.
//!
//! [`Store::due`] finds runs whose hint was lost, [`Store::reap`] and [`Store::orphans`] those of dead workers.
//!
//! # Errors
//! Every query can fail with [`Error::Database`]. [`Error::is_transient`] says whether the same call may succeed a
//! moment later; the writes of a run may be repeated, because each carries a write id.
//!
//! # Invariants
//! - Every write of a run goes through [`Store::commit`] (or a [`record::FencedTx`]): it first locks the
//!   agentable's row in `run_locks` by epoch and token, and changes nothing when the caller's claim has been
//!   superseded (a zombie).
//! - Posts, claims and steps are written in batches: a statement writes what was submitted while the one before it ran,
//!   waits for no lock, and leaves out what does not fit. What it leaves out is written alone, and so is every item of a
//!   batch that fails: no item suffers from another. The contexts of runs and the events of streams are read in batches
//!   as well. Each kind of batch has connections of its own, which are not in the pool.
//! - Positions (`seq`, `position`) are handed out under that row's lock, so they have no gaps and no reader can
//!   overtake a slow writer.
//! - A transaction that gives an agentable a reason to run also sets `wake`; the sweep reads nothing else. A lost
//!   hint costs seconds.
//! - Leases are compared with the database's clock only.
//! - At most [`Fairness::max_running`] runs of one user are held at once, over all workers. Runs over that limit
//!   stay awake: the step that ends one of the user's runs returns them ([`step::CommittedStep::waiting`]), and the sweep
//!   finds them too.
//! - Waiting work is found by the index `run_locks_awake (user_id, due_at) where wake`, held runs by `runs_held
//!   (held_for, slot)`; neither query reads anything else, however many rows there are.
//! - A session is closed under its agentable's row lock, while no run is held, by moving `session_position`;
//!   entries belong to a session by their position. The sweep for quiet sessions reads the index
//!   `session_states_due`, which holds only candidates.
//! - No transaction stays open across a model or tool call.
//!
//! # Deliberately absent
//! A trait in front of Postgres (there is one implementation), an ORM, queries built from strings, caches.
//!
//! # Add a table
//! 1. A migration `migrations/<time>_<what>.sql`: tables and indexes (one-way; expand, then contract).
//! 2. A file here named after the noun, with an `impl Store`. Each `query!` text begins with the comment
//!    `-- store::<file>::<function>`, which identifies it in `pg_stat_statements` and in the plan tests.
//! 3. A `tenant_id` column, in the `where` of every query that the API calls.
//! 4. `cargo xtask prepare` refreshes `.sqlx`.
//!
//! # Change a function
//! Edit its file `migrations/functions/<name>.sql`, which begins with a comment that says what the function does. The
//! file is compiled into the binary, and [`Store::migrate`] applies it if it differs from what the database has, after
//! the migrations; a function whose file was deleted is dropped. During an upgrade, processes of the previous release
//! call the new function: keep its arguments and its result compatible.

pub mod agent;
pub mod agentable;
pub mod api_key;
mod batcher;
mod bound;
pub mod cancel;
pub mod check_in;
pub mod claim;
pub mod compression;
pub mod conversation;
pub mod cost;
pub mod creation;
pub mod custom_instruction;
pub mod directory;
pub mod erasure;
pub mod error;
pub mod event;
pub mod excerpt;
pub mod fairness;
pub mod feed;
pub mod feed_item;
mod functions;
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
pub mod run_context;
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
mod system_message;
pub mod task;
mod task_report;
pub mod task_result;
pub mod team;
pub mod title;
pub mod tool_result;
pub mod user;

pub use error::{Error, Result};
pub use fairness::Fairness;
pub use pool::{Config, Store};
pub use session::Archiving;
