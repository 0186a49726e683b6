//! The engine's view of an agentable: the prompt of its next model call and its tools. This crate does not depend on
//! the engine, so the process that wires both passes a function.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use houston_store::agentable::Agentable;
use serde_json::Value;

/// The part of the engine's view to compute.
#[derive(Debug, Clone, PartialEq)]
pub enum ExplainTopic {
    /// The prompt that a model would be sent.
    Prompt,
    /// All tools, and for each whether it may be called or why not.
    Tools,
    /// What the guards would say of a call.
    Guard {
        /// The tool.
        tool: String,
        /// Its arguments.
        input: Value,
    },
    /// With what it would run now: a [`houston_domain::trace::Snapshot`].
    Snapshot,
}

/// Why the engine's view could not be computed.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// A query failed.
    #[error(transparent)]
    Store(#[from] houston_store::Error),
    /// The agent type cannot be set up in this process, e.g. because a provider has no key.
    #[error("the agent type cannot be set up: {0}")]
    SetUp(#[source] Box<dyn std::error::Error + Send + Sync>),
}

type ExplainFuture = BoxFuture<'static, Result<Value, ExplainError>>;

/// The function that computes the engine's view of an agentable.
///
/// ```ignore
/// Explain::new(|topic, agentable| Box::pin(async move {
///     match topic {
///         ExplainTopic::Prompt => Ok(json!(engine.preview(&agentable).await?)),
///         ExplainTopic::Tools => Ok(json!({"data": engine.tools(&agentable).await?})),
///         ExplainTopic::Guard { tool, input } => Ok(json!(engine.guard(&agentable, tool, input).await?)),
///         ExplainTopic::Snapshot => Ok(json!(engine.snapshot(&agentable).await?)),
///     }
/// }))
/// ```
#[derive(Clone)]
pub struct Explain(Arc<dyn Fn(ExplainTopic, Agentable) -> ExplainFuture + Send + Sync>);

impl Explain {
    /// Wraps `explain`. Its JSON is the body of the response.
    #[must_use]
    pub fn new(explain: impl Fn(ExplainTopic, Agentable) -> ExplainFuture + Send + Sync + 'static) -> Self {
        Self(Arc::new(explain))
    }

    pub(crate) fn get(&self, topic: ExplainTopic, agentable: Agentable) -> ExplainFuture {
        (self.0)(topic, agentable)
    }
}

impl fmt::Debug for Explain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Explain")
    }
}
