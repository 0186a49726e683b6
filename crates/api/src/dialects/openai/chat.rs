//! `/compat/openai/v1/chat/completions`: for clients that know nothing else. The user's last message is posted; the thread is
//! the one that `metadata.conversation` names, or a new one whose first message has what the client remembers.

use std::ops::ControlFlow;

use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use houston_domain::client_offer::ClientOffer;
use houston_domain::event::Committed;
use houston_protocol::agui::{Event, Fact};
use houston_protocol::openai::chat::{
    ChatFunction, ChatMessage, ChatToolCall, ChatUsage, Choice, Chunk, ChunkChoice, ChunkDelta, Completion,
    FinishReason,
};
use houston_protocol::openai::error::{ErrorBody, ErrorDetails};
use houston_protocol::openai::input::Input;
use houston_protocol::openai::item::OutputItem;
use houston_protocol::openai::parameters::Endpoint;
use houston_protocol::openai::request::CreateCompletion;
use houston_protocol::openai::response::{self, Status};
use houston_protocol::sse::SseEncoder;
use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::answers::read_words;
use super::begin::{Begun, Named, begin, check, ignored, target, thread, with_ignored};
use super::error;
use super::offer;
use super::replay::Said;
use super::translate::{ASK_USER, QUESTION, Translator};
use crate::deadline::Deadline;
use crate::dialects::draft::Draft;
use crate::dialects::threads::Asker;
use crate::error::{ApiError, Result};
use crate::events::Options;
use crate::events::position::Position;
use crate::events::stream::Dialect;
use crate::request::body::{Creation, WithImages};
use crate::request::idempotency::respond;
use crate::resources::models::sampling;

/// `POST /chat/completions`.
pub(super) async fn create(
    asker: Asker,
    Extension(deadline): Extension<Deadline>,
    request: WithImages<CreateCompletion>,
) -> Result<Response> {
    let WithImages { creation: Creation { value: body, key }, permit: _permit } = request;
    let ignored = ignored(Endpoint::Chat, &body.others)?;
    let conversation = body.metadata.get("conversation");
    let mut input = Input::of_chat(&body.messages)
        .map_err(|invalid| ApiError::field(&format!("/messages{}", invalid.pointer), invalid.reason))?;
    check(&input, "/messages")?;
    let named = match conversation {
        Some(id) => Named::Conversation("/metadata/conversation", id),
        None => Named::nothing(&input),
    };
    let is_new = matches!(named, Named::New);
    let format = body.others.get("response_format").unwrap_or(&Value::Null);
    let output = offer::output("/response_format", format)?;
    let mut offer = ClientOffer { output, ..offer::of(&body.tools, &input.instructions)? };
    offer::choose(&mut offer, &body.others)?;
    offer::tune(&mut offer, &body.others)?;
    let asker = asker.for_user(("/safety_identifier", body.safety_identifier.as_deref())).await?;
    let asker = asker.for_user(("/user", body.user.as_deref())).await?;
    let key = match asker.own_key(key) {
        Some(key) => Some(key.of_attempt(&asker.ctx).await?),
        None => None,
    };
    asker.ctx.streams.reserve(asker.caller())?;
    let at = |setting: &str| offer::parameter(Endpoint::Chat, setting);
    if is_new {
        // Before a thread is made that would stay empty.
        sampling::check_target(&asker.ctx, target(&body.model), &offer.sampling, at).await?;
    }
    let thread = thread(&asker, &body.model, named, key.as_ref()).await?;
    if !is_new {
        sampling::check(&thread.ctx, &thread.path, &offer.sampling, at).await?;
    }
    let said = Said { model: body.model, ..Said::default() };
    if is_new {
        input.tell_earlier();
    } else {
        read_words(&thread, &mut input).await?;
    }
    let begun = begin(thread, input, ("/messages", said), &offer, key.as_ref()).await?;
    let replayed = begun.replayed;
    let answer = if body.stream {
        streamed(begun, body.stream_options.include_usage).await?
    } else {
        deadline.restart_after(asker.ctx.state.config.wait());
        awaited(begun).await?
    };
    Ok(with_ignored(respond(answer, replayed), ignored))
}

async fn streamed(begun: Begun, usage: bool) -> Result<Response> {
    let Begun { thread, translator, at, .. } = begun;
    let of = Of::new(&translator.response());
    let chunks =
        Chunks { of, translator, usage, has_text: false, draft: Draft::default(), calls: 0, is_done: false };
    thread.open(Some(at), &Options::with_interrupts(), (chunks, |_| String::new())).await
}

/// Waits for the end of the run. Nothing is held meanwhile but a stream.
async fn awaited(begun: Begun) -> Result<Response> {
    let Begun { thread, translator, at, .. } = begun;
    let within = thread.ctx.state.config.wait();
    let (sender, mut receiver) = oneshot::channel();
    let end = End { translator: Some(translator), sender: Some(sender) };
    let options = Options::with_interrupts();
    let mut body = thread.open(Some(at), &options, (end, |_| String::new())).await?.into_body();
    let ended = async { while body.frame().await.is_some_and(|frame| frame.is_ok()) {} };
    if timeout(within, ended).await.is_err() {
        return Err(ApiError::TimedOut { within, changes: true });
    }
    let Ok(translator) = receiver.try_recv() else {
        let message = "the server is shutting down, and the answer goes on without this request: the thread will have it";
        return Ok(error::of_run("unavailable", message));
    };
    let response = translator.response();
    if let (Status::Failed, Some(failed)) = (response.status, &response.error) {
        return Ok(error::of_run(&failed.code, &failed.message));
    }
    Ok(Json(completion(&response)).into_response())
}

fn completion(response: &response::Response) -> Completion {
    let of = Of::new(response);
    let texts: Vec<&str> = response.output.iter().filter_map(|item| item.message_text()).collect();
    let content = (!texts.is_empty()).then(|| texts.join("\n\n"));
    let asked = response.output.iter().filter_map(question);
    let content = asked.fold(content, |content, question| {
        Some(content.map_or_else(|| question.clone(), |content| format!("{content}\n\n{question}")))
    });
    let tool_calls: Vec<ChatToolCall> = response.output.iter().filter_map(|item| call(item, None)).collect();
    let finish_reason = finish_reason(response, !tool_calls.is_empty());
    let message = ChatMessage { role: "assistant", content, refusal: None, tool_calls };
    let choice = Choice { index: 0, message, finish_reason, logprobs: None };
    Completion {
        id: of.id,
        object: "chat.completion",
        created: of.created,
        model: of.model,
        choices: [choice],
        usage: response.usage.map(ChatUsage::from),
        conversation: response.conversation.id.clone(),
    }
}

/// A function that the client must call.
fn call(item: &OutputItem, index: Option<u32>) -> Option<ChatToolCall> {
    let OutputItem::FunctionCall { call_id, name, arguments, .. } = item else { return None };
    let function = ChatFunction { name: name.clone(), arguments: arguments.clone() };
    (name != ASK_USER).then(|| ChatToolCall { index, id: call_id.clone(), kind: "function", function })
}

/// What a person is asked, in words: the next message takes the place of an answer.
fn question(item: &OutputItem) -> Option<String> {
    let (name, arguments) = match item {
        OutputItem::McpApprovalRequest { name, arguments, .. } => (name, arguments),
        OutputItem::FunctionCall { name, arguments, .. } if name == ASK_USER => (name, arguments),
        _ => return None,
    };
    let asked: Value = serde_json::from_str(arguments).unwrap_or_default();
    match asked["question"].as_str() {
        Some(question) if name == QUESTION || name == ASK_USER => Some(question.to_owned()),
        _ => Some(format!("May `{name}` be carried out with {arguments}?")),
    }
}

fn finish_reason(response: &response::Response, calls: bool) -> FinishReason {
    if calls {
        return FinishReason::ToolCalls;
    }
    let reason = response.incomplete_details.as_ref().map(|details| details.reason.as_str());
    match reason {
        None => FinishReason::Stop,
        Some("content_filter") => FinishReason::ContentFilter,
        Some(_) => FinishReason::Length,
    }
}

/// What every chunk says.
#[derive(Debug)]
struct Of {
    id: String,
    created: i64,
    model: String,
}

impl Of {
    fn new(response: &response::Response) -> Self {
        let id = response.id.replace("resp_", "chatcmpl-");
        Self { id, created: response.created_at, model: response.model.clone() }
    }

    fn push(&self, frames: &mut SseEncoder, choice: Option<ChunkChoice<'_>>, usage: Option<ChatUsage>) {
        let choices = choice.into_iter().collect();
        let object = "chat.completion.chunk";
        let chunk = Chunk { id: &self.id, object, created: self.created, model: &self.model, choices, usage };
        frames.push_named(None, &chunk);
    }
}

/// A stream of chunks.
#[derive(Debug)]
struct Chunks {
    of: Of,
    translator: Translator,
    usage: bool,
    has_text: bool,
    draft: Draft,
    /// Functions that the client must call.
    calls: u32,
    is_done: bool,
}

impl Chunks {
    fn piece(&self, frames: &mut SseEncoder, delta: ChunkDelta<'_>, finish_reason: Option<FinishReason>) {
        let choice = ChunkChoice { index: 0, delta, finish_reason, logprobs: None };
        self.of.push(frames, Some(choice), None);
    }

    fn text(&mut self, frames: &mut SseEncoder, text: &str) {
        self.has_text = true;
        self.piece(frames, ChunkDelta { content: Some(text), ..ChunkDelta::default() }, None);
    }

    /// Text that is not the first is a paragraph of its own.
    fn paragraph(&mut self, frames: &mut SseEncoder) {
        if self.has_text {
            self.text(frames, "\n\n");
        }
    }

    /// A call that the client must carry out, or what a person is asked.
    fn asked(&mut self, item: &OutputItem, frames: &mut SseEncoder) {
        if let Some(call) = call(item, Some(self.calls)) {
            self.calls += 1;
            self.piece(frames, ChunkDelta { tool_calls: vec![call], ..ChunkDelta::default() }, None);
        } else if let Some(question) = question(item) {
            self.paragraph(frames);
            self.text(frames, &question);
        }
    }

    fn end(&mut self, frames: &mut SseEncoder) {
        self.is_done = true;
        let response = self.translator.response();
        if let Some(failed) = &response.error {
            let error = ErrorDetails {
                message: failed.message.clone(),
                kind: "server_error".to_owned(),
                param: None,
                code: Some(failed.code.clone()),
            };
            frames.push_named(None, &ErrorBody { error });
        } else {
            self.piece(frames, ChunkDelta::default(), Some(finish_reason(&response, self.calls > 0)));
            if self.usage {
                self.of.push(frames, None, response.usage.map(ChatUsage::from));
            }
        }
        frames.push_raw(b"data: [DONE]\n\n");
    }
}

impl Dialect for Chunks {
    fn push(&mut self, _: Position, event: &Event<'_>, frames: &mut SseEncoder) {
        if self.is_done {
            return;
        }
        let draft = self.draft.push(event);
        if let ControlFlow::Continue(Some((_, text))) = &draft {
            self.paragraph(frames);
            self.text(frames, text);
        }
        match event {
            _ if draft.is_break() => {}
            Event::RunStarted { .. } => {
                let delta =
                    ChunkDelta { role: Some("assistant"), content: Some(""), ..ChunkDelta::default() };
                self.piece(frames, delta, None);
            }
            Event::TextMessageStart { .. } => self.paragraph(frames),
            Event::TextMessageContent { delta, .. } => self.text(frames, delta),
            _ => {}
        }
        if self.translator.delta(event).is_some() {
            return;
        }
        self.translator.push(event);
        if let Event::Custom { fact: Fact::QuestionAsked { .. }, .. } = event
            && let Some(asked) = self.translator.response().output.last()
        {
            self.asked(asked, frames);
        }
        if self.translator.is_over() {
            self.end(frames);
        }
    }

    fn committed(&mut self, event: &Committed) {
        self.translator.committed(event);
    }

    fn is_done(&self) -> bool {
        self.is_done
    }
}

/// Only the end is wanted.
#[derive(Debug)]
struct End {
    translator: Option<Translator>,
    sender: Option<oneshot::Sender<Translator>>,
}

impl Dialect for End {
    fn push(&mut self, _: Position, event: &Event<'_>, _: &mut SseEncoder) {
        let Some(translator) = &mut self.translator else { return };
        if translator.delta(event).is_none() {
            translator.push(event);
        }
        if translator.is_over()
            && let (Some(translator), Some(sender)) = (self.translator.take(), self.sender.take())
        {
            // The run does not wait any more.
            drop(sender.send(translator));
        }
    }

    fn committed(&mut self, event: &Committed) {
        if let Some(translator) = &mut self.translator {
            translator.committed(event);
        }
    }

    fn is_done(&self) -> bool {
        self.translator.is_none()
    }
}
