//! `SendMessage` and `SendStreamingMessage`: a message to a context, or to a task of it. What it says is read part by part; to a
//! task that waits for a person it is the answer to its questions.

use std::time::Duration;

use houston_domain::answering::Output;
use houston_domain::client_offer::ClientOffer;
use houston_domain::id::{QuestionId, RunId};
use houston_domain::question::NewQuestion;
use houston_domain::scope::Scope;
use houston_protocol::a2a::{
    A2AError, Message, Part, Role, SendRequest, SentMessage, SentPart, Task, TaskState, TaskStatus,
};
use houston_protocol::message::MessageImage;
use serde::Deserialize as _;
use serde_json::{Value, json};
use uuid::Uuid;

use super::error::Refusal;
use super::operations::{Ask, Found};
use super::push::Push;
use super::stream::{Binding, stream, wait};
use super::task::{TaskIds, houston, keep, message};
use crate::dialects::threads::{NewMessage, Thread, find_or_create};
use crate::events::Options;
use crate::events::position::Position;
use crate::request::prelude::*;

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
        let store = sent.thread.ctx.store();
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
            status: TaskStatus { state, message: None, timestamp: Some(thread.ctx.now()) },
            artifacts: None,
            history: Some(vec![message]),
            metadata: Some(houston(serde_json::json!({"thread_id": thread.path.public_id()}))),
        };
        Ok(stream(thread, (task, ids), binding, at).await?)
    }

    /// `streams`: a stream follows, whose place is taken before anything is stored.
    async fn begin(&self, request: &SendRequest, streams: bool) -> Result<Sent, Refusal> {
        let ctx = self.ctx(Scope::Post)?;
        let configuration = request.configuration.as_ref();
        let push = configuration.and_then(|it| it.task_push_notification_config.as_ref());
        let push = push.map(|push| Push::new(ctx, PUSH_AT, push)).transpose()?;
        let sent = &request.message;
        ensure!(sent.role != Role::Agent, ApiError::field("/message/role", "must be ROLE_USER").into());
        let content = content(sent)?;
        if streams {
            ctx.streams.reserve(ctx.caller)?;
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
        let new = || format!("context-{}", self.asker.ctx.state.ids.next::<Uuid>().simple());
        let context = named(&sent.context_id).map_or_else(new, str::to_owned);
        let at = ("/message/contextId", context.as_str());
        let thread = find_or_create(&self.asker, &self.target, at).await?;
        self.post(thread, sent, content, (context, None)).await
    }

    /// A message to a task: the answer to what it asks, or one more message.
    async fn to_task(&self, sent: &SentMessage, content: Content, task: &str) -> Result<Sent, Refusal> {
        let found = self.find(task).await?;
        if let Some(context) = named(&sent.context_id)
            && context != found.ids.context
            && context != found.thread.path.public_id()
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
        let Found { thread, ids, run, .. } = found;
        if answers.is_empty() {
            return self.post(thread, sent, content, (ids.context, Some(run.id))).await;
        }
        let answered = thread.answer(&answers).await?;
        let at = match answered.wait.or(answered.closed) {
            Some(seq) => (Position::after(seq), true),
            None => (Position::after(run.first_seq - 1), false),
        };
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
            offer: offer.as_ref(),
            key: Some(&key),
            ..NewMessage::default()
        };
        let (posted, _) = thread.post(new).await?;
        let ids = TaskIds { run: posted.run, context };
        let at = if task == Some(posted.run) && !posted.opened {
            let wait = thread.ctx.store().wait_before(thread.path.id, posted.seq).await?;
            (Position::after(wait.unwrap_or(posted.seq)), true)
        } else {
            (Position::after(posted.run_seq - 1), false)
        };
        let message = echo(&ids, sent, &content);
        Ok(Sent { thread, ids, at, is_new: posted.opened, message })
    }
}

/// The form of the answer: `metadata.houston.output`, since the protocol has no field for it.
fn offer(sent: &SentMessage) -> Result<Option<ClientOffer>> {
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

/// The parts of a message, by what they are.
#[derive(Debug, Clone, Default, PartialEq)]
struct Content {
    /// The texts, and data as blocks of JSON, in their order.
    text: String,
    images: Vec<MessageImage>,
    /// The only data, if there is one part of it.
    data: Option<Value>,
}

/// # Errors
/// [`A2AError::content_type_not_supported`] when a part is a file that is no image, [`ApiError::InvalidRequest`] when one has no content.
fn content(message: &SentMessage) -> Result<Content, Refusal> {
    let mut content = Content::default();
    let (mut texts, mut data) = (Vec::new(), Vec::new());
    for (nth, part) in message.parts.iter().enumerate() {
        match part {
            SentPart { text: Some(text), .. } => texts.push(text.clone()),
            SentPart { raw: Some(raw), .. } if is_image(part) => {
                content.images.push(MessageImage { data: Some(raw.clone()), url: None });
            }
            SentPart { url: Some(url), .. } if is_image(part) => {
                content.images.push(MessageImage { data: None, url: Some(url.clone()) });
            }
            SentPart { data: Some(value), .. } => {
                texts.push(format!("```json\n{value}\n```"));
                data.push(value.clone());
            }
            SentPart { raw: None, url: None, .. } => {
                let pointer = format!("/message/parts/{nth}");
                return Err(
                    ApiError::field(&pointer, "must have one of `text`, `raw`, `url` and `data`").into()
                );
            }
            _ => {
                let mut error = A2AError::content_type_not_supported();
                error.message = format!(
                    "part {nth} is a file that is not read: send text, data, or an image (`mediaType` image/png, image/jpeg, \
                     image/webp or image/gif)"
                );
                return Err(error.into());
            }
        }
    }
    content.text = texts.join("\n\n");
    content.data = data.pop().filter(|_| data.is_empty());
    Ok(content)
}

fn is_image(part: &SentPart) -> bool {
    part.media_type.as_deref().is_some_and(|kind| kind.starts_with("image/"))
}

/// The answers in a message; none if the message says something else, which then takes their place.
///
/// - Data that fits the only open question answers it.
/// - Data of the form `{"answers": {"question_…": …}}` answers several, all of them or none.
/// - A text that is a JSON value which fits answers the only open question, and so does one that names a decision (`approve`).
///
/// # Errors
/// [`ApiError::InvalidRequest`] when `answers` names another question, or an answer does not fit.
fn answers(content: &Content, open: &[NewQuestion]) -> Result<Vec<(QuestionId, Value)>> {
    if let Some(given) = content.data.as_ref().and_then(|data| data["answers"].as_object()) {
        return given.iter().map(|(id, answer)| answer_named(id, answer, open)).collect();
    }
    let [question] = open else { return Ok(Vec::new()) };
    let text = content.text.trim();
    let candidates = [
        content.data.clone(),
        serde_json::from_str(text).ok(),
        Some(json!({"decision": text.to_lowercase()})),
        Some(json!(text)),
    ];
    let fits = |answer: &Value| question.schema.is_some() && question.check_answer(answer).is_ok();
    Ok(candidates.into_iter().flatten().find(fits).map(|answer| (question.id, answer)).into_iter().collect())
}

fn answer_named(id: &str, answer: &Value, open: &[NewQuestion]) -> Result<(QuestionId, Value)> {
    let pointer = format!("/message/parts/answers/{id}");
    let Some(question) = open.iter().find(|question| question.id.to_string() == id) else {
        let ids: Vec<String> = open.iter().map(|question| question.id.to_string()).collect();
        let reason = format!("is no open question of this task; those are: {}", ids.join(", "));
        return Err(ApiError::field(&pointer, reason));
    };
    question.check_answer(answer).map_err(|wrong| wrong.below(&pointer))?;
    Ok((question.id, answer.clone()))
}

#[cfg(test)]
mod tests {
    use houston_domain::question::QuestionKind;
    use houston_protocol::a2a::error_code;
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    fn read(parts: Value) -> Result<Content, Refusal> {
        content(&serde_json::from_value(json!({"messageId": "1", "parts": parts})).unwrap())
    }

    #[test]
    fn texts_data_and_images_are_read_in_order() {
        let read = read(json!([
            {"text": "one"}, {"data": {"a": 1}}, {"url": "https://example.com/a.png", "mediaType": "image/png"}, {"text": "two"}
        ]))
        .unwrap();
        assert_eq!(read.text, "one\n\n```json\n{\"a\":1}\n```\n\ntwo");
        assert_eq!((read.data, read.images.len()), (Some(json!({"a": 1})), 1));
    }

    #[test]
    fn other_files_and_empty_parts_are_refused() {
        let file = read(json!([{"raw": "aGk=", "mediaType": "application/pdf"}])).unwrap_err();
        let Refusal::Protocol(error) = file else { panic!("{file:?}") };
        assert_eq!(error.code, error_code::CONTENT_TYPE_NOT_SUPPORTED);
        assert!(matches!(read(json!([{"text": "a"}, {}])), Err(Refusal::Api(ApiError::InvalidRequest(_)))));
        let two = read(json!([{"data": 1}, {"data": 2}])).unwrap();
        assert_eq!(two.data, None);
    }

    fn question(nth: u128, schema: Value) -> NewQuestion {
        NewQuestion {
            id: QuestionId(Uuid::from_u128(nth)),
            kind: QuestionKind::Input,
            subject: None,
            text: "Which?".to_owned(),
            schema: Some(schema),
            default_value: None,
            expires_at: None,
            approval: None,
            message_id: None,
        }
    }

    fn said(text: &str, data: Option<Value>) -> Content {
        Content { text: text.to_owned(), data, images: Vec::new() }
    }

    fn decision() -> Value {
        json!({"type": "object", "required": ["decision"], "properties": {"decision": {"enum": ["approve", "reject"]}}})
    }

    #[test]
    fn one_question_is_answered_by_data_or_text() {
        let open = [question(1, decision())];
        let answer = |content: Content| answers(&content, &open).unwrap().pop().map(|(_, answer)| answer);
        let approve = json!({"decision": "approve"});
        assert_eq!(answer(said("", Some(approve.clone()))), Some(approve.clone()));
        assert_eq!(answer(said("Approve", None)), Some(approve.clone()));
        assert_eq!(answer(said("{\"decision\": \"approve\"}", None)), Some(approve));
        assert_eq!(
            answer(said("No, use the other one.", None)),
            None,
            "a message in the place of the answer"
        );
        let open = [question(1, json!({"type": "string"}))];
        assert_eq!(answers(&said("Rome", None), &open).unwrap()[0].1, json!("Rome"));
    }

    #[test]
    fn several_questions_are_answered_by_their_ids() {
        let open = [question(1, json!({"type": "boolean"})), question(2, json!({"type": "boolean"}))];
        assert!(answers(&said("true", None), &open).unwrap().is_empty());
        let (first, second) = (open[0].id.to_string(), open[1].id.to_string());
        let both = json!({"answers": {first.clone(): true, second: false}});
        assert_eq!(answers(&said("", Some(both)), &open).unwrap().len(), 2);
        assert!(answers(&said("", Some(json!({"answers": {first: "yes"}}))), &open).is_err());
        let other = json!({"answers": {QuestionId(Uuid::from_u128(3)).to_string(): true}});
        assert!(answers(&said("", Some(other)), &open).is_err());
    }
}
