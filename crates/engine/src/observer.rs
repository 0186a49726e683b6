//! [`Observer`]: is called when a run of this process calls a model or a tool, and when it ends.
//!
//! # Invariants
//! - Observers change nothing. They are called between the steps of a run, on its task: they must return quickly and must not
//!   block. One that panics is logged, and the run goes on.
//! - What they are given is what happened on this worker. A call that was started before a crash has no end here; a step whose
//!   commit is lost may be observed twice. Counts that must be exact come from the durable events.
//! - A process without observers does nothing for them, and makes no spans for them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use houston_domain::id::{AgentableId, RunId, TenantId, UserId};
use houston_domain::model::{ModelError, Usage};
use houston_domain::run::RunStatus;
use houston_domain::tool_call::{ToolCall, ToolResponse};
use houston_llm::Description;
use houston_store::record::Owner;
use tracing::Span;

/// Observes the runs of a process. A function `Fn(&Observation)` is one.
///
/// ```
/// use houston_engine::observer::{Observation, Observed};
///
/// fn count_tokens(seen: &Observation<'_>) {
///     if let Observed::ModelCallEnded { model, usage, .. } = &seen.what {
///         println!("{}: {} tokens of {model}", seen.run, usage.output_tokens);
///     }
/// }
///
/// fn takes_observer(_: impl houston_engine::Observer) {}
/// takes_observer(count_tokens);
/// ```
pub trait Observer: Send + Sync {
    /// Called when something has happened. Must return quickly.
    fn observe(&self, seen: &Observation<'_>);
}

impl<F: Fn(&Observation<'_>) + Send + Sync> Observer for F {
    fn observe(&self, seen: &Observation<'_>) {
        self(seen);
    }
}

/// Something that happened in a run.
#[derive(Debug, Clone)]
pub struct Observation<'a> {
    /// The tenant.
    pub tenant: TenantId,
    /// The user the agent works for.
    pub user: UserId,
    /// The agentable.
    pub agentable: AgentableId,
    /// The run.
    pub run: RunId,
    /// The span of the call, or of the run. Spans of calls are `engine.model.call` and `engine.tool.call`; their parent is
    /// `engine.run.drive`. With a subscriber that exports traces, the ids of trace and span follow from it.
    pub span: &'a Span,
    /// What happened.
    pub what: Observed<'a>,
}

/// What happened in a run.
#[non_exhaustive]
#[derive(Debug, Clone)]
pub enum Observed<'a> {
    /// A model is about to be called.
    ModelCallStarted {
        /// The model, the first one of a fallback chain.
        model: &'a Description,
    },
    /// A model has answered.
    ModelCallEnded {
        /// The model that answered.
        model: &'a Description,
        /// Tokens of the call, and its cost if there is a price.
        usage: &'a Usage,
    },
    /// A model has failed.
    ModelCallFailed {
        /// The model, the first one of a fallback chain.
        model: &'a Description,
        /// Why it failed.
        error: &'a ModelError,
    },
    /// A model call was abandoned, because the run was cancelled, handed over or out of time.
    ModelCallStopped {
        /// The model, the first one of a fallback chain.
        model: &'a Description,
    },
    /// A tool is about to be called. One that acts outside has its intent committed.
    ToolCallStarted {
        /// The call.
        call: &'a ToolCall,
    },
    /// A tool call has its response.
    ToolCallEnded {
        /// The call.
        call: &'a ToolCall,
        /// Its response.
        response: &'a ToolResponse,
    },
    /// The run has ended on this worker.
    RunEnded {
        /// How it ended.
        status: RunStatus,
        /// Tokens and cost of all its model calls.
        usage: &'a Usage,
    },
}

/// The observers of a process.
#[derive(Clone, Default)]
pub(crate) struct Observers(Arc<[Arc<dyn Observer>]>);

impl Observers {
    pub(crate) fn new(observers: Vec<Arc<dyn Observer>>) -> Self {
        Self(observers.into())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The span that `make` makes, if there are observers.
    pub(crate) fn span(&self, make: impl FnOnce() -> Span) -> Span {
        if self.is_empty() { Span::none() } else { make() }
    }

    /// Calls the observers with what happened in the run of `owner`.
    pub(crate) fn notify(&self, owner: &Owner, span: &Span, what: Observed<'_>) {
        if self.is_empty() {
            return;
        }
        let Owner { tenant, user, agentable, run, .. } = *owner;
        let seen = Observation { tenant, user, agentable, run, span, what };
        for observer in &*self.0 {
            if catch_unwind(AssertUnwindSafe(|| observer.observe(&seen))).is_err() {
                tracing::error!(%run, "an observer panicked");
            }
        }
    }
}
