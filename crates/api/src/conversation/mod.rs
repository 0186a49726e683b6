//! Conversations as a whole: copied, written down, read back, counted, emptied.

pub(crate) mod export;
pub(crate) mod fork;
pub(crate) mod import;
pub(crate) mod reset;
pub(crate) mod stats;

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::Response;
use houston_domain::conversation::Conversation;
use houston_domain::id::{AgentableId, RunId, UserId};
use houston_store::agentable::NewAgentable;
use houston_store::conversation::{NewConversation, Origin};

use crate::agentables::Shown;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::idempotency::{Key, answer, made, stored_answer};
use crate::place::Kind;
use crate::rfc3339::Time;
use crate::state::App;

/// Makes an agentable that goes on where `conversation` ends, and answers with it.
async fn make(
    app: &App,
    caller: Caller,
    kind: &Kind,
    user: UserId,
    conversation: &Conversation,
    origin: Option<Origin>,
    key: Option<Key>,
) -> Result<Response, ApiError> {
    let (id, run): (AgentableId, RunId) = (app.state.ids.next(), app.state.ids.next());
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
    let shown = Shown {
        cost: houston_store::cost::Cost::NOTHING.into(),
        id: id.shown(&kind.name),
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
    let response = serde_json::to_value(shown).unwrap_or_default();
    let new = NewConversation { agentable, conversation, run, origin };
    let key = key.as_ref().map(Key::as_stored);
    let done = app.store().create_conversation(caller.tenant, &new, &app.state.ids, key, &response).await?;
    let (stored, replayed) = made(done)?;
    let shown: Shown = stored_answer(stored)?;
    let location = [(header::LOCATION, format!("/v1/{}s/{}", kind.name, shown.id))];
    Ok(answer((StatusCode::CREATED, location, Json(shown)), replayed))
}

/// Only what people begin can be begun by a copy.
fn check_kind(kind: &Kind) -> Result<(), ApiError> {
    if kind.begun_by_people {
        return Ok(());
    }
    Err(ApiError::NotCreatable { kind: kind.name.clone(), made_with_user: kind.made_with_user })
}
