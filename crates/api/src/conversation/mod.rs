//! Whole conversations: export, import, fork, reset, statistics.

pub(crate) mod export;
pub(crate) mod fork;
pub(crate) mod import;
pub(crate) mod reset;
pub(crate) mod stats;

use axum::response::Response;
use houston_domain::conversation::Conversation;
use houston_domain::id::{AgentableId, RunId, UserId};
use houston_protocol::agentable::AgentableResponse;
use houston_protocol::time::Time;
use houston_store::agentable::NewAgentable;
use houston_store::conversation::{NewConversation, Origin};
use rust_decimal::Decimal;

use crate::agentable_path::KindPath;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::idempotency::{Key, created, stored_body, unless_key_reused};
use crate::state::App;

/// Creates an agentable that continues where `conversation` ends, and returns the 201 response. `digest`: of the document as it
/// was received; `None` for a fork.
async fn create(
    app: &App,
    caller: Caller,
    kind: &KindPath,
    user: UserId,
    (conversation, digest): (&Conversation, Option<[u8; 32]>),
    origin: Option<Origin>,
    key: Option<Key>,
) -> Result<Response, ApiError> {
    let (id, run): (AgentableId, RunId) = (app.state.ids.beside(user), app.state.ids.beside(user));
    let agentable = NewAgentable {
        id,
        user,
        kind: &kind.name,
        title: &conversation.title,
        description: &conversation.description,
        status: kind.initial_status.as_deref(),
        tools: conversation.tools.as_deref(),
        created_at: app.now(),
    };
    let served_by = origin.map(|origin| origin.served_by).unwrap_or_default();
    let response = AgentableResponse {
        result: None,
        message: None,
        cost: Some(Decimal::ZERO),
        unpriced_calls: 0,
        last_seq: None,
        read_seq: None,
        unread: None,
        id: id.public_id(&kind.name),
        user_id: user,
        title: conversation.title.clone(),
        description: conversation.description.clone(),
        status: kind.initial_status.clone(),
        run_id: Some(run),
        parent_id: None,
        agent_id: served_by.agent,
        team_id: served_by.team,
        tools: conversation.tools.clone(),
        created_at: Time(agentable.created_at),
    };
    let body = stored_body(&response);
    let new = NewConversation { agentable, conversation, digest, run, origin };
    let key = key.as_ref().map(Key::as_stored);
    let done = app.store(caller).create_conversation(&new, &app.state.ids, key, &body).await?;
    let (stored, replayed) = unless_key_reused(done)?;
    created(stored, replayed, &format!("/v1/{}s", kind.name))
}

/// # Errors
/// [`ApiError::NotCreatable`] when users may not create agentables of the kind.
fn check_kind(kind: &KindPath) -> Result<(), ApiError> {
    if kind.user_creatable {
        return Ok(());
    }
    Err(ApiError::NotCreatable { kind: kind.name.clone(), made_with_user: kind.made_with_user })
}
