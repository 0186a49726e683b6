//! Who calls: a bearer key, looked up by its prefix, compared by its hash in constant time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use houston_domain::id::TenantId;
use houston_store::api_key;
use subtle::ConstantTimeEq as _;
use tokio::time::Instant;

use crate::error::ApiError;
use crate::state::App;

/// What every key begins with.
const KEY_PREFIX: &str = "hou_";
/// How many keys are remembered; one more, and all are asked for anew.
const MOST_KEYS: usize = 10_000;

/// Whoever sent the request. Endpoints that take it are closed to everybody else.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller {
    pub(crate) tenant: TenantId,
}

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        let key = bearer(&parts.headers).ok_or(ApiError::Unauthorized)?;
        let hash = api_key::hash(key);
        let tenant = match app.keys.known(&hash) {
            Some(tenant) => tenant,
            None => look_up(app, key, &hash).await?,
        };
        Ok(Self { tenant })
    }
}

/// The key, if it has the form of one.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, key) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let key = key.trim();
    let formed = key.starts_with(KEY_PREFIX) && key.len() <= 256 && key.bytes().all(|b| b.is_ascii_graphic());
    (scheme.eq_ignore_ascii_case("bearer") && formed).then_some(key)
}

async fn look_up(app: &App, key: &str, hash: &[u8; 32]) -> Result<TenantId, ApiError> {
    let candidates = app.store().api_keys_like(key).await?;
    let tenant = candidates
        .iter()
        .find(|candidate| bool::from(candidate.secret_sha256.ct_eq(hash)))
        .map(|candidate| candidate.tenant_id);
    app.keys.learn(*hash, tenant);
    tenant.ok_or(ApiError::Unauthorized)
}

/// Keys that were right a moment ago, by hash.
#[derive(Debug)]
pub(crate) struct KeyCache {
    trusted_for: Duration,
    keys: Mutex<HashMap<[u8; 32], Known>>,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    tenant: TenantId,
    until: Instant,
    /// Somebody asks Postgres already: until they are back, the others go on trusting.
    asking: bool,
}

impl KeyCache {
    pub(crate) fn new(trusted_for: Duration) -> Self {
        Self { trusted_for, keys: Mutex::default() }
    }

    /// The tenant of a key that was right a moment ago. After that moment one caller is sent to Postgres, not all
    /// of them at once.
    fn known(&self, hash: &[u8; 32]) -> Option<TenantId> {
        let now = Instant::now();
        let mut keys = self.lock();
        let known = keys.get_mut(hash)?;
        if now < known.until {
            return Some(known.tenant);
        }
        let trusted_still = now < known.until + self.trusted_for;
        if known.asking && trusted_still {
            return Some(known.tenant);
        }
        known.asking = true;
        None
    }

    fn learn(&self, hash: [u8; 32], tenant: Option<TenantId>) {
        let mut keys = self.lock();
        match tenant {
            None => {
                keys.remove(&hash);
            }
            Some(tenant) => {
                if keys.len() >= MOST_KEYS {
                    keys.clear();
                }
                let until = Instant::now() + self.trusted_for;
                keys.insert(hash, Known { tenant, until, asking: false });
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], Known>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_is_trusted_for_its_time_and_one_caller_asks_after_it() {
        let cache = KeyCache::new(Duration::from_secs(5));
        let (hash, tenant) = ([7; 32], TenantId(uuid::Uuid::from_u128(1)));
        assert_eq!(cache.known(&hash), None);
        cache.learn(hash, Some(tenant));
        assert_eq!(cache.known(&hash), Some(tenant));
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(cache.known(&hash), None, "the first asks Postgres");
        assert_eq!(cache.known(&hash), Some(tenant), "the second does not wait for it");
        cache.learn(hash, None);
        assert_eq!(cache.known(&hash), None, "revoked");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_never_comes_is_not_trusted_for_ever() {
        let cache = KeyCache::new(Duration::from_secs(5));
        let hash = [7; 32];
        cache.learn(hash, Some(TenantId(uuid::Uuid::from_u128(1))));
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(cache.known(&hash), None);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(cache.known(&hash), None);
    }
}
