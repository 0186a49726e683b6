//! Authentication by API key or client token: looked up by its prefix, compared by its hash in constant time; or by a JWT of
//! an issuer that the tenant trusts ([`crate::state::issuers`]). Then what it may do is compared with what the endpoint needs
//! ([`access`](crate::request::access)): the scope, for whom the request is ([`named_user`]), and whose resource the path names.
//! What is another user's is 404 with the words for what does not exist; a missing scope is 403.

use std::pin::Pin;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri, header};
use houston_domain::api_key::{SecretKind, kind_of};
use houston_domain::ensure;
use houston_domain::id::{AgentableId, Shard, UserId};
use houston_domain::jwt::{self, JwtError, Unverified};
use houston_domain::scope::Scope;
use houston_store::api_key;
use uuid::Uuid;

use crate::admission;
use crate::caller::{self, Authority, Caller};
use crate::error::{ApiError, Result, if_found};
use crate::request::access::{Access, Subject};
use crate::request::agentable_path::{AgentablePath, param};
use crate::request::named_user;
use crate::state::issuers::SignedToken;
use crate::state::peers::Peer;
use crate::state::{App, Ctx};

/// The parameter of the query with a client token.
const QUERY_TOKEN: &str = "access_token";

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self> {
        caller(parts, app).await
    }
}

impl FromRequestParts<Arc<App>> for Ctx {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self> {
        Ok(Self { app: Arc::clone(app), caller: caller(parts, app).await? })
    }
}

/// Boxed, so that it is compiled once and not with each of the handlers.
fn caller<'r>(
    parts: &'r mut Parts,
    app: &'r Arc<App>,
) -> Pin<Box<dyn Future<Output = Result<Caller>> + Send + 'r>> {
    Box::pin(async move {
        let authority = authenticate(parts, app).await?;
        caller::note(authority.caller);
        admission::identified(authority.caller.tenant(), &parts.headers).await;
        // Every route that takes a caller is added with its access; without one, it is refused.
        let access = parts.extensions.get::<Access>().copied().ok_or(ApiError::NotFound("route"))?;
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
pub(crate) async fn authenticate(parts: &mut Parts, app: &App) -> Result<Authority> {
    if let Some(authority) = parts.extensions.get::<Authority>() {
        return Ok(authority.clone());
    }
    let takes_query_token = parts.extensions.get::<Access>().is_some_and(|access| access.query_token);
    let from_query = || query_token(&parts.uri).filter(|_| takes_query_token);
    let credential = bearer(&parts.headers).or_else(from_query).ok_or(ApiError::Unauthorized)?;
    let hash = api_key::hash(credential);
    let authority = match app.keys.trusted(&hash) {
        Some(authority) => authority,
        None => {
            let peer = parts.extensions.get::<Peer>().map(|peer| app.peers.client(*peer, &parts.headers));
            look_up(app, peer.as_ref(), credential, hash).await?
        }
    };
    ensure!(authority.issuer.is_none(), ApiError::Unauthorized);
    parts.extensions.insert(authority.clone());
    Ok(authority)
}

/// The bearer token, if it has the form of an API key, a client token or a JWT.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, text) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let text = text.trim();
    let is_one = scheme.eq_ignore_ascii_case("bearer") && (kind_of(text).is_some() || jwt::has_form(text));
    is_one.then_some(text)
}

/// The client token in the query. API keys and JWTs are not taken from there: addresses are stored in histories and logs of
/// proxies.
fn query_token(uri: &Uri) -> Option<&str> {
    let pairs = uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
    let token = pairs.into_iter().find(|(name, _)| *name == QUERY_TOKEN).map(|(_, token)| token)?;
    (kind_of(token) == Some(SecretKind::ClientToken)).then_some(token)
}

/// Looks up a key or a token that is not cached as valid, unless its address has sent too many wrong ones.
async fn look_up(app: &App, peer: Option<&Peer>, credential: &str, hash: [u8; 32]) -> Result<Authority> {
    // What is wrong with a token by itself costs no look-up, like a mistyped key.
    let jwt = match kind_of(credential) {
        None => Some(Unverified::parse(credential, app.now()).map_err(ApiError::InvalidJwt)?),
        Some(_) => None,
    };
    // A key that was valid before is not counted as a guess, whatever else the address sends.
    let is_guess = !app.keys.was_valid(&hash);
    let attempt = app.peers.attempt(peer.filter(|_| is_guess))?;
    let found = match jwt {
        Some(jwt) => authority_of_token(app, jwt, hash).await,
        None => app.keys.look_up(app.api_store(), api_key::prefix(credential), hash).await,
    };
    if let Err(ApiError::Unauthorized | ApiError::InvalidJwt(_)) = found {
        app.keys.log_refusal();
    } else {
        attempt.uncount();
    }
    found
}

/// What a token allows. It is cached under `hash`, that of its text.
///
/// # Errors
/// [`ApiError::InvalidJwt`] when it is not accepted, [`ApiError::NoIssuerKeys`] when the keys of its issuer are not there,
/// [`ApiError::TooManyKeys`], [`ApiError::Unavailable`], or the store's errors.
async fn authority_of_token(app: &App, jwt: Unverified<'_>, hash: [u8; 32]) -> Result<Authority> {
    let accepted = accept(app, jwt).await;
    match &accepted {
        Ok(authority) => app.keys.keep(hash, authority.clone()),
        Err(ApiError::InvalidJwt(_)) => app.keys.forget(&hash),
        Err(_) => {}
    }
    accepted
}

/// Verifies a token, and finds its user.
async fn accept(app: &App, jwt: Unverified<'_>) -> Result<Authority> {
    let SignedToken { of_issuer, token, user_claim, user: name } =
        app.issuers.verify(&app.keys, app.api_store(), jwt).await?;
    let cell = app.cell_of(Shard::of_external_id(of_issuer.caller.tenant(), &name));
    let store = cell.as_deref().unwrap_or(app).store(of_issuer.caller);
    let user = if_found(store.user_with_external_id(&name).await)?;
    let user = user.ok_or(ApiError::InvalidJwt(JwtError::UnknownUser(user_claim)))?;
    app.keys.note_use_of_issuer(app.api_store(), of_issuer.caller.key()).await;
    Ok(of_issuer.of_token(&token, user, app.now()))
}

/// A valid key, of the user whom the request names, if it does. What it may do has not been checked.
impl FromRequestParts<Arc<App>> for Authority {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self> {
        let authority = authenticate(parts, app).await?;
        let Some(name) = named_user::in_header(&parts.headers)? else { return Ok(authority) };
        let caller = named_user::narrowed(app, authority.caller, &name).await?;
        Ok(Self { caller, ..authority })
    }
}

impl Access {
    /// Checks the scope, and for a caller of one user, whose resource it is. Returns the caller: one of the user whom the request
    /// names, if it does and the route is of a user.
    ///
    /// # Errors
    /// [`ApiError::MissingScope`], [`ApiError::NeverShown`], [`ApiError::BoundKey`], [`ApiError::NotFound`] for what is another
    /// user's, or the store's errors.
    pub(crate) async fn check(self, authority: &Authority, parts: &mut Parts, app: &App) -> Result<Caller> {
        let caller = authority.caller;
        let scope = self.scope(&parts.method);
        let is_whole = self.subject == Subject::Installation && caller.scopes().allow(scope);
        let scope = if is_whole { Scope::Installation } else { scope };
        caller.needs(scope)?;
        if self.unshown && caller.is_for_client() {
            return Err(ApiError::NeverShown);
        }
        let caller = if self.is_of_user() { self.of_named(caller, parts, app).await? } else { caller };
        match caller.user() {
            Some(user) => self.check_owner(authority, user, parts, app).await.map(|()| caller),
            None => Ok(caller),
        }
    }

    /// The caller, as one of the user in the header. Threads may be of a user who is created with them.
    async fn of_named(self, caller: Caller, parts: &Parts, app: &App) -> Result<Caller> {
        let Some(name) = named_user::in_header(&parts.headers)? else { return Ok(caller) };
        if self.subject == Subject::Thread && caller.user().is_none() {
            return Ok(caller);
        }
        named_user::narrowed(app, caller, &name).await
    }

    async fn check_owner(
        self,
        authority: &Authority,
        user: UserId,
        parts: &mut Parts,
        app: &App,
    ) -> Result<()> {
        let id = param(parts, "id");
        let (owner, agentable) = match self.subject {
            Subject::Tenant | Subject::Installation => return Err(ApiError::BoundKey),
            Subject::User | Subject::Named if authority.agentables.is_some() => {
                return Err(ApiError::BoundKey);
            }
            Subject::Named => (user, None),
            Subject::Thread => return Ok(()),
            Subject::User => (id.and_then(|id| id.parse().ok()).ok_or(NOT_FOUND)?, None),
            Subject::Agentable => {
                let kinds = &app.state.agent_types;
                let path = AgentablePath::of_params(kinds, parts);
                let path = path.ok_or(NOT_FOUND)?;
                let caller = authority.caller;
                let owner = app.owners.user_of(app.store(caller), caller.tenant(), path.id).await;
                (if_found(owner)?.ok_or(NOT_FOUND)?, Some(path.id))
            }
            Subject::Row => {
                let id = id.as_deref().and_then(uuid_of).ok_or(NOT_FOUND)?;
                let owner = app.store(authority.caller).owner_of_row(id).await;
                let owner = if_found(owner)?.ok_or(NOT_FOUND)?;
                (owner.user, owner.agentable)
            }
        };
        let is_allowed = |allowed: &Arc<[AgentableId]>| agentable.is_some_and(|id| allowed.contains(&id));
        let is_own = owner == user && authority.agentables.as_ref().is_none_or(is_allowed);
        if is_own { Ok(()) } else { Err(NOT_FOUND) }
    }
}

/// What a caller of one user is told of another's and of what does not exist: in the same words, so that nobody learns which it is.
const NOT_FOUND: ApiError = ApiError::NotFound("resource");

/// The UUID of a public id such as `run_0190…`.
pub(crate) fn uuid_of(id: &str) -> Option<Uuid> {
    let (_, digits) = id.rsplit_once('_')?;
    Uuid::try_parse(digits).ok().filter(|_| digits.len() == 32)
}
