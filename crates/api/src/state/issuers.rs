//! JWTs of issuers that tenants trust: from a token that anybody can have written to one that was signed.
//!
//! The issuer is looked up like a key ([`keys`](crate::state::keys)): cached, in one query with all that wait, unknown ones too.
//! Its public keys are read from its JWKS URL at most once an hour ([`Issuers::key`]); no request waits for the issuer otherwise. Then the
//! signature is verified. [`crate::request::auth`] looks the user up, and caches the result like that of a key.
//!
//! The operator names the URL with the issuer, so its host may be anywhere, also inside: the client reaches this host and
//! follows no redirects.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use houston_domain::ensure;
use houston_domain::issuer::Issuer;
use houston_domain::jwt::key_set::{Algorithm, KeySet, PublicKey};
use houston_domain::jwt::{JwtError, Unverified, Verified};
use houston_store::ApiStore;
use houston_web::{Client, Limits, Request, SystemTls};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::caller::Authority;
use crate::error::{ApiError, Result};
use crate::state::caches::insert;
use crate::state::keys::KeyCache;

/// A token that its issuer has signed. Whether its user exists is not checked.
pub(crate) struct SignedToken {
    /// What the key of the issuer allows.
    pub(crate) of_issuer: Authority,
    pub(crate) token: Verified,
    /// The claim that names the user, and the name.
    pub(crate) user_claim: String,
    pub(crate) user: String,
}

impl Issuers {
    /// Verifies the signature of a token with the keys of its issuer.
    ///
    /// # Errors
    /// [`ApiError::InvalidJwt`] when it is not accepted, [`ApiError::NoIssuerKeys`] when the keys of its issuer are not there,
    /// [`ApiError::TooManyKeys`], [`ApiError::Unavailable`], or the store's errors.
    pub(crate) async fn verify(
        &self,
        keys: &KeyCache,
        store: &ApiStore,
        jwt: Unverified<'_>,
    ) -> Result<SignedToken> {
        let of_issuer = of_issuer(keys, store, &jwt).await?;
        let issuer = of_issuer.issuer.clone().ok_or(ApiError::Unauthorized)?;
        let key = self.key(&issuer.jwks_url, jwt.key()).await?;
        let token = jwt.verify(&key).map_err(ApiError::InvalidJwt)?;
        let user = token.user(&issuer.user_claim).map_err(ApiError::InvalidJwt)?.to_owned();
        Ok(SignedToken { of_issuer, token, user_claim: issuer.user_claim.clone(), user })
    }
}

/// The authority of the key of the issuer and one of the audiences of a token.
async fn of_issuer(keys: &KeyCache, store: &ApiStore, jwt: &Unverified<'_>) -> Result<Authority> {
    const UNKNOWN: ApiError = ApiError::InvalidJwt(JwtError::Issuer);
    let found = join_all(jwt.audiences.iter().map(async |audience| {
        let hash = Issuer::hash(&jwt.issuer, audience);
        match keys.trusted(&hash) {
            Some(authority) => Ok(authority),
            None => keys.look_up(store, Issuer::prefix(&jwt.issuer), hash).await,
        }
    }));
    let mut accepted = None;
    for found in found.await {
        match found {
            Ok(authority) if authority.issuer.is_none() => return Err(ApiError::Unauthorized),
            // A token for several tenants, or with the same audience twice, says of none that it is meant.
            Ok(_) if accepted.is_some() => return Err(UNKNOWN),
            Ok(authority) => accepted = Some(authority),
            Err(ApiError::Unauthorized) => {}
            Err(error) => return Err(error),
        }
    }
    accepted.ok_or(UNKNOWN)
}

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

/// The public keys of the issuers.
#[derive(Debug, Default)]
pub(crate) struct Issuers {
    /// The key sets, by URL.
    sources: Mutex<HashMap<String, Arc<Source>>>,
    tls: SystemTls,
    /// Reads in progress; none takes longer than [`READ_TIMEOUT`], and shutting down need not wait for them.
    reads: TaskTracker,
}

/// Where a key set comes from.
#[derive(Debug, Default)]
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

impl Issuers {
    /// The key of a token. Reads the key set if it is old, or has no such key, but not more often than once a minute.
    ///
    /// # Errors
    /// [`ApiError::InvalidJwt`] when there is no such key, [`ApiError::NoIssuerKeys`] when the key set was not read.
    async fn key(&self, url: &str, key: (Algorithm, Option<&str>)) -> Result<PublicKey> {
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
        let mut sources = self.sources.lock();
        if let Some(source) = sources.get(url) {
            return Arc::clone(source);
        }
        let source = Arc::new(Source { url: url.to_owned(), ..Source::default() });
        insert(&mut sources, MAX_SETS, url.to_owned(), Arc::clone(&source));
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
        let cached = self.cached.lock();
        let (set, at) = cached.read.as_ref()?;
        if at.elapsed() < max_age { set.find(key).cloned() } else { None }
    }

    fn was_read(&self) -> bool {
        self.cached.lock().read.as_ref().is_some_and(|(_, at)| at.elapsed() < USED_AT_MOST)
    }

    /// Whether enough time has passed since the set was last read; counts as a try.
    fn may_read(&self) -> bool {
        let mut cached = self.cached.lock();
        let every = if cached.read.is_some() { RETRIED_EVERY } else { FIRST_RETRIED_EVERY };
        let may = cached.tried.is_none_or(|tried| tried.elapsed() >= every);
        if may {
            cached.tried = Some(Instant::now());
        }
        may
    }

    async fn read(&self, client: Result<Client, String>) {
        match self.fetch(client).await {
            Ok(set) => self.cached.lock().read = Some((set, Instant::now())),
            Err(error) => tracing::warn!(url = self.url, error, "the keys of an issuer cannot be read"),
        }
    }

    async fn fetch(&self, client: Result<Client, String>) -> Result<KeySet, String> {
        let mut request = Request::get(&self.url);
        request.follows = false;
        let response = client?.send(request).await.map_err(|error| error.to_string())?;
        ensure!(response.status.is_success(), "its server answered {}", response.status);
        ensure!(!response.is_cut, "it has more than {MAX_BYTES} bytes");
        KeySet::parse(&response.body).map_err(str::to_owned)
    }
}

#[cfg(test)]
mod tests;
