//! A valid key of a request whose path does not say what it asks for: the endpoints of other protocols, where the body names
//! the method and what it is about.
//!
//! Such an endpoint asks for the scope ([`ValidKey::with`]) and for the agentable ([`ValidKey::check_agentable`]) once it has
//! read the body. An endpoint of `/v1` takes a [`Caller`] instead, which has been checked.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use houston_domain::id::{AgentableId, UserId};
use houston_domain::scope::Scope;

use crate::auth::{Authority, Caller, authenticate};
use crate::error::ApiError;
use crate::state::App;

/// A valid key. What it may do has not been checked.
#[derive(Debug, Clone)]
pub(crate) struct ValidKey(Authority);

impl FromRequestParts<Arc<App>> for ValidKey {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        authenticate(parts, app).await.map(Self)
    }
}

impl ValidKey {
    /// Whether the key has the scope.
    pub(crate) fn allows(&self, scope: Scope) -> bool {
        self.0.caller.scopes().allow(scope)
    }

    /// The caller, who has the scope.
    ///
    /// # Errors
    /// [`ApiError::MissingScope`].
    pub(crate) fn with(&self, needed: Scope) -> Result<Caller, ApiError> {
        let caller = self.0.caller;
        let missing = ApiError::MissingScope { needed, scopes: caller.scopes() };
        if self.allows(needed) { Ok(caller) } else { Err(missing) }
    }

    /// Checks that the caller may reach the agentable, if it is one of the tenant.
    ///
    /// # Errors
    /// [`ApiError::NotFound`] when it is another user's, or none of those that a client token names; the store's errors.
    pub(crate) async fn check_agentable(&self, agentable: AgentableId, app: &App) -> Result<(), ApiError> {
        let Some(user) = self.0.caller.user() else { return Ok(()) };
        let owner = app.owners.user_of(&self.0, agentable, app).await?;
        let is_allowed = self.0.agentables.as_ref().is_none_or(|allowed| allowed.contains(&agentable));
        if owner == user && is_allowed { Ok(()) } else { Err(ApiError::NotFound { what: "resource" }) }
    }

    /// The only user that the key reads and writes for.
    pub(crate) fn user(&self) -> Option<UserId> {
        self.0.caller.user()
    }
}
