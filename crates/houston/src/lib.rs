//! Durable agents inside a Rust program.
//!
//! [`Agent::builder`] starts the engine of Houston in the program itself: a worker, and a real Postgres and Redis as child
//! processes unless URLs name others. What the agent was asked is stored before it is answered, each step of a run is committed,
//! and a run whose process died goes on where it stopped when the agent is started again.
//!
//! ```no_run
//! use houston::{Agent, Context, EffectClass, tool};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Weather {
//!     /// A city, in English.
//!     city: String,
//! }
//!
//! # async fn example() -> Result<(), houston::Error> {
//! let weather = tool("weather", "The weather of a city now.", async |place: Weather, _: Context| {
//!     Ok(format!("sunny in {}", place.city))
//! })
//! .effect(EffectClass::Read);
//!
//! let agent = Agent::builder().instructions("You plan trips.").tool(weather).build().await?;
//! let ann = agent.conversation("ann").await?;
//! println!("{}", ann.prompt("What is the weather in Rome?").await?.text);
//!
//! // After a restart, the conversation goes on.
//! let mut run = agent.conversation("ann").await?.stream("And in Paris?").await?;
//! while let Some(event) = run.next().await {
//!     if let houston::Event::Text(piece) = event? {
//!         print!("{piece}");
//!     }
//! }
//! agent.shutdown().await
//! # }
//! ```
//!
//! | for | there is |
//! |---|---|
//! | an answer, or its events while it is made | [`Agent::prompt`], [`Agent::stream`], [`Run`], [`Event`], [`Answer`] |
//! | conversations that survive restarts | [`Agent::conversation`], [`Conversation`] |
//! | tools from functions, with a schema from their types | [`tool()`], [`Context`], [`ToolError`] |
//! | questions whether a call may be carried out | [`AgentBuilder::on_question`], [`Conversation::questions`], [`Decision`] |
//! | answers of a type | [`AgentBuilder::output`], [`Answer::parse`] |
//! | how the model writes, and how much | [`AgentBuilder::temperature`], [`AgentBuilder::effort`], [`AgentBuilder::max_tokens`], [`AgentBuilder::max_iterations`] |
//! | what an agent may do with its tools | [`AgentBuilder::guards`], [`FunctionTool::risk`] |
//! | another model, other tools or texts for a run | [`AgentBuilder::before_run`], [`RunHook`] |
//! | what happens in all conversations, chosen by topic | [`AgentBuilder::on`], [`Happened`] |
//! | traces, metrics, logs | [`AgentBuilder::on_event`], [`Observer`], [`Observation`] |
//!
//! `examples/` has a complete program for the first four.
//!
//! # Invariants
//! - There is one engine: a program has the guarantees, settings and tables of `houston`, and `houston` commands work on its
//!   database (`houston list`, `houston state <id>`).
//! - What a method returned is stored. A dropped [`Run`] is followed no longer, and goes on.
//! - The program's environment supplies keys of providers and `HOUSTON_…` settings, as for `houston dev`. Nothing is printed:
//!   what happens is logged with `tracing`.
//!
//! # Deliberately absent
//! The API over HTTP (start `houston serve` on the same database), several agents in one process (start several processes),
//! tools that need the sandbox (`run_code`, `calculate`), an engine without Postgres.
//!
//! # Add something to the builder
//! If it is a setting, it belongs to `jobs/` first. Otherwise: a field and a method of [`AgentBuilder`], what it needs of the
//! process in `houston_cli::process::Plan`, and a test in `tests/it`.

mod agent;
mod conversation;
mod error;
mod event;
mod happened;
mod question;
mod reader;
mod run;
mod tool;

pub use agent::{Agent, AgentBuilder, AgentGuards, AgentModel};
pub use conversation::Conversation;
pub use error::Error;
pub use event::{Answer, Event, Failure};
pub use happened::Happened;
pub use question::{AskedCall, Decision, Question};
pub use run::Run;
pub use tool::{AgentTool, Context, FunctionTool, ToolError, tool};

pub use houston_cli::hook::{Observation, Observed, Observer, PromptSection, RunHook, RunInfo, RunSetup};
pub use houston_cli::process::ProcessError;
pub use houston_cli::tool::{EffectClass, ToolErrorCode};
pub use houston_domain::answering::Effort;
pub use houston_domain::autonomy::Autonomy;
pub use houston_domain::guard::{GuardSettings, Risk};
pub use houston_domain::id::{QuestionId, RunId, UserId};
pub use houston_domain::model::Usage;
pub use houston_domain::model_policy::{CachePolicy, Latency};
pub use houston_domain::run::RunStatus;

/// What an implementation of a tool needs, where a function does not do: a check after a crash, a graceful stop.
pub mod tools {
    pub use houston_cli::tool::{
        CallContext, CheckOutcome, EffectClass, InvalidInput, Plan, SharedTool, Tool, ToolDefinition,
        ToolErrorCode, ToolResponse,
    };
    pub use houston_domain::guard::ToolFacts;
    pub use houston_domain::tool_call::ToolCall;
}

/// What an implementation of a model needs.
pub mod model {
    pub use houston_domain::history::{Block, Entry};
    pub use houston_domain::model::{ModelAnswer, ModelError, ModelErrorCode, StopReason, Usage};
    pub use houston_llm::{Description, Event, EventStream, Model, Request, Simulated};
}

/// The crate whose derive makes the schemas of inputs.
pub use schemars;
