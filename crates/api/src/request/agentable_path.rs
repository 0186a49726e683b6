//! Extracts the agentable, the kind or the id from a path: `/v1/{kinds}/{id}`, `/v1/{kinds}`, `/v1/runs/{id}`.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use futures_util::FutureExt as _;
use houston_domain::agentable::{AgentType, DoubleTexting, Urgency};
use houston_domain::id::{AgentableId, parse_prefixed};
pub(crate) use houston_protocol::owner::Owner;
use houston_store::mcp_server::ServerOwner;

use crate::error::{ApiError, Result};
use crate::state::{App, Ctx};

/// The parameter of the path with this name. A function of its own, so that it is compiled once and not with each handler.
pub(crate) fn param(parts: &mut Parts, name: &str) -> Option<String> {
    // It waits for nothing. A path that is not UTF-8 names nothing that there is.
    let Ok(params) = RawPathParams::from_request_parts(parts, &()).now_or_never()? else {
        return Some(String::new());
    };
    params.iter().find(|(of, _)| *of == name).map(|(_, value)| value.to_owned())
}

/// What is wrong with a text that is no id of an agentable.
pub(crate) const NO_AGENTABLE: &str = "must be the id of an agentable, as in `goal_…`";

/// An agentable as named by a path, e.g. `/v1/goals/goal_0190…`, with the settings of its kind. Whether it exists and
/// belongs to the caller's tenant is not checked.
#[derive(Debug, Clone)]
pub(crate) struct AgentablePath {
    pub(crate) kind: String,
    pub(crate) id: AgentableId,
    pub(crate) urgency: Urgency,
    /// Whether the agentable accepts messages.
    pub(crate) conversational: bool,
    /// What a message does to an open run, unless the message has a `double_texting` of its own.
    pub(crate) double_texting: DoubleTexting,
}

impl AgentablePath {
    /// The agentable of this kind with this id.
    pub(crate) fn of_kind(types: &BTreeMap<String, AgentType>, kind: &str, id: AgentableId) -> Option<Self> {
        Some(Self::new(types.get(kind)?, id))
    }

    /// The agentable of this kind with this id.
    pub(crate) fn new(kind: &AgentType, id: AgentableId) -> Self {
        let AgentType { urgency, conversational, double_texting, .. } = *kind;
        Self { kind: kind.kind.clone(), id, urgency, conversational, double_texting }
    }

    /// The agentable with this id of the API, e.g. `goal_0190…`.
    pub(crate) fn of_public_id(types: &BTreeMap<String, AgentType>, id: &str) -> Option<Self> {
        let (kind, _) = id.rsplit_once('_')?;
        let uuid = parse_prefixed(kind, id).ok()?;
        Self::of_kind(types, kind, uuid.into())
    }

    /// As [`Self::of_public_id`], of an id at this place of the body.
    ///
    /// # Errors
    /// [`ApiError::InvalidRequest`] when it is no id of an agentable.
    pub(crate) fn of_field(types: &BTreeMap<String, AgentType>, pointer: &str, id: &str) -> Result<Self> {
        Self::of_public_id(types, id).ok_or_else(|| ApiError::field(pointer, NO_AGENTABLE))
    }

    /// The agentable with the parameters `kinds` and `id` of the path.
    pub(crate) fn of_params(types: &BTreeMap<String, AgentType>, parts: &mut Parts) -> Option<Self> {
        let (kinds, id) = (param(parts, "kinds")?, param(parts, "id")?);
        let kind = kinds.strip_suffix('s')?;
        Self::of_kind(types, kind, parse_prefixed(kind, &id).ok()?.into())
    }

    /// The id with its prefix, e.g. `goal_0190…`.
    pub(crate) fn public_id(&self) -> String {
        self.id.public_id(&self.kind)
    }

    /// The path of the agentable, e.g. `/v1/goals/goal_0190…`.
    pub(crate) fn url_path(&self) -> String {
        format!("/v1/{}s/{}", self.kind, self.public_id())
    }
}

impl Ctx {
    /// Checks that the agentable exists, has the kind of the path and belongs to the caller's tenant.
    ///
    /// # Errors
    /// [`ApiError::NotFound`] when it does not; the store's errors.
    pub(crate) async fn confirm(&self, path: &AgentablePath) -> Result<()> {
        self.store().agentable(&path.kind, path.id).await?;
        Ok(())
    }

    /// Checks that the owner exists: a user who is being erased has skills and servers for a while.
    ///
    /// # Errors
    /// [`ApiError::NotFound`] when it does not; the store's errors.
    pub(crate) async fn confirm_owner(&self, owner: ServerOwner) -> Result<()> {
        if let ServerOwner::User(user) = owner {
            self.store().user(user).await?;
        }
        Ok(())
    }
}

impl FromRequestParts<Arc<App>> for AgentablePath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self> {
        const NOT_FOUND: ApiError = ApiError::NotFound("agentable");
        Self::of_params(&app.state.agent_types, parts).ok_or(NOT_FOUND)
    }
}

/// A kind as named by a path, in the plural, e.g. `/v1/goals`.
#[derive(Debug, Clone)]
pub(crate) struct KindPath(pub(crate) AgentType);

impl FromRequestParts<Arc<App>> for KindPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self> {
        let kinds = param(parts, "kinds").unwrap_or_default();
        let kind = kinds.strip_suffix('s').and_then(|kind| app.state.agent_types.get(kind));
        kind.cloned().map(Self).ok_or(ApiError::NotFound("route"))
    }
}

/// The parameter `id` of a path that is not under `/v1/{kinds}`, e.g. `/v1/runs/{id}`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Id<T>(pub(crate) T);

impl<T: std::str::FromStr, S: Send + Sync> FromRequestParts<S> for Id<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self> {
        const NOT_FOUND: ApiError = ApiError::NotFound("resource");
        param(parts, "id").and_then(|id| id.parse().ok()).map(Self).ok_or(NOT_FOUND)
    }
}

/// `from_path! { SkillPath, |parts| … }`: makes the type an extractor, which reads the path alone.
macro_rules! from_path {
    ($name:ty, |$parts:ident| $read:expr) => {
        impl<S: Send + Sync> axum::extract::FromRequestParts<S> for $name {
            type Rejection = $crate::error::ApiError;

            async fn from_request_parts(
                $parts: &mut axum::http::request::Parts,
                _state: &S,
            ) -> $crate::error::Result<Self> {
                $read
            }
        }
    };
}
pub(crate) use from_path;

/// `path_value! { SnippetName(String): "name" or "snippet", |name| … }`: an extractor of one parameter of the path. What cannot be one
/// (`None`) is not found, as what is named.
macro_rules! path_value {
    ($(#[doc = $doc:literal])+ $name:ident($value:ty): $param:literal or $what:literal, $read:expr) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone)]
        struct $name($value);

        $crate::request::agentable_path::from_path! { $name, |parts| {
            const NOT_FOUND: ApiError = ApiError::NotFound($what);
            let read: fn(String) -> Option<$value> = $read;
            $crate::request::agentable_path::param(parts, $param).and_then(read).map(Self).ok_or(NOT_FOUND)
        } }
    };
}
pub(crate) use path_value;

/// Whose things a path names: a user's, as `/v1/users/{id}/skills`, or the tenant's, as `/v1/skills`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PathOwner(pub(crate) ServerOwner);

from_path! { PathOwner, |parts| owner_of(parts).map(Self) }

/// Whose things the path names.
///
/// # Errors
/// [`ApiError::NotFound`] when it names a user by what is no id.
pub(crate) fn owner_of(parts: &mut Parts) -> Result<ServerOwner> {
    const NOT_FOUND: ApiError = ApiError::NotFound("resource");
    let Some(id) = param(parts, "id") else { return Ok(ServerOwner::Tenant) };
    id.parse().map(ServerOwner::User).map_err(|_| NOT_FOUND)
}
