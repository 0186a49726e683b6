//! `POST /compat/ai-sdk/{target}`: what `sendMessage()`, `regenerate()` and automatic submissions send.

use std::collections::HashSet;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Response;
use houston_domain::client_offer::ClientOffer;
use houston_domain::id::MessageId;
use houston_protocol::ai_sdk::{ChatRequest, Trigger, UiMessage};
use serde_json::Map;

use super::chunks::Chunks;
use super::request::{answers, content, offer};
use super::{open, stream_path};
use crate::body::{Creation, WithImages};
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::events::ag_ui::answers::give;
use crate::events::position::Position;
use crate::events::streams::reserve;
use crate::idempotency::Key;
use crate::state::App;
use crate::threads::{Asker, NewMessage, Thread, find_or_create};

endpoint! {
    POST: post "/compat/ai-sdk/{target}" => post,
    tag = "ai-sdk",
    operation_id = "run_ai_sdk_chat",
    summary = "Run an agent for a chat of the Vercel AI SDK: post its message or its answers, and stream the run.",
    params(
        ("target" = String, Path, description = "Who answers: a kind that is conversational, or an agent, by its name or id."),
        ("Houston-User" = Option<String>, Header, description = "Whose chat it is, if the key is of no user: the id of a user, or an external id, for which a user is created.")
    ),
    request_body = ChatRequest,
    responses(
        (status = 200, description = "Chunks of the UI message stream v1 until the run ends, or waits for a person or for the client; then `[DONE]`.", body = houston_protocol::ai_sdk::Chunk, content_type = "text/event-stream"),
        (status = 204, description = "Everything was answered before, and no run is open."),
        (status = 409, description = "`question_closed`: what is answered was answered otherwise, has expired, or is not asked any more. `run_in_progress`: a run is open, and messages to it are refused. `not_creatable`: conversations of this kind are not created by clients."),
        (status = 429, description = "`too_many_streams`, `too_many_pending`.")
    ),
}

pub(crate) async fn post(
    State(app): State<Arc<App>>,
    asker: Asker,
    Path(target): Path<String>,
    WithImages { creation: Creation { value: request, key: _ }, permit }: WithImages<ChatRequest>,
) -> Result<Response, ApiError> {
    let asker = asker.for_user(&app, ("/user", request.user.as_deref())).await?;
    reserve(&app, asker.caller())?;
    let thread = find_or_create(&app, &asker, &target, ("/id", &request.id)).await?;
    let offer = offer(&request)?;
    thread.check_offer(&offer)?;
    let Some((nth, last)) = request.messages.iter().enumerate().next_back() else {
        return Err(ApiError::field("/messages", "must not be empty: the last one is read"));
    };
    let (at, given) = match last.role.as_str() {
        "assistant" => answer(&thread, (nth, last), &offer).await?,
        "user" => (submit(&thread, (nth, last), &request, &offer).await?, HashSet::new()),
        _ => {
            let pointer = format!("/messages/{nth}/role");
            return Err(ApiError::field(
                &pointer,
                "the last message must be of the role `user` or `assistant`",
            ));
        }
    };
    drop(permit);
    let names = match last.role == "assistant" && offer.tools.is_empty() {
        // It has offered them with an earlier message of the run.
        true => thread.app.store(thread.caller).client_tools(thread.path.id).await?,
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
) -> Result<Option<Position>, ApiError> {
    let Thread { app, caller, path } = thread;
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
        metadata: Map::new(),
        double_texting: None,
        offer: Some(offer),
        key: key.as_ref(),
    };
    let (posted, _) = thread.post(new).await?;
    let wait = if posted.opened { None } else { app.store(*caller).wait_before(path.id, posted.seq).await? };
    Ok(Some(Position::after(wait.unwrap_or(posted.run_seq - 1))))
}

/// Gives the answers in the assistant's message. Returns where the run had begun to wait, and the calls whose results were given.
async fn answer(
    thread: &Thread,
    (nth, message): (usize, &UiMessage),
    offer: &ClientOffer,
) -> Result<(Option<Position>, HashSet<MessageId>), ApiError> {
    let Thread { app, caller, path } = thread;
    let (answers, given) = answers(thread, nth, message).await?;
    if answers.is_empty() {
        let pointer = format!("/messages/{nth}/parts");
        return Err(ApiError::field(&pointer, "has no answer in its last step: there is nothing new"));
    }
    if !offer.is_empty() {
        app.store(*caller).change_client_offer(path.id, offer).await?;
    }
    Ok((give(thread, &answers).await?, given))
}
