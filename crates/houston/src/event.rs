//! [`Event`] and [`Answer`]: what happens in a run, and how it ends.

use chrono::{DateTime, Utc};
use houston_domain::id::RunId;
use houston_domain::model::Usage;
use houston_domain::run::RunStatus;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::Error;
use crate::question::Question;

/// What happens in a run, in order.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The next piece of the agent's message.
    Text(String),
    /// The pieces since the last message are void: the attempt broke off, and another one follows; or calls followed, so that they
    /// were no message.
    TextDiscarded,
    /// A complete message of the agent; its pieces came before.
    Message(String),
    /// The model's reasoning, or text that it wrote beside its tool calls.
    Thinking(String),
    /// A tool call.
    ToolCalled {
        /// The id of the call, unique within the run.
        call: String,
        /// The name of the tool.
        name: String,
        /// Its arguments.
        input: Value,
    },
    /// A tool call has its result.
    ToolReturned {
        /// The id of the call.
        call: String,
        /// What the model reads.
        text: String,
        /// Whether the call failed.
        is_error: bool,
    },
    /// The run asks. A program with [`on_question`](crate::AgentBuilder::on_question) has decided when this arrives.
    Question(Question),
    /// The run has let go of its worker until an answer, a message or a time.
    Waiting,
    /// The attempt failed, and another one is due.
    Retrying {
        /// Why, for people.
        message: String,
        /// When the next attempt is due.
        at: DateTime<Utc>,
    },
    /// The run has ended. This is the last event.
    Finished(Answer),
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Answer {
    /// The last message of the agent; empty when it wrote none.
    pub text: String,
    /// The run.
    pub run: RunId,
    /// How the run ended. A run that reached one of its limits has an answer too.
    pub status: RunStatus,
    /// Tokens and cost of all its model calls. The cost is in US dollars; `None` when no price is available.
    pub usage: Usage,
    /// Why it failed or was cancelled.
    pub failure: Option<Failure>,
    /// What `text` has as JSON, if a form of answers was asked for ([`AgentBuilder::output`](crate::AgentBuilder::output)).
    pub result: Option<Value>,
}

impl Answer {
    /// The answer as a value of the type of [`AgentBuilder::output`](crate::AgentBuilder::output).
    ///
    /// # Errors
    /// [`Error::Result`] when no form of answers was asked for, or the value is none of `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let none = || Error::Result("no form of answers was asked for".to_owned());
        T::deserialize(self.result.as_ref().ok_or_else(none)?)
            .map_err(|error| Error::Result(error.to_string()))
    }

    /// The answer, unless the run failed.
    pub(crate) fn or_failure(self) -> Result<Self, Error> {
        if let Some(Failure { code, message }) = self.failure {
            return Err(Error::Run { run: self.run, status: self.status, code, message });
        }
        Ok(self)
    }
}

/// Why a run failed or was cancelled.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// A stable code, as in `BUDGET_EXCEEDED`; for a cancelled run who requested it.
    pub code: Option<String>,
    /// Why, for people.
    pub message: String,
}
