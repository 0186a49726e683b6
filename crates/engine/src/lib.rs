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
//! - Nothing a model, a tool or a person sends is unbounded:
//!
//! | what | bound (`jobs/orchestrator.toml`) | beyond it |
//! |---|---|---|
//! | runs of one user held at once | `fairness.max_running`, 10 | they wait; the end of one rings the next |
//! | messages of one reading | `fairness.read_messages`, 100; `read_bytes`, 256 KiB | the rest is read at the next step |
//! | model calls of a run, its time | `limits.max_iterations`, 20; `max_duration_s`, 600 | it ends with a notice |
//! | one answer of the model | `limits.max_output_tokens`; `context.max_answer_bytes`, 1 MiB | the attempt fails, to be retried |
//! | one event of a provider's stream | 4 MiB, a line of NDJSON 1 MiB (`houston_llm`) | the same |
//! | tool calls of a turn | `context.max_tool_calls`, 32 | answered with RATE_LIMITED, not carried out |
//! | a tool's result | `context.max_tool_result_bytes`, 256 KiB | cut, and says so |
//! | a tool's time | its own time-out, 120 s by default | TIMEOUT |
//! | notes and learnings in the prompt | `context.notes`, 20 each; a title 200 characters, a learning `context.prompt.learning_chars`, 500 | fetched by tool |
//! | profile, custom instructions, memories in the prompt | `context.prompt`: how many, and characters of each | fetched by tool |
//! | a note, a feed item | 64 KiB | VALIDATION_ERROR |
//! | a learning, a memory; an entry of a profile | 2,000 bytes; 500 | VALIDATION_ERROR |
//! | depth of tasks; open tasks of one agentable; tasks of one run | `tasks.max_depth`, 1; `max_open`, 5; `max_per_run`, 10 | RATE_LIMITED, PERMISSION_DENIED |
//! | instructions of a task | 32 KiB | VALIDATION_ERROR |
//! | check-ins of an agentable, and when | `agent_check_in.limits` | RATE_LIMITED, VALIDATION_ERROR |
//! | notes, learnings of an agentable; memories, feed items of a user | 1,000; 500; 1,000; 10,000 | RATE_LIMITED: delete one first |
//! | a list a tool reads | 50 beginnings of 200 characters, 20 learnings | further pages |
//! | entries of a session's history | `limits.max_history_entries` (tasks) | it ends with a notice |
//! | runs of a worker | `worker.slots`, 2,000; 75 of 100 for background runs, 10 for chores | hints wait in their lane |
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
mod spending;
mod task;
mod tool_call;
mod turn;

pub use config::Config;
pub use drive::Driven;
pub use engine::{Engine, Parts, Setup, SetupError};
pub use holder::Holder;
pub use live::LiveRuns;
