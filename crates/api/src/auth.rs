//! Authentication by API key: looked up by its prefix, compared by its hash in constant time.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use houston_domain::id::{ApiKeyId, TenantId};
use houston_store::api_key::{self, ApiKey, Principal};

use crate::error::ApiError;
use crate::peers::Peer;
use crate::state::App;

/// Prefix of every key.
const KEY_PREFIX: &str = "hou_";

/// The authenticated caller. An endpoint that takes it as an argument requires a valid API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caller(Principal);

impl Caller {
    /// The caller whose requests the key authenticates.
    pub(crate) fn of(key: &ApiKey) -> Self {
        Self(key.principal())
    }

    pub(crate) fn principal(self) -> Principal {
        self.0
    }

    pub(crate) fn tenant(self) -> TenantId {
        self.0.tenant()
    }

    pub(crate) fn key(self) -> ApiKeyId {
        self.0.key()
    }
}

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        if let Some(caller) = parts.extensions.get::<Self>() {
            return Ok(*caller);
        }
        let key = bearer(&parts.headers).ok_or(ApiError::Unauthorized)?;
        let hash = api_key::hash(key);
        let caller = match app.keys.trusted(&hash) {
            Some(caller) => caller,
            None => look_up(app, parts.extensions.get::<Peer>(), key, hash).await?,
        };
        parts.extensions.insert(caller);
        Ok(caller)
    }
}

/// The bearer token, if it has the form of an API key.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, key) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let key = key.trim();
    let formed = key.starts_with(KEY_PREFIX) && key.len() <= 256 && key.bytes().all(|b| b.is_ascii_graphic());
    (scheme.eq_ignore_ascii_case("bearer") && formed).then_some(key)
}

/// Looks up a key that is not cached as valid, unless its address has sent too many wrong keys.
async fn look_up(app: &App, peer: Option<&Peer>, key: &str, hash: [u8; 32]) -> Result<Caller, ApiError> {
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
