//! `POST /v1/{kinds}/{id}/messages`: commits the message, then publishes its events to open streams and sends a hint to
//! workers, without waiting for either, and responds. A lost hint costs seconds, because the sweep finds the message.
//! If the commit also started the run on a worker of this process ([`houston_store::direct_start`]), that worker publishes
//! the events, and no hint is needed.
//!
//! `double_texting` is what the message does to an open run; without it the setting of the agent type applies:
//! - `enqueue`: the run reads the message at its next step.
//! - `interrupt`: the run is cancelled, and the message opens the next one. What the run did stays; messages it had
//!   not read yet are cancelled with it.
//! - `reject`: 409 `run_in_progress`, and nothing is stored, not even the idempotency key.
//! - `rollback`: like `interrupt`, and the run is removed from what the model reads. Its messages stay in the thread
//!   with `"rolled_back": true` in their metadata. What its tools did (notes, learnings, mails, …) is not undone.
//!
//! `run_id` of the response is the run that will answer the message: the one that is open now, or if that is being cancelled the one
//! that opens when it has ended ([`RunId::successor`](houston_domain::id::RunId::successor)). `GET /v1/runs/{id}` knows it until then
//! as queued.

use std::io;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::Response;
use houston_domain::agentable::{DoubleTexting, Urgency};
use houston_domain::client_offer::ClientOffer;
use houston_domain::message::{MAX_MESSAGE_BYTES, MAX_METADATA_BYTES, MessageStatus, MessageType, Source};
use houston_protocol::message::{AcceptedMessageResponse, CreateMessage, MessageResponse};
use houston_protocol::time::Time;
use houston_store::message::{NewPost, Posted};
use houston_store::rate::Whose;
use serde_json::{Map, Value};

use crate::agentable_path::{AgentablePath, Owner};
use crate::auth::Caller;
use crate::body::{Creation, WithImages, check_text};
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::idempotency::{Key, respond, unless_key_reused};
use crate::messages::attachments::with_attachments;
use crate::messages::images::with_images;
use crate::models::sampling;
use crate::rates::ask;
use crate::request_trace::Posting;
use crate::state::App;

endpoint! {
    POST: post "/v1/{kinds}/{id}/messages" => post,
    tag = "messages",
    operation_id = "create_message",
    summary = "Post a message: it is stored, and a run is queued or the open run reads it.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = houston_protocol::schema::AgentableId, Path, description = "Id of the agentable."),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the request safe to repeat: the same request with the same key gets the first response again and creates nothing new. 1 to 255 printable ASCII characters, kept for a day.")
    ),
    request_body = CreateMessage,
    responses(
        (status = 202, description = "The message is stored, and a run is queued or open.", body = AcceptedMessageResponse),
        (status = 409, description = "`run_in_progress`: a run is open and `double_texting` is `reject`."),
        (status = 429, description = "`rate_limited`: the user sends too many requests. `too_many_pending`: the user has too many unread messages.")
    ),
}

pub(crate) async fn post(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
    request: WithImages<CreateMessage>,
) -> Result<Response, ApiError> {
    let WithImages { creation: Creation { value: body, key }, permit: _permit } = request;
    if !path.conversational {
        return Err(ApiError::NotFound { what: "conversation" });
    }
    let has_files = !(body.images.is_empty() && body.attachments.is_empty());
    check_content("/content", &body.content, has_files)?;
    check_metadata("/metadata", &body.metadata)?;
    let offer = ClientOffer {
        focus: body.context,
        output: body.output,
        sampling: body.sampling,
        limits: body.limits,
        model_policy: body.model_policy,
        ..ClientOffer::default()
    };
    check_offer(&offer)?;
    sampling::check(&app, caller, &path, &offer.sampling, |setting| format!("/sampling/{setting}")).await?;
    if !body.images.is_empty() {
        // Before images are fetched and stored.
        ask(&app, caller, Whose::Agentable(path.id), key.as_ref()).await?;
    }
    let mut content =
        with_images(&app, caller, &path, "/images", (body.content, &body.images), key.as_ref()).await?;
    content = with_attachments(&app, caller, &path, (content, &body.attachments), key.as_ref()).await?;
    let metadata = Value::Object(body.metadata);
    let double_texting = body.double_texting.unwrap_or(path.double_texting);
    let post = (content.as_str(), &metadata, double_texting);
    let offer = Some(&offer).filter(|offer| !offer.is_empty());
    let (posted, replayed) = store_offering(&app, caller, &path, post, offer, key.as_ref()).await?;
    if replayed && has_files {
        // An address may have another image now, and a file another name.
        content = app.store(caller).message(posted.id).await?.message.content;
    }
    let location = [(header::LOCATION, format!("/v1/messages/{}", posted.id))];
    let body = accepted(&path, &posted, content, metadata);
    Ok(respond((StatusCode::ACCEPTED, location, Json(body)), replayed))
}

/// Stores a message that was checked, with what its client offers the run that answers it, and publishes it; whether it was
/// stored before under the same key.
pub(crate) async fn store_offering(
    app: &Arc<App>,
    caller: Caller,
    path: &AgentablePath,
    (content, metadata, double_texting): (&str, &Value, DoubleTexting),
    offer: Option<&ClientOffer>,
    key: Option<&Key>,
) -> Result<(Posted, bool), ApiError> {
    ask(app, caller, Whose::Agentable(path.id), key).await?;
    let kind = app.agentables.unconfirmed(caller, path);
    let posting = Posting::begin(path.urgency);
    let post = NewPost {
        traceparent: posting.traceparent.as_deref(),
        id: app.state.ids.beside(path.id),
        run: app.state.ids.beside(path.id),
        content,
        metadata,
        double_texting,
        starts: path.urgency == Urgency::Interactive,
        kind,
    };
    let key = key.map(Key::as_stored);
    houston_faults::fault!("C1").map_err(houston_store::Error::from)?;
    let created = match offer {
        None => app.store(caller).post_message(path.id, &post, key).await?,
        Some(offer) => app.store(caller).post_message_with_offer(path.id, &post, offer, key).await?,
    };
    let (posted, replayed) = unless_key_reused(created)?;
    posting.end(posted.id, posted.run);
    if kind.is_some() {
        app.agentables.remember(caller, path);
    }
    houston_faults::fault!("C3").map_err(houston_store::Error::from)?;
    if !replayed && posted.opened {
        app.count_run(path.urgency);
    }
    if !replayed && !posted.is_started {
        app.publish_events(path.id, posted.events(content, metadata));
        if double_texting.cancels() && !posted.opened {
            app.publish_cancel(path.id, posted.run);
        }
        if posted.needs_hint {
            app.send_hint(path.id, path.urgency);
        }
    }
    houston_faults::fault!("C2").map_err(houston_store::Error::from)?;
    Ok((posted, replayed))
}

/// Checks ranges and sizes, and that Postgres can store its values.
fn check_offer(offer: &ClientOffer) -> Result<(), ApiError> {
    offer.check(|_| false).map_err(|wrong| ApiError::field(&wrong.pointer, wrong.reason))?;
    let ClientOffer { focus, output, .. } = offer;
    if let Some(data) = focus.as_ref().and_then(|focus| focus.data.as_ref()) {
        check_storable_value("/context/data", data)?;
    }
    output.as_ref().map_or(Ok(()), |output| check_storable_value("/output/schema", &output.schema))
}

/// `may_be_empty`: there are images.
///
/// # Errors
/// [`ApiError::MessageTooLarge`], [`ApiError::EmptyMessage`], or [`ApiError::InvalidRequest`] when Postgres could not store
/// the text.
pub(crate) fn check_content(pointer: &str, content: &str, may_be_empty: bool) -> Result<(), ApiError> {
    let bytes = content.len();
    if bytes > MAX_MESSAGE_BYTES {
        return Err(ApiError::MessageTooLarge { bytes, limit: MAX_MESSAGE_BYTES });
    }
    if !may_be_empty && content.trim().is_empty() {
        return Err(ApiError::EmptyMessage);
    }
    check_text(pointer, content)
}

/// # Errors
/// [`ApiError::InvalidRequest`] when it is too large, or Postgres could not store it.
pub(crate) fn check_metadata(pointer: &str, metadata: &Map<String, Value>) -> Result<(), ApiError> {
    // The size first: the next check, and counting all bytes, would take long for large metadata.
    if serde_json::to_writer(AtMost(MAX_METADATA_BYTES), metadata).is_err() {
        let detail = format!("is too large as JSON; at most {MAX_METADATA_BYTES} bytes are allowed");
        return Err(ApiError::field(pointer, detail));
    }
    check_storable(pointer, metadata)
}

/// A writer that counts bytes and fails when there are more than this.
struct AtMost(usize);

impl io::Write for AtMost {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Checks that Postgres can store all strings in `object`, names included.
fn check_storable(pointer: &str, object: &Map<String, Value>) -> Result<(), ApiError> {
    object.iter().try_for_each(|(name, value)| {
        check_text(pointer, name)?;
        check_storable_value(pointer, value)
    })
}

/// Checks that Postgres can store all strings in `value`.
pub(crate) fn check_storable_value(pointer: &str, value: &Value) -> Result<(), ApiError> {
    match value {
        Value::String(text) => check_text(pointer, text),
        Value::Array(items) => items.iter().try_for_each(|item| check_storable_value(pointer, item)),
        Value::Object(fields) => check_storable(pointer, fields),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

/// The body of the response; a replay gets the same, whatever the message's status is now.
pub(crate) fn accepted(
    path: &AgentablePath,
    posted: &Posted,
    content: String,
    metadata: Value,
) -> AcceptedMessageResponse {
    let message = MessageResponse {
        result: None,
        id: posted.id,
        owner: Owner { kind: path.kind.clone(), id: path.id },
        source: Source::User,
        message_type: MessageType::Text,
        content,
        metadata,
        status: Some(MessageStatus::Pending),
        run_id: Some(posted.answered_by),
        seq: posted.seq,
        created_at: Time(posted.created_at),
        processed_at: None,
    };
    AcceptedMessageResponse {
        message,
        events_url: format!("{}/events?after={}", path.url_path(), posted.run_seq - 1),
    }
}
