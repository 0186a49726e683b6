//! Extracts the agentable, the kind or the id from a path: `/v1/{kinds}/{id}`, `/v1/{kinds}`, `/v1/runs/{id}`.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use futures_util::FutureExt as _;
use houston_domain::agentable::{AgentType, DoubleTexting, Urgency};
use houston_domain::id::{AgentableId, TenantId, parse_prefixed};
pub(crate) use houston_protocol::owner::Owner;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::state::App;

/// The parameters of the path. A function of its own, so that it is compiled once and not with each handler.
pub(crate) fn params(parts: &mut Parts) -> Option<RawPathParams> {
    // It waits for nothing.
    RawPathParams::from_request_parts(parts, &()).now_or_never()?.ok()
}

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
    fn find(types: &BTreeMap<String, AgentType>, kinds: &str, id: &str) -> Option<Self> {
        let kind = kinds.strip_suffix('s')?;
        Self::of_kind(types, kind, parse_prefixed(kind, id).ok()?.into())
    }

    /// The agentable of this kind with this id.
    pub(crate) fn of_kind(types: &BTreeMap<String, AgentType>, kind: &str, id: AgentableId) -> Option<Self> {
        let AgentType { urgency, conversational, double_texting, .. } = *types.get(kind)?;
        Some(Self { kind: kind.to_owned(), id, urgency, conversational, double_texting })
    }

    /// The agentable with this id of the API, e.g. `goal_0190…`.
    pub(crate) fn of_public_id(types: &BTreeMap<String, AgentType>, id: &str) -> Option<Self> {
        let (kind, _) = id.rsplit_once('_')?;
        let uuid = parse_prefixed(kind, id).ok()?;
        Self::of_kind(types, kind, uuid.into())
    }

    /// The agentable with the parameters `kinds` and `id`.
    pub(crate) fn of_params(types: &BTreeMap<String, AgentType>, params: &RawPathParams) -> Option<Self> {
        let param = |name| params.iter().find(|(of, _)| *of == name).map_or("", |(_, value)| value);
        Self::find(types, param("kinds"), param("id"))
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

impl FromRequestParts<Arc<App>> for AgentablePath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        const NOT_FOUND: ApiError = ApiError::NotFound { what: "agentable" };
        let params = params(parts).ok_or(NOT_FOUND)?;
        Self::of_params(&app.state.agent_types, &params).ok_or(NOT_FOUND)
    }
}

/// A kind as named by a path, in the plural, e.g. `/v1/goals`.
#[derive(Debug, Clone)]
pub(crate) struct KindPath {
    pub(crate) name: String,
    pub(crate) initial_status: Option<String>,
    pub(crate) user_creatable: bool,
    pub(crate) made_with_user: bool,
    pub(crate) urgency: Urgency,
    /// Whether its agentables accept messages.
    pub(crate) conversational: bool,
    pub(crate) double_texting: DoubleTexting,
    /// Whether titles are generated for agentables created without one.
    pub(crate) titles: bool,
}

impl KindPath {
    /// The path of an agentable of this kind.
    pub(crate) fn agentable(&self, id: AgentableId) -> AgentablePath {
        let Self { urgency, conversational, double_texting, .. } = *self;
        AgentablePath { kind: self.name.clone(), id, urgency, conversational, double_texting }
    }
}

impl FromRequestParts<Arc<App>> for KindPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        const NOT_FOUND: ApiError = ApiError::NotFound { what: "route" };
        let params = params(parts).ok_or(NOT_FOUND)?;
        let kinds = params.iter().find(|(name, _)| *name == "kinds").map_or("", |(_, value)| value);
        let kind =
            kinds.strip_suffix('s').and_then(|kind| app.state.agent_types.get(kind)).ok_or(NOT_FOUND)?;
        Ok(Self {
            name: kind.kind.clone(),
            initial_status: kind.initial_status().map(str::to_owned),
            user_creatable: kind.user_creatable(),
            made_with_user: kind.made_with_user,
            urgency: kind.urgency,
            conversational: kind.conversational,
            double_texting: kind.double_texting,
            titles: kind.titles,
        })
    }
}

/// Caches tenant and kind of agentables, which never change, to save a check per posted message. An entry may be stale
/// because the agentable was erased; the statement that posts the message checks that again.
#[derive(Debug, Default)]
pub(crate) struct AgentableCache(Mutex<HashMap<AgentableId, (TenantId, String)>>);

/// Maximum number of cached agentables. The cache is cleared when it is full.
const MAX_CACHED_AGENTABLES: usize = 50_000;

impl AgentableCache {
    /// The kind that the statement must check; `None` if the agentable has the kind of the path and belongs to the
    /// caller's tenant, as an earlier post has found.
    pub(crate) fn unconfirmed<'p>(&self, caller: Caller, path: &'p AgentablePath) -> Option<&'p str> {
        let is_cached = self.lock().get(&path.id).is_some_and(|(tenant, kind)| {
            // With another tenant or kind the statement finds nothing.
            *tenant == caller.tenant() && *kind == path.kind
        });
        (!is_cached).then_some(&path.kind)
    }

    /// Remembers that the agentable has the kind of the path and belongs to the caller's tenant.
    pub(crate) fn remember(&self, caller: Caller, path: &AgentablePath) {
        let mut cached = self.lock();
        if cached.len() >= MAX_CACHED_AGENTABLES {
            cached.clear();
        }
        cached.insert(path.id, (caller.tenant(), path.kind.clone()));
    }

    /// Removes an agentable from the cache.
    pub(crate) fn forget(&self, agentable: AgentableId) {
        self.lock().remove(&agentable);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AgentableId, (TenantId, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The parameter `id` of a path that is not under `/v1/{kinds}`, e.g. `/v1/runs/{id}`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Id<T>(pub(crate) T);

impl<T: std::str::FromStr, S: Send + Sync> FromRequestParts<S> for Id<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        const NOT_FOUND: ApiError = ApiError::NotFound { what: "resource" };
        let params = params(parts).ok_or(NOT_FOUND)?;
        let id = params.iter().find(|(name, _)| *name == "id").and_then(|(_, id)| id.parse().ok());
        id.map(Self).ok_or(NOT_FOUND)
    }
}
