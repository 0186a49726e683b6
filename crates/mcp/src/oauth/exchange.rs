//! The requests of OAuth, each through the guarded client.

use std::time::Duration;

use ::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use houston_domain::mcp_server::OAuthSettings;
use houston_web::{Limits, Request, Response, Tls};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use url::Url;
use url::form_urlencoded::Serializer;

use super::metadata::{ResourceMetadata, ServerMetadata, of_issuer, of_resource};
use super::{ClientIds, Grant, Pending};
use crate::own::OwnReach;
use crate::text::cleaned;

/// The most bytes of an answer.
const MAX_BYTES: usize = 256 * 1024;
/// The most characters of what an authorization server says.
const MAX_SAID: usize = 200;
/// How long one request may take.
const LIMIT: Duration = Duration::from_secs(5);

/// What requests need.
pub(crate) struct Exchange<'e> {
    pub(crate) reach: &'e OwnReach,
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
    let resource = exchange.resource(&url).await?;
    let issuer = resource.authorization_servers.first().cloned().unwrap_or_default();
    let metadata = exchange.issuer(&issuer).await?;
    let scopes = settings.scopes.clone().unwrap_or(resource.scopes_supported);
    let client = match &settings.client_id {
        Some(id) => ClientIds { id: id.clone(), secret: None, is_basic: false },
        None => exchange.register(&metadata, redirect_uri, &scopes).await?,
    };
    let verifier = URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>());
    let resource = resource.resource;
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
        let client = self.reach.client(&request.url, self.tls.clone(), limits)?;
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
