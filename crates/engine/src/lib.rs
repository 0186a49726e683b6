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
//! | a tool's result | `context.max_tool_result_bytes`, 2 MiB | cut, and says so |
//! | what of it enters the history | `context.results.aside_bytes`, 16 KiB | its beginning; `read_result` reads the rest |
//! | tokens of a history | `context.budget_tokens`; what the model takes | its beginning is summarised (`compress`) |
//! | a tool's time | its own time-out, 120 s by default | TIMEOUT |
//! | the prompt, before and after the history | `context.prompt_chars`, 16,000; role, guidelines and aim always stand | left out from its end |
//! | notes and learnings in the prompt | `context.notes`, 20 each; a title 200 characters, a learning `context.prompt.learning_chars`, 500 | fetched by tool |
//! | profile, custom instructions, memories in the prompt | `context.prompt`: how many, and characters of each | fetched by tool |
//! | a note, a feed item | 64 KiB | VALIDATION_ERROR |
//! | a learning, a memory; an entry of a profile | 2,000 bytes; 500 | VALIDATION_ERROR |
//! | depth of tasks; open tasks of one agentable; tasks of one run | `tasks.max_depth`, 1; `max_open`, 5; `max_per_run`, 10 | RATE_LIMITED, PERMISSION_DENIED |
//! | instructions of a task | 32 KiB | VALIDATION_ERROR |
//! | check-ins of an agentable, and when | `agent_check_in.limits` | RATE_LIMITED, VALIDATION_ERROR |
//! | notes, learnings of an agentable; memories, feed items of a user | 1,000; 500; 1,000; 10,000 | RATE_LIMITED: delete one first |
//! | a list a tool reads | 50 beginnings of 200 characters, 20 learnings | further pages |
//! | summaries of sessions in the prompt | `session_archive.prompt_summaries`, 5; 1,000 characters each | found by tool |
//! | what a summary is made from, its length | `session_archive.summary_input_tokens`, 8,000; `summary_output_tokens`, 300 | the middle is left out; it is cut |
//! | what a search looks at of a session | 200,000 characters, 2,000 of a tool's arguments or result | not found by it |
//! | entries of a session's history | `limits.max_history_entries` (tasks) | it ends with a notice |
//! | a model that picks an agent of a team | `teams.timeout_ms`, 10 s; `teams.max_output_tokens` | the team's default agent answers |
//! | agents, and models they name, that are kept set up | 1,000 | all are set up anew |
//! | runs of a worker | `worker.slots`, 2,000; 75 of 100 for background runs, 10 for chores | hints wait in their lane |
//! - Who answers is read with the context: an agent that was changed answers differently from the next run on, on every
//!   worker. A team's router picks once per run, and the pick is committed before anything is answered.
//! - A drive that ends early (lost lock, hand-over) has written nothing it may not write, and loses nothing.
//! - While its worker lives, a drive that ends early has let go of the lock: nobody else could take it.
//!
//! # Deliberately absent
//! SQL, HTTP, the queue's mechanics, leases (the worker's), retries of a single model call (`llm`).
//!
//! # Add a step kind
//! Give `AgentRun` a `Next` for it, drive it in [`drive`], commit it through `commit`.

mod agents;
mod archive;
mod large_result;
mod commit;
mod compress;
pub mod config;
mod context;
mod conversation;
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
mod route;
mod rules;
mod serve;
pub mod setups;
mod side_model;
mod spending;
mod task;
mod title;
mod tool_call;
mod turn;

pub use agents::{MakeModel, ROUTING};
pub use config::Config;
pub use drive::DriveOutcome;
pub use engine::{Engine, Parts, Setup, SetupError};
pub use holder::Holder;
pub use live::LiveRuns;
pub use setups::Setups;
