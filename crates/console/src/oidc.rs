//! Signing in with an identity provider (OpenID Connect): the browser goes to the provider and comes back with a code, which
//! the console exchanges for a signed token. The group of the person decides the tenant and the role; for these, the process
//! makes an API key that ends with the session.
//!
//! What is checked, and where: that this browser began the sign-in, at most ten minutes ago ([`flow`]); that the answer is of
//! this provider, for this program and this sign-in, and not over ([`provider`]); that the person is in a group with a role
//! ([`settings`]). Signatures are checked by [`houston_domain::jwt`], as those of the issuers of tenants.
//!
//! Deliberately absent: the crate `openidconnect`. It needs the crate `rsa`, for which RUSTSEC-2023-0071 has no mended release, and
//! would check tokens by a second implementation, with keys and signatures of other crates than those of tenants' issuers.

mod flow;
mod person;
mod provider;
pub(crate) mod settings;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Redirect, Response};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

use self::flow::Flow;
use self::person::Person;
use self::provider::{Problem, Provider};
use crate::Site;
use crate::outside::{Outside, WantedKey};
use crate::query::Query;
use crate::sign_in::Wanted;

/// What keys of people are named, before who it is. The store deletes old ones by this name.
pub const KEY_OF: &str = "console: ";

/// The provider, and who makes keys.
#[derive(Debug)]
pub(crate) struct SignIn {
    provider: Provider,
    outside: Arc<dyn Outside>,
}

impl SignIn {
    pub(crate) fn new(outside: Arc<dyn Outside>, secret: Option<SecretString>) -> Self {
        Self { provider: Provider::new(Arc::clone(&outside), secret), outside }
    }

    /// Ends the key of a session when its person signs out. If that fails, the key ends with the session all the same.
    pub(crate) async fn end(&self, key: SecretString) {
        if let Err(error) = self.outside.end_key(key).await {
            tracing::warn!(error, "the key of a session was not revoked");
        }
    }
}

/// What the provider sends the browser back with.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Returned {
    #[serde(default)]
    code: String,
    #[serde(default)]
    state: String,
    iss: Option<String>,
    error: Option<String>,
}

impl Site {
    fn sign_in(&self) -> Result<&SignIn, Problem> {
        let sign_in = self.console.0.sign_in.as_ref();
        sign_in.ok_or_else(|| Problem::Provider("none is set up (`console.oidc`)".to_owned()))
    }

    /// Where the provider sends the browser back to. The provider knows it, and takes no other.
    fn redirect(&self) -> String {
        format!("{}{}", self.console.0.config.oidc.public_url, self.console.path("/sign-in-with/back"))
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
        let (sign_in, now) = (self.sign_in()?, self.console.now());
        let refused = |reason: &str| Problem::Refused(reason.to_owned());
        let begun = self.console.flow_of(headers);
        let flow = begun
            .ok_or_else(|| refused("it was not begun in this browser within ten minutes; begin again"))?;
        if returned.state != flow.state {
            return Err(refused("it is not the one that this browser began; begin again"));
        }
        let settings = &self.console.0.config.oidc;
        let document = sign_in.provider.document(settings, now).await?;
        if !document.has_sent(returned.iss.as_deref()) {
            return Err(refused("another provider has answered"));
        }
        if let Some(error) = &returned.error {
            let name: String = error.chars().filter(char::is_ascii_graphic).take(60).collect();
            return Err(Problem::Refused(format!("the provider says `{name}`")));
        }
        let redirect = self.redirect();
        let code = (returned.code.as_str(), &flow);
        let person = sign_in.provider.person((settings, redirect.as_str()), code, now).await?;
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
        self.sign_in()?.outside.make_key(wanted).await.map_err(|error| {
            tracing::error!(error, "the key of a session was not made");
            Problem::Provider("the key of the session was not made; try again".to_owned())
        })
    }
}

/// Sends the browser to the provider.
pub(crate) async fn begin(State(site): State<Site>, Query(Wanted { next }): Query<Wanted>) -> Response {
    let flow = Flow::new(&site.console.0.ids, &next);
    let settings = &site.console.0.config.oidc;
    let begun = async {
        let document = site.sign_in()?.provider.document(settings, site.console.now()).await?;
        document.authorization((settings, &site.redirect()), &flow)
    };
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
    for cookie in site.console.no_flow().into_iter().chain(session) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}
