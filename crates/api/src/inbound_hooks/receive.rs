//! `POST /hooks/{id}`: posts what another program has sent, if it is signed with the secret of the hook (Standard Webhooks), as a
//! message that is marked as what strangers wrote. The same `webhook-id` posts nothing a second time.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use houston_domain::id::InboundHookId;
use houston_domain::inbound_hook::{HookMessage, MAX_BYTES, MAX_ID};
use houston_domain::masks::Masks;
use houston_domain::storable::storable;
use houston_protocol::inbound_hook::ReceivedResponse;
use houston_store::inbound_hook::ReceivedMessage;
use houston_web::webhook::ID;
use http_body_util::LengthLimitError;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::time::timeout;

use crate::error::ApiError;
use crate::peers::Peer;
use crate::request_trace::Posting;
use crate::state::App;
use crate::webhooks::secret;

/// The path.
pub(crate) const PATH: &str = "/hooks/{id}";
/// Time limit for receiving a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Receives a message. Wrong signatures count as wrong keys do.
pub(crate) async fn receive(
    State(app): State<Arc<App>>,
    path: Result<Path<String>, PathRejection>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<ReceivedResponse>), ApiError> {
    const NOT_FOUND: ApiError = ApiError::NotFound { what: "inbound hook" };
    let id = path.ok().and_then(|Path(id)| id.parse::<InboundHookId>().ok()).ok_or(NOT_FOUND)?;
    let attempt = peer.as_deref().map(|peer| app.peers.attempt(peer)).transpose()?;
    let body = timeout(BODY_TIMEOUT, to_bytes(body, MAX_BYTES)).await;
    let body = match body {
        Ok(Ok(body)) => body,
        Ok(Err(error)) => {
            let is_too_long = error.into_inner().is::<LengthLimitError>();
            let too_large = ApiError::BodyTooLarge { limit: MAX_BYTES };
            return Err(if is_too_long { too_large } else { ApiError::BrokenBody });
        }
        Err(_) => return Err(ApiError::BodyMissing),
    };
    let (hook, store) = app.api_store().inbound_hook(id).await?.ok_or(NOT_FOUND)?;
    let what = id.to_string();
    let old = hook.old_sealed.as_deref().zip(hook.old_until);
    let secrets = secret::opened(&app, (hook.tenant, &what), &hook.sealed, old)?;
    let signer = secret::signer(&secrets)?;
    let now = app.now();
    let seconds = u64::try_from(now.timestamp()).unwrap_or(0);
    signer.verify(&headers, &body, seconds).map_err(ApiError::InvalidSignature)?;
    if let Some(attempt) = attempt {
        attempt.uncount();
    }
    let webhook_id = headers.get(ID).and_then(|id| id.to_str().ok()).unwrap_or_default();
    if webhook_id.is_empty() || webhook_id.len() > MAX_ID {
        return Err(ApiError::field("", format!("`webhook-id` must have 1 to {MAX_ID} characters")));
    }
    let mut text = String::from_utf8(body.to_vec())
        .map_err(|_| ApiError::field("", "the body must be text in UTF-8, such as JSON"))?;
    storable(&mut text);
    // Some programs send their settings, too.
    let text = masks(&secrets).text(&text).into_owned();
    let (agentable, kind) = &hook.agentable;
    let posting = Posting::begin(app.urgency(kind));
    let message =
        HookMessage { hook: id, name: &hook.name, instructions: &hook.instructions, text: &text, webhook_id };
    let received = ReceivedMessage {
        webhook_id,
        message: app.state.ids.beside(*agentable),
        run: app.state.ids.beside(*agentable),
        content: &message.frame(),
        metadata: &message.metadata(),
        traceparent: posting.traceparent.as_deref(),
        now,
    };
    let (message_id, run) = store.receive(&hook, &received).await?;
    if let Some(run) = run {
        posting.end(message_id, run);
        app.publish_nudge(*agentable);
        app.send_hint(*agentable, app.urgency(kind));
    }
    Ok((StatusCode::ACCEPTED, Json(ReceivedResponse { message_id })))
}

/// What takes the secrets of a hook out of what is posted to it, with and without what their text begins with.
fn masks(secrets: &[SecretString]) -> Masks {
    let texts = secrets.iter().map(|secret| secret.expose_secret());
    Masks::of(texts.flat_map(|text| [Some(text), text.strip_prefix("whsec_")]).flatten())
}
