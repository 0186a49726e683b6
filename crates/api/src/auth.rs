//! Authentication by API key or client token: looked up by its prefix, compared by its hash in constant time; then what it
//! may do is compared with what the endpoint needs ([`crate::access`]).

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri, header};
use houston_domain::api_key::{SecretKind, kind_of};
use houston_domain::id::{AgentableId, ApiKeyId, TenantId, UserId};
use houston_domain::scope::Scopes;
use houston_store::api_key::{self, ApiKey, Principal};
use tokio::time::Instant;

use crate::access::Access;
use crate::error::ApiError;
use crate::peers::Peer;
use crate::state::App;

/// The parameter of the query with a client token.
pub(crate) const QUERY_TOKEN: &str = "access_token";

/// The authenticated caller. An endpoint that takes it as an argument requires a valid API key that may do what the
/// endpoint does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caller {
    principal: Principal,
    scopes: Scopes,
    user: Option<UserId>,
    is_client_token: bool,
}

/// A valid key: the caller, and what limits it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Authority {
    pub(crate) caller: Caller,
    /// The only agentables of the caller's user.
    pub(crate) agentables: Option<Arc<[AgentableId]>>,
    pub(crate) expires: Option<Instant>,
}

impl Authority {
    /// What the key allows from now on.
    pub(crate) fn of(key: &ApiKey) -> Self {
        let caller = Caller {
            principal: key.principal(),
            scopes: key.scopes,
            user: key.user,
            is_client_token: key.parent.is_some(),
        };
        let agentables = key.agentables.as_deref().map(Arc::from);
        Self { caller, agentables, expires: key.expires_in.and_then(|left| Instant::now().checked_add(left)) }
    }

    pub(crate) fn is_expired(&self, now: Instant) -> bool {
        self.expires.is_some_and(|expires| now >= expires)
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

    /// The only user that the caller reads and writes for.
    pub(crate) fn user(self) -> Option<UserId> {
        self.user
    }

    pub(crate) fn is_client_token(self) -> bool {
        self.is_client_token
    }

    /// Checks that the caller may read and write for `user`.
    ///
    /// # Errors
    /// [`ApiError::NotFound`] when the caller is bound to another user.
    pub(crate) fn check_user(self, user: UserId) -> Result<(), ApiError> {
        let is_own = self.user.is_none_or(|own| own == user);
        if is_own { Ok(()) } else { Err(ApiError::NotFound { what: "user" }) }
    }

    /// The user whose items a list shows: the one that is asked for, or the caller's own.
    ///
    /// # Errors
    /// [`ApiError::NotFound`] when the caller is bound to another user.
    pub(crate) fn list_of(self, asked: Option<UserId>) -> Result<Option<UserId>, ApiError> {
        asked.map_or(Ok(()), |user| self.check_user(user)).map(|()| asked.or(self.user))
    }
}

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        let authority = authenticate(parts, app).await?;
        // Every route that takes a caller is added with its access; without one, it is refused.
        let access = parts.extensions.get::<Access>().copied().ok_or(ApiError::NotFound { what: "route" })?;
        access.check(&authority, parts, app).await?;
        Ok(authority.caller)
    }
}

/// The key of a request, if it is valid. What it may do is not checked.
///
/// # Errors
/// [`ApiError::Unauthorized`] when there is none or it is not valid, [`ApiError::TooManyKeys`] when the address has sent
/// too many wrong ones, [`ApiError::Unavailable`] when it cannot be looked up, or the store's errors.
pub(crate) async fn authenticate(parts: &mut Parts, app: &App) -> Result<Authority, ApiError> {
    if let Some(authority) = parts.extensions.get::<Authority>() {
        return Ok(authority.clone());
    }
    let takes_query_token = parts.extensions.get::<Access>().is_some_and(|access| access.takes_query_token());
    let from_query = || query_token(&parts.uri).filter(|_| takes_query_token);
    let key = bearer(&parts.headers).or_else(from_query).ok_or(ApiError::Unauthorized)?;
    let hash = api_key::hash(key);
    let authority = match app.keys.trusted(&hash) {
        Some(authority) => authority,
        None => look_up(app, parts.extensions.get::<Peer>(), key, hash).await?,
    };
    parts.extensions.insert(authority.clone());
    Ok(authority)
}

/// The bearer token, if it has the form of an API key or a client token.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, key) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let key = key.trim();
    kind_of(key).filter(|_| scheme.eq_ignore_ascii_case("bearer")).map(|_| key)
}

/// The client token in the query. API keys are not taken from there: addresses are stored in histories and logs of proxies.
fn query_token(uri: &Uri) -> Option<&str> {
    let pairs = uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
    let token = pairs.into_iter().find(|(name, _)| *name == QUERY_TOKEN).map(|(_, token)| token)?;
    (kind_of(token) == Some(SecretKind::ClientToken)).then_some(token)
}

/// Looks up a key that is not cached as valid, unless its address has sent too many wrong keys.
async fn look_up(app: &App, peer: Option<&Peer>, key: &str, hash: [u8; 32]) -> Result<Authority, ApiError> {
    // A key that was valid before is not counted as a guess, whatever else the address sends.
    let is_guess = !app.keys.was_valid(&hash);
    let attempt = peer.filter(|_| is_guess).map(|peer| app.peers.attempt(peer)).transpose()?;
    let found = app.keys.look_up(app.api_store(), key, hash).await;
    if let Err(ApiError::Unauthorized) = found {
        app.keys.log_refusal();
    } else if let Some(attempt) = attempt {
        attempt.uncount();
    }
    found
}
