//! `/v1/{kinds}/{id}`: an agentable by the plural of its kind and its id.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use houston_domain::agentable::{AgentType, DoubleTexting, Urgency};
use houston_domain::id::{AgentableId, TenantId, parse_prefixed};
pub(crate) use houston_protocol::owner::Owner;
use houston_store::Store;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::state::App;

/// An agentable as a path names it. Whether it exists, and for this caller, only Postgres knows.
#[derive(Debug, Clone)]
pub(crate) struct AgentablePath {
    pub(crate) kind: String,
    pub(crate) id: AgentableId,
    pub(crate) urgency: Urgency,
    /// Whether it takes messages.
    pub(crate) conversational: bool,
    /// What a message does to a run that is open, unless it says otherwise.
    pub(crate) double_texting: DoubleTexting,
}

impl AgentablePath {
    fn find(types: &BTreeMap<String, AgentType>, kinds: &str, id: &str) -> Option<Self> {
        let kind = types.get(kinds.strip_suffix('s')?)?;
        let id = parse_prefixed(&kind.kind, id).ok()?.into();
        let AgentType { urgency, conversational, double_texting, .. } = *kind;
        Some(Self { kind: kind.kind.clone(), id, urgency, conversational, double_texting })
    }

    /// The id as the API shows it.
    pub(crate) fn shown(&self) -> String {
        self.id.shown(&self.kind)
    }

    /// Its path.
    pub(crate) fn path(&self) -> String {
        format!("/v1/{}s/{}", self.kind, self.shown())
    }
}

impl FromRequestParts<Arc<App>> for AgentablePath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        const NOT_FOUND: ApiError = ApiError::NotFound { what: "agentable" };
        let params = RawPathParams::from_request_parts(parts, &()).await.map_err(|_| NOT_FOUND)?;
        let param = |name| params.iter().find(|(of, _)| *of == name).map_or("", |(_, value)| value);
        Self::find(&app.state.agent_types, param("kinds"), param("id")).ok_or(NOT_FOUND)
    }
}

/// A kind as a path names it, by its plural.
#[derive(Debug, Clone)]
pub(crate) struct Kind {
    pub(crate) name: String,
    pub(crate) initial_status: Option<String>,
    pub(crate) begun_by_people: bool,
    pub(crate) made_with_user: bool,
    /// Whether one that is made without a title gets one.
    pub(crate) titles: bool,
}

impl FromRequestParts<Arc<App>> for Kind {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        const NOT_FOUND: ApiError = ApiError::NotFound { what: "route" };
        let params = RawPathParams::from_request_parts(parts, &()).await.map_err(|_| NOT_FOUND)?;
        let kinds = params.iter().find(|(name, _)| *name == "kinds").map_or("", |(_, value)| value);
        let kind = kinds.strip_suffix('s').and_then(|kind| app.state.agent_types.get(kind)).ok_or(NOT_FOUND)?;
        Ok(Self {
            name: kind.kind.clone(),
            initial_status: kind.initial_status().map(str::to_owned),
            begun_by_people: kind.begun_by_people(),
            made_with_user: kind.made_with_user,
            titles: kind.titles,
        })
    }
}

/// Agentables that were there a moment ago, for those who post: Postgres says in the same statement whether they still
/// are. Of what kind an agentable is and whose, never changes.
#[derive(Debug, Default)]
pub(crate) struct AgentableCache(Mutex<HashMap<AgentableId, (TenantId, String)>>);

/// How many places are remembered; one more, and all are looked up anew.
const MOST_PLACES: usize = 50_000;

impl AgentableCache {
    /// Whether the caller has such an agentable, of that kind.
    pub(crate) async fn confirm(&self, store: &Store, caller: Caller, place: &AgentablePath) -> Result<(), ApiError> {
        let known = self.lock().get(&place.id).is_some_and(|(tenant, kind)| {
            // An agentable of somebody else, or under another kind's name, is looked up and not found.
            *tenant == caller.tenant && *kind == place.kind
        });
        if !known {
            store.agentable(caller.tenant, &place.kind, place.id).await?;
            let mut places = self.lock();
            if places.len() >= MOST_PLACES {
                places.clear();
            }
            places.insert(place.id, (caller.tenant, place.kind.clone()));
        }
        Ok(())
    }

    /// Looks it up anew.
    pub(crate) fn forget(&self, agentable: AgentableId) {
        self.lock().remove(&agentable);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AgentableId, (TenantId, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The last id of a path, of a kind that has one name: `/v1/runs/{id}`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Id<T>(pub(crate) T);

impl<T: std::str::FromStr, S: Send + Sync> FromRequestParts<S> for Id<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        const NOT_FOUND: ApiError = ApiError::NotFound { what: "resource" };
        let params = RawPathParams::from_request_parts(parts, state).await.map_err(|_| NOT_FOUND)?;
        let id = params.iter().find(|(name, _)| *name == "id").and_then(|(_, id)| id.parse().ok());
        id.map(Self).ok_or(NOT_FOUND)
    }
}
