//! `/compat/ai-sdk/{target}`: the Vercel AI SDK, whose `DefaultChatTransport` has this address as `api`.
//!
//! - [`post`]: `POST /compat/ai-sdk/{target}` posts the user's message, or answers what the run waits for, and streams the run.
//! - [`stream`]: `GET /compat/ai-sdk/{target}/{chat_id}/stream` is what `resumeStream()` asks for: the open run from its start.
//! - [`cancel`]: `POST /compat/ai-sdk/{target}/{chat_id}/cancel`; the client's `stop()` only disconnects.
//!
//! [`chunks`] translates the events.

pub(crate) mod chunks;

use std::collections::HashSet;

use axum::extract::Path;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use houston_domain::client_offer::{ClientOffer, failed};
use houston_domain::id::{MessageId, QuestionId};
use houston_protocol::agui::EntityId;
use houston_protocol::ai_sdk::{ChatRequest, STREAM_HEADER, Trigger, UiMessage};
use houston_protocol::message::MessageImage;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use self::chunks::Chunks;
use crate::dialects::ag_ui::{Answers, CallResult, checked, of_calls};
use crate::dialects::threads::{Asker, NewMessage, Thread, find, find_or_create};
use crate::events::position::Position;
use crate::events::{Options, client_position};
use crate::request::prelude::*;

endpoints! {
    post "/compat/ai-sdk/{target}" for THREAD => post,
    "run_ai_sdk_chat" in "ai-sdk": "Run an agent for a chat of the Vercel AI SDK: post its message or its answers, and stream the run.",
    params(
        ("target" = String, Path, description = "Who answers: a kind that is conversational, or an agent, by its name or id."),
        ("Houston-User" = Option<String>, Header, description = "Whose chat it is, if the key is of no user: the id of a user, or an external id, for which a user is created."),
    ),
    body [ChatRequest],
    200 "Chunks of the UI message stream v1 until the run ends, or waits for a person or for the client; then `[DONE]`." [houston_protocol::ai_sdk::Chunk, content_type = "text/event-stream"],
    204 "Everything was answered before, and no run is open.",
    409 "`question_closed`: what is answered was answered otherwise, has expired, or is not asked any more. `run_in_progress`: a run is open, and messages to it are refused. `not_creatable`: conversations of this kind are not created by clients.",
    429 "`too_many_streams`, `too_many_pending`.";

    get "/compat/ai-sdk/{target}/{chat_id}/stream" for THREAD => stream,
    "resume_ai_sdk_chat" in "ai-sdk": "Stream the open run of a chat of the Vercel AI SDK from its start, or from a position.",
    params(
        ("target" = String, Path, description = "Who answers: a kind that is conversational, or an agent, by its name or id."),
        ("chat_id" = String, Path, description = "The client's id of the chat, or Houston's id of the conversation.", example = "chat-1"),
        ("after" = Option<String>, Query, description = "The `id` of the last event that the client has. By default the stream begins with the start of the run."),
        ("Houston-User" = Option<String>, Header, description = "Whose chat it is, if the key is of no user: the id of a user, or an external id."),
        ("Last-Event-ID" = Option<String>, Header, description = "Like `after`, and takes precedence over it."),
    ),
    200 "Chunks of the UI message stream v1, then `[DONE]`." [houston_protocol::ai_sdk::Chunk, content_type = "text/event-stream"],
    204 "No run is open, or there is no such chat.",
    429 "`too_many_streams`.";

    post "/compat/ai-sdk/{target}/{chat_id}/cancel" for THREAD => cancel,
    "cancel_ai_sdk_chat" in "ai-sdk": "Cancel the open run of a chat of the Vercel AI SDK, and the runs of its tasks.",
    params(
        ("target" = String, Path, description = "Who answers: a kind that is conversational, or an agent, by its name or id."),
        ("chat_id" = String, Path, description = "The client's id of the chat, or Houston's id of the conversation.", example = "chat-1"),
        ("Houston-User" = Option<String>, Header, description = "Whose chat it is, if the key is of no user: the id of a user, or an external id."),
    ),
    202 "The runs whose cancellation was requested." [houston_protocol::run::CancelledRunsResponse];
}

async fn post(
    asker: Asker,
    Path(target): Path<String>,
    WithImages { creation: Creation { value: request, key: _ }, permit }: WithImages<ChatRequest>,
) -> Result<Response> {
    let asker = asker.for_user(("/user", request.user.as_deref())).await?;
    asker.ctx.streams.reserve(asker.caller())?;
    let thread = find_or_create(&asker, &target, ("/id", &request.id)).await?;
    let offer = offer(&request)?;
    thread.check_offer(&offer)?;
    let Some((nth, last)) = request.messages.iter().enumerate().next_back() else {
        return Err(ApiError::field("/messages", "must not be empty: the last one is read"));
    };
    let (at, given) = match last.role.as_str() {
        "assistant" => answer(&thread, (nth, last), &offer).await?,
        "user" => (submit(&thread, (nth, last), &request, &offer).await?, HashSet::new()),
        _ => {
            let reason = "the last message must be of the role `user` or `assistant`";
            return Err(ApiError::field(&format!("/messages/{nth}/role"), reason));
        }
    };
    drop(permit);
    let names = match last.role == "assistant" && offer.tools.is_empty() {
        // It has offered them with an earlier message of the run.
        true => thread.ctx.store().client_tools(thread.path.id).await?,
        false => offer.tools.into_iter().map(|tool| tool.name).collect(),
    };
    let path = stream_path(&target, &request.id);
    open(thread, at, Chunks::new(names, given), path).await
}

/// Posts the user's message. Returns where the stream of its run begins.
async fn submit(
    thread: &Thread,
    (nth, message): (usize, &UiMessage),
    request: &ChatRequest,
    offer: &ClientOffer,
) -> Result<Option<Position>> {
    let Thread { ctx, path } = thread;
    let (content, images) = content(nth, message)?;
    // A message that is to be answered again is posted again, once for each answer that it replaces.
    let id = match (request.trigger, &request.message_id) {
        (Trigger::SubmitMessage, _) => Some(message.id.clone()),
        (Trigger::RegenerateMessage, Some(replaced)) => Some(format!("{} instead of {replaced}", message.id)),
        (Trigger::RegenerateMessage, None) => None,
    };
    let key = id.map(|id| Key::of_message(&path.public_id(), &id, &content, &images)).transpose()?;
    let pointer = format!("/messages/{nth}/parts");
    let new = NewMessage {
        pointers: (&pointer, &pointer),
        content,
        images: &images,
        offer: Some(offer),
        key: key.as_ref(),
        ..NewMessage::default()
    };
    let (posted, _) = thread.post(new).await?;
    let wait = if posted.opened { None } else { ctx.store().wait_before(path.id, posted.seq).await? };
    Ok(Some(Position::after(wait.unwrap_or(posted.run_seq - 1))))
}

/// Gives the answers in the assistant's message. Returns where the run had begun to wait, and the calls whose results were given.
async fn answer(
    thread: &Thread,
    (nth, message): (usize, &UiMessage),
    offer: &ClientOffer,
) -> Result<(Option<Position>, HashSet<MessageId>)> {
    let Thread { ctx, path } = thread;
    let (answers, given) = answers(thread, nth, message).await?;
    if answers.is_empty() {
        let pointer = format!("/messages/{nth}/parts");
        return Err(ApiError::field(&pointer, "has no answer in its last step: there is nothing new"));
    }
    if !offer.is_empty() {
        ctx.store().change_client_offer(path.id, offer).await?;
    }
    Ok((thread.answer(&answers).await?.wait.map(Position::after), given))
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct After {
    after: Option<String>,
}

async fn stream(
    asker: Asker,
    Path((target, chat)): Path<(String, String)>,
    headers: HeaderMap,
    Query(After { after }): Query<After>,
) -> Result<Response> {
    let at = client_position(&headers, after.as_deref())?;
    let Some(thread) = find(&asker, &target, ("/chat_id", &chat)).await? else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let store = thread.ctx.store();
    if at.is_none() && !store.agentable(&thread.path.kind, thread.path.id).await?.run_open {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let names = store.client_tools(thread.path.id).await?;
    open(thread, at, Chunks::new(names, HashSet::new()), stream_path(&target, &chat)).await
}

async fn cancel(asker: Asker, Path((target, chat)): Path<(String, String)>) -> Result<impl IntoResponse> {
    let thread = find(&asker, &target, ("/chat_id", &chat)).await?;
    let Thread { ctx, path } = thread.ok_or(ApiError::NotFound("chat"))?;
    Ok((StatusCode::ACCEPTED, Json(ctx.cancel_agentable(&path.kind, path.id, false).await?)))
}

/// Opens the stream of a chat. `path`: that of [`stream`], from which it can be resumed.
async fn open(thread: Thread, at: Option<Position>, chunks: Chunks, path: String) -> Result<Response> {
    let location = move |at: Position| format!("{path}?after={at}");
    let mut response = thread.open(at, &Options::with_interrupts(), (chunks, location)).await?;
    let (name, value) = STREAM_HEADER;
    response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    Ok(response)
}

/// The path from which the stream of a chat can be resumed.
fn stream_path(target: &str, chat: &str) -> String {
    let escaped = |segment| utf8_percent_encode(segment, RESERVED);
    format!("/compat/ai-sdk/{}/{}/stream", escaped(target), escaped(chat))
}

/// What is escaped in a segment of a path.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// What the client offers the run that answers.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when `tools` has another shape.
fn offer(request: &ChatRequest) -> Result<ClientOffer> {
    let tools = request.client_tools().ok_or_else(|| {
        let shape =
            "must be a list of tools, or an object of tools by name; each has `description` and `parameters`";
        ApiError::field("/tools", shape)
    })?;
    Ok(ClientOffer { tools, context: request.context.clone(), ..ClientOffer::default() }.focused())
}

/// The text and the images of a message of the user. `nth`: where it is in the request.
///
/// # Errors
/// [`ApiError::InvalidRequest`] at a part of another type.
fn content(nth: usize, message: &UiMessage) -> Result<(String, Vec<MessageImage>)> {
    let (mut text, mut images) = (String::new(), Vec::new());
    for (at, part) in message.parts.iter().enumerate() {
        match part["type"].as_str() {
            Some("text") => text.push_str(part["text"].as_str().unwrap_or_default()),
            Some("file") => {
                let image = image(part).ok_or_else(|| {
                    let allowed = "must be an image: a `mediaType` of `image/…`, and a `url` with https: or data: in Base64";
                    ApiError::field(&format!("/messages/{nth}/parts/{at}"), allowed)
                })?;
                images.push(image);
            }
            // Clients keep data and steps in messages; the model reads neither.
            _ => {}
        }
    }
    Ok((text, images))
}

fn image(part: &Value) -> Option<MessageImage> {
    let (media_type, url) = (part["mediaType"].as_str()?, part["url"].as_str()?);
    if !media_type.starts_with("image/") {
        return None;
    }
    match url.strip_prefix("data:") {
        Some(data) => {
            let (kind, data) = data.split_once(',')?;
            kind.ends_with(";base64").then(|| MessageImage { data: Some(data.to_owned()), url: None })
        }
        None => Some(MessageImage { data: None, url: Some(url.to_owned()) }),
    }
}

/// The answers in the last step of the assistant's message, and the calls whose results are among them. `nth`: where it is in
/// the request.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when an answer is for nothing that the run has asked.
async fn answers(thread: &Thread, nth: usize, message: &UiMessage) -> Result<(Answers, HashSet<MessageId>)> {
    let is_step = |part: &Value| part["type"] == "step-start";
    let first = message.parts.iter().rposition(is_step).map_or(0, |at| at + 1);
    let (mut answers, mut results) = (Answers::new(), Vec::new());
    for (at, part) in message.parts.iter().enumerate().skip(first).filter(|(_, part)| is_call(part)) {
        let pointer = format!("/messages/{nth}/parts/{at}");
        match part["state"].as_str() {
            Some("approval-responded") => answers.push(approval(thread, &pointer, &part["approval"]).await?),
            Some(state @ ("output-available" | "output-error")) if part["providerExecuted"] != true => {
                results.push(result(pointer, part, state == "output-error")?);
            }
            _ => {}
        }
    }
    let given = results.iter().map(|result| result.cell).collect();
    answers.extend(of_calls(thread, results).await?);
    Ok((answers, given))
}

/// Whether a part is a tool call.
fn is_call(part: &Value) -> bool {
    part["type"].as_str().is_some_and(|kind| kind.starts_with("tool-") || kind == "dynamic-tool")
}

fn result(pointer: String, part: &Value, is_error: bool) -> Result<CallResult> {
    let call = part["toolCallId"].as_str().unwrap_or_default();
    let Ok(EntityId::Message(cell)) = call.parse::<EntityId>() else {
        let reason = "must be the id of a call that waits, as in `msg_0190…`";
        return Err(ApiError::field(&format!("{pointer}/toolCallId"), reason));
    };
    let result = match is_error {
        true => failed(part["errorText"].as_str().unwrap_or("it failed")),
        false => part["output"].clone(),
    };
    Ok(CallResult { pointer, cell, result })
}

/// The answer to an approval.
async fn approval(thread: &Thread, pointer: &str, approval: &Value) -> Result<(QuestionId, Value)> {
    let reason = "is no approval of this chat that waits";
    let unknown = || ApiError::field(&format!("{pointer}/approval/id"), reason);
    let id: QuestionId = approval["id"].as_str().and_then(|id| id.parse().ok()).ok_or_else(unknown)?;
    let question = thread.question(id).await?.ok_or_else(unknown)?;
    let approved = approval["approved"].as_bool();
    let approved = approved
        .ok_or_else(|| ApiError::field(&format!("{pointer}/approval/approved"), "must be true or false"))?;
    let message = approval["reason"].as_str().map(str::to_owned);
    let answer = question.asked.plain_answer(approved, message).ok_or_else(unknown)?;
    Ok((id, checked(&question, answer, &format!("{pointer}/approval"))?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_and_images_of_a_message_are_read() {
        let message = |parts: Value| UiMessage {
            id: "m".into(),
            role: "user".into(),
            parts: serde_json::from_value(parts).unwrap(),
        };
        let read = content(
            2,
            &message(json!([
                {"type": "text", "text": "What is "}, {"type": "text", "text": "this?"},
                {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AAAA"},
                {"type": "file", "mediaType": "image/png", "url": "https://a.example/b.png"},
            ])),
        );
        let images = vec![
            MessageImage { data: Some("AAAA".into()), url: None },
            MessageImage { data: None, url: Some("https://a.example/b.png".into()) },
        ];
        assert_eq!(read.unwrap(), ("What is this?".into(), images));
        let other = json!([{"type": "file", "mediaType": "audio/wav", "url": "https://a.example/b.wav"}]);
        assert!(matches!(
            content(2, &message(other)),
            Err(ApiError::InvalidRequest(errors)) if errors[0].pointer.as_deref() == Some("/messages/2/parts/0")
        ));
    }
}
