//! Secrets that sign webhooks, in both directions.

use std::fmt;

use chrono::{DateTime, TimeDelta, Utc};
use houston_domain::ensure;
use houston_domain::id::TenantId;
use houston_domain::sealed::{Purpose, SecretKeys};
use houston_protocol::webhook::RotateSecret;
use houston_web::webhook::{Signer, new_secret};
use secrecy::SecretString;

use crate::error::{ApiError, Result};
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
pub(crate) fn make(app: &App, tenant: TenantId, what: &str) -> Result<NewSecret> {
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
pub(crate) fn seal(app: &App, tenant: TenantId, what: &str, text: &str) -> Result<Vec<u8>> {
    let keys = keys(app, "")?;
    let mut nonce = [0; 12];
    app.state.ids.fill(&mut nonce);
    // Always `Some`.
    Ok(keys.seal(Purpose { tenant, what }, nonce, text).unwrap_or_default())
}

/// The secrets of `what`: the second one while it is valid.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when one cannot be opened.
pub(crate) fn opened(
    app: &App,
    (tenant, what): (TenantId, &str),
    sealed: &[u8],
    old: Option<(&[u8], DateTime<Utc>)>,
) -> Result<Vec<SecretString>> {
    let keys = keys(app, "")?;
    let old = old.filter(|(_, until)| *until > app.now()).map(|(sealed, _)| sealed);
    let all = std::iter::once(sealed).chain(old);
    all.map(|sealed| keys.open(Purpose { tenant, what }, sealed).map_err(|error| unusable(&error))).collect()
}

/// Signs and verifies with these secrets.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when one cannot be used.
pub(crate) fn signer(secrets: &[SecretString]) -> Result<Signer> {
    Signer::new(secrets).map_err(|error| unusable(&error))
}

fn unusable(why: &impl fmt::Display) -> ApiError {
    ApiError::field("", format!("the secret cannot be used: {why}; rotate it"))
}

/// The keys that seal what is `at` this place of the body.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when there are none.
pub(crate) fn keys<'a>(app: &'a App, at: &str) -> Result<&'a SecretKeys> {
    app.state.secret_keys.as_ref().ok_or_else(|| {
        let why = "this installation cannot store secrets: its operator sets HOUSTON_SECRETS_KEY for the API and the \
                   workers (`openssl rand -base64 32` makes a key)";
        ApiError::field(at, why)
    })
}

/// Until when the secret that is replaced stays valid.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when that is too long.
pub(crate) fn old_until(app: &App, rotate: RotateSecret) -> Result<DateTime<Utc>> {
    let hours = rotate.old_secret_hours.unwrap_or(DEFAULT_HOURS);
    ensure!(hours <= MAX_HOURS, ApiError::field("/old_secret_hours", format!("must be 0 to {MAX_HOURS}")));
    Ok(app.now() + TimeDelta::hours(i64::from(hours)))
}
