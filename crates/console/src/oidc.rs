//! Signing in with an identity provider (OpenID Connect): the browser goes to the provider and comes back with a code, which
//! the console exchanges for a signed token. The group of the person decides the tenant and the role; for these, the process
//! makes an API key that ends with the session.
//!
//! What is checked, and where: that this browser began the sign-in, at most ten minutes ago ([`Flow`]); that the answer is of
//! this provider, for this program and this sign-in, and not over ([`provider`]); that the person is in a group with a role
//! ([`settings`]). Signatures are checked by [`houston_domain::jwt`], as those of the issuers of tenants.
//!
//! Deliberately absent: the crate `openidconnect`. It needs the crate `rsa`, for which RUSTSEC-2023-0071 has no mended release, and
//! would check tokens by a second implementation, with keys and signatures of other crates than those of tenants' issuers.

mod person;
pub(crate) mod provider;
pub(crate) mod settings;
#[cfg(test)]
mod tests;

use std::fmt;
use std::pin::Pin;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Redirect, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, TimeDelta, Utc};
use houston_domain::id::Ids;
use houston_domain::scope::Scopes;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use self::person::Person;
use self::provider::{Problem, Provider};
use crate::query::Query;
use crate::session::{cookie, cookie_of};
use crate::sign_in::Wanted;
use crate::{Console, Site};

/// What keys of people are named, before who it is. The store deletes old ones by this name.
pub const KEY_OF: &str = "console: ";

const COOKIE: &str = "houston_console_sign_in";
/// What the cookie is sealed for: it cannot be taken for a session, nor the other way round.
const PURPOSE: &str = "console/sign-in";
/// How long a person may take at the provider.
const VALID_FOR: TimeDelta = TimeDelta::minutes(10);
/// The longest path that a sign-in leads back to.
const MAX_NEXT_BYTES: usize = 1_000;

/// What the provider sends the browser back with.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Returned {
    code: String,
    state: String,
    iss: Option<String>,
    error: Option<String>,
}

impl Site {
    fn provider(&self) -> Result<&Provider, Problem> {
        let provider = self.console.0.provider.as_ref();
        provider.ok_or_else(|| Problem::Provider("none is set up (`console.oidc`)".to_owned()))
    }

    fn refused(&self, problem: &Problem) -> Response {
        tracing::warn!(%problem, "a sign-in to the console was refused");
        let status = match problem {
            Problem::Provider(_) => StatusCode::BAD_GATEWAY,
            Problem::Refused(_) => StatusCode::FORBIDDEN,
        };
        (status, self.page("", &problem.to_string())).into_response()
    }

    /// Checks what the browser brings; the person, and where it was going.
    async fn returned(&self, headers: &HeaderMap, returned: &Returned) -> Result<(Person, Flow), Problem> {
        let (provider, now) = (self.provider()?, self.console.now());
        let refused = |reason: &str| Problem::Refused(reason.to_owned());
        let Some(flow) = self.console.flow_of(headers) else {
            return Err(refused("it was not begun in this browser within ten minutes; begin again"));
        };
        if returned.state != flow.state {
            return Err(refused("it is not the one that this browser began; begin again"));
        }
        if !provider.document(now).await?.has_sent(returned.iss.as_deref()) {
            return Err(refused("another provider has answered"));
        }
        if let Some(error) = &returned.error {
            let name: String = error.chars().filter(char::is_ascii_graphic).take(60).collect();
            return Err(Problem::Refused(format!("the provider says `{name}`")));
        }
        let person = provider.person(&returned.code, &flow, now).await?;
        Ok((person, flow))
    }

    /// A key for what the person's group may do.
    async fn key_for(&self, person: &Person) -> Result<SecretString, Problem> {
        let Some(group) = self.console.0.config.oidc.grant(&person.groups) else {
            let who = person.label();
            return Err(Problem::Refused(format!(
                "{who} is in no group that may use this console; its operator sets the groups (console.oidc.groups)"
            )));
        };
        let wanted = WantedKey {
            tenant: group.tenant.clone(),
            name: format!("{KEY_OF}{}", person.label()),
            scopes: group.scopes(),
            expires_at: self.console.session_end(),
        };
        self.provider()?.outside.make_key(wanted).await.map_err(|error| {
            tracing::error!(error, "the key of a session was not made");
            Problem::Provider("the key of the session was not made; try again".to_owned())
        })
    }
}

/// Sends the browser to the provider.
pub(crate) async fn begin(State(site): State<Site>, Query(Wanted { next }): Query<Wanted>) -> Response {
    let flow = Flow::new(&site.console.0.ids, &next);
    let begun = async { site.provider()?.authorization(&flow, site.console.now()).await };
    match (begun.await, site.console.flow(&flow)) {
        (Ok(to), Some(cookie)) => ([(header::SET_COOKIE, cookie)], Redirect::to(&to)).into_response(),
        (Ok(_), None) => site.page(&next, ""),
        (Err(problem), _) => site.refused(&problem),
    }
}

/// Begins a session for whom the provider names.
pub(crate) async fn back(
    State(site): State<Site>,
    headers: HeaderMap,
    Query(returned): Query<Returned>,
) -> Response {
    let signed_in = async {
        let (person, flow) = site.returned(&headers, &returned).await?;
        let key = site.key_for(&person).await?;
        tracing::info!(person = person.label(), "signed in to the console");
        Ok((key, flow.next))
    };
    let (mut response, session) = match signed_in.await {
        Ok((key, next)) => {
            let cookie = site.console.session(key.expose_secret(), site.console.0.config.oidc.is_secure());
            (site.signed_in(site.onward(&next)), cookie)
        }
        Err(problem) => (site.refused(&problem), None),
    };
    // What was begun is over, whatever became of it.
    let no_flow = cookie(&format!("{COOKIE}="), &site.console.flow_path(), 0, ("Lax", false));
    for cookie in no_flow.into_iter().chain(session) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}

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
    fn flow(&self, flow: &Flow) -> Option<HeaderValue> {
        let text = serde_json::to_string(flow).ok()?;
        let value = self.sealed(PURPOSE, self.now() + VALID_FOR, &text)?;
        let max_age = VALID_FOR.num_seconds().unsigned_abs();
        let same_site = ("Lax", self.0.config.oidc.is_secure());
        cookie(&format!("{COOKIE}={value}"), &self.flow_path(), max_age, same_site)
    }

    /// The sign-in that this browser has begun, unless it took too long.
    fn flow_of(&self, headers: &HeaderMap) -> Option<Flow> {
        let text = self.unsealed(PURPOSE, cookie_of(headers, COOKIE)?)?;
        serde_json::from_str(&text).ok()
    }
}

/// An answer that is on its way, or why there is none.
pub type Awaited<'a, T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send + 'a>>;

/// Asks identity providers, and makes keys for those who sign in with one.
pub trait Outside: fmt::Debug + Send + Sync {
    /// Sends a request to the provider. It must follow no redirections, and end within seconds.
    fn ask(&self, question: Question) -> Awaited<'_, Reply>;

    /// Makes an API key.
    fn make_key(&self, wanted: WantedKey) -> Awaited<'_, SecretString>;

    /// Revokes a key, if it was made here: a key that was typed in stays valid after signing out.
    fn end_key(&self, key: SecretString) -> Awaited<'_, ()>;
}

/// A request to an identity provider.
#[derive(Debug, Clone, Default)]
pub struct Question {
    /// Where to.
    pub url: String,
    /// The body of a POST request, `application/x-www-form-urlencoded`; without one, it is a GET request.
    pub form: Option<SecretString>,
    /// The header `Authorization`.
    pub authorization: Option<SecretString>,
}

/// What a provider answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// The key of a person's session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedKey {
    /// The name of the tenant.
    pub tenant: String,
    /// Whose it is: lists of keys and the audit log show it.
    pub name: String,
    /// What it allows.
    pub scopes: Scopes,
    /// When it stops being valid: with the session.
    pub expires_at: DateTime<Utc>,
}
