//! The identity provider: its document (OpenID Connect Discovery 1.0), where a sign-in begins, and whom a code is of (OpenID
//! Connect Core 1.0, 3.1: the authorization code flow, with PKCE).

use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, TimeDelta, Utc};
use houston_domain::jwt::Unverified;
use houston_domain::jwt::key_set::KeySet;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::person::{Claims, Person};
use super::settings::{Oidc, is_protected};
use crate::Config;
use crate::oidc::{Flow, Outside, Question};

/// How long the document is used before it is read again.
const READ_EVERY: TimeDelta = TimeDelta::hours(1);
/// The longest code that a browser brings back.
const MAX_CODE_BYTES: usize = 4_096;

/// Why a sign-in fails: a sentence for the person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Problem {
    /// The provider did not answer as it should.
    #[error("The identity provider cannot be used: {0}")]
    Provider(String),
    /// What came back is not what this sign-in began with.
    #[error("This sign-in is not accepted: {0}")]
    Refused(String),
}

/// What the provider says of itself.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Document {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    userinfo_endpoint: Option<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

#[derive(Deserialize)]
struct Tokens {
    id_token: String,
    #[serde(default)]
    access_token: String,
}

/// The provider, its document once it was read, and who makes keys.
#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) outside: Arc<dyn Outside>,
    secret: Option<SecretString>,
    settings: Oidc,
    /// Where the provider sends the browser back to. The provider knows it, and takes no other.
    redirect: String,
    read: Mutex<Option<(Arc<Document>, DateTime<Utc>)>>,
}

impl Provider {
    pub(crate) fn new(outside: Arc<dyn Outside>, secret: Option<SecretString>, config: &Config) -> Self {
        let settings = config.oidc.clone();
        let redirect = format!("{}{}/sign-in-with/back", settings.public_url, config.path);
        Self { outside, secret, settings, redirect, read: Mutex::default() }
    }

    /// What the provider says of itself, read at most once an hour.
    pub(super) async fn document(&self, now: DateTime<Utc>) -> Result<Arc<Document>, Problem> {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((document, _)) = read.filter(|(_, at)| now - *at < READ_EVERY) {
            return Ok(document);
        }
        let base = self.settings.issuer.trim_end_matches('/');
        let url = format!("{base}/.well-known/openid-configuration");
        let document: Document = self.get(Question { url, ..Question::default() }).await?;
        // A server that answers for another issuer could sign for it, too.
        if document.issuer != self.settings.issuer {
            return Err(Problem::Provider(
                "it says that it is another issuer than `console.oidc.issuer`".to_owned(),
            ));
        }
        let all = [&document.authorization_endpoint, &document.token_endpoint, &document.jwks_uri];
        if !all.into_iter().chain(&document.userinfo_endpoint).all(|url| is_protected(url)) {
            return Err(Problem::Provider("one of its addresses has no https".to_owned()));
        }
        let document = Arc::new(document);
        *self.read.lock().unwrap_or_else(PoisonError::into_inner) = Some((Arc::clone(&document), now));
        Ok(document)
    }

    /// Where the browser is sent.
    pub(super) async fn authorization(&self, flow: &Flow, now: DateTime<Utc>) -> Result<String, Problem> {
        let settings = &self.settings;
        let mut url = Url::parse(&self.document(now).await?.authorization_endpoint)
            .map_err(|_| Problem::Provider("one of its addresses is none".to_owned()))?;
        let others = settings.scopes.iter().filter(|scope| *scope != "openid").map(String::as_str);
        let scopes: Vec<&str> = std::iter::once("openid").chain(others).collect();
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &settings.client_id)
            .append_pair("redirect_uri", &self.redirect)
            .append_pair("scope", &scopes.join(" "))
            .append_pair("state", &flow.state)
            .append_pair("nonce", &flow.nonce)
            .append_pair("code_challenge", &flow.challenge())
            .append_pair("code_challenge_method", "S256");
        Ok(url.into())
    }

    /// Whom a code is of: the code is exchanged for a token, whose signature and claims are checked.
    pub(super) async fn person(
        &self,
        code: &str,
        flow: &Flow,
        now: DateTime<Utc>,
    ) -> Result<Person, Problem> {
        let settings = &self.settings;
        if code.is_empty() || code.len() > MAX_CODE_BYTES {
            return Err(Problem::Refused("it has no code".to_owned()));
        }
        let document = self.document(now).await?;
        let tokens: Tokens = self.get(self.exchange(&document, code, flow)).await?;
        let keys = self.ask(Question { url: document.jwks_uri.clone(), ..Question::default() }).await?;
        let keys = KeySet::parse(&keys).map_err(|error| Problem::Provider(error.to_owned()))?;
        let mut claims = claims(&tokens.id_token, &keys, (settings, &flow.nonce), now)?;
        // Some providers tell more than who it is only when they are asked.
        let more = document.userinfo_endpoint.as_ref().filter(|_| !claims.has(&settings.groups_claim));
        if let Some(url) = more.filter(|_| !tokens.access_token.is_empty()) {
            let authorization = Some(format!("Bearer {}", tokens.access_token).into());
            let more: serde_json::Map<String, Value> =
                self.get(Question { url: url.clone(), authorization, form: None }).await?;
            claims.add(more).map_err(Problem::Provider)?;
        }
        claims.person(&settings.groups_claim).map_err(Problem::Provider)
    }

    /// The request that exchanges a code for tokens.
    fn exchange(&self, document: &Document, code: &str, flow: &Flow) -> Question {
        let client_id = &self.settings.client_id;
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code").append_pair("code", code);
        form.append_pair("redirect_uri", &self.redirect).append_pair("code_verifier", &flow.verifier);
        let methods = document.token_endpoint_auth_methods_supported.as_deref();
        // As OAuth 2.0 has it, unless the provider takes the secret in the form only.
        let takes_header = methods.is_none_or(|all| all.iter().any(|one| one == "client_secret_basic"));
        let authorization = match &self.secret {
            Some(secret) if takes_header => Some(basic(client_id, secret)),
            secret => {
                form.append_pair("client_id", client_id);
                if let Some(secret) = secret {
                    form.append_pair("client_secret", secret.expose_secret());
                }
                None
            }
        };
        let form = Some(form.finish().into());
        Question { url: document.token_endpoint.clone(), form, authorization }
    }

    async fn get<T: DeserializeOwned>(&self, question: Question) -> Result<T, Problem> {
        let body = self.ask(question).await?;
        // The text of the error may have a part of the answer, and this may be a token.
        serde_json::from_slice(&body).map_err(|_| Problem::Provider("its answer cannot be read".to_owned()))
    }

    async fn ask(&self, question: Question) -> Result<Vec<u8>, Problem> {
        let reply = self.outside.ask(question).await.map_err(Problem::Provider)?;
        if reply.status == 200 {
            return Ok(reply.body);
        }
        // RFC 6749, 5.2: a name such as `invalid_grant`.
        let body = serde_json::from_slice::<Value>(&reply.body).ok();
        let name = body.as_ref().and_then(|body| body.get("error")?.as_str()).unwrap_or_default();
        let name: String = name.chars().filter(char::is_ascii_graphic).take(60).collect();
        Err(Problem::Provider(format!("it answers {} {name}", reply.status).trim_end().to_owned()))
    }
}

impl Document {
    /// Whether an answer is this provider's (RFC 9207).
    pub(super) fn has_sent(&self, issuer: Option<&str>) -> bool {
        match issuer {
            Some(issuer) => issuer == self.issuer,
            None => !self.authorization_response_iss_parameter_supported,
        }
    }
}

/// The claims of a token that the provider has signed for this sign-in.
fn claims(
    token: &str,
    keys: &KeySet,
    (settings, nonce): (&Oidc, &str),
    now: DateTime<Utc>,
) -> Result<Claims, Problem> {
    let refused = |error: &dyn std::fmt::Display| Problem::Refused(format!("of the token, {error}"));
    let token = Unverified::parse(token, now).map_err(|error| refused(&error))?;
    if token.issuer != settings.issuer {
        return Err(Problem::Refused("the token is of another issuer".to_owned()));
    }
    let audiences = &token.audiences;
    if !audiences.contains(&settings.client_id) {
        return Err(Problem::Refused("the token is for another program".to_owned()));
    }
    let is_shared = audiences.len() > 1;
    let key =
        keys.find(token.key()).ok_or_else(|| Problem::Refused("its key is not the provider's".to_owned()))?;
    let claims = Claims(token.verify(key).map_err(|error| refused(&error))?.claims);
    if claims.text("nonce") != Some(nonce) {
        return Err(Problem::Refused("the token is of another sign-in".to_owned()));
    }
    // Core, 3.1.3.7: a token for several programs says which one asked.
    let asked = claims.text("azp");
    if asked.map_or(is_shared, |asked| asked != settings.client_id) {
        return Err(Problem::Refused("the token is for another program".to_owned()));
    }
    Ok(claims)
}

/// RFC 6749, 2.3.1: both are encoded as in a form first.
fn basic(id: &str, secret: &SecretString) -> SecretString {
    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encoded(id), encoded(secret.expose_secret()));
    format!("Basic {}", STANDARD.encode(pair)).into()
}
