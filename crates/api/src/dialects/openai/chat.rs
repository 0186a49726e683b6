//! `/compat/openai/v1/chat/completions`: for clients that know nothing else. The user's last message is posted; the thread is
//! the one that `metadata.conversation` names, or a new one whose first message has what the client remembers.

use std::ops::ControlFlow;

use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use houston_domain::event::Committed;
use houston_protocol::agui::{Event, Fact};
use houston_protocol::openai::input::Input;
use houston_protocol::openai::item::OutputItem;
use houston_protocol::openai::parameters::Endpoint;
use houston_protocol::openai::request::CreateCompletion;
use houston_protocol::openai::response::{Status, chat_usage};
use houston_protocol::sse::SseEncoder;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::answers::read_words;
use super::begin::{Begun, Named, begin, check, ignored, thread_for, with_ignored};
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

/// What a piece of a completion is.
const CHUNK: &str = "chat.completion.chunk";

/// `POST /chat/completions`.
pub(super) async fn create(
    asker: Asker,
    Extension(deadline): Extension<Deadline>,
    request: WithImages<CreateCompletion>,
) -> Result<Response> {
    let WithImages { creation: Creation { value: body, key }, permit: _permit } = request;
    let ignored = ignored(Endpoint::Chat, &body.others)?;
    let conversation = body.metadata.get("conversation");
    let mut input = Input::of_chat(&body.messages).map_err(|invalid| invalid.below("/messages"))?;
    check(&input, "/messages")?;
    let named = match conversation {
        Some(id) => Named::Conversation("/metadata/conversation", id),
        None => Named::nothing(&input),
    };
    let is_new = matches!(named, Named::New);
    let offer = offer::read(Endpoint::Chat, &body.tools, &body.others, &input.instructions)?;
    let asker = asker.for_user(("/safety_identifier", body.safety_identifier.as_deref())).await?;
    let asker = asker.for_user(("/user", body.user.as_deref())).await?;
    let key = asker.own_key(key).await?;
    asker.ctx.streams.reserve(asker.caller())?;
    let thread = thread_for(&asker, &body.model, named, key.as_ref(), (Endpoint::Chat, &offer)).await?;
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
    let chunks =
        Chunks { translator, usage, has_text: false, draft: Draft::default(), calls: 0, is_done: false };
    thread.open(Some(at), &Options::with_interrupts(), (chunks, |_| String::new())).await
}

/// Waits for the end of the run. Nothing is held meanwhile but a stream.
async fn awaited(begun: Begun) -> Result<Response> {
    let Begun { thread, translator, at, .. } = begun;
    let within = thread.ctx.state.config.wait();
    let (sender, mut receiver) = oneshot::channel();
    let end = End(Some((translator, sender)));
    if !thread.follow(at, &Options::with_interrupts(), end, within).await? {
        return Err(ApiError::TimedOut { within, changes: true });
    }
    let Ok(translator) = receiver.try_recv() else {
        let message = "the server is shutting down, and the answer goes on without this request: the thread will have it";
        return Ok(error::of_run("unavailable", message));
    };
    if let (Status::Failed, Some(failed)) = (translator.status, &translator.error) {
        return Ok(error::of_run(failed.code, &failed.message));
    }
    Ok(Json(completion(&translator)).into_response())
}

/// The completion, once the run has ended.
fn completion(translator: &Translator) -> Value {
    let output = translator.items.output();
    let texts = output.iter().filter_map(|item| match item {
        OutputItem::Message { content, .. } => content.first().map(|part| part.text.clone()),
        _ => None,
    });
    let texts: Vec<String> = texts.chain(output.iter().filter_map(question)).collect();
    let calls: Vec<Value> = output.iter().filter_map(call).collect();
    let content = (!texts.is_empty()).then(|| texts.join("\n\n"));
    let mut message = json!({"role": "assistant", "content": content, "refusal": null});
    let finish_reason = finish_reason(translator, !calls.is_empty());
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let choice = json!({"index": 0, "message": message, "finish_reason": finish_reason, "logprobs": null});
    let mut completion = of(translator, "chat.completion", vec![choice]);
    completion["usage"] = json!(translator.usage.as_ref().map(chat_usage));
    completion["conversation"] = json!(translator.head.conversation);
    completion
}

/// What completions and their chunks have.
fn of(translator: &Translator, object: &str, choices: Vec<Value>) -> Value {
    let head = &translator.head;
    let id = head.id.to_string().replace("resp_", "chatcmpl-");
    json!({"id": id, "object": object, "created": head.created_at, "model": head.said.model, "choices": choices})
}

/// A function that the client must call.
fn call(item: &OutputItem) -> Option<Value> {
    let OutputItem::FunctionCall { call_id, name, arguments, .. } = item else { return None };
    let function = json!({"name": name, "arguments": arguments});
    (name != ASK_USER).then(|| json!({"id": call_id, "type": "function", "function": function}))
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

fn finish_reason(translator: &Translator, calls: bool) -> &'static str {
    match translator.reason.as_deref() {
        _ if calls => "tool_calls",
        None => "stop",
        Some("content_filter") => "content_filter",
        Some(_) => "length",
    }
}

/// A stream of chunks.
#[derive(Debug)]
struct Chunks {
    translator: Translator,
    /// Whether the last chunk has the usage.
    usage: bool,
    has_text: bool,
    draft: Draft,
    /// Functions that the client must call.
    calls: u32,
    is_done: bool,
}

impl Chunks {
    fn piece(&self, frames: &mut SseEncoder, delta: Value, finish_reason: Option<&str>) {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": null});
        frames.push_without_id(&of(&self.translator, CHUNK, vec![choice]));
    }

    fn text(&mut self, frames: &mut SseEncoder, text: &str) {
        self.has_text = true;
        self.piece(frames, json!({"content": text}), None);
    }

    /// Text that is not the first is a paragraph of its own.
    fn paragraph(&mut self, frames: &mut SseEncoder) {
        if self.has_text {
            self.text(frames, "\n\n");
        }
    }

    /// A call that the client must carry out, or what a person is asked.
    fn asked(&mut self, item: &OutputItem, frames: &mut SseEncoder) {
        if let Some(call) = call(item) {
            let (id, function) = (&call["id"], &call["function"]);
            let call = json!({"index": self.calls, "id": id, "type": "function", "function": function});
            self.calls += 1;
            self.piece(frames, json!({"tool_calls": [call]}), None);
        } else if let Some(question) = question(item) {
            self.paragraph(frames);
            self.text(frames, &question);
        }
    }

    fn end(&mut self, frames: &mut SseEncoder) {
        self.is_done = true;
        if let Some(failed) = &self.translator.error {
            frames.push_without_id(&error::body(&failed.message, "server_error", None, failed.code));
        } else {
            self.piece(frames, json!({}), Some(finish_reason(&self.translator, self.calls > 0)));
            if self.usage {
                let mut chunk = of(&self.translator, CHUNK, Vec::new());
                if let Some(usage) = &self.translator.usage {
                    chunk["usage"] = chat_usage(usage);
                }
                frames.push_without_id(&chunk);
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
                self.piece(frames, json!({"role": "assistant", "content": ""}), None);
            }
            Event::TextMessageStart { .. } => self.paragraph(frames),
            Event::TextMessageContent { delta, .. } => self.text(frames, delta),
            _ => {}
        }
        self.translator.push(event);
        if let Event::Custom { fact: Fact::QuestionAsked { .. }, .. } = event
            && let Some(asked) = self.translator.items.output().last()
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
struct End(Option<(Translator, oneshot::Sender<Translator>)>);

impl Dialect for End {
    fn push(&mut self, _: Position, event: &Event<'_>, _: &mut SseEncoder) {
        let Some((translator, _)) = &mut self.0 else { return };
        translator.push(event);
        if translator.is_over()
            && let Some((translator, sender)) = self.0.take()
        {
            // The run does not wait any more.
            drop(sender.send(translator));
        }
    }

    fn committed(&mut self, event: &Committed) {
        if let Some((translator, _)) = &mut self.0 {
            translator.committed(event);
        }
    }

    fn is_done(&self) -> bool {
        self.0.is_none()
    }
}
