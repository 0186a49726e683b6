//! Creates the agentable of a client's thread, with its user if there is none.

use std::sync::Arc;

use houston_domain::agentable::AgentType;
use houston_domain::id::{AgentableId, UserId};
use houston_protocol::user::CreateUser;
use houston_store::Error;
use houston_store::agentable::NewAgentable;
use houston_store::client_thread::{ThreadTarget, ThreadUser};
use houston_store::creation::{Creation, NewUser};
use houston_store::serving::ServedBy;
use houston_store::user::User;

use super::Thread;
use super::find::Looked;
use crate::agentable_path::AgentablePath;
use crate::error::ApiError;
use crate::users::{new_user, own_agentables};

/// Creates the thread; `None`: another request has created it, or its user, meanwhile.
pub(super) async fn create(looked: &Looked<'_>) -> Result<Option<Thread>, ApiError> {
    let kind = looked.kind()?;
    if looked.asker.authority.agentables.is_some() {
        return Err(ApiError::BoundKey);
    }
    if let Some(agent) = looked.found.agent.as_ref().filter(|agent| !agent.enabled) {
        let detail = format!("{} is disabled; enable it first", agent.id);
        return Err(ApiError::parameter("target", detail));
    }
    let new = match looked.found.user {
        Some(_) => None,
        None => Some(new_owner(looked)?),
    };
    let id = if kind.made_with_user {
        of_user(looked, kind, new.as_ref()).await?
    } else if kind.user_creatable() {
        of_thread(looked, kind, new.as_ref()).await?
    } else {
        return Err(ApiError::NotCreatable { kind: kind.kind.clone(), made_with_user: false });
    };
    let Some(id) = id else { return Ok(None) };
    let path = AgentablePath::of_kind(&looked.app.state.agent_types, &kind.kind, id);
    let path = path.ok_or(ApiError::NotFound { what: "agentable" })?;
    Ok(Some(Thread { app: Arc::clone(&looked.app), caller: looked.asker.caller(), path }))
}

/// The user who is created with the thread.
fn new_owner(looked: &Looked<'_>) -> Result<User, ApiError> {
    let ThreadUser::External(external_id) = looked.of.user else {
        return Err(ApiError::NotFound { what: "user" });
    };
    let body = CreateUser {
        external_id: Some(external_id.to_owned()),
        name: external_id.chars().take(200).collect(),
        time_zone: None,
    };
    new_user(&looked.app, looked.asker.caller(), "/user", body, None)
}

/// A new agentable for the thread.
async fn of_thread(
    looked: &Looked<'_>,
    kind: &AgentType,
    new: Option<&User>,
) -> Result<Option<AgentableId>, ApiError> {
    let (app, store) = (&looked.app, looked.app.store(looked.asker.caller()));
    let Some(user) = owner(looked, new) else { return Ok(None) };
    let agentable = NewAgentable {
        id: app.state.ids.beside(user),
        user,
        kind: &kind.kind,
        title: if kind.titles { "" } else { looked.of.thread },
        description: "",
        status: kind.initial_status(),
        tools: None,
        created_at: app.now(),
    };
    let own = new.map_or_else(Vec::new, |user| own_agentables(app, user));
    let agent = looked.found.agent.as_ref().map(|agent| agent.id);
    let creation = Creation {
        user: new.map(|user| NewUser { user, own: &own }),
        agentable: Some(&agentable),
        served_by: ServedBy { agent, team: None },
        message: None,
    };
    match store.create_client_thread(&creation, &target(looked), looked.of.thread).await {
        Ok(is_first) => Ok(is_first.then_some(agentable.id)),
        Err(Error::Exists { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The agentable that was created with the user.
async fn of_user(
    looked: &Looked<'_>,
    kind: &AgentType,
    new: Option<&User>,
) -> Result<Option<AgentableId>, ApiError> {
    let (app, store) = (&looked.app, looked.app.store(looked.asker.caller()));
    if let Some(user) = new {
        let own = own_agentables(app, user);
        let created = store.create_user(user, &own, None, &serde_json::Value::Null).await;
        if let Err(Error::Exists { .. }) = created {
            return Ok(None);
        }
        created?;
    }
    let Some(user) = owner(looked, new) else { return Ok(None) };
    let thread = (target(looked), looked.of.thread);
    Ok(Some(store.own_client_thread(user, &kind.kind, (&thread.0, thread.1)).await?))
}

fn owner(looked: &Looked<'_>, new: Option<&User>) -> Option<UserId> {
    looked.found.user.or(new.map(|user| user.id))
}

/// The target as it is stored: an agent by its id, because names change.
fn target(looked: &Looked<'_>) -> String {
    match (looked.of.target, &looked.found.agent) {
        (_, Some(agent)) => agent.id.0.to_string(),
        (ThreadTarget::Kind(target) | ThreadTarget::AgentNamed(target), None) => target.to_owned(),
        (ThreadTarget::Agent(id), None) => id.0.to_string(),
    }
}
