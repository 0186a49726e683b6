//! API keys as this process knows them: right and wrong ones by their hash, and those that streams use.
//!
//! What is unknown is looked up in Postgres, all keys that wait in one query, one query at a time: however many wrong
//! keys are sent, and from wherever, they cost some queries a second, and a right key waits for one of them at most.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use houston_domain::id::ApiKeyId;
use houston_store::api_key::{self, ApiKey};
use houston_store::{Error, Store};
use subtle::ConstantTimeEq as _;
use tokio::time::{Instant, MissedTickBehavior, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::summary::Summary;

/// How many keys are remembered, right and wrong ones each; one more, and all of these are looked up anew.
const MOST_KEYS: usize = 10_000;
/// How many keys may wait to be looked up.
const MOST_WAITING: usize = 1_000;
/// From one look-up to the next; what comes meanwhile is looked up together.
const BETWEEN: Duration = Duration::from_millis(20);
/// How long a look-up may take.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

type Hash = [u8; 32];

/// The keys that this process knows.
#[derive(Debug)]
pub(crate) struct Keys {
    trusted_for: Duration,
    right: Mutex<HashMap<Hash, Right>>,
    /// Until when they are refused without a look.
    wrong: Mutex<HashMap<Hash, Instant>>,
    /// Keys to be looked up, with the prefixes they are found by.
    waiting: Mutex<HashMap<Hash, String>>,
    /// Held by whoever looks up.
    gate: tokio::sync::Mutex<LookUp>,
    in_use: Arc<Mutex<HashMap<ApiKeyId, Using>>>,
    refusals: Summary,
}

#[derive(Debug, Clone, Copy)]
struct Right {
    caller: Caller,
    until: Instant,
    /// A request asks Postgres already: until it is answered, others go on trusting.
    asking: bool,
}

/// The latest look-up.
#[derive(Debug)]
struct LookUp {
    at: Instant,
    failed: bool,
}

/// The streams that one key has open.
#[derive(Debug)]
struct Using {
    streams: usize,
    revoked: CancellationToken,
}

impl Keys {
    pub(crate) fn new(trusted_for: Duration) -> Self {
        let gate = tokio::sync::Mutex::new(LookUp { at: Instant::now(), failed: false });
        Self {
            trusted_for,
            right: Mutex::default(),
            wrong: Mutex::default(),
            waiting: Mutex::default(),
            gate,
            in_use: Arc::default(),
            refusals: Summary::default(),
        }
    }

    /// Whose key that is, if it was right a moment ago. After that moment one request is sent to Postgres, not all of
    /// them at once.
    pub(crate) fn trusted(&self, hash: &Hash) -> Option<Caller> {
        let now = Instant::now();
        let mut right = lock(&self.right);
        let known = right.get_mut(hash)?;
        if now < known.until {
            return Some(known.caller);
        }
        let trusted_still = now < known.until + self.trusted_for;
        if known.asking && trusted_still {
            return Some(known.caller);
        }
        known.asking = true;
        None
    }

    /// Whether it was right when it was last looked up.
    pub(crate) fn was_right(&self, hash: &Hash) -> bool {
        lock(&self.right).contains_key(hash)
    }

    /// Looks a key up in Postgres, together with others that wait.
    ///
    /// # Errors
    /// [`ApiError::Unauthorized`] when there is no such key, [`ApiError::TooManyKeys`] when too many wait,
    /// [`ApiError::Unavailable`].
    pub(crate) async fn look_up(&self, store: &Store, key: &str, hash: Hash) -> Result<Caller, ApiError> {
        if let Some(Err(wrong)) = self.answered(&hash) {
            return Err(wrong);
        }
        let came = Instant::now();
        {
            let mut waiting = lock(&self.waiting);
            if waiting.len() >= MOST_WAITING && !self.was_right(&hash) {
                return Err(ApiError::TooManyKeys);
            }
            waiting.insert(hash, api_key::prefix(key));
        }
        let mut last = self.gate.lock().await;
        if let Some(answered) = self.answered(&hash) {
            return answered;
        }
        if last.failed && last.at >= came {
            return Err(ApiError::Unavailable(None));
        }
        sleep_until(last.at + BETWEEN).await;
        let mut asked = std::mem::take(&mut *lock(&self.waiting));
        asked.insert(hash, api_key::prefix(key));
        let prefixes: HashSet<String> = asked.values().cloned().collect();
        let prefixes: Vec<String> = prefixes.into_iter().collect();
        let found = timeout(ANSWERS_WITHIN, store.api_keys_with(&prefixes)).await;
        *last = LookUp { at: Instant::now(), failed: !matches!(found, Ok(Ok(_))) };
        let found = found.map_err(|_| ApiError::Unavailable(None))??;
        asked.keys().for_each(|hash| self.learn(*hash, &found));
        let own = found.iter().find(|key| is_of(key, &hash)).map(caller);
        own.ok_or(ApiError::Unauthorized)
    }

    /// What the latest look-up said, if it still holds.
    fn answered(&self, hash: &Hash) -> Option<Result<Caller, ApiError>> {
        let now = Instant::now();
        if let Some(right) = lock(&self.right).get(hash).filter(|right| now < right.until) {
            return Some(Ok(right.caller));
        }
        let is_wrong = lock(&self.wrong).get(hash).is_some_and(|until| now < *until);
        is_wrong.then_some(Err(ApiError::Unauthorized))
    }

    fn learn(&self, hash: Hash, found: &[ApiKey]) {
        let until = Instant::now() + self.trusted_for;
        let (mut right, mut wrong) = (lock(&self.right), lock(&self.wrong));
        match found.iter().find(|key| is_of(key, &hash)) {
            Some(key) => {
                wrong.remove(&hash);
                remember(&mut right, hash, Right { caller: caller(key), until, asking: false });
            }
            None => {
                right.remove(&hash);
                remember(&mut wrong, hash, until);
            }
        }
    }

    /// Says in the log, now and then, that keys were refused.
    pub(crate) fn note_refusal(&self) {
        if let Some(requests) = self.refusals.note() {
            tracing::warn!(requests, "requests with wrong keys were refused");
        }
    }

    /// Counts a stream that `key` has open, until the answer is dropped.
    pub(crate) fn stream(&self, key: ApiKeyId) -> KeyInUse {
        let mut in_use = lock(&self.in_use);
        let using =
            in_use.entry(key).or_insert_with(|| Using { streams: 0, revoked: CancellationToken::new() });
        using.streams += 1;
        KeyInUse { key, revoked: using.revoked.clone(), in_use: Arc::clone(&self.in_use) }
    }

    /// Asks Postgres again and again, in one query, which of the keys that streams use are revoked, and ends their
    /// streams. Never ends.
    pub(crate) async fn watch(&self, store: &Store) {
        // A stream is to end within the time for which a key is trusted.
        let period = (self.trusted_for / 2).max(Duration::from_millis(50));
        let mut ticks = tokio::time::interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            match timeout(ANSWERS_WITHIN, self.check_streams(store)).await {
                Ok(Ok(())) => {}
                // Whether they are revoked cannot be known: a stream survives Postgres.
                Ok(Err(error)) => tracing::debug!(%error, "the keys of streams could not be checked"),
                Err(elapsed) => tracing::debug!(%elapsed, "the keys of streams could not be checked"),
            }
        }
    }

    async fn check_streams(&self, store: &Store) -> Result<(), Error> {
        let used: Vec<ApiKeyId> = lock(&self.in_use).keys().copied().collect();
        if used.is_empty() {
            return Ok(());
        }
        let valid: HashSet<ApiKeyId> = store.valid_api_keys(&used).await?.into_iter().collect();
        let in_use = lock(&self.in_use);
        for key in used.iter().filter(|key| !valid.contains(key)) {
            lock(&self.right).retain(|_, right| right.caller.key != *key);
            if let Some(using) = in_use.get(key) {
                using.revoked.cancel();
            }
        }
        Ok(())
    }
}

/// A key that a stream uses.
#[derive(Debug)]
pub(crate) struct KeyInUse {
    key: ApiKeyId,
    /// Cancelled when the key was revoked.
    pub(crate) revoked: CancellationToken,
    in_use: Arc<Mutex<HashMap<ApiKeyId, Using>>>,
}

impl Drop for KeyInUse {
    fn drop(&mut self) {
        let mut in_use = lock(&self.in_use);
        if let Some(using) = in_use.get_mut(&self.key) {
            using.streams -= 1;
            if using.streams == 0 {
                in_use.remove(&self.key);
            }
        }
    }
}

fn is_of(key: &ApiKey, hash: &Hash) -> bool {
    bool::from(key.secret_sha256.ct_eq(hash))
}

fn caller(key: &ApiKey) -> Caller {
    Caller { tenant: key.tenant_id, key: key.id }
}

fn remember<V>(keys: &mut HashMap<Hash, V>, hash: Hash, value: V) {
    if keys.len() >= MOST_KEYS {
        keys.clear();
    }
    keys.insert(hash, value);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use houston_domain::id::TenantId;
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
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_trusted_for_its_time_and_one_request_asks_after_it() {
        let keys = Keys::new(Duration::from_secs(5));
        let found = Some(caller(&key()));
        assert_eq!(keys.trusted(&HASH), None);
        keys.learn(HASH, &[key()]);
        assert_eq!(keys.trusted(&HASH), found);
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(keys.trusted(&HASH), None, "the first asks Postgres");
        assert_eq!(keys.trusted(&HASH), found, "the second does not wait for it");
        keys.learn(HASH, &[]);
        assert_eq!(keys.trusted(&HASH), None, "revoked");
        assert!(matches!(keys.answered(&HASH), Some(Err(ApiError::Unauthorized))), "and known to be");
        tokio::time::advance(Duration::from_secs(5)).await;
        assert!(keys.answered(&HASH).is_none(), "a wrong key may have been made since");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_never_comes_is_not_trusted_for_ever() {
        let keys = Keys::new(Duration::from_secs(5));
        keys.learn(HASH, &[key()]);
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(keys.trusted(&HASH), None);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(keys.trusted(&HASH), None);
    }
}
