//! Cache of API keys, valid and invalid, by their hash; of JWTs that were verified; and the keys of open streams.
//!
//! Keys that are not cached are looked up in Postgres: one query at a time, for all waiting keys together. So any
//! number of invalid keys, from any number of addresses, costs a few queries a second, and a valid key waits for at
//! most one.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use houston_domain::id::ApiKeyId;
use houston_store::api_key::ApiKey;
use houston_store::{ApiStore, Error};
use parking_lot::Mutex;
use subtle::ConstantTimeEq as _;
use tokio::time::{Instant, MissedTickBehavior, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::caller::Authority;
use crate::error::{ApiError, Result};
use crate::state::caches::insert;
use crate::state::log_throttle::LogThrottle;

/// Maximum number of cached valid keys, and of cached invalid keys. Either cache is cleared when it is full.
const MAX_CACHED_KEYS: usize = 10_000;
/// Maximum number of keys that wait to be looked up.
const MAX_WAITING: usize = 1_000;
/// Minimum time between two look-ups; keys that arrive meanwhile are looked up together.
const LOOKUP_INTERVAL: Duration = Duration::from_millis(20);
/// How often the use of a key is stored.
const USE_NOTED_EVERY: Duration = Duration::from_secs(60);
/// Time limit of a look-up.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

type Hash = [u8; 32];

/// The cached keys and the keys of open streams of this process.
#[derive(Debug)]
pub(crate) struct KeyCache {
    trusted_for: Duration,
    valid: Mutex<HashMap<Hash, ValidKey>>,
    /// Until when each invalid key is refused without a look-up.
    invalid: Mutex<HashMap<Hash, Instant>>,
    /// Keys to be looked up, with the prefixes by which the table is searched.
    waiting: Mutex<HashMap<Hash, String>>,
    /// Locked during a look-up.
    last_lookup: tokio::sync::Mutex<LastLookup>,
    in_use: Arc<Mutex<HashMap<ApiKeyId, KeyStreams>>>,
    /// When the use of each key of an issuer was stored.
    issuers_noted: Mutex<HashMap<ApiKeyId, Instant>>,
    refusals: LogThrottle,
}

#[derive(Debug, Clone)]
struct ValidKey {
    authority: Authority,
    until: Instant,
    /// A request is looking the key up again; until it is done, other requests still use this entry.
    refreshing: bool,
}

/// When the latest look-up ended, and whether it failed.
#[derive(Debug)]
struct LastLookup {
    at: Instant,
    failed: bool,
}

/// The open streams of one key.
#[derive(Debug, Default)]
struct KeyStreams {
    streams: usize,
    revoked: CancellationToken,
}

impl KeyCache {
    pub(crate) fn new(trusted_for: Duration) -> Self {
        let last_lookup = tokio::sync::Mutex::new(LastLookup { at: Instant::now(), failed: false });
        Self {
            trusted_for,
            valid: Mutex::default(),
            invalid: Mutex::default(),
            waiting: Mutex::default(),
            last_lookup,
            in_use: Arc::default(),
            issuers_noted: Mutex::default(),
            refusals: LogThrottle::default(),
        }
    }

    /// What the key allows, if it was valid at most `trusted_for` ago and has not expired. After that time one request gets
    /// `None` and looks the key up; concurrent requests still get what is cached.
    pub(crate) fn trusted(&self, hash: &Hash) -> Option<Authority> {
        let now = Instant::now();
        let mut valid = self.valid.lock();
        let cached = valid.get_mut(hash)?;
        if cached.authority.is_expired(now) {
            return None;
        }
        if now < cached.until {
            return Some(cached.authority.clone());
        }
        let trusted_still = now < cached.until + self.trusted_for;
        if cached.refreshing && trusted_still {
            return Some(cached.authority.clone());
        }
        cached.refreshing = true;
        None
    }

    /// Whether the key was valid when it was last looked up.
    pub(crate) fn was_valid(&self, hash: &Hash) -> bool {
        self.valid.lock().contains_key(hash)
    }

    /// Looks a key up in Postgres by its prefix and its hash, together with all other waiting keys.
    ///
    /// # Errors
    /// [`ApiError::Unauthorized`] when the key does not exist, was revoked or has expired, [`ApiError::TooManyKeys`] when too many
    /// keys wait, [`ApiError::Unavailable`] when Postgres does not answer in time, or the store's errors.
    pub(crate) async fn look_up(&self, store: &ApiStore, prefix: String, hash: Hash) -> Result<Authority> {
        if let Some(Err(invalid)) = self.cached_result(&hash) {
            return Err(invalid);
        }
        let arrived_at = Instant::now();
        {
            let mut waiting = self.waiting.lock();
            if waiting.len() >= MAX_WAITING && !self.was_valid(&hash) {
                return Err(ApiError::TooManyKeys);
            }
            waiting.insert(hash, prefix.clone());
        }
        let mut last = self.last_lookup.lock().await;
        if let Some(cached_result) = self.cached_result(&hash) {
            return cached_result;
        }
        if last.failed && last.at >= arrived_at {
            return Err(ApiError::Unavailable(None));
        }
        sleep_until(last.at + LOOKUP_INTERVAL).await;
        let mut requested = std::mem::take(&mut *self.waiting.lock());
        requested.insert(hash, prefix);
        let prefixes: HashSet<String> = requested.values().cloned().collect();
        let prefixes: Vec<String> = prefixes.into_iter().collect();
        let found = timeout(QUERY_TIMEOUT, store.api_keys_with(&prefixes)).await;
        *last = LastLookup { at: Instant::now(), failed: !matches!(found, Ok(Ok(_))) };
        let found = found.map_err(|_| ApiError::Unavailable(None))??;
        requested.keys().for_each(|hash| self.store_result(*hash, &found));
        drop(last);
        note_use(store, &found, &requested).await;
        let own = found.iter().find(|key| is_of(key, &hash)).map(Authority::of);
        own.ok_or(ApiError::Unauthorized)
    }

    /// The result of the latest look-up of the key, if it is still fresh.
    fn cached_result(&self, hash: &Hash) -> Option<Result<Authority>> {
        let now = Instant::now();
        let is_fresh = |valid: &&ValidKey| now < valid.until && !valid.authority.is_expired(now);
        if let Some(valid) = self.valid.lock().get(hash).filter(is_fresh) {
            return Some(Ok(valid.authority.clone()));
        }
        let is_invalid = self.invalid.lock().get(hash).is_some_and(|until| now < *until);
        is_invalid.then_some(Err(ApiError::Unauthorized))
    }

    fn store_result(&self, hash: Hash, found: &[ApiKey]) {
        let until = Instant::now() + self.trusted_for;
        let (mut valid, mut invalid) = (self.valid.lock(), self.invalid.lock());
        match found.iter().find(|key| is_of(key, &hash)) {
            Some(key) => {
                invalid.remove(&hash);
                let key = ValidKey { authority: Authority::of(key), until, refreshing: false };
                insert(&mut valid, MAX_CACHED_KEYS, hash, key);
            }
            None => {
                valid.remove(&hash);
                insert(&mut invalid, MAX_CACHED_KEYS, hash, until);
            }
        }
    }

    /// Caches what a token allows that was just verified.
    pub(crate) fn keep(&self, hash: Hash, authority: Authority) {
        let until = Instant::now() + self.trusted_for;
        let key = ValidKey { authority, until, refreshing: false };
        insert(&mut self.valid.lock(), MAX_CACHED_KEYS, hash, key);
    }

    /// Removes a token that was valid before, and is not any more.
    pub(crate) fn forget(&self, hash: &Hash) {
        self.valid.lock().remove(hash);
    }

    /// Stores that the key of an issuer was used: once a minute.
    pub(crate) async fn note_use_of_issuer(&self, store: &ApiStore, key: ApiKeyId) {
        let now = Instant::now();
        {
            let mut noted = self.issuers_noted.lock();
            if noted.get(&key).is_some_and(|at| now < *at + USE_NOTED_EVERY) {
                return;
            }
            insert(&mut noted, MAX_CACHED_KEYS, key, now);
        }
        note(store, &[key]).await;
    }

    /// Counts a request with an invalid key, and logs the count from time to time.
    pub(crate) fn log_refusal(&self) {
        if let Some(requests) = self.refusals.count() {
            tracing::warn!(requests, "requests with invalid keys were refused");
        }
    }

    /// Counts an open stream of `key` until the returned guard is dropped.
    pub(crate) fn stream(&self, key: ApiKeyId) -> KeyInUse {
        let mut in_use = self.in_use.lock();
        let streams_of_key = in_use.entry(key).or_default();
        streams_of_key.streams += 1;
        KeyInUse { key, revoked: streams_of_key.revoked.clone(), in_use: Arc::clone(&self.in_use) }
    }

    /// Periodically asks Postgres, in one query, which keys of open streams were revoked or have expired, and ends their streams. Never
    /// returns.
    pub(crate) async fn watch_revocations(&self, store: &ApiStore) {
        // A stream must end within the time for which a revoked key may still be trusted.
        let period = (self.trusted_for / 2).max(Duration::from_millis(50));
        let mut ticks = tokio::time::interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            match timeout(QUERY_TIMEOUT, self.check_streams(store)).await {
                Ok(Ok(())) => {}
                // Streams survive an outage of Postgres: their keys are checked again later.
                Ok(Err(error)) => tracing::debug!(%error, "the keys of streams could not be checked"),
                Err(elapsed) => tracing::debug!(%elapsed, "the keys of streams could not be checked"),
            }
        }
    }

    async fn check_streams(&self, store: &ApiStore) -> Result<(), Error> {
        let used: Vec<ApiKeyId> = self.in_use.lock().keys().copied().collect();
        if used.is_empty() {
            return Ok(());
        }
        let valid: HashSet<ApiKeyId> = store.valid_api_keys(&used).await?.into_iter().collect();
        let in_use = self.in_use.lock();
        for key in used.iter().filter(|key| !valid.contains(key)) {
            self.valid.lock().retain(|_, valid| valid.authority.caller.key() != *key);
            if let Some(streams_of_key) = in_use.get(key) {
                streams_of_key.revoked.cancel();
            }
        }
        Ok(())
    }
}

/// Guard of an open stream and its key.
#[derive(Debug)]
pub(crate) struct KeyInUse {
    key: ApiKeyId,
    /// Cancelled when the key was revoked or has expired.
    revoked: CancellationToken,
    in_use: Arc<Mutex<HashMap<ApiKeyId, KeyStreams>>>,
}

impl KeyInUse {
    /// Ends when the key was revoked or has expired, and at `expires`: of a JWT, Postgres knows only the issuer.
    pub(crate) fn ended(&self, expires: Option<Instant>) -> impl Future<Output = ()> + Send + use<> {
        let revoked = self.revoked.clone().cancelled_owned();
        async move {
            match expires {
                Some(expires) => drop(timeout_at(expires, revoked).await),
                None => revoked.await,
            }
        }
    }
}

impl Drop for KeyInUse {
    fn drop(&mut self) {
        let mut in_use = self.in_use.lock();
        if let Some(streams_of_key) = in_use.get_mut(&self.key) {
            streams_of_key.streams -= 1;
            if streams_of_key.streams == 0 {
                in_use.remove(&self.key);
            }
        }
    }
}

/// Stores that the requested keys among `found` were used: once a minute each.
async fn note_use(store: &ApiStore, found: &[ApiKey], requested: &HashMap<Hash, String>) {
    let is_due = |key: &&ApiKey| key.used_ago.is_none_or(|ago| ago >= USE_NOTED_EVERY);
    // Anybody can name an issuer: its key is used by a token that it has signed.
    let is_requested =
        |key: &&ApiKey| key.issuer.is_none() && key.hash().is_some_and(|hash| requested.contains_key(&hash));
    let used: Vec<ApiKeyId> = found.iter().filter(is_due).filter(is_requested).map(|key| key.id).collect();
    if !used.is_empty() {
        note(store, &used).await;
    }
}

async fn note(store: &ApiStore, used: &[ApiKeyId]) {
    match timeout(QUERY_TIMEOUT, store.api_keys_used(used)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "the last use of keys was not stored"),
        Err(elapsed) => tracing::debug!(%elapsed, "the last use of keys was not stored"),
    }
}

fn is_of(key: &ApiKey, hash: &Hash) -> bool {
    key.hash().is_some_and(|own| bool::from(own.ct_eq(hash)))
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use houston_domain::id::TenantId;
    use houston_domain::scope::Scopes;
    use uuid::Uuid;

    use super::*;

    const HASH: Hash = [7; 32];

    fn key() -> ApiKey {
        ApiKey {
            id: ApiKeyId(Uuid::from_u128(2)),
            tenant_id: TenantId(Uuid::from_u128(1)),
            tenant: String::new(),
            name: String::new(),
            prefix: String::new(),
            secret_sha256: HASH.to_vec(),
            created_at: DateTime::UNIX_EPOCH,
            revoked_at: None,
            scopes: Scopes::ADMIN,
            user: None,
            agentables: None,
            expires_at: None,
            expires_in: None,
            last_used_at: None,
            used_ago: None,
            parent: None,
            issuer: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn key_is_trusted_for_its_time_then_one_request_looks_it_up() {
        let keys = KeyCache::new(Duration::from_secs(5));
        let found = Some(Authority::of(&key()));
        assert_eq!(keys.trusted(&HASH), None);
        keys.store_result(HASH, &[key()]);
        assert_eq!(keys.trusted(&HASH), found);
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(keys.trusted(&HASH), None, "the first request looks the key up");
        assert_eq!(keys.trusted(&HASH), found, "the second request does not wait for it");
        keys.store_result(HASH, &[]);
        assert_eq!(keys.trusted(&HASH), None, "revoked");
        assert!(
            matches!(keys.cached_result(&HASH), Some(Err(ApiError::Unauthorized))),
            "and cached as invalid"
        );
        tokio::time::advance(Duration::from_secs(5)).await;
        assert!(keys.cached_result(&HASH).is_none(), "an invalid key may have been created since");
    }

    #[tokio::test(start_paused = true)]
    async fn lookup_that_never_ends_does_not_extend_trust_for_ever() {
        let keys = KeyCache::new(Duration::from_secs(5));
        keys.store_result(HASH, &[key()]);
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(keys.trusted(&HASH), None);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(keys.trusted(&HASH), None);
    }
}
