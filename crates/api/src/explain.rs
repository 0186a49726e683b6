//! What the engine would do with an agentable: this crate does not know the engine, so whoever wires both together says
//! who is to be asked.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use houston_store::agentable::Agentable;
use serde_json::Value;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// What a model would be sent.
    Prompt,
    /// Which tools it may call, and why not the others.
    Tools,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Unexplained {
    /// Postgres did not say what is known.
    #[error(transparent)]
    Store(#[from] houston_store::Error),
    /// This process cannot set up the agent type.
    #[error("the agent type cannot be set up: {0}")]
    SetUp(#[source] Box<dyn std::error::Error + Send + Sync>),
}

type Answer = BoxFuture<'static, Result<Value, Unexplained>>;

/// Who is asked.
#[derive(Clone)]
pub struct Explain(Arc<dyn Fn(Question, Agentable) -> Answer + Send + Sync>);

impl Explain {
    /// Asks `answer`, whose JSON clients are sent as it is.
    #[must_use]
    pub fn by(answer: impl Fn(Question, Agentable) -> Answer + Send + Sync + 'static) -> Self {
        Self(Arc::new(answer))
    }

    pub(crate) fn ask(&self, question: Question, agentable: Agentable) -> Answer {
        (self.0)(question, agentable)
    }
}

impl fmt::Debug for Explain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Explain")
    }
}
