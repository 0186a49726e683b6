//! [`SignIn`]: asks identity providers for the console, and makes the keys of those who sign in with one.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use houston_console::{Awaited, KEY_OF, Outside, Question, Reply, WantedKey};
use houston_domain::ensure;
use houston_domain::id::{ApiKeyId, AuditId, Ids, TenantId};
use houston_store::audit::NewRecord;
use houston_store::copies::Copies;
use houston_store::{Store, api_key};
use houston_web::{Client, Limits, Request, SystemTls};
use reqwest::header::{self, HeaderValue};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::Semaphore;

use crate::failure::Failure;
use crate::keys::{KeyLimits, MadeKey, create};

/// The secret that the provider has given to the console.
pub(crate) const SECRET: &str = "HOUSTON_CONSOLE_OIDC_SECRET";
/// Requests to the provider at a time: anybody can begin a sign-in.
const AT_ONCE: usize = 8;
/// Time limit, and maximum bytes, of an answer.
const TIMEOUT: Duration = Duration::from_secs(5);
const MAX_BYTES: usize = 256 * 1024;

/// What the console needs for signing in with a provider.
pub(crate) struct SignIn {
    home: Store,
    copies: Copies,
    ids: Arc<Ids>,
    tls: SystemTls,
    asking: Semaphore,
}

impl fmt::Debug for SignIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignIn").finish_non_exhaustive()
    }
}

impl SignIn {
    pub(crate) fn new(home: Store, copies: Copies, ids: Arc<Ids>) -> Self {
        Self { home, copies, ids, tls: SystemTls::default(), asking: Semaphore::new(AT_ONCE) }
    }

    /// A client for the host of this URL: the operator has named the provider, and its document names the others.
    fn client(&self, url: &str) -> Result<Client, String> {
        let limits = Limits { connect: TIMEOUT, whole: TIMEOUT, body: MAX_BYTES, redirects: 0 };
        self.tls.client_for(url, limits)
    }
}

fn request(question: &Question) -> Result<Request, String> {
    let mut request = Request::get(&question.url);
    if let Some(form) = &question.form {
        request.method = reqwest::Method::POST;
        request.body = form.expose_secret().to_owned().into();
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        request = request.header(header::CONTENT_TYPE, form);
    }
    request = request.header(header::ACCEPT, HeaderValue::from_static("application/json"));
    match &question.authorization {
        Some(secret) => request.secret(header::AUTHORIZATION, "", secret).map_err(|error| error.to_string()),
        None => Ok(request),
    }
}

fn reason(failure: Failure) -> String {
    match failure {
        Failure::Usage(error) | Failure::Other(error) => error.to_string(),
    }
}

/// Records a sign-in or a sign-out, with the key of the session.
async fn record(
    home: &Store,
    id: AuditId,
    (tenant, actor): (TenantId, String),
    operation: &str,
    key: ApiKeyId,
) {
    let record = NewRecord::without_request(id, actor, operation, key.to_string());
    if let Err(error) = home.operator().record(Some(tenant), &record).await {
        tracing::warn!(%error, operation, "a sign-in or sign-out was not recorded in the audit log");
    }
}

impl Outside for SignIn {
    fn ask(&self, question: Question) -> Awaited<'_, Reply> {
        Box::pin(async move {
            let (client, request) = (self.client(&question.url)?, request(&question)?);
            let _turn =
                self.asking.try_acquire().map_err(|_| "too many people sign in; try again".to_owned())?;
            let answer = client.send(request).await.map_err(|error| error.to_string())?;
            ensure!(!answer.is_cut, "its answer has more than {MAX_BYTES} bytes");
            Ok(Reply { status: answer.status.as_u16(), body: answer.body.to_vec() })
        })
    }

    fn make_key(&self, wanted: WantedKey) -> Awaited<'_, SecretString> {
        let Self { home, copies, ids, .. } = self;
        Box::pin(async move {
            let limits = KeyLimits { scopes: wanted.scopes, user: None, expires_at: Some(wanted.expires_at) };
            let owner = (wanted.tenant.as_str(), wanted.name.as_str());
            let MadeKey { tenant, id, key } = create(home, ids, owner, limits, None).await.map_err(reason)?;
            copies.copy(tenant).await.map_err(|error| error.to_string())?;
            record(home, ids.next(), (tenant, wanted.name), "sign_in", id).await;
            match home.operator().delete_ended_sessions(tenant).await {
                Ok(0) => {}
                Ok(keys) => tracing::debug!(keys, "keys of sessions that ended long ago were deleted"),
                Err(error) => tracing::warn!(%error, "keys of sessions that ended long ago were not deleted"),
            }
            Ok(key.into())
        })
    }

    fn end_key(&self, key: SecretString) -> Awaited<'_, ()> {
        let Self { home, copies, ids, .. } = self;
        Box::pin(async move {
            let hash = api_key::hash(key.expose_secret());
            let like = home.api().api_keys_with(&[api_key::prefix(key.expose_secret())]).await;
            let found =
                like.map_err(|error| error.to_string())?.into_iter().find(|key| key.hash() == Some(hash));
            let Some(found) = found.filter(|key| key.name.starts_with(KEY_OF)) else { return Ok(()) };
            let revoked = home.operator().revoke_api_key(found.id).await;
            revoked.map_err(|error| error.to_string())?;
            record(home, ids.next(), (found.tenant_id, found.name), "sign_out", found.id).await;
            copies.copy(found.tenant_id).await.map_err(|error| error.to_string())
        })
    }
}
