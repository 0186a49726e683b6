//! [`Run`]: follows one run, event by event.

use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use futures_util::future::BoxFuture;
use futures_util::stream::unfold;
use houston_domain::event::Live;
use houston_domain::id::{AgentableId, RunId};
use houston_domain::question::QuestionState;
use houston_queue::{Received, Subscription};

use crate::error::Error;
use crate::event::{Answer, Event};
use crate::question::{Decision, Question};
use crate::reader::Reader;
use crate::running::Running;

/// Decides questions.
pub(crate) type Decide = dyn Fn(Question) -> BoxFuture<'static, Decision> + Send + Sync;

/// How many durable events are read at once.
const PAGE: i64 = 200;
/// After this silence Postgres is read: what says that something was committed may be lost.
const SILENCE: Duration = Duration::from_secs(2);

/// A run, as the program follows it. It goes on whether or not it is followed; dropping this does not cancel it.
pub struct Run {
    running: Arc<Running>,
    conversation: AgentableId,
    id: RunId,
    subscription: Subscription,
    reader: Reader,
    /// Whether there may be durable events that were not read.
    is_behind: bool,
}

impl Run {
    /// Follows the run `id` of a conversation. Its first event is at the position `first`. The subscription is older than what
    /// began the run.
    pub(crate) fn new(
        running: Arc<Running>,
        conversation: AgentableId,
        (id, first): (RunId, i64),
        subscription: Subscription,
    ) -> Self {
        Self { running, conversation, id, subscription, reader: Reader::new(id, first - 1), is_behind: true }
    }

    /// The id of the run.
    #[must_use]
    pub fn id(&self) -> RunId {
        self.id
    }

    /// The next event; `None` after [`Event::Finished`]. It may be dropped while it waits, and called again.
    pub async fn next(&mut self) -> Option<Result<Event, Error>> {
        match self.advance().await {
            Ok(event) => event.map(Ok),
            Err(error) => {
                self.reader.is_over = true;
                Some(Err(error))
            }
        }
    }

    /// The events as a stream.
    pub fn events(self) -> impl Stream<Item = Result<Event, Error>> + Send {
        unfold(self, async |mut run| run.next().await.map(|event| (event, run)))
    }

    /// Waits for the end of the run.
    ///
    /// # Errors
    /// [`Error::Run`] when it failed or was cancelled; [`Error::Question`] when it waits for an answer that nothing in this
    /// program gives; [`Error::Stopped`] when the agent was shut down; [`Error::Store`] when Postgres cannot be read.
    pub async fn answer(mut self) -> Result<Answer, Error> {
        while let Some(event) = self.advance().await? {
            match event {
                Event::Finished(answer) => return answer.or_failure(),
                Event::Waiting => {
                    if let Some(question) = self.reader.unanswered.first() {
                        return Err(Error::Question(Box::new(question.clone())));
                    }
                }
                _ => {}
            }
        }
        Err(Error::Stopped)
    }

    /// Cancels the run: its model call is stopped, and its tools as their effect class allows. What was done stays done. The
    /// events of its end follow.
    ///
    /// # Errors
    /// [`Error::Store`] when Postgres cannot be reached.
    pub async fn cancel(&self) -> Result<(), Error> {
        self.running.cancel(self.conversation, self.id).await
    }

    async fn advance(&mut self) -> Result<Option<Event>, Error> {
        loop {
            if let Some(event) = self.reader.pop() {
                if let Event::Question(question) = &event {
                    self.decide(question).await?;
                }
                return Ok(Some(event));
            }
            if self.reader.is_over {
                return Ok(None);
            }
            if self.is_behind {
                self.read().await?;
                continue;
            }
            self.listen().await?;
        }
    }

    /// Reads the next durable events.
    async fn read(&mut self) -> Result<(), Error> {
        let store = self.running.store(self.conversation);
        let events = store.events_after(self.conversation, self.reader.seq, PAGE).await?;
        self.is_behind = i64::try_from(events.len()).is_ok_and(|count| count == PAGE);
        events.into_iter().for_each(|event| self.reader.durable(event));
        Ok(())
    }

    /// Waits for something to happen.
    async fn listen(&mut self) -> Result<(), Error> {
        let received = tokio::select! {
            biased;
            received = tokio::time::timeout(SILENCE, self.subscription.recv()) => received,
            () = self.running.process.ended().cancelled() => return Err(Error::Stopped),
        };
        let Ok(received) = received else {
            self.is_behind = true;
            return Ok(());
        };
        match received {
            Received::Lagged => {
                self.subscription = self.running.subscribe(self.conversation);
                self.is_behind = true;
            }
            Received::Item(item) => match &item.live {
                Live::Delta(delta) => self.reader.delta(delta),
                Live::Committed(events) => {
                    for event in events {
                        if self.reader.is_next(event) {
                            self.reader.durable(event.clone());
                        } else if event.seq > self.reader.seq {
                            self.is_behind = true;
                        }
                    }
                }
                _ => self.is_behind = true,
            },
        }
        Ok(())
    }

    /// Answers a question that is open, if the program decides questions.
    async fn decide(&mut self, question: &Question) -> Result<(), Error> {
        let Some(decide) = self.running.decide.clone() else { return Ok(()) };
        let stored = self.running.store(self.conversation).question(question.id).await?;
        if stored.question.state != QuestionState::Open {
            return Ok(());
        }
        let decision = decide(question.clone()).await;
        if decision == Decision::Later {
            return Ok(());
        }
        match self.running.answer(question, decision).await {
            // It was answered meanwhile, for instance over the API.
            Ok(()) | Err(Error::QuestionClosed) => {}
            Err(error) => return Err(error),
        }
        self.reader.unanswered.retain(|open| open.id != question.id);
        Ok(())
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("id", &self.id).finish_non_exhaustive()
    }
}
