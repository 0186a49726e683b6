//! Who sends a request: the [`Caller`], made of a valid key or token, or by a command of the operator within the process, and
//! the [`Authority`] of that key.
//! [`crate::request::auth`] finds out whose a request is; here is only what the rest of the crate may know of it.

use std::sync::{Arc, OnceLock};

use axum::http::HeaderName;
use chrono::{DateTime, Utc};
use houston_domain::id::{AgentableId, ApiKeyId, TenantId, UserId};
use houston_domain::issuer::Issuer;
use houston_domain::jwt::Verified;
use houston_domain::scope::{Scope, Scopes};
use houston_store::api_key::{ApiKey, Principal};
use tokio::time::Instant;

use crate::error::{ApiError, Result};

/// The header that names the user of a request: Houston's id, or the external id.
pub(crate) const USER_HEADER: HeaderName = HeaderName::from_static("houston-user");

tokio::task_local! {
    /// Whose request this task answers, once its key was checked.
    static CALLER: Arc<OnceLock<Caller>>;
}

/// Answers a request; its caller is noted in `caller` as soon as its key was checked, also if no answer follows.
pub(crate) async fn noting<R>(caller: Arc<OnceLock<Caller>>, request: impl Future<Output = R>) -> R {
    CALLER.scope(caller, request).await
}

/// Notes whose request it is. Outside of [`noting`] it does nothing.
pub(crate) fn note(caller: Caller) {
    let _ = CALLER.try_with(|of| of.set(caller));
}

/// The authenticated caller. An endpoint that takes it as an argument requires a valid API key that may do what the
/// endpoint does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caller {
    principal: Principal,
    scopes: Scopes,
    user: Option<UserId>,
    is_for_client: bool,
    expires: Option<Instant>,
}

/// A valid key: the caller, and what limits it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Authority {
    pub(crate) caller: Caller,
    /// The only agentables of the caller's user.
    pub(crate) agentables: Option<Arc<[AgentableId]>>,
    /// Of the key of an issuer: no request has this authority, only that of a token ([`Self::of_token`]).
    pub(crate) issuer: Option<Arc<Issuer>>,
}

/// Who runs the command of the operator that sends a request, for the audit log.
#[derive(Debug, Clone)]
pub(crate) struct Operator(pub(crate) Arc<str>);

impl Authority {
    /// What a command of the operator may do for a tenant: everything.
    pub(crate) fn for_command(principal: Principal) -> Self {
        let caller =
            Caller { principal, scopes: Scopes::ALL, user: None, is_for_client: false, expires: None };
        Self { caller, agentables: None, issuer: None }
    }

    /// What the key allows from now on.
    pub(crate) fn of(key: &ApiKey) -> Self {
        let caller = Caller {
            principal: key.principal(),
            scopes: key.scopes,
            user: key.user,
            is_for_client: key.parent.is_some(),
            expires: key.expires_in.and_then(|left| Instant::now().checked_add(left)),
        };
        let agentables = key.agentables.as_deref().map(Arc::from);
        Self { caller, agentables, issuer: key.issuer.clone().map(Arc::new) }
    }

    /// What a token of the issuer allows: what the issuer's key does, for one user, until the token expires.
    pub(crate) fn of_token(&self, token: &Verified, user: UserId, now: DateTime<Utc>) -> Self {
        let left = (token.expires_at - now).to_std().unwrap_or_default();
        let ends = [Instant::now().checked_add(left), self.caller.expires];
        let caller = Caller {
            scopes: token.narrow(self.caller.scopes),
            user: Some(user),
            is_for_client: true,
            expires: ends.into_iter().flatten().min(),
            ..self.caller
        };
        Self { caller, agentables: None, issuer: None }
    }

    pub(crate) fn is_expired(&self, now: Instant) -> bool {
        self.caller.expires.is_some_and(|expires| now >= expires)
    }
}

impl Caller {
    pub(crate) fn principal(self) -> Principal {
        self.principal
    }

    pub(crate) fn tenant(self) -> TenantId {
        self.principal.tenant()
    }

    pub(crate) fn key(self) -> ApiKeyId {
        self.principal.key()
    }

    pub(crate) fn scopes(self) -> Scopes {
        self.scopes
    }

    /// Whether the caller may see what belongs to all tenants.
    pub(crate) fn operates_installation(self) -> bool {
        self.scopes.allow(Scope::Installation)
    }

    /// Whether the caller may see what people, models and tools say: operating does not include it.
    pub(crate) fn reads_contents(self) -> bool {
        self.scopes.allow(Scope::Read)
    }

    /// Checks a scope that an operation needs besides that of its route.
    ///
    /// # Errors
    /// [`ApiError::MissingScope`].
    pub(crate) fn needs(self, needed: Scope) -> Result<()> {
        let scopes = self.scopes;
        if scopes.allow(needed) { Ok(()) } else { Err(ApiError::MissingScope { needed, scopes }) }
    }

    /// The only user that the caller reads and writes for.
    pub(crate) fn user(self) -> Option<UserId> {
        self.user
    }

    /// The same caller, for this user alone.
    pub(crate) fn for_user(self, user: UserId) -> Self {
        Self { user: Some(user), ..self }
    }

    /// Whether it is a client token or a JWT: what a browser or a phone has.
    pub(crate) fn is_for_client(self) -> bool {
        self.is_for_client
    }

    /// When the caller's key or token stops being valid.
    pub(crate) fn expires(self) -> Option<Instant> {
        self.expires
    }

    /// Checks that the caller may read and write for `user`.
    ///
    /// # Errors
    /// [`ApiError::NotFound`] when the caller is bound to another user.
    pub(crate) fn check_user(self, user: UserId) -> Result<()> {
        let is_own = self.user.is_none_or(|own| own == user);
        if is_own { Ok(()) } else { Err(ApiError::NotFound("user")) }
    }

    /// The user whose items a list shows: the one that is asked for, or the caller's own.
    ///
    /// # Errors
    /// [`ApiError::NotFound`] when the caller is bound to another user.
    pub(crate) fn list_of(self, asked: Option<UserId>) -> Result<Option<UserId>> {
        asked.map_or(Ok(()), |user| self.check_user(user)).map(|()| asked.or(self.user))
    }
}
