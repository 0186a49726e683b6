//! [`Http`]: the messages of one server over HTTP, through the guarded client.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use ::http::{Method, StatusCode};
use futures_util::StreamExt as _;
use futures_util::stream::{BoxStream, unfold};
use houston_domain::ensure;
use houston_web::{Answer, Client, Limits, ListedHost, Request, Tls, WebError};
use rmcp::model::{ClientJsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use rmcp::transport::{DynamicTransportError, StreamableHttpClientTransport};
use sse_stream::{Sse, SseStream};

use crate::error::StartError;
use crate::owner::{Account, NoToken, Own, Token};
use crate::settings::{McpLimits, ServerSettings};
use crate::surroundings::Surroundings;

/// The header with the id of a session.
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// What a request may take beyond the limits of calls and starts, which end it in words of their own.
const SPARE: Duration = Duration::from_secs(10);
/// Bytes of a message that takes longer than a millisecond to read.
const LONG: usize = 128 * 1024;

/// Sends messages to one server. The secrets are here, and not in the transport.
#[derive(Clone)]
pub(crate) struct Http {
    client: Client,
    secrets: HeaderMap,
    /// Whether it is a server of a tenant, whose settings are in the API.
    is_own: bool,
    /// Whose token is sent, if the server uses OAuth, and the certificates to renew it with.
    account: Option<(Arc<Account>, Tls)>,
    too_large: Arc<AtomicBool>,
}

/// Why a message was not answered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error(transparent)]
    Web(#[from] WebError),
    #[error("{}", refused(*.0, *.1))]
    Status(StatusCode, bool),
    #[error(transparent)]
    Token(#[from] NoToken),
    #[error("its session has ended")]
    Expired,
    #[error("it sent more bytes than `answer_bytes` in mcp.toml allows")]
    TooLarge,
    #[error("it did not answer as an MCP server: {0}")]
    NotMcp(String),
}

impl HttpError {
    /// Whether the server has not received the message, or has not accepted it.
    pub(crate) fn is_unsent(&self) -> bool {
        match self {
            Self::Web(error) => !error.may_have_been_sent(),
            Self::Status(status, _) => status.is_client_error(),
            Self::Expired | Self::Token(_) => true,
            Self::TooLarge | Self::NotMcp(_) => false,
        }
    }
}

fn refused(status: StatusCode, is_own: bool) -> String {
    let hint = match status.as_u16() {
        401 | 403 if is_own => ": its key is missing or wrong (`headers` of the server)",
        404 if is_own => ": the path of its `url` may be wrong",
        401 | 403 => ": the key is missing or wrong (`bearer` and `headers` in mcp.toml)",
        404 => ": the path of the `url` in mcp.toml may be wrong",
        429 => ": it allows no more requests for now",
        _ => "",
    };
    format!("it refused the request with HTTP {}{hint}", status.as_u16())
}

/// The error of ours in an error of the transport.
pub(crate) fn cause(error: &DynamicTransportError) -> Option<&HttpError> {
    match error.error.downcast_ref::<StreamableHttpError<HttpError>>()? {
        StreamableHttpError::Client(error) => Some(error),
        _ => None,
    }
}

impl Http {
    /// # Errors
    /// [`StartError::Variable`], [`StartError::Header`] or [`StartError::Address`].
    pub(crate) fn new(
        url: &str,
        settings: &ServerSettings,
        limits: &McpLimits,
        surroundings: &Surroundings,
        tls: Tls,
    ) -> Result<Self, StartError> {
        let secrets = secrets(settings, surroundings)?;
        let refuse = StartError::Address;
        let builder = if settings.private {
            Client::listed(vec![ListedHost::of(url).map_err(refuse)?], tls)
        } else {
            Client::guarded(tls)
        };
        let client = builder.limits(limits_of(settings, limits)).build();
        client.judge(url).map_err(refuse)?;
        Ok(Self { client, secrets, is_own: false, account: None, too_large: Arc::default() })
    }

    /// To a server of a tenant or a user: on the public internet over https, or at an address that the operator lists.
    ///
    /// # Errors
    /// [`StartError::NotPublic`].
    pub(crate) fn owned(
        url: &str,
        settings: &ServerSettings,
        limits: &McpLimits,
        own: &Own,
        tls: Tls,
    ) -> Result<Self, StartError> {
        let account = own.account.clone().map(|account| (account, tls.clone()));
        let is_listed = own.reach.judge(url).map_err(StartError::NotPublic)?;
        let client = own.reach.client(is_listed, tls, limits_of(settings, limits));
        Ok(Self { client, secrets: own.headers.clone(), is_own: true, account, too_large: Arc::default() })
    }

    /// The transport to the server at this address, and what becomes true when a message was too large.
    pub(crate) fn transport(self, url: &str) -> (StreamableHttpClientTransport<Self>, Arc<AtomicBool>) {
        let too_large = Arc::clone(&self.too_large);
        let mut config = StreamableHttpClientTransportConfig::with_uri(url);
        // A new session may be one with another version of the server: its tools are listed and compared first.
        config.reinit_on_expired_session = false;
        (StreamableHttpClientTransport::with_client(self, config), too_large)
    }

    fn request(&self, method: Method, url: &str, headers: HashMap<HeaderName, HeaderValue>) -> Request {
        let mut request = Request::new(method, url);
        // A message is never sent to another address.
        request.follows = false;
        request.headers.extend(headers);
        request.headers.extend(self.secrets.clone());
        request
    }

    async fn post(
        &self,
        url: &str,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let not_mcp = |error: serde_json::Error| HttpError::NotMcp(error.to_string());
        let mut request = self.request(Method::POST, url, headers);
        request.body = serde_json::to_vec(&message).map_err(not_mcp)?.into();
        request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        let has_session = session.is_some();
        with_session(&mut request, session.as_deref())?;
        let answer = self.open(request).await?;
        let status = answer.status();
        let kind = content_type(&answer);
        let session = answer.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
        let question = match message {
            ClientJsonRpcMessage::Request(request) => Some(request.id),
            _ => None,
        };
        match (status.as_u16(), kind.as_str()) {
            (202 | 204, _) => Ok(StreamableHttpPostResponse::Accepted),
            (404, _) if has_session => Err(HttpError::Expired),
            // A server that was restarted does not know the session, and many do not say so with 404.
            (400..=499, _) if has_session && !matches!(status.as_u16(), 401 | 403 | 429) => {
                let body = self.whole(answer).await?;
                ensure!(!is_about_session(&body), HttpError::Expired);
                let is_json = kind == "application/json";
                let error = is_json.then(|| error_of(&body, question)).flatten();
                error.ok_or_else(|| self.status(status))
            }
            (200..=299, "text/event-stream") => {
                Ok(StreamableHttpPostResponse::Sse(self.events(answer), session))
            }
            (200..=299, _) if question.is_none() => Ok(StreamableHttpPostResponse::Accepted),
            (200..=299, "application/json") => {
                let message = parsed(self.whole(answer).await?).await.map_err(not_mcp)?;
                Ok(StreamableHttpPostResponse::Json(message, session))
            }
            (200..=299, kind) => Err(HttpError::NotMcp(format!("its answer is `{kind}`"))),
            (401 | 403 | 429, _) | (500.., _) => Err(self.status(status)),
            (_, "application/json") => {
                let body = self.whole(answer).await?;
                error_of(&body, question).ok_or_else(|| self.status(status))
            }
            _ => Err(self.status(status)),
        }
    }

    /// Sends a request with the token of the account, if there is one. A refused token is renewed: the server has not accepted
    /// the request then.
    async fn open(&self, mut request: Request) -> Result<Answer, HttpError> {
        let Some((account, tls)) = &self.account else { return Ok(self.client.open(request).await?) };
        let mut token = token(account, None, tls).await?;
        // The token that is stored may be newer than the refused one, and refused as well.
        let mut renewals = 2;
        loop {
            request.headers.insert(AUTHORIZATION, token.header.clone());
            let answer = self.client.open(request.clone()).await?;
            if answer.status() != StatusCode::UNAUTHORIZED || renewals == 0 {
                return Ok(answer);
            }
            renewals -= 1;
            token = self::token(account, Some(token), tls).await?;
        }
    }

    async fn whole(&self, mut answer: Answer) -> Result<Vec<u8>, HttpError> {
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await? {
            body.extend_from_slice(&chunk);
        }
        if answer.is_cut() { Err(self.exceeded()) } else { Ok(body) }
    }

    /// The events of an answer. All of them together have at most as many bytes as one answer.
    fn events(&self, answer: Answer) -> BoxStream<'static, Result<Sse, SseError>> {
        let http = self.clone();
        let chunks = unfold(Some(answer), move |answer| {
            let http = http.clone();
            async move {
                let mut answer = answer?;
                match answer.chunk().await {
                    Ok(Some(chunk)) => Some((Ok(chunk), Some(answer))),
                    Ok(None) if answer.is_cut() => Some((Err(http.exceeded()), None)),
                    Ok(None) => None,
                    Err(error) => Some((Err(HttpError::Web(error)), None)),
                }
            }
        });
        SseStream::from_bytes_stream(chunks).boxed()
    }

    fn status(&self, status: StatusCode) -> HttpError {
        HttpError::Status(status, self.is_own)
    }

    fn exceeded(&self) -> HttpError {
        self.too_large.store(true, Ordering::Relaxed);
        HttpError::TooLarge
    }
}

fn limits_of(settings: &ServerSettings, limits: &McpLimits) -> Limits {
    let whole = settings.call_limit(limits).max(Duration::from_secs(limits.start_s)) + SPARE;
    Limits { whole, body: limits.answer_bytes, ..Limits::default() }
}

/// The token to send. It is got in a task: the transport sends several messages in one, and does not go on with the one that
/// renews the token while it waits for another that needs it.
async fn token(account: &Arc<Account>, refused: Option<Token>, tls: &Tls) -> Result<Token, NoToken> {
    let (account, tls) = (Arc::clone(account), tls.clone());
    let tracker = account.tracker.clone();
    let got = tracker.spawn(async move { account.token(refused.as_ref(), &tls).await }).await;
    got.unwrap_or_else(|_| Err(NoToken::Failed("Houston is stopping".to_owned())))
}

/// The message in a body. A long one is read beside the threads of the runtime, which it would hold for too long.
async fn parsed(body: Vec<u8>) -> Result<ServerJsonRpcMessage, serde_json::Error> {
    if body.len() <= LONG {
        return serde_json::from_slice(&body);
    }
    let read = tokio::task::spawn_blocking(move || serde_json::from_slice(&body)).await;
    read.unwrap_or_else(|_| Err(serde::de::Error::custom("it was not read to its end")))
}

/// Whether a server refuses a request because of its session: `Bad Request: No valid session ID provided`, `Session not found`,
/// `Bad Request: Server not initialized`.
fn is_about_session(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(&body[..body.len().min(4096)]).to_lowercase();
    text.contains("session") || text.contains("not initialized") || text.contains("not been initialized")
}

/// The error of the protocol in the body of an answer with an error status, as the answer to this question: servers that
/// refuse a request before they have read it do not repeat its id.
fn error_of(body: &[u8], question: Option<RequestId>) -> Option<StreamableHttpPostResponse> {
    let ServerJsonRpcMessage::Error(error) = serde_json::from_slice(body).ok()? else { return None };
    let error = ServerJsonRpcMessage::error(error.error, Some(question?));
    Some(StreamableHttpPostResponse::Json(error, None))
}

fn content_type(answer: &Answer) -> String {
    let text = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn with_session(request: &mut Request, session: Option<&str>) -> Result<(), HttpError> {
    let Some(session) = session else { return Ok(()) };
    let value = HeaderValue::from_str(session);
    let value = value.map_err(|_| HttpError::NotMcp("the id of its session is no header".to_owned()))?;
    request.headers.insert(SESSION, value);
    Ok(())
}

/// The headers with secrets of a server's settings.
fn secrets(settings: &ServerSettings, surroundings: &Surroundings) -> Result<HeaderMap, StartError> {
    let bearer = settings.bearer.iter().map(|variable| (AUTHORIZATION.as_str(), variable, "Bearer "));
    let named = settings.headers.iter().map(|(header, variable)| (header.as_str(), variable, ""));
    let mut secrets = HeaderMap::new();
    for (header, variable, before) in bearer.chain(named) {
        let wrong = || StartError::Header { header: header.to_owned(), variable: variable.clone() };
        let value = (surroundings.variable)(variable);
        let value = value.ok_or_else(|| StartError::Variable(variable.clone()))?;
        let name = HeaderName::try_from(header).map_err(|_| wrong())?;
        let mut value = HeaderValue::try_from(format!("{before}{value}")).map_err(|_| wrong())?;
        value.set_sensitive(true);
        secrets.insert(name, value);
    }
    Ok(secrets)
}

impl StreamableHttpClient for Http {
    type Error = HttpError;

    /// The limits are those of the guarded client.
    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<HttpError>> {
        self.post(&uri, message, session_id, custom_headers).await.map_err(StreamableHttpError::Client)
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), StreamableHttpError<HttpError>> {
        let mut request = self.request(Method::DELETE, &uri, custom_headers);
        with_session(&mut request, Some(&session_id)).map_err(StreamableHttpError::Client)?;
        let answer = self.open(request).await;
        let status = answer.map_err(StreamableHttpError::Client)?.status();
        match status.as_u16() {
            405 => Err(StreamableHttpError::ServerDoesNotSupportDeleteSession),
            // A session that has ended already is what is wanted.
            200..=299 | 404 => Ok(()),
            _ => Err(StreamableHttpError::Client(self.status(status))),
        }
    }

    /// No stream is kept open for what a server says by itself: its tools are listed again from time to time.
    async fn get_stream(
        &self,
        _: Arc<str>,
        _: Option<Arc<str>>,
        _: Option<String>,
        _: Option<String>,
        _: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, StreamableHttpError<HttpError>> {
        Err(StreamableHttpError::ServerDoesNotSupportSse)
    }
}
