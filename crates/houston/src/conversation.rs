//! [`Conversation`]: a user's lasting conversation with an agent.

use std::sync::Arc;

use houston_domain::id::{AgentableId, UserId};

use crate::error::Error;
use crate::event::Answer;
use crate::question::{Decision, Question};
use crate::run::{Run, Running};

/// How many open questions are listed.
const QUESTIONS: i64 = 100;

/// A conversation with an agent. It is stored: after a restart, [`Agent::conversation`](crate::Agent::conversation) returns it
/// again, with all that was said.
#[derive(Clone)]
pub struct Conversation {
    running: Arc<Running>,
    user: UserId,
    id: AgentableId,
}

impl Conversation {
    pub(crate) fn new(running: Arc<Running>, user: UserId, id: AgentableId) -> Self {
        Self { running, user, id }
    }

    /// Its id, as the API and the command line name it: `assistant_<32 hex digits>`.
    pub fn id(&self) -> String {
        self.id.public_id(&self.running.process.agent.kind)
    }

    /// Posts a message, and waits for the answer.
    ///
    /// # Errors
    /// As [`Conversation::stream`] and [`Run::answer`].
    pub async fn prompt(&self, message: impl AsRef<str>) -> Result<Answer, Error> {
        self.stream(message).await?.answer().await
    }

    /// Posts a message, and returns the run that answers it. Once this returns, the message is stored and will be answered, also
    /// by another process if this one dies. If a run is open, it reads the message at its next step.
    ///
    /// # Errors
    /// [`Error::Message`] when the message is empty or too long; [`Error::Store`] when it cannot be stored;
    /// [`Error::Stopped`] when the agent was shut down.
    pub async fn stream(&self, message: impl AsRef<str>) -> Result<Run, Error> {
        self.running.post(self.id, message.as_ref()).await
    }

    /// The open run, from its first event on: after a restart, to follow it to its end.
    ///
    /// # Errors
    /// [`Error::Store`] when Postgres cannot be read.
    pub async fn open_run(&self) -> Result<Option<Run>, Error> {
        let subscription = self.running.subscribe(self.id);
        let kind = &self.running.process.agent.kind;
        let (head, _) = self.running.store(self.id).open_stream(kind, self.id, None, 1).await?;
        let run = head.run.filter(|_| head.run_open);
        Ok(run.map(|run| Run::new(Arc::clone(&self.running), self.id, run, subscription)))
    }

    /// The open questions of its run, oldest first.
    ///
    /// # Errors
    /// [`Error::Store`] when Postgres cannot be read.
    pub async fn questions(&self) -> Result<Vec<Question>, Error> {
        let store = self.running.store(self.id);
        let open = store.open_questions(Some(self.user), None, None, QUESTIONS).await?;
        let own = open.into_iter().rev().filter(|asked| asked.agentable == self.id);
        Ok(own.map(|asked| Question::new(asked.run, asked.question.asked)).collect())
    }

    /// Answers a question; its run goes on.
    ///
    /// # Errors
    /// [`Error::Answer`] when the decision does not fit the question; [`Error::QuestionClosed`] when it was answered
    /// otherwise or has expired.
    pub async fn answer(&self, question: &Question, decision: Decision) -> Result<(), Error> {
        self.running.answer(question, decision).await
    }
}

impl std::fmt::Debug for Conversation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conversation").field("id", &self.id()).finish_non_exhaustive()
    }
}
