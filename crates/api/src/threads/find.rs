//! Finds the agentable of a client's thread, or creates it.

use std::collections::BTreeMap;
use std::sync::Arc;

use houston_domain::agentable::AgentType;
use houston_domain::id::{AgentId, AgentableId, Shard, shard};
use houston_store::client_thread::{ClientThread, FoundThread, ThreadTarget, ThreadUser};

use super::create::create;
use super::{Asker, MAX_THREAD_CHARS, Thread};
use crate::agentable_path::AgentablePath;
use crate::body::{check_line, check_text};
use crate::error::ApiError;
use crate::named_user;
use crate::state::App;

/// The most characters of a target; names of agents have no more.
const MAX_TARGET_CHARS: usize = 100;

/// A thread that was looked for.
pub(super) struct Looked<'a> {
    pub(super) app: Arc<App>,
    pub(super) asker: &'a Asker,
    pub(super) of: ClientThread<'a>,
    pub(super) found: FoundThread,
}

/// The thread of the client; `None`: there is none yet. `pointer`: where the request has its id.
///
/// # Errors
/// As [`find_or_create`], without those of creating.
pub(crate) async fn find(
    app: &Arc<App>,
    asker: &Asker,
    target: &str,
    (pointer, thread): (&str, &str),
) -> Result<Option<Thread>, ApiError> {
    match look(app, asker, target, (pointer, thread)).await? {
        Ok(thread) => Ok(Some(thread)),
        Err(looked) => looked.thread(),
    }
}

/// The thread of the client, which is created if there is none. Of several requests at once, one creates it.
///
/// # Errors
/// [`ApiError::NotFound`] when there is no such target, or the thread or the user is not the caller's;
/// [`ApiError::InvalidRequest`] when the thread id is wrong or no user is named; [`ApiError::BoundKey`] when the caller may not
/// create one; [`ApiError::NotCreatable`]; the store's errors.
pub(crate) async fn find_or_create(
    app: &Arc<App>,
    asker: &Asker,
    target: &str,
    (pointer, thread): (&str, &str),
) -> Result<Thread, ApiError> {
    let mut looked = match look(app, asker, target, (pointer, thread)).await? {
        Ok(thread) => return Ok(thread),
        Err(looked) => looked,
    };
    // Another request may create the user, and then the thread, at the same time.
    for _ in 0..3 {
        if let Some(thread) = looked.thread()? {
            return Ok(thread);
        }
        if let Some(created) = create(&looked).await? {
            return Ok(created);
        }
        looked = looked.again().await?;
    }
    looked.thread()?.ok_or(ApiError::Unavailable(None))
}

/// A thread that Houston's own id names, or else what there is of it.
async fn look<'a>(
    app: &Arc<App>,
    asker: &'a Asker,
    target: &'a str,
    (pointer, thread): (&str, &'a str),
) -> Result<Result<Thread, Looked<'a>>, ApiError> {
    let types = &app.state.agent_types;
    let target = target_of(types, target)?;
    if let Some(path) = AgentablePath::of_public_id(types, thread) {
        return of_public_id(app, asker, target, (pointer, path)).await.map(Ok);
    }
    check_line(pointer, thread, MAX_THREAD_CHARS)?;
    let user = asker.user()?;
    let shard = match user {
        ThreadUser::Id(id) => shard(id),
        ThreadUser::External(id) => {
            check_line("/user", id, 255)?;
            Shard::of_external_id(asker.caller().tenant(), id)
        }
    };
    let (app, of) = (app.with_shard(shard), ClientThread { user, target, thread });
    let found = app.store(asker.caller()).client_thread(&of).await?;
    Ok(Err(Looked { app, asker, of, found }))
}

fn target_of<'t>(types: &BTreeMap<String, AgentType>, target: &'t str) -> Result<ThreadTarget<'t>, ApiError> {
    if let Some(kind) = types.get(target) {
        let accepts = kind.conversational.then_some(ThreadTarget::Kind(target));
        return accepts.ok_or(ApiError::NotFound { what: "conversation" });
    }
    if target.chars().count() > MAX_TARGET_CHARS || check_text("", target).is_err() {
        return Err(ApiError::NotFound { what: "agent" });
    }
    Ok(target.parse::<AgentId>().map_or(ThreadTarget::AgentNamed(target), ThreadTarget::Agent))
}

/// The thread with Houston's own id.
async fn of_public_id(
    app: &Arc<App>,
    asker: &Asker,
    target: ThreadTarget<'_>,
    (pointer, path): (&str, AgentablePath),
) -> Result<Thread, ApiError> {
    let (app, caller) = (app.with_shard(shard(path.id)), asker.caller());
    let is_there = match target {
        ThreadTarget::Kind(kind) if kind == path.kind => true,
        ThreadTarget::Kind(kind) => {
            return Err(ApiError::field(
                pointer,
                format!("is a `{}`; this address is that of `{kind}`", path.kind),
            ));
        }
        ThreadTarget::Agent(id) => !app.store(caller).agents_among(&[id]).await?.is_empty(),
        ThreadTarget::AgentNamed(name) => app.store(caller).id_of_name("agent", name).await?.is_some(),
    };
    if !is_there {
        return Err(ApiError::NotFound { what: "agent" });
    }
    if !path.conversational {
        return Err(ApiError::NotFound { what: "conversation" });
    }
    if let Some(user) = asker.named_user() {
        let owner = app.owners.user_of(&asker.authority, path.id, &app).await;
        let owner = owner.map_err(unless_missing)?;
        let user = match user {
            ThreadUser::Id(id) => Some(id),
            ThreadUser::External(id) => named_user::known(&app, caller, id).await?,
        };
        if user != Some(owner) {
            return Err(NOT_FOUND);
        }
    }
    asker.check_agentable(path.id)?;
    Ok(Thread { app, caller, path })
}

impl Asker {
    /// # Errors
    /// [`ApiError::NotFound`] when the caller's token is for other agentables.
    fn check_agentable(&self, id: AgentableId) -> Result<(), ApiError> {
        let is_allowed = self.authority.agentables.as_ref().is_none_or(|allowed| allowed.contains(&id));
        if is_allowed { Ok(()) } else { Err(NOT_FOUND) }
    }
}

/// What is said of another user's thread and of what does not exist.
const NOT_FOUND: ApiError = ApiError::NotFound { what: "agentable" };

fn unless_missing(error: ApiError) -> ApiError {
    if matches!(error, ApiError::NotFound { .. }) { NOT_FOUND } else { error }
}

impl Looked<'_> {
    /// The thread, if there is one.
    fn thread(&self) -> Result<Option<Thread>, ApiError> {
        self.kind()?;
        let Some((id, kind)) = &self.found.agentable else { return Ok(None) };
        self.asker.check_agentable(*id)?;
        let path = AgentablePath::of_kind(&self.app.state.agent_types, kind, *id);
        let path = path.ok_or(ApiError::NotFound { what: "agentable" })?;
        Ok(Some(Thread { app: Arc::clone(&self.app), caller: self.asker.caller(), path }))
    }

    /// The kind of the target.
    ///
    /// # Errors
    /// [`ApiError::NotFound`] when there is no such agent, or its kind accepts no messages.
    pub(super) fn kind(&self) -> Result<&AgentType, ApiError> {
        let types = &self.app.state.agent_types;
        let kind = match (self.of.target, &self.found.agent) {
            (ThreadTarget::Kind(kind), _) => types.get(kind),
            (_, Some(agent)) => types.get(&agent.kind),
            (_, None) => return Err(ApiError::NotFound { what: "agent" }),
        };
        kind.filter(|kind| kind.conversational).ok_or(ApiError::NotFound { what: "conversation" })
    }

    async fn again(self) -> Result<Self, ApiError> {
        let found = self.app.store(self.asker.caller()).client_thread(&self.of).await?;
        Ok(Self { found, ..self })
    }
}
