//! `POST /v1/{kinds}/{id}/messages`: commit, then answer; then tell the streams and ring a worker, neither of
//! which is waited for. A hint that is lost costs seconds, since the stored message is what workers look for.
//!
//! `double_texting` says what the message does to a run that is open when it comes; without it, the agent type does:
//! - `enqueue`: the run reads it at its next step.
//! - `interrupt`: the run is cancelled, and the message opens the next one. What the run did stays; messages it had
//!   not read yet are cancelled with it.
//! - `reject`: 409 `run_in_progress`, and nothing is stored, not even the idempotency key.
//! - `rollback`: as `interrupt`, and the run leaves no trace in what the model sees. Its messages stay in the thread
//!   with `"rolled_back": true` in their metadata. What its tools did (notes, learnings, mails, …) is not undone.
//!
//! The answer's `run_id` is the run that is open now, also when the message cancels it; `GET /v1/messages/{id}` names
//! the run that answers, once it is open.

use std::io;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::Response;
use houston_domain::event::{Committed, Event, MessageBody};
use houston_domain::message::{MAX_MESSAGE_BYTES, MAX_METADATA_BYTES, MessageStatus, MessageType, Source};
use houston_protocol::message::{AcceptedMessageResponse, CreateMessage, MessageResponse};
use houston_protocol::schema;
use houston_protocol::time::Time;
use houston_store::message::{NewPost, Posted};
use serde_json::{Map, Value};

use crate::auth::Caller;
use crate::body::{Creation, check_text};
use crate::error::ApiError;
use crate::idempotency::{Key, answer, made};
use crate::agentable_path::{Owner, AgentablePath};
use crate::state::App;

#[utoipa::path(
    post,
    path = "/v1/{kinds}/{id}/messages",
    tag = "messages",
    operation_id = "create_message",
    summary = "Posts a message",
    params(
        ("kinds" = String, Path, description = "The plural of a kind.", example = "goals"),
        ("id" = schema::AgentableId, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "The same request under the same key is answered the same, and creates nothing twice. 1 to 255 visible ASCII characters, kept for a day.")
    ),
    request_body = CreateMessage,
    responses(
        (status = 202, description = "It is stored, and a run is queued or open", body = AcceptedMessageResponse),
        (status = 409, description = "`run_in_progress`: a run is open, and `double_texting` is `reject`"),
        (status = 429, description = "`too_many_pending`")
    ),
)]
pub(crate) async fn post(
    State(app): State<Arc<App>>,
    caller: Caller,
    place: AgentablePath,
    request: Creation<CreateMessage>,
) -> Result<Response, ApiError> {
    let Creation { value: body, key } = request;
    if !place.conversational {
        return Err(ApiError::NotFound { what: "conversation" });
    }
    check(&body)?;
    app.confirm_for_post(caller, &place).await?;
    let content = body.content;
    let metadata = Value::Object(body.metadata);
    let double_texting = body.double_texting.unwrap_or(place.double_texting);
    let post = NewPost {
        id: app.state.ids.next(),
        run: app.state.ids.next(),
        content: &content,
        metadata: &metadata,
        double_texting,
    };
    let key = key.as_ref().map(Key::as_stored);
    houston_faults::fault!("C1").map_err(houston_store::Error::from)?;
    let (posted, replayed) = made(app.store().post_message(caller.tenant, place.id, &post, key).await?)?;
    houston_faults::fault!("C3").map_err(houston_store::Error::from)?;
    if !replayed {
        app.announce(place.id, events(&posted, &content, &metadata));
        if double_texting.cancels() && !posted.opened {
            app.cancel(place.id, posted.run);
        }
        if posted.ring {
            app.ring(place.id, place.urgency);
        }
    }
    houston_faults::fault!("C2").map_err(houston_store::Error::from)?;
    let location = [(header::LOCATION, format!("/v1/messages/{}", posted.id))];
    let body = accepted(&place, &posted, content, metadata);
    Ok(answer((StatusCode::ACCEPTED, location, Json(body)), replayed))
}

fn check(body: &CreateMessage) -> Result<(), ApiError> {
    let bytes = body.content.len();
    if bytes > MAX_MESSAGE_BYTES {
        return Err(ApiError::MessageTooLarge { bytes, limit: MAX_MESSAGE_BYTES });
    }
    if body.content.trim().is_empty() {
        return Err(ApiError::EmptyMessage);
    }
    check_text("/content", &body.content)?;
    // The size first: what comes after it, and counting on, would take long for much.
    if serde_json::to_writer(AtMost(MAX_METADATA_BYTES), &body.metadata).is_err() {
        let told = format!("has too many bytes as JSON; {MAX_METADATA_BYTES} are allowed");
        return Err(ApiError::field("/metadata", told));
    }
    check_storable("/metadata", &body.metadata)
}

/// Takes so many bytes and fails with the next one.
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

/// Looks for what Postgres cannot store in any text of `object`, names included.
fn check_storable(pointer: &str, object: &Map<String, Value>) -> Result<(), ApiError> {
    fn walk(pointer: &str, value: &Value) -> Result<(), ApiError> {
        match value {
            Value::String(text) => check_text(pointer, text),
            Value::Array(items) => items.iter().try_for_each(|item| walk(pointer, item)),
            Value::Object(fields) => check_storable(pointer, fields),
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        }
    }
    object.iter().try_for_each(|(name, value)| {
        check_text(pointer, name)?;
        walk(pointer, value)
    })
}

/// The events that were committed with the message.
fn events(posted: &Posted, content: &str, metadata: &Value) -> Vec<Committed> {
    let committed =
        |seq, event, body| Committed { seq, run_id: posted.run, at: posted.created_at, event, body };
    let body = MessageBody {
        source: Source::User,
        message_type: MessageType::Text,
        content: content.to_owned(),
        metadata: if metadata == &Value::Object(Map::new()) { Value::Null } else { metadata.clone() },
    };
    let message = committed(posted.seq, Event::MessagePosted { message_id: posted.id }, Some(body));
    if posted.opened {
        vec![committed(posted.seq - 1, Event::RunQueued {}, None), message]
    } else {
        vec![message]
    }
}

/// The answer: the same for a replay, whatever became of the message since.
fn accepted(place: &AgentablePath, posted: &Posted, content: String, metadata: Value) -> AcceptedMessageResponse {
    let message = MessageResponse {
        id: posted.id,
        owner: Owner { kind: place.kind.clone(), id: place.id },
        source: Source::User,
        message_type: MessageType::Text,
        content,
        metadata,
        status: Some(MessageStatus::Pending),
        run_id: Some(posted.run),
        seq: posted.seq,
        created_at: Time(posted.created_at),
        processed_at: None,
    };
    AcceptedMessageResponse {
        message,
        events_url: format!("{}/events?after={}", place.path(), posted.run_seq - 1),
    }
}
