//! `/compat/openai/v1/responses`: responses are runs.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use houston_domain::agentable::Urgency;
use houston_domain::client_offer::ClientOffer;
use houston_domain::message::Source;
use houston_domain::run::RunStatus;
use houston_protocol::openai::input::Input;
use houston_protocol::openai::item::Role;
use houston_protocol::openai::list::{InputMessage, List};
use houston_protocol::openai::parameters::Endpoint;
use houston_protocol::openai::request::CreateResponse;
use houston_protocol::openai::response::Status;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use super::begin::{Begun, Named, begin, check, check_metadata, ignored, target, thread, with_ignored};
use super::found::Found;
use super::id::ResponseId;
use super::offer;
use super::replay::Said;
use super::stream::{ResponseEvents, Waiting};
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::body::{Creation, WithImages};
use crate::error::ApiError;
use crate::events::get::Options;
use crate::events::open::open_as;
use crate::events::streams::reserve;
use crate::idempotency::respond;
use crate::models::sampling;
use crate::query::Query;
use crate::state::App;
use crate::threads::Asker;

/// `POST /responses`.
pub(super) async fn create(
    State(app): State<Arc<App>>,
    asker: Asker,
    request: WithImages<CreateResponse>,
) -> Result<Response, ApiError> {
    let WithImages { creation: Creation { value: body, key }, permit: _permit } = request;
    let ignored = ignored(Endpoint::Responses, &body.others)?;
    let mut input = read(&body)?;
    let named = match (&body.conversation, &body.previous_response_id) {
        (Some(_), Some(_)) => {
            let reason = "cannot be combined with `conversation`";
            return Err(ApiError::field("/previous_response_id", reason));
        }
        (Some(conversation), None) => Named::Conversation("/conversation", conversation.id()),
        (None, Some(previous)) => Named::After(previous),
        (None, None) => Named::nothing(&input),
    };
    let is_new = matches!(named, Named::New);
    let format = body.others.get("text").map_or(&Value::Null, |text| &text["format"]);
    let output = offer::output("/text/format", format)?;
    let mut offer = ClientOffer { output, ..offer::of(&body.tools, &input.instructions)? };
    offer::choose(&mut offer, &body.others)?;
    offer::tune(&mut offer, &body.others)?;
    let asker = asker.for_user(&app, ("/safety_identifier", body.safety_identifier.as_deref())).await?;
    let asker = asker.for_user(&app, ("/user", body.user.as_deref())).await?;
    let key = match asker.own_key(key) {
        Some(key) => Some(key.of_attempt(&app, asker.caller()).await?),
        None => None,
    };
    if body.stream || !body.background {
        reserve(&app, asker.caller())?;
    }
    let at = |setting: &str| offer::parameter(Endpoint::Responses, setting);
    if is_new {
        // Before a thread is made that would stay empty.
        sampling::check_target(&app, asker.caller(), target(&body.model), &offer.sampling, at).await?;
    }
    let thread = thread(&app, &asker, &body.model, named, key.as_ref()).await?;
    if !is_new {
        sampling::check(&thread.app, thread.caller, &thread.path, &offer.sampling, at).await?;
    }
    let said = Said {
        model: body.model,
        previous: body.previous_response_id,
        background: body.background,
        metadata: body.metadata,
        functions: Vec::new(),
    };
    if is_new {
        input.tell_earlier();
    }
    let begun = begin(thread, input, ("/input", said), &offer, key.as_ref()).await?;
    let replayed = begun.replayed;
    let response = if body.stream {
        streamed(begun).await?
    } else if body.background {
        Json(begun.translator.response()).into_response()
    } else {
        awaited(begun).await?
    };
    Ok(with_ignored(respond(response, replayed), ignored))
}

fn read(body: &CreateResponse) -> Result<Input, ApiError> {
    check_metadata(&body.metadata)?;
    let mut input = Input::of_response(&body.input)
        .map_err(|invalid| ApiError::field(&format!("/input{}", invalid.pointer), invalid.reason))?;
    match &body.instructions {
        None | Some(Value::Null) => {}
        Some(Value::String(text)) => input.instructions.insert(0, text.clone()),
        Some(_) => return Err(ApiError::field("/instructions", "must be a text")),
    }
    check(&input, "/input")?;
    Ok(input)
}

async fn streamed(begun: Begun) -> Result<Response, ApiError> {
    let Begun { thread, translator, base, at, .. } = begun;
    let url = url(&translator);
    let events = ResponseEvents::new(translator, base, 0);
    thread.open(Some(at), &Options::with_interrupts(), (events, |_| url)).await
}

fn url(translator: &super::translate::Translator) -> String {
    format!("{}/responses/{}?stream=true", super::BASE, translator.response().id)
}

/// The response when it is over, or after the longest time. Nothing is held meanwhile but a stream.
async fn awaited(begun: Begun) -> Result<Response, ApiError> {
    let Begun { thread, translator, at, .. } = begun;
    let until = Instant::now() + thread.app.state.config.wait();
    let url = url(&translator);
    let mut response = thread
        .open(Some(at), &Options::with_interrupts(), (Waiting::new(translator, until), |_| url))
        .await?;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// The parameters of `GET /responses/{id}`; the others say what a client wants to have besides.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Retrieval {
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    starting_after: u64,
}

/// `GET /responses/{id}`: the response, or its events after `starting_after`.
pub(super) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<ResponseId>,
    Query(query): Query<Retrieval>,
) -> Result<Response, ApiError> {
    let found = Found::new(&app, caller, id).await?;
    if !query.stream {
        return Ok(Json(found.read().await?.response()).into_response());
    }
    let (mut events, at) = found.resume(query.starting_after).await?;
    if events.translator.is_over() {
        let headers = [(header::CONTENT_TYPE, "text/event-stream")];
        return Ok((headers, events.take_missing()).into_response());
    }
    let Found { app, caller, path, .. } = found;
    let url = url(&events.translator);
    open_as(app, caller, path, Some(at), &Options::with_interrupts(), (events, |_| url)).await
}

/// `POST /responses/{id}/cancel`.
pub(super) async fn cancel(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<ResponseId>,
) -> Result<Response, ApiError> {
    let found = Found::new(&app, caller, id).await?;
    let (app, run) = (&found.app, id.run);
    let asked = app.store(caller).cancel_run(run).await?;
    if let Some((agentable, kind)) = &asked {
        let urgency = app.state.agent_types.get(kind).map_or(Urgency::Interactive, |kind| kind.urgency);
        app.publish_cancel(*agentable, run);
        app.send_hint(*agentable, urgency);
    }
    let mut response = found.read().await?.response();
    if asked.is_some() && !response.status.is_final() {
        // Nothing stops it any more.
        response.status = Status::Cancelled;
    } else if asked.is_none() && found.run.status != RunStatus::Cancelled {
        return Err(ApiError::InvalidState { status: found.run.status });
    }
    Ok(Json(response).into_response())
}

/// `DELETE /responses/{id}`: the model reads the whole thread, so a part of it cannot be taken out.
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<ResponseId>,
) -> Result<Response, ApiError> {
    Found::new(&app, caller, id).await?;
    let reason =
        "a response cannot be deleted by itself, only its conversation: `DELETE /conversations/{id}`";
    Err(ApiError::field("", reason))
}

/// `GET /responses/{id}/input_items`.
pub(super) async fn input_items(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<ResponseId>,
) -> Result<Response, ApiError> {
    let found = Found::new(&app, caller, id).await?;
    let items = found.input().await?.into_iter().filter_map(|event| {
        let (id, body) = (event.event.message_id()?, event.body?);
        let role = if body.source == Source::User { Role::User } else { Role::System };
        Some(InputMessage::new(id.to_string(), role, body.content))
    });
    Ok(Json(List::new(items.collect(), false, |item: &InputMessage| item.id.clone())).into_response())
}
