//! Signing in with an API key, or with a link that works once; with an identity provider: [`crate::oidc`]. The links live in the
//! memory of the process that prints them.

use std::sync::{Mutex, PoisonError};

use askama::Template;
use axum::Form;
use axum::extract::{Path, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Redirect, Response};
use chrono::{DateTime, TimeDelta, Utc};
use houston_domain::id::Ids;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::Site;
use crate::assets::Assets;
use crate::failure::html;
use crate::query::Query;
use crate::session::is_secure;
use crate::show::with_query;
use crate::viewer::Viewer;

/// How long a link is valid.
const VALID_FOR: TimeDelta = TimeDelta::minutes(10);
/// The most links that wait to be used; a new one takes the place of the oldest.
const MAX_LINKS: usize = 16;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Wanted {
    pub(crate) next: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Given {
    key: String,
    #[serde(default)]
    next: String,
}

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignIn<'a> {
    prefix: &'a str,
    assets: &'a Assets,
    title: &'a str,
    forward: &'a str,
    form: bool,
    /// Where the form of a link is posted to; empty: there is no link.
    confirm: &'a str,
    /// What the identity provider is called, and where signing in with it begins; empty: there is none.
    provider: &'a str,
    begin: &'a str,
    next: &'a str,
    problem: &'a str,
    detail: &'a str,
}

impl Site {
    /// A page with nothing but its title.
    fn titled<'a>(&'a self, title: &'a str) -> SignIn<'a> {
        SignIn {
            prefix: &self.console.0.config.path,
            assets: &self.console.0.assets,
            title,
            forward: "",
            form: false,
            confirm: "",
            provider: "",
            begin: "",
            next: "",
            problem: "",
            detail: "",
        }
    }

    /// The form, with what went wrong.
    pub(crate) fn page(&self, next: &str, problem: &str) -> Response {
        let console = &self.console.0;
        let form = console.keys.is_some();
        let begin = with_query(&self.console.path("/sign-in-with"), &[("next", next)]);
        html(&SignIn {
            form,
            provider: &console.config.oidc.name,
            begin: if form && console.provider.is_some() { &begin } else { "" },
            next,
            problem,
            detail: "Sessions are sealed with a key of the installation. Set HOUSTON_SECRETS_KEY, the same for all processes; \
                     `openssl rand -base64 32` makes one.",
            ..self.titled(if form { "Sign in" } else { "Signing in needs a key of the installation" })
        })
    }

    /// That a link does not sign in any more.
    fn used_up(&self) -> Response {
        let problem = "This link was used, or is older than ten minutes. Sign in with a key.";
        (StatusCode::NOT_FOUND, self.page("", problem)).into_response()
    }

    /// The page after a sign-in. The browser then goes on by itself: a cookie that is this strict is not sent with a redirection
    /// that another program began.
    pub(crate) fn signed_in(&self, forward: &str) -> Response {
        html(&SignIn { forward, detail: "The page opens by itself.", ..self.titled("Signed in") })
    }

    /// Where a sign-in leads: a page of the console, never another address.
    pub(crate) fn onward<'a>(&'a self, next: &'a str) -> &'a str {
        let prefix = self.console.0.config.path.as_str();
        let is_own = next.strip_prefix(prefix).is_some_and(|rest| {
            rest.is_empty() || rest.starts_with(['/', '?']) && !rest.contains(['\\', '\n', '\r'])
        });
        if is_own { next } else { prefix }
    }
}

/// The form.
pub(crate) async fn show(State(site): State<Site>, Query(wanted): Query<Wanted>) -> Response {
    site.page(&wanted.next, "")
}

/// Begins a session with the key of the form.
pub(crate) async fn submit(State(site): State<Site>, parts: Parts, Form(given): Form<Given>) -> Response {
    let (key, next) = (given.key.trim(), given.next.as_str());
    if let Err(refused) = Viewer::of_key(&site, key, &parts).await {
        let problem = match refused.status {
            StatusCode::UNAUTHORIZED => "This key is not valid.".to_owned(),
            _ => refused.detail,
        };
        return (refused.status, site.page(next, &problem)).into_response();
    }
    match site.console.session(key, is_secure(&parts.headers)) {
        Some(cookie) => ([(header::SET_COOKIE, cookie)], Redirect::to(site.onward(next))).into_response(),
        None => site.page(next, ""),
    }
}

/// Asks whether to sign in with a link. It changes nothing: programs look at links before people do.
pub(crate) async fn ask(State(site): State<Site>, Path(token): Path<String>) -> Response {
    if site.console.0.links.has(&token, site.console.now()) {
        // Its button signs in.
        let confirm = &site.console.path(&format!("/sign-in/{token}"));
        html(&SignIn { confirm, ..site.titled("Sign in") })
    } else {
        site.used_up()
    }
}

/// Begins a session with a link.
pub(crate) async fn follow(
    State(site): State<Site>,
    headers: HeaderMap,
    Path(token): Path<String>,
) -> Response {
    let Some(key) = site.console.0.links.take(&token, site.console.now()) else { return site.used_up() };
    match site.console.session(key.expose_secret(), is_secure(&headers)) {
        Some(cookie) => {
            ([(header::SET_COOKIE, cookie)], site.signed_in(&site.console.0.config.path)).into_response()
        }
        None => site.page("", ""),
    }
}

/// Ends the session, and the key that was made for it.
pub(crate) async fn leave(State(site): State<Site>, headers: HeaderMap) -> Response {
    if let (Some(provider), Some(key)) = (&site.console.0.provider, site.console.key_of(&headers))
        && let Err(error) = provider.outside.end_key(key).await
    {
        // It ends with the session all the same.
        tracing::warn!(error, "the key of a session was not revoked");
    }
    let cookie = site.console.no_session().map(|cookie| [(header::SET_COOKIE, cookie)]);
    (cookie, Redirect::to(&site.console.path("/sign-in"))).into_response()
}

/// The links that have not been used.
#[derive(Default)]
pub(crate) struct Links(Mutex<Vec<SignInLink>>);

struct SignInLink {
    /// The hash of the token: comparing hashes says nothing about tokens by the time it takes.
    hash: [u8; 32],
    key: SecretString,
    expires: DateTime<Utc>,
}

impl Links {
    /// A new token for this key.
    pub(crate) fn make(&self, ids: &Ids, key: &str) -> String {
        let mut random = [0; 32];
        ids.fill(&mut random);
        let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let expires = ids.clock().now() + VALID_FOR;
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if links.len() >= MAX_LINKS {
            links.remove(0);
        }
        links.push(SignInLink { hash: hash(&token), key: SecretString::from(key.to_owned()), expires });
        token
    }

    /// Whether a token signs in.
    pub(crate) fn has(&self, token: &str, now: DateTime<Utc>) -> bool {
        let links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = hash(token);
        links.iter().any(|link| link.hash == wanted && link.expires > now)
    }

    /// The key of a token, which is used up by this.
    pub(crate) fn take(&self, token: &str, now: DateTime<Utc>) -> Option<SecretString> {
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|link| link.expires > now);
        let wanted = hash(token);
        let at = links.iter().position(|link| link.hash == wanted)?;
        Some(links.remove(at).key)
    }
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::Router;
    use axum::body::Body;
    use axum::http::Request;
    use chrono::DateTime;
    use houston_domain::clock::{Clock as _, ManualClock};
    use secrecy::ExposeSecret as _;
    use tower::ServiceExt as _;

    use super::*;
    use crate::session::tests::console;

    #[tokio::test]
    async fn only_the_button_of_its_page_uses_up_a_link() {
        let console = console(&ManualClock::at(DateTime::UNIX_EPOCH), 1);
        let (link, routes) = (console.link("hou_secret"), console.alone(Router::new()));
        let send = async |method: &str, site: &str| {
            let request = Request::builder().method(method).uri(&link).header("sec-fetch-site", site);
            let response = routes.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
            let has_cookie = response.headers().contains_key(header::SET_COOKIE);
            let status = response.status().as_u16();
            let body = axum::body::to_bytes(response.into_body(), 100_000).await.unwrap();
            (status, has_cookie, String::from_utf8(body.to_vec()).unwrap())
        };
        for method in ["HEAD", "GET", "GET"] {
            let (status, has_cookie, page) = send(method, "none").await;
            assert_eq!((status, has_cookie), (200, false), "{method}");
            assert!(method == "HEAD" || page.contains(&format!("action=\"{link}\"")), "{page}");
        }
        assert_eq!(send("POST", "cross-site").await.0, 403, "the button of another page");
        let (status, has_cookie, _) = send("POST", "same-origin").await;
        assert_eq!((status, has_cookie), (200, true));
        for method in ["GET", "POST"] {
            let (status, has_cookie, _) = send(method, "same-origin").await;
            assert_eq!((status, has_cookie), (404, false), "{method}");
        }
    }

    #[test]
    fn link_signs_in_once_and_not_later() {
        let clock = ManualClock::at(DateTime::UNIX_EPOCH);
        let ids = Ids::seeded(Arc::new(clock.clone()), 1);
        let links = Links::default();
        let token = links.make(&ids, "hou_1");
        assert!(links.take("0", clock.now()).is_none());
        assert!(links.has(&token, clock.now()) && !links.has("0", clock.now()));
        assert_eq!(links.take(&token, clock.now()).unwrap().expose_secret(), "hou_1");
        assert!(links.take(&token, clock.now()).is_none(), "it is used up");
        let late = links.make(&ids, "hou_2");
        clock.advance(VALID_FOR);
        assert!(links.take(&late, clock.now()).is_none(), "it has expired");
    }
}
