//! Drives one run: claim, context, model, tools, commit, release.
//!
//! # Invariants
//! - [`houston_domain::agent::AgentRun`] makes the decisions. This crate carries them out and commits the results, each
//!   step behind the fence.
//! - No transaction and no connection is held across a model or tool call.
//! - A tool that acts outside is started only after its intent is committed and while the lease is trusted.
//! - Streamed text is a prefix of the committed text, or the stream takes it back.
//! - A run with a cancel request reads no more messages. Its tool calls are stopped as their effect class allows, and each
//!   gets a result in the history and in the thread.
//! - Input from models, tools and people is bounded:
//!
//! | what | limit (`jobs/orchestrator.toml`) | beyond it |
//! |---|---|---|
//! | runs of one user held at once | `fairness.max_running`, 10 | they wait; the end of one sends a hint for the next |
//! | messages read by one step | `fairness.read_messages`, 100; `read_bytes`, 256 KiB | the next step reads the rest |
//! | model calls of a run since it read a message, its time | `limits.max_iterations`, 20; `max_duration_s`, 600 | it ends with a notice |
//! | one answer of the model | `limits.max_output_tokens`; `context.max_answer_bytes`, 1 MiB | the attempt fails and is retried |
//! | one event of a provider's stream | 4 MiB, a line of NDJSON 1 MiB (`houston_llm`) | the same |
//! | tool calls of an iteration | `context.max_tool_calls`, 32 | answered with RATE_LIMITED, not executed |
//! | tool calls of a run | `max_tool_calls` of its kind, 10 for executors | not executed; it fails with TOOL_CALL_LIMIT |
//! | tokens of a request | `max_request_tokens` of its kind, 10,000 for executors and plans | not sent; REQUEST_TOO_LARGE |
//! | a tool's result | `context.max_tool_result_bytes`, 2 MiB | cut, with a note |
//! | the part of it in the history | `context.results.inline_bytes`, 16 KiB | its beginning; `read_result` reads the rest |
//! | tokens of a history | `context.budget_tokens`; the model's context window | its beginning is summarised (`run::driver::compression`) |
//! | a tool's time | its own time-out, 120 s by default | TIMEOUT |
//! | the prompt, before and after the history | `context.prompt_chars`, 16,000; role, guidelines and aim are always included | left out from its end |
//! | notes and learnings in the prompt | `context.notes`, 20 each; a title 200 characters, a learning `context.prompt.learning_chars`, 500 | fetched by tool |
//! | profile, custom instructions, memories in the prompt | `context.prompt`: how many, and characters of each | fetched by tool |
//! | a note, a feed item | 64 KiB | VALIDATION_ERROR |
//! | a learning, a memory; an entry of a profile | 2,000 bytes; 500 | VALIDATION_ERROR |
//! | depth of tasks; open tasks of one agentable; tasks of one run | `tasks.max_depth`, 1; `max_open`, 5; `max_per_run`, 10 | RATE_LIMITED, PERMISSION_DENIED |
//! | instructions of a task | 32 KiB | VALIDATION_ERROR |
//! | check-ins of an agentable, and when | `agent_check_in.limits` | RATE_LIMITED, VALIDATION_ERROR |
//! | notes, learnings of an agentable; memories, feed items of a user | `jobs/knowledge.toml`: 1,000; 500; 1,000; 10,000 | RATE_LIMITED: delete one first |
//! | a list a tool returns | 50 beginnings of `knowledge.excerpt_chars`, 200 characters; 20 learnings | further pages |
//! | summaries of sessions in the prompt | `session_archive.prompt_summaries`, 5; 1,000 characters each | found by tool |
//! | what a summary is made from, its length | `session_archive.summary_input_tokens`, 8,000; `summary_output_tokens`, 300 | the middle is left out; it is cut |
//! | searchable text of a session | 200,000 characters, 2,000 of a tool's arguments or result | not found |
//! | a search of sessions; a page of one | `session_archive.search_sessions`, 5; `read_entries`, 20 | the best matches; further pages |
//! | entries of a session's history | `limits.max_history_entries` (tasks) | it ends with a notice |
//! | a model that picks an agent of a team | `teams.timeout_ms`, 10 s; `teams.max_output_tokens` | the team's default agent answers |
//! | cached setups of agents, and of models they name | 1,000 | the cache is emptied |
//! | runs of a worker | `worker.slots`, 2,000; 75 % for background runs, 10 % for maintenance | hints wait in their lane |
//! - The answering agent is read with the context: a change of an agent takes effect with the next run, on every worker.
//!   A team's router picks once per run, and the pick is committed before the agent answers.
//! - A drive that ends early (lost lock, hand-over) loses nothing that was committed and writes nothing afterwards.
//! - A drive that ends early while its worker is alive releases the lock, because no other worker could take it.
//!
//! # Deliberately absent
//! SQL (`store`), HTTP (`api`), the queue (`queue`), leases (`worker`), retries of a single model call (`llm`).
//!
//! # Drive a run without a model
//! Implement [`driver::Driver`] and name it in the agent type (`driver = "…"`). The loop of the model is what runs of all
//! other kinds do; a driver may let it go on ([`driver::Then::Agent`]).
//!
//! # Change what runs start with, or observe them
//! Implement [`hook::RunHook`] or [`observer::Observer`], and add it to [`Setups::hooks`] or [`Parts::observers`].
//!
//! # Add a step kind
//! Add a variant to `AgentRun`'s `Next`, handle it in `run::driver`, and commit it through the `Journal`.

pub mod background;
pub mod config;
pub mod drive;
pub mod driver;
pub mod engine;
pub mod error;
pub mod holder;
pub mod hook;
pub mod live;
mod meter;
pub mod observer;
pub mod prompt;
mod rates;
mod run;
pub mod setup;

pub use config::Config;
pub use driver::{Driver, Drivers};
pub use engine::{Engine, Parts};
pub use holder::Holder;
pub use hook::RunHook;
pub use live::LiveRuns;
pub use observer::Observer;
pub use run::driver::DriveOutcome;
pub use setup::agents::{MakeModel, ROUTING};
pub use setup::kinds::Setups;
pub use setup::own_tools::OwnToolsParts;
pub use setup::{Setup, SetupError};
