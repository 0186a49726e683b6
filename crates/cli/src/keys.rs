//! Makes API keys: for `houston key`, for `houston dev`, and for those who sign in to the console.

use anyhow::anyhow;
use chrono::{DateTime, TimeDelta, Utc};
use houston_domain::api_key::{RANDOM_BYTES, SecretKind};
use houston_domain::clock::{Clock as _, SystemClock};
use houston_domain::id::{ApiKeyId, Ids, TenantId, UserId};
use houston_domain::issuer::Issuer;
use houston_domain::scope::{Scope, Scopes};
use houston_store::api_key::NewApiKey;
use houston_store::{Error, Store};

use crate::failure::{Failure, Result};

/// What a new key may do, for whom and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyLimits {
    pub(crate) scopes: Scopes,
    pub(crate) user: Option<UserId>,
    pub(crate) expires_at: Option<DateTime<Utc>>,
}

impl KeyLimits {
    /// Everything, for ever, also for the installation.
    pub(crate) const NONE: Self = Self { scopes: Scopes::ALL, user: None, expires_at: None };

    /// # Errors
    /// [`Failure::Usage`]: a key of one user or of an issuer cannot have these scopes.
    pub(crate) fn new(
        scopes: &[Scope],
        user: Option<UserId>,
        expires_in: Option<TimeDelta>,
        has_issuer: bool,
    ) -> Result<Self> {
        let scopes: Scopes = scopes.iter().copied().collect();
        if let (true, Some(scope)) = (user.is_some() || has_issuer, scopes.beyond_a_user().next()) {
            let whose = if has_issuer { "an issuer" } else { "a key of one user" };
            return Err(Failure::Usage(anyhow!(
                "{whose} cannot have the scope `{scope}`: add `--scope read,post`"
            )));
        }
        Ok(Self { scopes, user, expires_at: expires_in.map(|left| SystemClock.now() + left) })
    }
}

/// A key that was created.
pub(crate) struct MadeKey {
    pub(crate) tenant: TenantId,
    pub(crate) id: ApiKeyId,
    pub(crate) key: String,
}

/// Creates a key for the tenant of this name; with an issuer, the JWTs of that are accepted in place of the key.
pub(crate) async fn create(
    store: &Store,
    ids: &Ids,
    (tenant, name): (&str, &str),
    limits: KeyLimits,
    issuer: Option<&Issuer>,
) -> Result<MadeKey> {
    let tenant = store.operator().ensure_tenant(ids.next(), tenant).await?;
    let mut random = [0; RANDOM_BYTES];
    ids.fill(&mut random);
    let (id, key) = (ids.next(), SecretKind::Key.secret(random));
    let KeyLimits { scopes, user, expires_at } = limits;
    let new = NewApiKey { id, name, key: &key, scopes, user, expires_at, issuer };
    store.operator().create_api_key(tenant, &new).await.map_err(|error| match error {
        Error::Exists { .. } => Failure::Other(anyhow!(
            "JWTs of this issuer for this audience are accepted already; revoke that key first (`houston key list`), or \
             choose another audience"
        )),
        error => error.into(),
    })?;
    Ok(MadeKey { tenant, id, key })
}
