//! Secrets that sign webhooks, in both directions.

use chrono::{DateTime, TimeDelta, Utc};
use houston_domain::id::TenantId;
use houston_domain::sealed::{Purpose, SecretKeys};
use houston_protocol::webhook::RotateSecret;
use houston_web::webhook::{Signer, new_secret};

use crate::error::ApiError;
use crate::state::App;

/// How long a secret that is replaced stays valid, unless the request says it, and at most.
const DEFAULT_HOURS: u32 = 24;
const MAX_HOURS: u32 = 720;

/// A new secret, and the same sealed.
pub(crate) struct NewSecret {
    pub(crate) text: String,
    pub(crate) sealed: Vec<u8>,
}

/// A new secret for `what`: the id of a webhook or of an inbound hook.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when the installation has no key to seal it with.
pub(crate) fn make(app: &App, tenant: TenantId, what: &str) -> Result<NewSecret, ApiError> {
    let mut random = [0; 32];
    app.state.ids.fill(&mut random);
    let text = new_secret(random);
    let sealed = seal(app, tenant, what, &text)?;
    Ok(NewSecret { text, sealed })
}

/// A secret of `what`, sealed.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when the installation has no key to seal it with.
pub(crate) fn seal(app: &App, tenant: TenantId, what: &str, text: &str) -> Result<Vec<u8>, ApiError> {
    let keys = keys(app)?;
    let mut nonce = [0; 12];
    app.state.ids.fill(&mut nonce);
    // Always `Some`.
    Ok(keys.seal(Purpose { tenant, what }, nonce, text).unwrap_or_default())
}

/// Signs and verifies with the secrets of `what`: the second one while it is valid.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when one cannot be opened.
pub(crate) fn signer(
    app: &App,
    (tenant, what): (TenantId, &str),
    sealed: &[u8],
    old: Option<(&[u8], DateTime<Utc>)>,
) -> Result<Signer, ApiError> {
    let keys = keys(app)?;
    let old = old.filter(|(_, until)| *until > app.now()).map(|(sealed, _)| sealed);
    let opened: Result<Vec<_>, _> = std::iter::once(sealed)
        .chain(old)
        .map(|sealed| keys.open(Purpose { tenant, what }, sealed))
        .collect();
    let wrong = |why: String| ApiError::field("", format!("the secret cannot be used: {why}; rotate it"));
    Signer::new(&opened.map_err(|error| wrong(error.to_string()))?).map_err(|error| wrong(error.to_string()))
}

/// The keys that seal.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when there are none.
pub(crate) fn keys(app: &App) -> Result<&SecretKeys, ApiError> {
    app.state.secret_keys.as_ref().ok_or_else(|| {
        let why = "this installation cannot store secrets: its operator sets HOUSTON_SECRETS_KEY for the API and the \
                   workers (`openssl rand -base64 32` makes a key)";
        ApiError::field("", why)
    })
}

/// Until when the secret that is replaced stays valid.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when that is too long.
pub(crate) fn old_until(app: &App, rotate: RotateSecret) -> Result<DateTime<Utc>, ApiError> {
    let hours = rotate.old_secret_hours.unwrap_or(DEFAULT_HOURS);
    if hours > MAX_HOURS {
        return Err(ApiError::field("/old_secret_hours", format!("must be 0 to {MAX_HOURS}")));
    }
    Ok(app.now() + TimeDelta::hours(i64::from(hours)))
}
