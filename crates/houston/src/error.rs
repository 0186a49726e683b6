//! [`Error`].

use houston_cli::process::ProcessError;
use houston_domain::event::topic::InvalidPattern;
use houston_domain::guard::GuardError;
use houston_domain::id::{InvalidId, RunId};
use houston_domain::question::schema::Mismatch;
use houston_domain::run::RunStatus;

use crate::question::Question;

/// What may go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The settings are wrong, or a server cannot be started, reached or stopped.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The guards of the agent are wrong.
    #[error(transparent)]
    Guards(#[from] GuardError),
    /// A tool cannot be offered to a model.
    #[error("the tool `{name}` cannot be used: {reason}")]
    Tool {
        /// Its name.
        name: String,
        /// What is wrong, and what is allowed.
        reason: String,
    },
    /// A pattern of topics is wrong.
    #[error("`{pattern}`: {reason}")]
    Topic {
        /// The pattern.
        pattern: String,
        /// What is wrong, and what is allowed.
        reason: InvalidPattern,
    },
    /// A message cannot be posted.
    #[error("the message cannot be posted: {0}")]
    Message(String),
    /// The id of a conversation is malformed or of another agent.
    #[error(transparent)]
    Conversation(#[from] InvalidId),
    /// Postgres cannot be reached or refused a statement, or there is no such user, conversation or question.
    #[error(transparent)]
    Store(#[from] houston_store::Error),
    /// The run waits for an answer, and nothing in this program gives it. Answer it with
    /// [`Conversation::answer`](crate::Conversation::answer), or set
    /// [`AgentBuilder::on_question`](crate::AgentBuilder::on_question); then follow the run with
    /// [`Conversation::open_run`](crate::Conversation::open_run).
    #[error("the run waits for an answer to: {}", .0.text)]
    Question(Box<Question>),
    /// The answer does not fit the question.
    #[error("the answer does not fit the question: {} {}", .0.pointer, .0.reason)]
    Answer(Mismatch),
    /// The answer cannot be read as the type.
    #[error("the answer is no value of the type: {0}")]
    Result(String),
    /// The question is not open any more: it was answered otherwise, has expired, or its run has ended.
    #[error("the question is closed")]
    QuestionClosed,
    /// The run failed, or was cancelled.
    #[error("{run} ended as {}: {message}", status.as_str())]
    Run {
        /// The run.
        run: RunId,
        /// How it ended.
        status: RunStatus,
        /// A stable code.
        code: Option<String>,
        /// Why, for people.
        message: String,
    },
    /// The agent was shut down, or its worker has failed. A run that was open goes on when an agent of this name is started
    /// again.
    #[error("the agent was shut down; open runs go on when it is started again")]
    Stopped,
}
