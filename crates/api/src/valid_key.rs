//! A valid key of a request whose path does not say what it asks for: the endpoints of other protocols, where the body names
//! the method and what it is about.
//!
//! Such an endpoint asks for the scope ([`ValidKey::allows`]) once it has read the body. An endpoint of `/v1` takes a
//! [`Caller`](crate::auth::Caller) instead, which has been checked.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use houston_domain::id::UserId;
use houston_domain::scope::Scope;

use crate::auth::{Authority, authenticate};
use crate::error::ApiError;
use crate::named_user;
use crate::state::App;

/// A valid key, of the user whom the request names, if it does. What it may do has not been checked.
#[derive(Debug, Clone)]
pub(crate) struct ValidKey(Authority);

impl FromRequestParts<Arc<App>> for ValidKey {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        let authority = authenticate(parts, app).await?;
        let Some(name) = named_user::in_header(&parts.headers)? else { return Ok(Self(authority)) };
        let caller = named_user::narrowed(app, authority.caller, &name).await?;
        Ok(Self(Authority { caller, ..authority }))
    }
}

impl ValidKey {
    /// Whether the key has the scope.
    pub(crate) fn allows(&self, scope: Scope) -> bool {
        self.0.caller.scopes().allow(scope)
    }

    /// The only user that the request reads and writes for.
    pub(crate) fn user(&self) -> Option<UserId> {
        self.0.caller.user()
    }
}
