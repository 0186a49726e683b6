//! JSON Web Tokens that an [`Issuer`](crate::issuer::Issuer) signs for a user: reading one, and verifying it with the
//! public keys of the issuer. Only signatures with a private key count: RS256, ES256 and EdDSA.
//!
//! The steps are types, so none can be left out: a text becomes an [`Unverified`] token, which names its issuer; with a
//! key of this issuer it becomes a [`Verified`] one, which names the user.
//!
//! What a token says of its own keys (`jku`, `jwk`, `x5u`) is never used: such tokens are refused.

pub mod key_set;
#[cfg(test)]
mod tests;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use self::key_set::{Algorithm, PublicKey};
use crate::issuer::MAX_NAME_BYTES;
use crate::scope::{Scope, Scopes};

/// Maximum length of a token.
pub const MAX_BYTES: usize = 8 * 1024;
/// Maximum number of audiences of a token.
const MAX_AUDIENCES: usize = 8;
/// How far the clock of the issuer may be ahead, in seconds: for `nbf` alone. A token never lives longer than `exp`.
const LEEWAY_S: f64 = 60.0;
/// Parameters of the header that name a key, and `crit`, which asks for more than this module does.
const REFUSED: [&str; 6] = ["jku", "jwk", "x5u", "x5c", "crit", "enc"];

/// Why a token is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JwtError {
    /// It is too long.
    #[error("it has more than {MAX_BYTES} bytes")]
    TooLong,
    /// It cannot be read.
    #[error("its {0} is not JSON in Base64url")]
    Unreadable(&'static str),
    /// It is signed in another way, or not at all.
    #[error("its `alg` is not accepted; sign it with RS256, ES256 or EdDSA")]
    Algorithm,
    /// It is a token for something else.
    #[error("its `typ` is neither `JWT` nor `at+jwt`")]
    Type,
    /// Its header has a parameter that is never accepted.
    #[error(
        "its header has `{0}`, which is not accepted; the keys of an issuer are read from its JWKS URL only"
    )]
    Parameter(&'static str),
    /// A claim is missing, or has another form.
    #[error("its claim `{name}` is missing or {wrong}")]
    Claim {
        /// The claim.
        name: String,
        /// What else may be wrong with it.
        wrong: &'static str,
    },
    /// It is over.
    #[error("it has expired; get a new one from the issuer")]
    Expired,
    /// It has not begun.
    #[error("it is not valid yet (`nbf`); compare the clocks")]
    NotYet,
    /// No tenant trusts its issuer for one of its audiences, or several do.
    #[error(
        "no tenant accepts its issuer (`iss`) for its audience (`aud`); `houston key list` shows the issuers"
    )]
    Issuer,
    /// The issuer has no such key.
    #[error("its issuer has no key with its `kid` for its `alg`")]
    UnknownKey,
    /// It was not signed with the key that it names.
    #[error("its signature is wrong")]
    Signature,
    /// The tenant has no such user.
    #[error(
        "its user does not exist: no user has the external id in its claim `{0}`; create the user first (`POST /v1/users`)"
    )]
    UnknownUser(String),
}

/// A token whose signature was not checked: anybody can have written it.
#[derive(Debug)]
pub struct Unverified<'t> {
    /// Header and payload, as they were signed.
    signed: &'t str,
    signature: Vec<u8>,
    algorithm: Algorithm,
    key_id: Option<String>,
    /// Who claims to have signed it.
    pub issuer: String,
    /// For whom it is.
    pub audiences: Vec<String>,
    expires_at: DateTime<Utc>,
    claims: Map<String, Value>,
}

/// A token that its issuer has signed.
#[derive(Debug)]
pub struct Verified {
    /// When it stops being valid.
    pub expires_at: DateTime<Utc>,
    /// All that it says.
    pub claims: Map<String, Value>,
}

/// Whether a text has the form of a token: three parts in Base64url, with points between.
pub fn has_form(text: &str) -> bool {
    let is_part = |part: &str| part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    text.starts_with("eyJ") && text.split('.').count() == 3 && text.split('.').all(is_part)
}

impl<'t> Unverified<'t> {
    /// Reads a token, and checks everything but its issuer, its signature and its user.
    ///
    /// # Errors
    /// [`JwtError`] says what is wrong.
    pub fn parse(text: &'t str, now: DateTime<Utc>) -> Result<Self, JwtError> {
        ensure!(text.len() <= MAX_BYTES, JwtError::TooLong);
        let (signed, signature) = text.rsplit_once('.').ok_or(JwtError::Unreadable("form"))?;
        let (header, payload) = signed.split_once('.').ok_or(JwtError::Unreadable("form"))?;
        let header = object(header).ok_or(JwtError::Unreadable("header"))?;
        let algorithm = algorithm(&header)?;
        let key_id = match header.get("kid") {
            None => None,
            Some(Value::String(id)) => Some(id.clone()),
            Some(_) => return Err(JwtError::UnknownKey),
        };
        let claims = object(payload).ok_or(JwtError::Unreadable("payload"))?;
        let expires_at = check_times(&claims, now)?;
        Ok(Self {
            signed,
            signature: URL_SAFE_NO_PAD.decode(signature).map_err(|_| JwtError::Signature)?,
            algorithm,
            key_id,
            issuer: text_of(&claims, "iss")?.to_owned(),
            audiences: audiences(&claims)?,
            expires_at,
            claims,
        })
    }

    /// How it is signed, and the id of the key.
    pub fn key(&self) -> (Algorithm, Option<&str>) {
        (self.algorithm, self.key_id.as_deref())
    }

    /// The token, if it was signed with this key.
    ///
    /// # Errors
    /// [`JwtError::Signature`] when it was not.
    pub fn verify(self, key: &PublicKey) -> Result<Verified, JwtError> {
        if key.verifies(self.algorithm, self.signed.as_bytes(), &self.signature) {
            Ok(Verified { expires_at: self.expires_at, claims: self.claims })
        } else {
            Err(JwtError::Signature)
        }
    }
}

impl Verified {
    /// The external id of the user: a text of at most 255 bytes that is not blank and has no control characters.
    ///
    /// # Errors
    /// [`JwtError::Claim`] when the token does not say it.
    pub fn user(&self, claim: &str) -> Result<&str, JwtError> {
        let user = text_of(&self.claims, claim)?;
        ensure!(!user.trim().is_empty(), self::claim(claim, "blank"));
        if user.chars().any(char::is_control) {
            return Err(self::claim(claim, "has control characters, such as U+0000"));
        }
        Ok(user)
    }

    /// The scopes among `all` that the token has: those that its claim `scope` names, as a text with spaces between or as a list. A
    /// claim that names none of Houston's (`""`, `openid profile`) grants nothing; only a token without the claim has all.
    pub fn narrow(&self, all: Scopes) -> Scopes {
        let named = match self.claims.get("scope") {
            None => return all,
            Some(Value::String(names)) => Scopes::of_names(names.split_ascii_whitespace()),
            Some(Value::Array(names)) => Scopes::of_names(names.iter().filter_map(Value::as_str)),
            Some(_) => Scopes::default(),
        };
        let has = |scope: &Scope| named.allow(*scope) && all.allow(*scope);
        [Scope::Read, Scope::Post].into_iter().filter(has).collect()
    }
}

fn object(part: &str) -> Option<Map<String, Value>> {
    let bytes = URL_SAFE_NO_PAD.decode(part).ok()?;
    serde_json::from_slice(&bytes).ok()
}

fn algorithm(header: &Map<String, Value>) -> Result<Algorithm, JwtError> {
    if let Some(name) = REFUSED.into_iter().find(|name| header.contains_key(*name)) {
        return Err(JwtError::Parameter(name));
    }
    if let Some(type_name) = header.get("typ") {
        let type_name = type_name.as_str().unwrap_or_default().to_ascii_lowercase();
        ensure!(["jwt", "at+jwt", "application/at+jwt"].contains(&type_name.as_str()), JwtError::Type);
    }
    let name = header.get("alg").and_then(Value::as_str).unwrap_or_default();
    Algorithm::of_name(name).ok_or(JwtError::Algorithm)
}

/// When the token expires, if it is valid now.
fn check_times(claims: &Map<String, Value>, now: DateTime<Utc>) -> Result<DateTime<Utc>, JwtError> {
    let seconds = |name: &'static str| match claims.get(name) {
        None => Ok(None),
        Some(value) => value.as_f64().map(Some).ok_or_else(|| claim(name, "no number of seconds since 1970")),
    };
    let expires = seconds("exp")?.ok_or_else(|| claim("exp", "no number of seconds since 1970"))?;
    let begins = seconds("nbf")?;
    // Whole seconds, rounded down; times beyond what can be represented are cut.
    #[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
    let expires_at = DateTime::from_timestamp(expires as i64, 0).unwrap_or(DateTime::<Utc>::MAX_UTC);
    #[expect(clippy::cast_precision_loss, reason = "exact until the year 285,000,000")]
    let now_s = now.timestamp() as f64;
    ensure!(expires >= 0.0 && expires_at > now, JwtError::Expired);
    ensure!(begins.is_none_or(|begins| begins <= now_s + LEEWAY_S), JwtError::NotYet);
    Ok(expires_at)
}

fn audiences(claims: &Map<String, Value>) -> Result<Vec<String>, JwtError> {
    let wrong = || claim("aud", "neither a text nor a list of at most 8 texts");
    let all = match claims.get("aud").ok_or_else(wrong)? {
        Value::String(one) => vec![one.clone()],
        Value::Array(all) => {
            let texts = all.iter().map(|one| one.as_str().map(str::to_owned));
            texts.collect::<Option<Vec<_>>>().ok_or_else(wrong)?
        }
        _ => return Err(wrong()),
    };
    if (1..=MAX_AUDIENCES).contains(&all.len()) { Ok(all) } else { Err(wrong()) }
}

fn text_of<'c>(claims: &'c Map<String, Value>, name: &str) -> Result<&'c str, JwtError> {
    let text = claims.get(name).and_then(Value::as_str);
    let text = text.filter(|text| (1..=MAX_NAME_BYTES).contains(&text.len()));
    text.ok_or_else(|| claim(name, "no text of 1 to 255 bytes"))
}

fn claim(name: &str, wrong: &'static str) -> JwtError {
    JwtError::Claim { name: name.to_owned(), wrong }
}
