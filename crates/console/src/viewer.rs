//! Who looks at a page: the key of the session, and what it allows.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Redirect, Response};
use houston_domain::id::ApiKeyId;
use houston_domain::scope::{Scope, Scopes};
use houston_protocol::key::OwnKeyResponse;
use secrecy::ExposeSecret as _;
use serde::Serialize;
use serde_json::Map;
use url::form_urlencoded::byte_serialize;

use crate::api::{Api, Refused, Result};
use crate::failure::Answer;
use crate::{Console, Site};

/// A signed-in viewer. A handler that takes one sends others to the sign-in.
#[derive(Debug, Clone)]
pub(crate) struct Viewer {
    pub(crate) console: Console,
    pub(crate) api: Api,
    /// The key of the session.
    pub(crate) key: ApiKeyId,
    pub(crate) scopes: Scopes,
}

impl Viewer {
    /// The viewer with this key.
    ///
    /// # Errors
    /// [`Refused`] when the API does not accept the key.
    pub(crate) async fn of_key(site: &Site, key: &str, request: &Parts) -> Result<Self> {
        let carry = site.console.0.carry;
        let api = Api::new(site.api.clone(), key, request, carry)
            .ok_or_else(|| Refused::new(StatusCode::UNAUTHORIZED, "unauthorized", "this is no API key"))?;
        let own: OwnKeyResponse = api.get("/v1/key").await?;
        if own.user_id.is_some() {
            let detail = "This key is for one user. The console is for keys of the tenant.";
            return Err(Refused::new(StatusCode::FORBIDDEN, "forbidden", detail));
        }
        let (console, scopes) = (site.console.clone(), own.scopes.into_iter().collect());
        Ok(Self { console, api, key: own.id, scopes })
    }

    /// Sends a change, and leads to the page at `to`.
    pub(crate) async fn change(&self, method: Method, path: &str, body: &impl Serialize, to: &str) -> Answer {
        self.api.change(method, path, body).await?;
        Ok(Redirect::to(&self.path(to)).into_response())
    }

    /// Posts what needs no details, and leads to the page at `to`.
    pub(crate) async fn post(&self, path: &str, to: &str) -> Answer {
        self.change(Method::POST, path, &Map::new(), to).await
    }

    /// Whether the key allows what needs `scope`. Only for what is offered: the API decides.
    pub(crate) fn may(&self, scope: Scope) -> bool {
        self.scopes.allow(scope)
    }

    /// A word for what the viewer may do.
    pub(crate) fn role(&self) -> &'static str {
        if self.may(Scope::Admin) {
            "admin"
        } else if self.may(Scope::Operate) || self.may(Scope::ManageAgents) {
            "operator"
        } else if self.may(Scope::Post) {
            "editor"
        } else {
            "viewer"
        }
    }
}

impl FromRequestParts<Site> for Viewer {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Self, Response> {
        let Some(key) = site.console.key_of(&parts.headers) else {
            return Err(sign_in_first(site, parts));
        };
        match Self::of_key(site, key.expose_secret(), parts).await {
            Ok(viewer) => Ok(viewer),
            Err(refused) if refused.status == StatusCode::UNAUTHORIZED => Err(sign_in_first(site, parts)),
            Err(refused) => Err(refused.into_response()),
        }
    }
}

/// Leads to the sign-in, and from there back to the page.
fn sign_in_first(site: &Site, parts: &Parts) -> Response {
    let next: String = byte_serialize(page_of(parts).as_bytes()).collect();
    let to = site.console.path(&format!("/sign-in?next={next}"));
    // A page that refreshes itself must leave, and not show the sign-in in its middle.
    let is_refresh = parts.headers.contains_key("hx-request");
    if let (true, Ok(to)) = (is_refresh, HeaderValue::from_str(&to)) {
        return (StatusCode::UNAUTHORIZED, [(HeaderName::from_static("hx-redirect"), to)]).into_response();
    }
    Redirect::to(&to).into_response()
}

/// The page that a request is for. What a form is sent to is no page: it is the one with the form, which browsers name.
fn page_of(parts: &Parts) -> String {
    let path = |uri: &Uri| uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    if matches!(parts.method, Method::GET | Method::HEAD) {
        return path(&parts.uri);
    }
    let from = parts.headers.get(header::REFERER).and_then(|from| from.to_str().ok());
    from.and_then(|from| from.parse::<Uri>().ok()).map(|from| path(&from)).unwrap_or_default()
}
