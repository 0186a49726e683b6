//! `SendMessage` and `SendStreamingMessage`: a message to a context, or to a task of it.

use std::time::Duration;

use axum::response::Response;
use houston_domain::answering::Output;
use houston_domain::client_offer::ClientOffer;
use houston_domain::id::RunId;
use houston_domain::scope::Scope;
use houston_protocol::a2a::{
    A2AError, Message, Part, Role, SendRequest, SentMessage, Task, TaskState, TaskStatus,
};
use serde::Deserialize as _;
use uuid::Uuid;

use super::answer::answers;
use super::content::{Content, content};
use super::dialect::Binding;
use super::error::Refusal;
use super::operations::{Ask, Found};
use super::push::Push;
use super::task::{TaskIds, houston, keep, message};
use super::task_stream::{stream, wait};
use crate::error::ApiError;
use crate::events::get::Options;
use crate::events::position::Position;
use crate::events::streams::reserve;
use crate::idempotency::Key;
use crate::threads::{NewMessage, Thread, find_or_create};

/// How long `SendMessage` waits for the task; then it returns the task as it is, and the client asks again.
const MAX_WAIT: Duration = Duration::from_secs(50);

/// Where a message's request has the push notification configuration of its task.
const PUSH_AT: &str = "/configuration/taskPushNotificationConfig";

/// What a message led to.
struct Sent {
    thread: Thread,
    ids: TaskIds,
    /// Where the updates of the task begin, and whether that is within its run.
    at: (Position, bool),
    /// Whether a task was made.
    is_new: bool,
    message: Message,
}

impl Ask {
    /// `SendMessage`: the task once it has ended or needs a person, or at once if the client does not wait.
    pub(super) async fn send(&self, request: &SendRequest) -> Result<Task, Refusal> {
        let configuration = request.configuration.as_ref();
        let waits = configuration.and_then(|it| it.return_immediately) != Some(true);
        let sent = self.begin(request, waits).await?;
        if waits {
            self.deadline.restart_after(MAX_WAIT);
            let until = (&Options::with_interrupts(), MAX_WAIT);
            wait(sent.thread.clone(), sent.ids.clone(), sent.at, until).await?;
            self.deadline.restart_after(Duration::ZERO);
        }
        let store = sent.thread.app.store(sent.thread.caller);
        let run = store.run(sent.ids.run).await?;
        let found = self.found(sent.thread, run, Some(&sent.ids.context)).await?;
        let (mut task, _) = found.task().await?;
        keep(&mut task, configuration.and_then(|it| it.history_length));
        Ok(task)
    }

    /// `SendStreamingMessage`: the task at once, and then its updates.
    pub(super) async fn send_streaming(
        &self,
        request: &SendRequest,
        binding: Binding,
    ) -> Result<Response, Refusal> {
        let Sent { thread, ids, at, is_new, message } = self.begin(request, true).await?;
        let state = if is_new { TaskState::Submitted } else { TaskState::Working };
        let task = Task {
            id: ids.run.to_string(),
            context_id: ids.context.clone(),
            status: TaskStatus { state, message: None, timestamp: Some(thread.app.now()) },
            artifacts: None,
            history: Some(vec![message]),
            metadata: Some(houston(serde_json::json!({"thread_id": thread.path.public_id()}))),
        };
        Ok(stream(thread, (task, ids, binding), at).await?)
    }

    /// `streams`: a stream follows, whose place is taken before anything is stored.
    async fn begin(&self, request: &SendRequest, streams: bool) -> Result<Sent, Refusal> {
        let caller = self.caller(Scope::Post)?;
        let configuration = request.configuration.as_ref();
        let push = configuration.and_then(|it| it.task_push_notification_config.as_ref());
        let push = push.map(|push| Push::new(&self.app, PUSH_AT, push)).transpose()?;
        let sent = &request.message;
        if sent.role == Role::Agent {
            return Err(ApiError::field("/message/role", "must be ROLE_USER").into());
        }
        let content = content(sent)?;
        if streams {
            reserve(&self.app, caller)?;
        }
        let sent = match named(&sent.task_id) {
            Some(task) => self.to_task(sent, content, task).await?,
            None => self.to_context(sent, content).await?,
        };
        if let Some(push) = push {
            // A client that hears nothing of this sends the message again, which is posted once, and then this is stored.
            push.store(&sent.thread, &sent.ids, Some(sent.at.0.seq)).await?;
        }
        Ok(sent)
    }

    /// A message to a context, which opens a task or joins the open one.
    async fn to_context(&self, sent: &SentMessage, content: Content) -> Result<Sent, Refusal> {
        let new = || format!("context-{}", self.app.state.ids.next::<Uuid>().simple());
        let context = named(&sent.context_id).map_or_else(new, str::to_owned);
        let at = ("/message/contextId", context.as_str());
        let thread = find_or_create(&self.app, &self.asker, &self.target, at).await?;
        self.post(thread, sent, content, (context, None)).await
    }

    /// A message to a task: the answer to what it asks, or one more message.
    async fn to_task(&self, sent: &SentMessage, content: Content, task: &str) -> Result<Sent, Refusal> {
        let found = self.find(task).await?;
        if let Some(context) = named(&sent.context_id)
            && ![&found.ids.context, &found.thread.path.public_id()].contains(&&context.to_owned())
        {
            let reason = format!("{task} is in the context `{}`", found.ids.context);
            return Err(ApiError::field("/message/contextId", reason).into());
        }
        if found.is_over() {
            let error =
                format!("{task} has ended as `{}`: send a message to its context", found.run.status.as_str());
            return Err(A2AError::unsupported_operation(error).into());
        }
        let answers = answers(&content, &found.questions)?;
        let Some((first, _)) = answers.first() else {
            let Found { thread, ids, run, .. } = found;
            return self.post(thread, sent, content, (ids.context, Some(run.id))).await;
        };
        let Found { thread, ids, run, .. } = found;
        thread.answer(&answers).await?;
        let store = thread.app.store(thread.caller);
        let closed = store.closed_at(thread.path.id, *first).await?;
        let wait = match closed {
            Some(closed) => store.wait_before(thread.path.id, closed).await?.or(Some(closed)),
            None => None,
        };
        let at = wait.map_or((Position::after(run.first_seq - 1), false), |seq| (Position::after(seq), true));
        let message = echo(&ids, sent, &content);
        Ok(Sent { thread, ids, at, is_new: false, message })
    }

    /// Posts the message. `task`: the one that the client has said; the message may open another if that has just ended.
    async fn post(
        &self,
        thread: Thread,
        sent: &SentMessage,
        content: Content,
        (context, task): (String, Option<RunId>),
    ) -> Result<Sent, Refusal> {
        let public = thread.path.public_id();
        let key = Key::of_message(&public, &sent.message_id, &content.text, &content.images)?;
        let offer = offer(sent)?;
        offer.as_ref().map_or(Ok(()), |offer| thread.check_offer(offer))?;
        let new = NewMessage {
            pointers: ("/message/parts", "/message/parts"),
            content: content.text.clone(),
            images: &content.images,
            metadata: sent.metadata.clone().unwrap_or_default(),
            double_texting: None,
            offer: offer.as_ref(),
            key: Some(&key),
        };
        let (posted, _) = thread.post(new).await?;
        let ids = TaskIds { run: posted.run, context };
        let at = if task == Some(posted.run) && !posted.opened {
            let wait = thread.app.store(thread.caller).wait_before(thread.path.id, posted.seq).await?;
            (Position::after(wait.unwrap_or(posted.seq)), true)
        } else {
            (Position::after(posted.run_seq - 1), false)
        };
        let message = echo(&ids, sent, &content);
        Ok(Sent { thread, ids, at, is_new: posted.opened, message })
    }
}

/// The form of the answer: `metadata.houston.output`, since the protocol has no field for it.
fn offer(sent: &SentMessage) -> Result<Option<ClientOffer>, ApiError> {
    let output = sent.metadata.as_ref().and_then(|metadata| metadata.get("houston")?.get("output"));
    let Some(output) = output else { return Ok(None) };
    let output = Output::deserialize(output)
        .map_err(|error| ApiError::field("/message/metadata/houston/output", error.to_string()))?;
    Ok(Some(ClientOffer { output: Some(output), ..ClientOffer::default() }))
}

/// An id that is given and not empty.
fn named(id: &Option<String>) -> Option<&str> {
    id.as_deref().filter(|id| !id.is_empty())
}

/// The message as the history of the task has it, under the client's id.
fn echo(ids: &TaskIds, sent: &SentMessage, content: &Content) -> Message {
    message(ids, sent.message_id.clone(), Role::User, vec![Part::text(content.text.clone())])
}
