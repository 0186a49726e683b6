//! OAuth for MCP servers, as the protocol's chapter on authorization has it: the authorization code with PKCE.
//!
//! ```text
//! begin:  the server's challenge → metadata of the resource → of the authorization server → a client → the URL to open
//! finish: the code that the browser brings → tokens
//! renew:  the refresh token → tokens
//! ```
//!
//! Written here rather than with the feature `auth` of rmcp: that brings `oauth2` and another HTTP client, keeps logins in
//! memory, and this is what is left when every request goes through the guarded client. Nothing here has a `Debug` that shows a
//! secret, and no error contains one.

use std::time::Duration;

use ::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use houston_domain::mcp_server::OAuthSettings;
use houston_web::{Limits, Request, Response, TenantReach, Tls};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use url::Url;
use url::form_urlencoded::Serializer;

use crate::text::cleaned;

/// What a client is to its authorization server.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClientIds {
    pub(crate) id: String,
    /// Registered clients may get one, even if they ask for none.
    pub(crate) secret: Option<String>,
    /// Whether the secret is sent in a header.
    pub(crate) is_basic: bool,
}

/// A login that has begun. It is sealed until the browser comes back.
#[derive(Serialize, Deserialize)]
pub(crate) struct Pending {
    issuer: String,
    /// Whether the authorization server says who it is when it answers.
    says_issuer: bool,
    token_endpoint: String,
    resource: String,
    redirect_uri: String,
    client: ClientIds,
    verifier: String,
}

/// What a login has given, as it is sealed.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Grant {
    token_endpoint: String,
    resource: String,
    client: ClientIds,
    pub(crate) access_token: String,
    pub(crate) refresh_token: Option<String>,
    /// Seconds since 1970; `None`: it was not said.
    pub(crate) expires_at: Option<i64>,
}

/// The most bytes of an answer.
const MAX_BYTES: usize = 256 * 1024;
/// The most characters of what an authorization server says.
const MAX_SAID: usize = 200;
/// How long one request may take.
const LIMIT: Duration = Duration::from_secs(5);

/// What requests need.
pub(crate) struct Exchange<'e> {
    pub(crate) reach: &'e TenantReach,
    pub(crate) tls: Tls,
}

/// Why tokens were not renewed.
pub(crate) enum NotRenewed {
    /// The authorization server has refused it for good: a person must log in again.
    Refused,
    /// It may work later.
    Failed(String),
}

/// Begins a login at the server at this address: the URL that a person opens, and what is kept until they come back.
///
/// # Errors
/// Why it cannot begin, for people.
pub(crate) async fn begin(
    exchange: &Exchange<'_>,
    server: &str,
    settings: &OAuthSettings,
    redirect_uri: &str,
    state: &str,
) -> Result<(String, Pending), String> {
    let url = Url::parse(server).map_err(|error| error.to_string())?;
    let ResourceMetadata { resource, authorization_servers, scopes_supported } =
        exchange.resource(&url).await?;
    let issuer = authorization_servers.into_iter().next().unwrap_or_default();
    let metadata = exchange.issuer(&issuer).await?;
    let scopes = settings.scopes.clone().unwrap_or(scopes_supported);
    let client = match &settings.client_id {
        Some(id) => ClientIds { id: id.clone(), secret: None, is_basic: false },
        None => exchange.register(&metadata, redirect_uri, &scopes).await?,
    };
    let verifier = URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>());
    let mut open = Url::parse(&metadata.authorization_endpoint).map_err(|error| error.to_string())?;
    exchange
        .reach
        .judge(open.as_str())
        .map_err(|reason| format!("the address of its login page: {reason}"))?;
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
    let mut query = open.query_pairs_mut();
    query.append_pair("response_type", "code").append_pair("client_id", &client.id);
    query.append_pair("redirect_uri", redirect_uri).append_pair("state", state);
    query.append_pair("code_challenge", &challenge).append_pair("code_challenge_method", "S256");
    query.append_pair("resource", &resource);
    if !scopes.is_empty() {
        query.append_pair("scope", &scopes.join(" "));
    }
    drop(query);
    let pending = Pending {
        issuer: metadata.issuer,
        says_issuer: metadata.authorization_response_iss_parameter_supported,
        token_endpoint: metadata.token_endpoint,
        resource,
        redirect_uri: redirect_uri.to_owned(),
        client,
        verifier,
    };
    Ok((open.into(), pending))
}

/// Gets tokens for the code that a browser has brought. `issuer`: who it says has sent it.
///
/// # Errors
/// Why not, for people.
pub(crate) async fn finish(
    exchange: &Exchange<'_>,
    pending: &Pending,
    code: &str,
    issuer: Option<&str>,
    now: i64,
) -> Result<Grant, String> {
    if issuer.map_or(pending.says_issuer, |issuer| issuer != pending.issuer) {
        return Err("another authorization server has answered than the one that was asked".to_owned());
    }
    let parameters = [
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", &pending.redirect_uri),
        ("code_verifier", &pending.verifier),
    ];
    let Pending { token_endpoint, resource, client, .. } = pending;
    let tokens = exchange.tokens(token_endpoint, resource, client, &parameters).await;
    let tokens = tokens.map_err(|error| error.to_string())?;
    Ok(Grant {
        token_endpoint: token_endpoint.clone(),
        resource: resource.clone(),
        client: client.clone(),
        expires_at: tokens.expires_in.map(|seconds| now.saturating_add(seconds)),
        access_token: tokens.access_token,
        refresh_token: tokens.refresh_token,
    })
}

/// Gets new tokens for those of a grant.
///
/// # Errors
/// [`NotRenewed`].
pub(crate) async fn renew(exchange: &Exchange<'_>, grant: &Grant, now: i64) -> Result<Grant, NotRenewed> {
    let refresh = grant.refresh_token.as_deref().ok_or(NotRenewed::Refused)?;
    let parameters = [("grant_type", "refresh_token"), ("refresh_token", refresh)];
    let tokens = exchange.tokens(&grant.token_endpoint, &grant.resource, &grant.client, &parameters).await;
    let tokens = tokens.map_err(|error| match error {
        TokenError::Refused(_) => NotRenewed::Refused,
        TokenError::Failed(reason) => NotRenewed::Failed(reason),
    })?;
    Ok(Grant {
        expires_at: tokens.expires_in.map(|seconds| now.saturating_add(seconds)),
        access_token: tokens.access_token,
        // One that is not replaced stays valid.
        refresh_token: tokens.refresh_token.or_else(|| grant.refresh_token.clone()),
        ..grant.clone()
    })
}

#[derive(Deserialize)]
struct Tokens {
    access_token: String,
    token_type: String,
    expires_in: Option<i64>,
    refresh_token: Option<String>,
}

#[derive(Debug, thiserror::Error)]
enum TokenError {
    #[error("the authorization server has refused: {0}")]
    Refused(String),
    #[error("{0}")]
    Failed(String),
}

#[derive(Deserialize)]
struct Registered {
    client_id: String,
    client_secret: Option<String>,
    token_endpoint_auth_method: Option<String>,
}

/// An error of OAuth: its code alone, for descriptions may repeat what was sent.
#[derive(Deserialize)]
struct Said {
    error: String,
}

impl Exchange<'_> {
    async fn send(&self, mut request: Request) -> Result<Response, String> {
        let limits = Limits { whole: LIMIT, body: MAX_BYTES, ..Limits::default() };
        let client = self.reach.client(self.reach.judge(&request.url)?, self.tls.clone(), limits);
        // Codes and tokens are sent to no other address.
        request.follows = false;
        client.send(request).await.map_err(|error| error.to_string())
    }

    async fn json<T: for<'de> Deserialize<'de>>(&self, url: &str) -> Result<Option<T>, String> {
        let request = Request::get(url).header(ACCEPT, HeaderValue::from_static("application/json"));
        let response = self.send(request).await?;
        Ok(response.status.is_success().then(|| serde_json::from_slice(&response.body).ok()).flatten())
    }

    /// The metadata of an MCP server. One that has none is its own authorization server, as the protocol of 2025-03-26 has it.
    async fn resource(&self, server: &Url) -> Result<ResourceMetadata, String> {
        let ping = Request::post_json(server.as_str(), &json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}))
            .header(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        let challenge = self.send(ping).await.map_err(|error| format!("the server: {error}"))?;
        let challenge = challenge.headers.get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
        for url in of_resource(server, challenge) {
            if let Some(metadata) = self.json::<ResourceMetadata>(&url).await? {
                return metadata.problem(server).map_or(Ok(metadata), Err);
            }
        }
        Ok(ResourceMetadata {
            resource: server.to_string(),
            authorization_servers: vec![server.origin().ascii_serialization()],
            scopes_supported: Vec::new(),
        })
    }

    async fn issuer(&self, issuer: &str) -> Result<ServerMetadata, String> {
        let wrong =
            |reason: &str| format!("the authorization server `{}`: {reason}", cleaned(issuer, MAX_SAID));
        let url = Url::parse(issuer).map_err(|error| wrong(&error.to_string()))?;
        for url in of_issuer(&url) {
            if let Some(metadata) = self.json::<ServerMetadata>(&url).await.map_err(|error| wrong(&error))? {
                return metadata.problem(issuer).map_or(Ok(metadata), |problem| Err(wrong(problem)));
            }
        }
        Err(wrong("it has no metadata: does this server use OAuth?"))
    }

    async fn register(
        &self,
        server: &ServerMetadata,
        redirect_uri: &str,
        scopes: &[String],
    ) -> Result<ClientIds, String> {
        let endpoint = server.registration_endpoint.as_deref().ok_or(
            "its authorization server registers no clients: register Houston there, and put its `client_id` into `oauth`",
        )?;
        let mut body = json!({
            "client_name": "Houston", "redirect_uris": [redirect_uri], "response_types": ["code"],
            "grant_types": ["authorization_code", "refresh_token"], "token_endpoint_auth_method": "none",
        });
        if !scopes.is_empty() {
            body["scope"] = scopes.join(" ").into();
        }
        let response = self.send(Request::post_json(endpoint, &body)).await?;
        let registered =
            response.status.is_success().then(|| serde_json::from_slice::<Registered>(&response.body).ok());
        let registered = registered.flatten().ok_or_else(|| {
            format!("its authorization server did not register Houston as a client: {}", said(&response))
        })?;
        Ok(ClientIds {
            id: registered.client_id,
            secret: registered.client_secret,
            is_basic: registered.token_endpoint_auth_method.as_deref() == Some("client_secret_basic"),
        })
    }

    async fn tokens(
        &self,
        endpoint: &str,
        resource: &str,
        client: &ClientIds,
        parameters: &[(&str, &str)],
    ) -> Result<Tokens, TokenError> {
        let failed = |reason: String| TokenError::Failed(format!("the authorization server: {reason}"));
        let request = token_request(endpoint, resource, client, parameters).map_err(failed)?;
        let response = self.send(request).await.map_err(failed)?;
        if matches!(response.status.as_u16(), 400 | 401) {
            return Err(TokenError::Refused(said(&response)));
        }
        let tokens =
            response.status.is_success().then(|| serde_json::from_slice::<Tokens>(&response.body).ok());
        let tokens = tokens.flatten().ok_or_else(|| failed(format!("no tokens: {}", said(&response))))?;
        if !tokens.token_type.eq_ignore_ascii_case("bearer") {
            return Err(failed("its tokens are of a type that Houston does not know".to_owned()));
        }
        Ok(tokens)
    }
}

fn token_request(
    endpoint: &str,
    resource: &str,
    client: &ClientIds,
    parameters: &[(&str, &str)],
) -> Result<Request, String> {
    let mut form = Serializer::new(String::new());
    form.extend_pairs(parameters).append_pair("client_id", &client.id).append_pair("resource", resource);
    let mut request = Request::new(::http::Method::POST, endpoint)
        .header(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"))
        .header(ACCEPT, HeaderValue::from_static("application/json"));
    match &client.secret {
        Some(secret) if client.is_basic => {
            let basic = SecretString::from(STANDARD.encode(format!("{}:{secret}", client.id)));
            request = request.secret(AUTHORIZATION, "Basic ", &basic).map_err(|error| error.to_string())?;
        }
        Some(secret) => _ = form.append_pair("client_secret", secret),
        None => {}
    }
    request.body = form.finish().into();
    Ok(request)
}

/// What an answer with an error says, without anything that was sent.
fn said(response: &Response) -> String {
    let code = serde_json::from_slice::<Said>(&response.body).ok().map(|said| said.error);
    // Codes are words; anything else may be an echo.
    let is_word =
        |code: &String| code.len() <= 60 && code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    match code.filter(is_word) {
        Some(code) => format!("HTTP {}, {code}", response.status.as_u16()),
        None => format!("HTTP {}", response.status.as_u16()),
    }
}

/// Where metadata is.
const FOLDER: &str = "/.well-known/";

/// The metadata of an MCP server (RFC 9728).
#[derive(Debug, Clone, Default, Deserialize)]
struct ResourceMetadata {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
}

/// The metadata of an authorization server (RFC 8414).
#[derive(Debug, Clone, Default, Deserialize)]
struct ServerMetadata {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    registration_endpoint: Option<String>,
    #[serde(default)]
    code_challenge_methods_supported: Vec<String>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

/// Where the metadata of a server may be: where its challenge says, else below its address.
fn of_resource(server: &Url, challenge: Option<&str>) -> Vec<String> {
    match challenge.and_then(|challenge| parameter(challenge, "resource_metadata")) {
        Some(named) => vec![named],
        None => inserted(server, "oauth-protected-resource"),
    }
}

/// Where the metadata of an authorization server may be.
fn of_issuer(issuer: &Url) -> Vec<String> {
    let mut all = inserted(issuer, "oauth-authorization-server");
    let has_path = issuer.path() != "/";
    // The last of the first kind is for the root, which is another issuer.
    all.truncate(1);
    all.extend(inserted(issuer, "openid-configuration").into_iter().take(1));
    if has_path {
        all.push(format!("{}{FOLDER}openid-configuration", issuer.as_str().trim_end_matches('/')));
    }
    all
}

/// The addresses that the standards give to metadata of this kind: for the path, then for the root.
fn inserted(url: &Url, kind: &str) -> Vec<String> {
    let origin = url.origin().ascii_serialization();
    let root = format!("{origin}{FOLDER}{kind}");
    match url.path().trim_end_matches('/') {
        "" => vec![root],
        path => vec![format!("{root}{path}"), root],
    }
}

/// A parameter of a `WWW-Authenticate` header.
fn parameter(challenge: &str, name: &str) -> Option<String> {
    let mut rest = challenge;
    loop {
        let at = rest.find(name)?;
        let before = rest[..at].chars().next_back();
        let after = &rest[at + name.len()..];
        rest = after;
        if before.is_none_or(|c| c == ' ' || c == ',')
            && let Some(value) = after.strip_prefix("=\"")
        {
            return value.split_once('"').map(|(value, _)| value.to_owned());
        }
    }
}

impl ResourceMetadata {
    /// Why this is not the metadata of the server at this address; `None`: it is. Tokens for one server must not be got with
    /// the metadata of another.
    fn problem(&self, server: &Url) -> Option<String> {
        let is_of_it = Url::parse(&self.resource).is_ok_and(|resource| {
            let path = resource.path().trim_end_matches('/');
            let rest = server.path().strip_prefix(path);
            resource.origin() == server.origin()
                && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        if !is_of_it {
            return Some("its metadata is about another resource".to_owned());
        }
        let names_none = self.authorization_servers.is_empty();
        names_none.then(|| "its metadata names no authorization server".to_owned())
    }
}

impl ServerMetadata {
    /// Why this is not the metadata of this authorization server, or one that cannot be used; `None`: it can.
    fn problem(&self, issuer: &str) -> Option<&'static str> {
        if self.issuer.trim_end_matches('/') != issuer.trim_end_matches('/') {
            return Some("its metadata names another issuer");
        }
        let has_pkce = self.code_challenge_methods_supported.iter().any(|method| method == "S256");
        (!has_pkce)
            .then_some("it does not say that it supports PKCE with S256, without which codes could be stolen")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn metadata_is_where_the_challenge_says_or_below_the_host() {
        let server = url("https://mcp.acme.com/team/mcp");
        let challenge = "Bearer error=\"x\", resource_metadata=\"https://mcp.acme.com/meta\", scope=\"a\"";
        assert_eq!(of_resource(&server, Some(challenge)), ["https://mcp.acme.com/meta"]);
        let usual = [
            format!("https://mcp.acme.com{FOLDER}oauth-protected-resource/team/mcp"),
            format!("https://mcp.acme.com{FOLDER}oauth-protected-resource"),
        ];
        for challenge in [None, Some("Bearer"), Some("Bearer my_resource_metadata=\"https://evil.com\"")] {
            assert_eq!(of_resource(&server, challenge), usual, "{challenge:?}");
        }
        assert_eq!(
            of_issuer(&url("https://login.acme.com/eu")),
            [
                format!("https://login.acme.com{FOLDER}oauth-authorization-server/eu"),
                format!("https://login.acme.com{FOLDER}openid-configuration/eu"),
                format!("https://login.acme.com/eu{FOLDER}openid-configuration"),
            ]
        );
        assert_eq!(of_issuer(&url("https://login.acme.com")).len(), 2);
    }

    #[test]
    fn metadata_of_others_is_not_believed() {
        let of = |resource: &str| ResourceMetadata {
            resource: resource.to_owned(),
            authorization_servers: vec!["https://login.acme.com".to_owned()],
            scopes_supported: Vec::new(),
        };
        let server = url("https://mcp.acme.com/team/mcp");
        for resource in
            ["https://mcp.acme.com/team/mcp", "https://mcp.acme.com", "https://mcp.acme.com/team/"]
        {
            assert_eq!(of(resource).problem(&server), None, "{resource}");
        }
        for resource in ["https://mcp.acme.com/te", "https://bank.com", "http://mcp.acme.com/team/mcp", "x"] {
            assert!(of(resource).problem(&server).is_some(), "{resource}");
        }
        let metadata = ServerMetadata {
            issuer: "https://login.acme.com".to_owned(),
            code_challenge_methods_supported: vec!["S256".to_owned()],
            ..ServerMetadata::default()
        };
        assert_eq!(metadata.problem("https://login.acme.com/"), None);
        assert!(metadata.problem("https://evil.com").is_some());
        let plain = ServerMetadata { code_challenge_methods_supported: vec!["plain".to_owned()], ..metadata };
        assert!(plain.problem("https://login.acme.com").is_some());
    }
}
