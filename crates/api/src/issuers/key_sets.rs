//! The public keys of issuers, read from their JWKS URLs and cached.
//!
//! The operator names the URL with the issuer, so its host may be anywhere, also inside: the client reaches this host and
//! follows no redirects.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use houston_domain::jwt::JwtError;
use houston_domain::jwt::key_set::{Algorithm, KeySet, PublicKey};
use houston_web::{Client, Limits, Request, SystemTls};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::error::ApiError;

/// How long keys are used before they are read again.
const READ_EVERY: Duration = Duration::from_secs(60 * 60);
/// How long keys are used while the issuer cannot be reached.
const USED_AT_MOST: Duration = Duration::from_secs(24 * 60 * 60);
/// How often keys are read for a token with an unknown key, or after a failure.
const RETRIED_EVERY: Duration = Duration::from_secs(60);
/// The same, until they were read once.
const FIRST_RETRIED_EVERY: Duration = Duration::from_secs(5);
/// Time limit, and maximum bytes, of the answer.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_BYTES: usize = 64 * 1024;
/// Maximum number of cached key sets. The cache is cleared when it is full.
const MAX_SETS: usize = 1_000;

/// The key sets, by URL.
#[derive(Debug, Default)]
pub(crate) struct KeySets {
    sources: Mutex<HashMap<String, Arc<Source>>>,
    tls: SystemTls,
    /// Reads in progress; none takes longer than [`READ_TIMEOUT`], and shutting down need not wait for them.
    reads: TaskTracker,
}

/// Where a key set comes from.
#[derive(Debug)]
struct Source {
    url: String,
    cached: Mutex<Cached>,
    /// Locked by the requests that wait for keys.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Cached {
    /// The keys, and when they were read.
    read: Option<(KeySet, Instant)>,
    tried: Option<Instant>,
}

impl KeySets {
    /// The key of a token. Reads the key set if it is old, or has no such key, but not more often than once a minute.
    ///
    /// # Errors
    /// [`ApiError::InvalidJwt`] when there is no such key, [`ApiError::NoIssuerKeys`] when the key set was not read.
    pub(crate) async fn key(&self, url: &str, key: (Algorithm, Option<&str>)) -> Result<PublicKey, ApiError> {
        let source = self.source(url);
        if let Some(found) = source.find(key, READ_EVERY) {
            return Ok(found);
        }
        let waiting = source.reading.lock().await;
        if let Some(found) = source.find(key, READ_EVERY) {
            return Ok(found);
        }
        if source.may_read() {
            let (client, source) = (self.client(url), Arc::clone(&source));
            // Goes on when the client that asked is gone: others need the keys, too.
            let reading = self.reads.spawn(async move { source.read(client).await });
            // It neither panics nor is aborted.
            drop(reading.await);
        }
        drop(waiting);
        match source.find(key, USED_AT_MOST) {
            Some(found) => Ok(found),
            None if source.was_read() => Err(ApiError::InvalidJwt(JwtError::UnknownKey)),
            None => Err(ApiError::NoIssuerKeys),
        }
    }

    fn source(&self, url: &str) -> Arc<Source> {
        let mut sources = lock(&self.sources);
        if let Some(source) = sources.get(url) {
            return Arc::clone(source);
        }
        if sources.len() >= MAX_SETS {
            sources.clear();
        }
        let (url, cached, reading) = (url.to_owned(), Mutex::default(), tokio::sync::Mutex::default());
        let source = Arc::new(Source { url: url.clone(), cached, reading });
        sources.insert(url, Arc::clone(&source));
        source
    }

    fn client(&self, url: &str) -> Result<Client, String> {
        let limits = Limits { connect: READ_TIMEOUT, whole: READ_TIMEOUT, body: MAX_BYTES, redirects: 0 };
        self.tls.client_for(url, limits)
    }
}

impl Source {
    /// The key, if the set was read less than `max_age` ago and has it.
    fn find(&self, key: (Algorithm, Option<&str>), max_age: Duration) -> Option<PublicKey> {
        let cached = lock(&self.cached);
        let (set, at) = cached.read.as_ref()?;
        if at.elapsed() < max_age { set.find(key).cloned() } else { None }
    }

    fn was_read(&self) -> bool {
        lock(&self.cached).read.as_ref().is_some_and(|(_, at)| at.elapsed() < USED_AT_MOST)
    }

    /// Whether enough time has passed since the set was last read; counts as a try.
    fn may_read(&self) -> bool {
        let mut cached = lock(&self.cached);
        let every = if cached.read.is_some() { RETRIED_EVERY } else { FIRST_RETRIED_EVERY };
        let may = cached.tried.is_none_or(|tried| tried.elapsed() >= every);
        if may {
            cached.tried = Some(Instant::now());
        }
        may
    }

    async fn read(&self, client: Result<Client, String>) {
        let read = match client {
            Ok(client) => self.fetch(&client).await,
            Err(error) => Err(error),
        };
        match read {
            Ok(set) => lock(&self.cached).read = Some((set, Instant::now())),
            Err(error) => tracing::warn!(url = self.url, error, "the keys of an issuer cannot be read"),
        }
    }

    async fn fetch(&self, client: &Client) -> Result<KeySet, String> {
        let mut request = Request::get(&self.url);
        request.follows = false;
        let response = client.send(request).await.map_err(|error| error.to_string())?;
        if !response.status.is_success() {
            return Err(format!("its server answered {}", response.status));
        }
        if response.is_cut {
            return Err(format!("it has more than {MAX_BYTES} bytes"));
        }
        KeySet::parse(&response.body).map_err(|error| error.to_string())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
