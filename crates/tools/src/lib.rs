//! The tools that agents may call, and the registry that offers them.
//!
//! ```text
//! Registry::offer(names) → Offer::definitions() → sent to the model: all, or a few and three that find the others
//! the model's ToolCall   → Offer::plan(call)    → Plan::{Answer, Message, Record, Execute, …} → carried out by the engine
//! Plan::Record(record)   → Record::apply(tx)    → what the model reads, committed with the rows
//! Plan::Ask(ask)         → asked by the engine  → what another model answered, within the budget
//! ```
//!
//! # Invariants
//! - A built-in tool is the type of its arguments: name, description, effect class, time-out, capability and function are
//!   stated in one place, and the schema follows from the type. Its name is written nowhere else in code, which uses the
//!   constant.
//! - [`tool::Tool::plan`] is pure. Its plan says what a call does: write Houston's own tables (committed with
//!   the result in one fenced transaction) or act outside (executed after its intent is committed).
//! - A [`Record`] decides and words; the store offers it typed rows ([`RecordTx`](houston_store::record::RecordTx)) inside
//!   the transaction of the step, and nothing else.
//! - Every call gets a response; nothing a model sends makes a tool panic.
//! - A tool without a declared effect class is `effect`: executed at most once.
//! - Requests go through the clients of [`outside::Outside`]; HTML, PDF and code through its sandbox. What strangers wrote
//!   is returned between marks that it cannot end.
//!
//! # Deliberately absent
//! SQL (a [`Record`] calls methods of the store), permissions, the order of execution (decided by the engine).
//!
//! # Add a tool
//! 1. A struct with its arguments in the file of `builtin/` that it belongs to, and its line of `built_in!` there. (A new
//!    file has a `mod` and a line of `FILES` in `builtin/mod.rs`.) The documentation of the struct and of a field is what the
//!    model reads of it. A call that reads or writes Houston's own tables implements `Access` (`typed.rs`). If the arguments
//!    are all that it needs, that is the struct itself: `DeleteNote` in `builtin/knowledge.rs` is a short example. Otherwise
//!    the struct implements `BuiltIn` (`typed.rs`) and returns a plan: one that only computes returns [`Plan::Answer`], as
//!    `GetCurrentTime` in `builtin/compute.rs`; one that acts outside is in `builtin/web.rs`. What may follow the effect class
//!    in the line (`capability`, `needs`, `seconds`, `facts`, …) is in `fact!` of `builtin/mod.rs`.
//! 2. What guards rely on follows from the effect class; its category is stated in `[tools.<name>]` of
//!    `jobs/guards.toml`, if operators may want to change it, or else by `facts` with a function that changes
//!    `ToolFacts::of_effect`: a test of `domain` asks for one.
//! 3. A test: of what it computes in its file, of what it does to rows in `tests/it`; a call that it refuses is a line of
//!    `bad_arguments_and_unknown_tools_become_error_answers`.
//! 4. `UPDATE_SNAPSHOTS=1 cargo xtask test -p tools definitions` writes what models are sent of it to
//!    `tests/it/definitions.json`: review that.
//!
//! Agents have it whose types name it under `tools` (`jobs/agents/*.toml`), or a pack that lists it (`jobs/packs.toml`). From a
//! binary of your own, implement [`Tool`] and call `houston_cli::App::with_tool` (`crates/cli/examples/custom_tool.rs`), or make
//! a function a tool (`houston::tool`).
//!
//! A tool that takes long reports how far it is with [`CallContext::progress`]: `context.progress.report(3.0, Some(10.0),
//! "page 3")`, as often as it likes; streams show at most four reports a second of a call, and nothing is stored. One that
//! needs a person in its middle, or that starts something and asks for it later, returns [`Plan::Begin`], and goes on in
//! [`Tool::go_on`]: the run waits meanwhile, and holds nothing.

pub mod ask;
pub mod builtin;
pub mod client;
pub mod code;
pub mod endpoint;
pub mod input;
mod many;
pub mod offer;
pub mod outside;
pub mod progress;
pub mod record;
pub mod registry;
pub mod schema;
pub mod servers;
pub mod shared_state;
pub mod skills;
pub mod tool;
mod typed;
pub mod untrusted;

pub use ask::Ask;
pub use code::{Code, CodeAnswer, CodeCall, CodeCalls, CodeHost};
pub use input::InvalidInput;
pub use many::FINDING_TOOLS;
pub use offer::Offer;
pub use outside::{Outside, PdfReader};
pub use progress::{Progress, Report, Reports};
pub use record::{NewTaskInfo, Record, RecordFuture};
pub use registry::Registry;
pub use skills::Skills;
pub use tool::{
    Acted, CallContext, CallQuestion, CheckOutcome, Pause, Paused, Plan, SharedTool, Situation, TaskKind,
    Tool, Until,
};
pub use typed::Needs;

#[cfg(test)]
mod tests;
