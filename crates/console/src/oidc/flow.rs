//! A sign-in that has begun, kept in a sealed cookie until the browser comes back from the provider.

use axum::http::{HeaderMap, HeaderValue};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::TimeDelta;
use houston_domain::id::Ids;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::Console;
use crate::session::cookie_of;

const COOKIE: &str = "houston_console_sign_in";
/// What the cookie is sealed for: it cannot be taken for a session, nor the other way round.
const PURPOSE: &str = "console/sign-in";
/// How long a person may take at the provider.
const VALID_FOR: TimeDelta = TimeDelta::minutes(10);
/// The longest path that a sign-in leads back to.
const MAX_NEXT_BYTES: usize = 1_000;

/// What this browser must bring back, and what the provider must say again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Flow {
    /// Only the browser that began has it.
    pub(crate) state: String,
    /// The provider signs it with the person: a token of another sign-in has another.
    pub(crate) nonce: String,
    /// Only who has this can use the code (PKCE).
    pub(crate) verifier: String,
    /// Where the person was going.
    pub(crate) next: String,
}

impl Flow {
    pub(crate) fn new(ids: &Ids, next: &str) -> Self {
        let random = || {
            let mut bytes = [0; 32];
            ids.fill(&mut bytes);
            URL_SAFE_NO_PAD.encode(bytes)
        };
        let next = if next.len() > MAX_NEXT_BYTES { "" } else { next };
        Self { state: random(), nonce: random(), verifier: random(), next: next.to_owned() }
    }

    /// What the provider gets of the verifier.
    pub(crate) fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(self.verifier.as_bytes()))
    }
}

impl Console {
    fn flow_path(&self) -> String {
        self.path("/sign-in-with")
    }

    /// The cookie of a sign-in that begins. `Lax`: the provider sends the browser back. `None`: there is no key to seal it with.
    pub(crate) fn flow(&self, flow: &Flow) -> Option<HeaderValue> {
        let text = serde_json::to_string(flow).ok()?;
        let value = self.sealed(PURPOSE, self.now() + VALID_FOR, &text)?;
        let max_age = VALID_FOR.num_seconds().unsigned_abs();
        let more = if self.0.config.oidc.is_secure() { "SameSite=Lax; Secure" } else { "SameSite=Lax" };
        HeaderValue::from_str(&format!(
            "{COOKIE}={value}; Path={}; Max-Age={max_age}; HttpOnly; {more}",
            self.flow_path()
        ))
        .ok()
    }

    /// The cookie that ends it.
    pub(crate) fn no_flow(&self) -> Option<HeaderValue> {
        let path = self.flow_path();
        HeaderValue::from_str(&format!("{COOKIE}=; Path={path}; Max-Age=0; HttpOnly; SameSite=Lax")).ok()
    }

    /// The sign-in that this browser has begun, unless it took too long.
    pub(crate) fn flow_of(&self, headers: &HeaderMap) -> Option<Flow> {
        let text = self.unsealed(PURPOSE, cookie_of(headers, COOKIE)?)?;
        serde_json::from_str(&text).ok()
    }
}
