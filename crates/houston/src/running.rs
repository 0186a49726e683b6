//! [`Running`]: the process of an agent, and what is asked of it.

use std::sync::Arc;

use houston_cli::process::Process;
use houston_domain::agentable::DoubleTexting;
use houston_domain::event::{Live, LiveItem};
use houston_domain::id::{AgentableId, RunId, Shard, UserId, shard};
use houston_domain::message::MAX_MESSAGE_BYTES;
use houston_queue::{Hint, Lane, Subscription};
use houston_store::TenantStore;
use houston_store::agentable::NewAgentable;
use houston_store::answer::Answered;
use houston_store::cost::Cost;
use houston_store::idempotency::Created;
use houston_store::message::{NewPost, Posted};
use houston_store::user::User;
use serde_json::{Map, Value};

use crate::error::Error;
use crate::question::{Decision, Question};
use crate::run::{Decide, Run};

/// The process of an agent.
pub(crate) struct Running {
    pub(crate) process: Process,
    pub(crate) decide: Option<Arc<Decide>>,
}

impl Running {
    fn kind(&self) -> &str {
        &self.process.agent().kind
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
        let shard = Shard::of_external_id(self.process.tenant(), name);
        let store = self.process.store(shard);
        loop {
            if let Some(found) = store.user_by_external_id(name, self.kind()).await? {
                return Ok(found);
            }
            let ids = self.process.ids();
            let user = User {
                id: ids.next_in(shard),
                external_id: Some(name.to_owned()),
                name: name.to_owned(),
                time_zone: "UTC".to_owned(),
                cost: Cost::NOTHING,
                created_at: ids.clock().now(),
            };
            match store.create_user(&user, &[], None, &Value::Null).await {
                Ok(_) => return Ok((user.id, None)),
                // Another process has created it at the same moment.
                Err(houston_store::Error::Exists { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Creates a conversation for a user.
    pub(crate) async fn create(&self, user: UserId) -> Result<AgentableId, Error> {
        let ids = self.process.ids();
        let new = NewAgentable {
            id: ids.beside(user),
            user,
            kind: self.kind(),
            title: "",
            description: "",
            status: self.process.agent().initial_status(),
            tools: None,
            created_at: ids.clock().now(),
        };
        self.process.store(shard(user)).create_agentable(&new, None, &Value::Null).await?;
        Ok(new.id)
    }

    /// Posts a message, and follows the run that answers it.
    pub(crate) async fn post(
        self: &Arc<Self>,
        conversation: AgentableId,
        content: &str,
    ) -> Result<Run, Error> {
        check(content)?;
        if self.process.ended().is_cancelled() {
            return Err(Error::Stopped);
        }
        // Before the post, so that nothing of the run is missed.
        let subscription = self.subscribe(conversation);
        let posted = self.store_message(conversation, content).await?;
        Ok(Run::new(Arc::clone(self), conversation, (posted.run, posted.run_seq), subscription))
    }

    async fn store_message(&self, conversation: AgentableId, content: &str) -> Result<Posted, Error> {
        let (ids, metadata) = (self.process.ids(), Value::Object(Map::new()));
        let post = NewPost {
            traceparent: None,
            id: ids.beside(conversation),
            run: ids.beside(conversation),
            content,
            metadata: &metadata,
            double_texting: DoubleTexting::Enqueue,
            starts: true,
            kind: None,
        };
        let posted = match self.store(conversation).post_message(conversation, &post, None).await? {
            Created::New(posted) | Created::Replayed(posted) => posted,
            Created::KeyReused => return Err(Error::Message("it was posted before".to_owned())),
        };
        if !posted.is_started {
            let events = posted.events(content, &metadata);
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
        let Some(answer) = question.answer(decision)? else { return Ok(()) };
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
