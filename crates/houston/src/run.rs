//! [`Run`] follows one run, event by event; [`Running`] is the process of an agent, which runs are asked of.

use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use futures_util::future::BoxFuture;
use futures_util::stream::unfold;
use houston_cli::process::{Process, new_agentable, new_user};
use houston_domain::event::{Live, LiveItem};
use houston_domain::id::{AgentableId, RunId, Shard, UserId, shard};
use houston_domain::message::MAX_MESSAGE_BYTES;
use houston_domain::question::QuestionState;
use houston_queue::{Hint, Lane, Received, Subscription};
use houston_store::TenantStore;
use houston_store::answer::Answered;
use houston_store::idempotency::Created;
use houston_store::message::{NewPost, Posted};
use serde_json::{Map, Value};

use crate::error::Error;
use crate::event::{Answer, Event};
use crate::question::{Decision, Question};
use crate::reader::Reader;

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
            } else {
                self.listen().await?;
            }
        }
    }

    /// Reads the next durable events.
    async fn read(&mut self) -> Result<(), Error> {
        let store = self.running.store(self.conversation);
        let events = store.events_after(self.conversation, self.reader.seq, PAGE).await?;
        self.is_behind = i64::try_from(events.len()).is_ok_and(|count| count == PAGE);
        for event in events {
            self.reader.durable(event);
        }
        Ok(())
    }

    /// Waits for something to happen.
    async fn listen(&mut self) -> Result<(), Error> {
        let received = tokio::select! {
            biased;
            received = tokio::time::timeout(SILENCE, self.subscription.recv()) => received,
            () = self.running.process.ended.cancelled() => return Err(Error::Stopped),
        };
        match received {
            Err(_) => self.is_behind = true,
            Ok(Received::Lagged) => {
                self.subscription = self.running.subscribe(self.conversation);
                self.is_behind = true;
            }
            Ok(Received::Item(item)) => match &item.live {
                Live::Delta(delta) => self.reader.delta(delta),
                Live::Committed(events) => {
                    for event in events {
                        // If it is not the next one, those before it must be read first.
                        if event.seq == self.reader.seq + 1 {
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

/// The process of an agent.
pub(crate) struct Running {
    pub(crate) process: Process,
    pub(crate) decide: Option<Arc<Decide>>,
}

impl Running {
    fn kind(&self) -> &str {
        &self.process.agent.kind
    }

    /// What the program may do with the rows of a conversation.
    pub(crate) fn store(&self, conversation: AgentableId) -> TenantStore<'_> {
        self.process.store(shard(conversation))
    }

    /// Subscribes to what happens in a conversation.
    pub(crate) fn subscribe(&self, conversation: AgentableId) -> Subscription {
        self.process.bus(shard(conversation)).subscribe(conversation)
    }

    /// The user whom the program calls `name`, and their newest conversation with this agent. Creates the user.
    pub(crate) async fn user(&self, name: &str) -> Result<(UserId, Option<AgentableId>), Error> {
        let shard = Shard::of_external_id(self.process.tenant, name);
        let store = self.process.store(shard);
        loop {
            if let Some(found) = store.user_by_external_id(name, self.kind()).await? {
                return Ok(found);
            }
            let user = new_user(self.process.ids(), shard, name, name);
            match store.create_user(&user, &[], (None, &Value::Null)).await {
                Ok(_) => return Ok((user.id, None)),
                // Another process has created it at the same moment.
                Err(houston_store::Error::Exists { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Creates a conversation for a user.
    pub(crate) async fn create(&self, user: UserId) -> Result<AgentableId, Error> {
        let new = new_agentable(self.process.ids(), user, &self.process.agent, "", "");
        self.process.store(shard(user)).create_agentable(&new, (None, &Value::Null)).await?;
        Ok(new.id)
    }

    /// Posts a message, and follows the run that answers it.
    pub(crate) async fn post(
        self: &Arc<Self>,
        conversation: AgentableId,
        content: &str,
    ) -> Result<Run, Error> {
        check(content)?;
        if self.process.ended.is_cancelled() {
            return Err(Error::Stopped);
        }
        // Before the post, so that nothing of the run is missed.
        let subscription = self.subscribe(conversation);
        let posted = self.store_message(conversation, content).await?;
        Ok(Run::new(Arc::clone(self), conversation, (posted.run, posted.run_seq), subscription))
    }

    async fn store_message(&self, conversation: AgentableId, content: &str) -> Result<Posted, Error> {
        let ids = self.process.ids();
        let nothing = Value::Object(Map::new());
        let mut post = NewPost::new(ids.beside(conversation), ids.beside(conversation), content, nothing);
        post.starts = true;
        let posted = match self.store(conversation).post_message(conversation, &post, None).await? {
            Created::New(posted) | Created::Replayed(posted) => posted,
            Created::KeyReused => return Err(Error::Message("it was posted before".to_owned())),
        };
        if !posted.is_started {
            let events = post.events(&posted);
            self.process.bus(shard(conversation)).publish(conversation, Live::Committed(events));
            if posted.needs_hint {
                self.wake(conversation);
            }
        }
        Ok(posted)
    }

    /// Lets a worker look at the conversation.
    fn wake(&self, conversation: AgentableId) {
        let shard = shard(conversation);
        if !self.process.store(shard).claim_directly(conversation) {
            self.process.hints(shard).send(Lane::Interactive, Hint::run(conversation));
        }
    }

    /// Answers a question; its run goes on.
    pub(crate) async fn answer(&self, question: &Question, decision: Decision) -> Result<(), Error> {
        let Some(answer) = question.answer(decision).map_err(Error::Answer)? else { return Ok(()) };
        let store = self.process.store(shard(question.id));
        match store.answer_question(question.id, &answer, Some("program")).await? {
            Answered::Now(asked) => {
                self.process.bus(shard(question.id)).publish(asked.agentable, Live::Nudge);
                self.wake(asked.agentable);
                Ok(())
            }
            Answered::Closed(asked) if asked.question.answer.as_ref() == Some(&answer) => Ok(()),
            Answered::Closed(_) => Err(Error::QuestionClosed),
        }
    }

    pub(crate) async fn cancel(&self, conversation: AgentableId, run: RunId) -> Result<(), Error> {
        if self.store(conversation).cancel_run(run).await?.is_some() {
            let cancel = LiveItem { agentable: conversation, live: Live::CancelRequested(run) };
            self.process.bus(shard(conversation)).publish_control(cancel);
            self.wake(conversation);
        }
        Ok(())
    }
}

/// # Errors
/// [`Error::Message`]: what is wrong with a text, and what is allowed.
fn check(content: &str) -> Result<(), Error> {
    let refuse = |reason: String| Err(Error::Message(reason));
    match content.len() {
        _ if content.trim().is_empty() => refuse("it is empty".to_owned()),
        bytes if bytes > MAX_MESSAGE_BYTES => {
            refuse(format!("it has {bytes} bytes; at most {MAX_MESSAGE_BYTES} are allowed"))
        }
        _ if content.contains('\0') => refuse("it contains the character U+0000".to_owned()),
        _ => Ok(()),
    }
}
