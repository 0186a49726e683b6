//! [`Agent`]: a running agent with its worker and servers.

use std::sync::Arc;

use houston_domain::id::{AgentableId, parse_prefixed};

use crate::builder::AgentBuilder;
use crate::conversation::Conversation;
use crate::error::Error;
use crate::event::Answer;
use crate::run::Run;
use crate::running::Running;

/// The user of [`Agent::prompt`].
const PROGRAM: &str = "program";

/// A running agent. Clones share it.
///
/// It drives runs in the background until [`Agent::shutdown`]. A program that ends without it, or dies, loses nothing: its open
/// runs go on when an agent of the same name is started with the same database.
#[derive(Clone)]
pub struct Agent {
    running: Arc<Running>,
}

impl Agent {
    /// Describes an agent.
    pub fn builder() -> AgentBuilder {
        AgentBuilder::default()
    }

    pub(crate) fn new(running: Running) -> Self {
        Self { running: Arc::new(running) }
    }

    /// Asks in a new conversation, and waits for the answer. All prompts of a program belong to one user, and of one user
    /// `fairness.max_running` runs (10) are driven at once; the others wait.
    ///
    /// # Errors
    /// As [`Agent::stream`] and [`Run::answer`].
    pub async fn prompt(&self, message: impl AsRef<str>) -> Result<Answer, Error> {
        self.stream(message).await?.answer().await
    }

    /// Asks in a new conversation, and returns the run that answers.
    ///
    /// # Errors
    /// As [`Conversation::stream`].
    pub async fn stream(&self, message: impl AsRef<str>) -> Result<Run, Error> {
        self.new_conversation(PROGRAM).await?.stream(message).await
    }

    /// The newest conversation with a user, whom the program calls `user`: its own id of a person, a room, a ticket. User and
    /// conversation are created if they do not exist.
    ///
    /// # Errors
    /// [`Error::Store`] when Postgres cannot be reached.
    pub async fn conversation(&self, user: &str) -> Result<Conversation, Error> {
        let (id, newest) = self.running.user(user).await?;
        let conversation = match newest {
            Some(newest) => newest,
            None => self.running.create(id).await?,
        };
        Ok(Conversation::new(Arc::clone(&self.running), id, conversation))
    }

    /// A new conversation with a user, who is created if they do not exist.
    ///
    /// # Errors
    /// [`Error::Store`] when Postgres cannot be reached.
    pub async fn new_conversation(&self, user: &str) -> Result<Conversation, Error> {
        let (user, _) = self.running.user(user).await?;
        let conversation = self.running.create(user).await?;
        Ok(Conversation::new(Arc::clone(&self.running), user, conversation))
    }

    /// The conversation with this id, as [`Conversation::id`] returns it.
    ///
    /// # Errors
    /// [`Error::Conversation`] when the id is malformed or of another agent; [`Error::Store`] when there is no such conversation,
    /// or Postgres cannot be read.
    pub async fn open_conversation(&self, id: &str) -> Result<Conversation, Error> {
        let kind = &self.running.process.agent().kind;
        let conversation = AgentableId(parse_prefixed(kind, id)?);
        let found = self.running.store(conversation).agentable(kind, conversation).await?;
        Ok(Conversation::new(Arc::clone(&self.running), found.user, conversation))
    }

    /// Stops gracefully: open runs finish their step or are handed over, and tools that must not be repeated finish, within the
    /// drain time (`worker.drain_s`, 20 s). Then embedded servers are stopped. A second call returns at once.
    ///
    /// # Errors
    /// [`Error::Process`] when an embedded server does not stop.
    pub async fn shutdown(&self) -> Result<(), Error> {
        Ok(self.running.process.stop().await?)
    }
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("process", &self.running.process).finish_non_exhaustive()
    }
}
