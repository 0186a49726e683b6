//! Spans of requests, runs, model calls and tool calls, as OpenTelemetry names them.
//!
//! ```text
//! POST /v1/{kinds}/{id}/messages      server       the request; also `…/plans` and `/hooks/{id}`
//! └─ send interactive                 producer     the message that opened the run
//!    └─ process interactive           consumer     an attempt of the run, on any worker
//!       └─ invoke_agent goal          internal
//!          └─ iteration 1             internal
//!             ├─ chat claude-…        client       a model call
//!             └─ execute_tool …       internal     a tool call
//!                └─ process background  consumer   the run of a task or a plan that it begins
//!                   └─ invoke_agent plan internal
//!                      ├─ execute_tool …  internal  a step of the plan that calls a tool
//!                      └─ plan_step       internal  a step whose task's run is a part of it
//! ```
//!
//! Names and attributes of generative AI are those of version 1.41 of OpenTelemetry's semantic conventions ([`genai`]).
//!
//! # Invariants
//! - Without a tracer there are no spans: [`Spans`] and [`Span`] are `None`, and nothing is computed, copied or allocated for them.
//! - Contents (messages, arguments, results) are in no span unless the operator asks for them; then they are capped, and what
//!   looks like a secret is left out.
//! - A span ends when it is dropped, so one of a run that is dropped ends, too.
//! - What a run is a part of is stored with it as a `traceparent` (W3C): its own if there is a tracer, else the caller's.
//!   A task or a plan that a run begins has that of the tool call or the plan's step, or of the run without a tracer; the run that
//!   reads a task's result has that of the task's run; what a trigger starts because of an event has that of the event's run.
//!
//! # Deliberately absent
//! Exporters and the environment (`cli`), events of spans, baggage and `tracestate`.
//!
//! # Add a span
//! A function of [`Span`] in the file of its subject, which makes the name in a closure; a call where it happens; a line above.

mod content;
mod context;
pub mod genai;
mod http;
pub mod otlp;
mod parent;
pub mod queue;
mod record;
mod span;

pub use content::Contents;
pub use context::Sampler;
pub use parent::{InvalidTraceParent, TraceParent};
pub use record::Limits;
pub use span::{Span, Spans, Tracer};
