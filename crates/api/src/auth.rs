//! Authentication by API key or client token: looked up by its prefix, compared by its hash in constant time; or by a JWT of
//! an issuer that the tenant trusts ([`crate::issuers`]). Then what it may do is compared with what the endpoint needs
//! ([`crate::access`]).

use std::pin::Pin;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri, header};
use chrono::{DateTime, Utc};
use houston_domain::api_key::{SecretKind, kind_of};
use houston_domain::id::{AgentableId, ApiKeyId, TenantId, UserId};
use houston_domain::issuer::Issuer;
use houston_domain::jwt::{self, Unverified, Verified};
use houston_domain::scope::{Scope, Scopes};
use houston_store::api_key::{self, ApiKey, Principal};
use tokio::time::Instant;

use crate::access::Access;
use crate::error::ApiError;
use crate::peers::Peer;
use crate::state::App;
use crate::{admission, audit, named_user};

/// The parameter of the query with a client token.
const QUERY_TOKEN: &str = "access_token";

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

impl Authority {
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
    pub(crate) fn needs(self, needed: Scope) -> Result<(), ApiError> {
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
        caller(parts, app).await
    }
}

/// Boxed, so that it is compiled once and not with each of the handlers.
fn caller<'r>(
    parts: &'r mut Parts,
    app: &'r Arc<App>,
) -> Pin<Box<dyn Future<Output = Result<Caller, ApiError>> + Send + 'r>> {
    Box::pin(async move {
        let authority = authenticate(parts, app).await?;
        audit::note(authority.caller);
        admission::identified(authority.caller.tenant(), &parts.headers).await;
        // Every route that takes a caller is added with its access; without one, it is refused.
        let access = parts.extensions.get::<Access>().copied().ok_or(ApiError::NotFound { what: "route" })?;
        let caller = access.check(&authority, parts, app).await?;
        parts.extensions.insert(caller);
        Ok(caller)
    })
}

/// The key of a request, if it is valid. What it may do is not checked.
///
/// # Errors
/// [`ApiError::Unauthorized`], [`ApiError::InvalidJwt`] when there is none or it is not valid, [`ApiError::TooManyKeys`] when the address has sent
/// too many wrong ones, [`ApiError::Unavailable`] when it cannot be looked up, or the store's errors.
pub(crate) async fn authenticate(parts: &mut Parts, app: &App) -> Result<Authority, ApiError> {
    if let Some(authority) = parts.extensions.get::<Authority>() {
        return Ok(authority.clone());
    }
    let takes_query_token = parts.extensions.get::<Access>().is_some_and(|access| access.takes_query_token());
    let from_query = || query_token(&parts.uri).filter(|_| takes_query_token).map(Credential::Key);
    let credential = bearer(&parts.headers).or_else(from_query).ok_or(ApiError::Unauthorized)?;
    let hash = api_key::hash(credential.text());
    let authority = match app.keys.trusted(&hash) {
        Some(authority) => authority,
        None => {
            let peer = parts.extensions.get::<Peer>().map(|peer| app.peers.client(*peer, &parts.headers));
            look_up(app, peer.as_ref(), credential, hash).await?
        }
    };
    if authority.issuer.is_some() {
        return Err(ApiError::Unauthorized);
    }
    parts.extensions.insert(authority.clone());
    Ok(authority)
}

/// What a request says to authenticate itself.
#[derive(Clone, Copy)]
enum Credential<'r> {
    /// An API key or a client token.
    Key(&'r str),
    Jwt(&'r str),
}

impl<'r> Credential<'r> {
    fn text(self) -> &'r str {
        match self {
            Self::Key(text) | Self::Jwt(text) => text,
        }
    }
}

/// The bearer token, if it has the form of an API key, a client token or a JWT.
fn bearer(headers: &HeaderMap) -> Option<Credential<'_>> {
    let (scheme, text) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let text = text.trim();
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let key = kind_of(text).map(|_| Credential::Key(text));
    key.or_else(|| jwt::has_form(text).then_some(Credential::Jwt(text)))
}

/// The client token in the query. API keys and JWTs are not taken from there: addresses are stored in histories and logs of
/// proxies.
fn query_token(uri: &Uri) -> Option<&str> {
    let pairs = uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
    let token = pairs.into_iter().find(|(name, _)| *name == QUERY_TOKEN).map(|(_, token)| token)?;
    (kind_of(token) == Some(SecretKind::ClientToken)).then_some(token)
}

/// Looks up a key or a token that is not cached as valid, unless its address has sent too many wrong ones.
async fn look_up(
    app: &App,
    peer: Option<&Peer>,
    credential: Credential<'_>,
    hash: [u8; 32],
) -> Result<Authority, ApiError> {
    // What is wrong with a token by itself costs no look-up, like a mistyped key.
    let jwt = match credential {
        Credential::Jwt(text) => Some(Unverified::parse(text, app.now()).map_err(ApiError::InvalidJwt)?),
        Credential::Key(_) => None,
    };
    // A key that was valid before is not counted as a guess, whatever else the address sends.
    let is_guess = !app.keys.was_valid(&hash);
    let attempt = peer.filter(|_| is_guess).map(|peer| app.peers.attempt(peer)).transpose()?;
    let found = match jwt {
        Some(jwt) => app.issuers.authority(app, jwt, hash).await,
        None => app.keys.look_up(app.api_store(), api_key::prefix(credential.text()), hash).await,
    };
    if let Err(ApiError::Unauthorized | ApiError::InvalidJwt(_)) = found {
        app.keys.log_refusal();
    } else if let Some(attempt) = attempt {
        attempt.uncount();
    }
    found
}

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
