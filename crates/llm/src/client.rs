//! A model behind HTTP: one request, one answer, decoded as it arrives.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use houston_domain::model::{ModelError, ModelErrorCode};
use houston_domain::storable::storable;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Response, Url};
use tokio::time::{Instant, timeout, timeout_at};

use crate::answer::AnswerStream;
use crate::error;
use crate::framing::{Framing, Reader};
use crate::http::Http;
use crate::limits;
use crate::model::{Description, Event, EventStream, Model, Request};
use crate::provider::{AuthStyle, Provider, TokenSource, nearest};
use crate::scrub::Scrubber;
use crate::secret::{Fingerprint, Secret};
use crate::wire::repair::repaired;
use crate::wire::{Decoder, Dialect, Wire, anthropic};

/// Longest answer accepted in one piece, from servers that do not stream, in bytes.
const LONGEST_WHOLE: usize = 8 << 20;

/// How like a known name another must be to be taken for a slip of it (Jaro-Winkler).
const LEAST_LIKE: f64 = 0.8;

/// A model of a provider.
pub(crate) struct HttpModel {
    caller: Arc<Caller>,
    wire: Wire,
    dialect: Dialect,
    url: Url,
    headers: HeaderMap,
    http: Http,
    /// Where the key is fetched before each call, if none is set.
    tokens: Option<Arc<dyn TokenSource>>,
}

/// Who calls, for the errors of its calls.
pub(crate) struct Caller {
    pub(crate) description: Description,
    key: Option<Secret>,
    scrubber: Scrubber,
}

impl Caller {
    pub(crate) fn new(description: Description, key: Option<Secret>, url: &Url) -> Self {
        let scrubber = Scrubber::new(key.as_ref(), Some(url));
        Self { description, key, scrubber }
    }

    /// Makes an error fit to be shown: says whose it is, hides secrets that the provider quoted, and names the model
    /// that may have been meant. What the provider said goes into the log.
    pub(crate) fn own(&self, mut error: ModelError) -> ModelError {
        let hint = if error.code == ModelErrorCode::ModelNotFound { self.nearest_model() } else { None };
        let hint = hint.map(|name| format!("; did you mean {name}?")).unwrap_or_default();
        error.message = format!("{}: {}{hint}", self.description.provider, self.scrubbed(&error.message));
        error.cause = error.cause.map(|cause| self.scrubbed(&cause).into());
        error.request_id = error.request_id.map(|id| self.scrubbed(&id));
        tracing::info!(
            model = %self.description,
            code = error.code.as_str(),
            status = error.status,
            request_id = error.request_id,
            cause = error.cause.as_deref().unwrap_or(&error.message),
            "a model call failed"
        );
        error
    }

    fn scrubbed(&self, text: &str) -> String {
        let mut text = text.to_owned();
        storable(&mut text);
        self.scrubber.scrub(&text)
    }

    /// The known model of the provider whose name is nearest to the one that was not found.
    fn nearest_model(&self) -> Option<&'static str> {
        let Description { provider, model, .. } = &self.description;
        if let Some(nearest) = limits::nearest(provider, model) {
            return Some(nearest);
        }
        // A table has it, and the provider no longer does; or no table has any of its models.
        let row = Provider::named(provider).ok()?;
        let others = limits::names(provider).chain(row.models.iter().copied()).filter(|name| name != model);
        nearest(others, model, LEAST_LIKE)
    }
}

impl HttpModel {
    /// # Errors
    /// `PROVIDER_NOT_CONFIGURED` when the key cannot be sent in a header.
    pub(crate) fn new(
        caller: Caller,
        wire: Wire,
        dialect: Dialect,
        url: Url,
        auth: AuthStyle,
        http: &Http,
    ) -> Result<Self, ModelError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
        if wire == Wire::Anthropic {
            headers.insert("anthropic-version", HeaderValue::from_static(anthropic::VERSION));
        }
        if let Some(key) = &caller.key {
            let (name, value) = match auth {
                AuthStyle::Bearer => (AUTHORIZATION, format!("Bearer {}", key.expose())),
                AuthStyle::ApiKeyHeader => (HeaderName::from_static("x-api-key"), key.expose().to_owned()),
                // Entra's tokens are JWTs, and go where no key goes.
                AuthStyle::AzureKeyHeader if key.is_jwt() => {
                    (AUTHORIZATION, format!("Bearer {}", key.expose()))
                }
                AuthStyle::AzureKeyHeader => (HeaderName::from_static("api-key"), key.expose().to_owned()),
                AuthStyle::GoogleKeyHeader => {
                    (HeaderName::from_static("x-goog-api-key"), key.expose().to_owned())
                }
            };
            let mut value = HeaderValue::from_str(&value).map_err(|_| {
                let message = "the key holds characters that no key has";
                caller.own(ModelError::new(ModelErrorCode::ProviderNotConfigured, message))
            })?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(Self { caller: Arc::new(caller), wire, dialect, url, headers, http: http.clone(), tokens: None })
    }

    /// Fetches the key of each call from `tokens`, if given.
    pub(crate) fn with_tokens(self, tokens: Option<Arc<dyn TokenSource>>) -> Self {
        Self { tokens, ..self }
    }

    /// The caller and the headers of one call.
    async fn authorised(&self) -> Result<(Arc<Caller>, HeaderMap), ModelError> {
        let mut headers = self.headers.clone();
        let Some(tokens) = &self.tokens else { return Ok((Arc::clone(&self.caller), headers)) };
        let description = &self.caller.description;
        let missing = || {
            let hint = Provider::named(&description.provider).map_or("", |row| row.key_hint);
            let message = format!("no key is set, and there is no token: {hint} failed");
            ModelError::new(ModelErrorCode::ProviderNotConfigured, message)
        };
        let token = tokens.token().await.ok_or_else(missing)?;
        let mut value =
            HeaderValue::from_str(&format!("Bearer {}", token.expose())).map_err(|_| missing())?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
        Ok((Arc::new(Caller::new(description.clone(), Some(token), &self.url)), headers))
    }

    async fn ask(&self, request: &Request<'_>) -> Result<EventStream, ModelError> {
        let deadline = Instant::now() + self.http.timeouts.total;
        let (caller, headers) = self.authorised().await.map_err(|error| self.caller.own(error))?;
        let begun = timeout_at(deadline, self.begin(request, Arc::clone(&caller), headers, deadline)).await;
        begun.unwrap_or_else(|_| Err(too_long(self.http.timeouts.total))).map_err(|error| caller.own(error))
    }

    async fn begin(
        &self,
        request: &Request<'_>,
        caller: Arc<Caller>,
        headers: HeaderMap,
        deadline: Instant,
    ) -> Result<EventStream, ModelError> {
        let body = self.wire.encode(&self.caller.description, self.dialect, request);
        let sending = self.http.client.post(self.url.clone()).headers(headers).body(body).send();
        let response = timeout(self.http.timeouts.first_byte, sending)
            .await
            .map_err(|_| silent("no answer", self.http.timeouts.first_byte))?
            .map_err(error::transport)?;
        let status = response.status();
        if !status.is_success() {
            return Err(self.refusal(response).await);
        }
        let decoder = self.wire.decoder(&self.caller.description.provider, self.dialect);
        let content_type =
            response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
        let framing = self.wire.framing();
        if matches!(framing, Framing::Sse(_)) && content_type.starts_with("application/json") {
            return self.whole(response, decoder).await;
        }
        if content_type.starts_with("text/html") {
            return Err(error::invalid("a web page instead of an answer: is the base URL right?"));
        }
        let reader = Reader::new(framing, decoder);
        Ok(Box::pin(AnswerStream::new(response, reader, caller, self.http.timeouts, deadline)))
    }

    /// An answer in one piece, from a server that does not stream; or a stream that is called JSON.
    async fn whole(
        &self,
        response: Response,
        mut decoder: Box<dyn Decoder>,
    ) -> Result<EventStream, ModelError> {
        let body = self.read(response, LONGEST_WHOLE + 1).await?;
        if body.len() > LONGEST_WHOLE {
            return Err(error::invalid("an answer in one piece longer than 8 MiB"));
        }
        let body = String::from_utf8(body).map_err(|_| error::invalid("an answer that is not UTF-8"))?;
        let mut events = VecDeque::new();
        if body.trim_start().starts_with(['{', '[']) {
            decoder.whole(repaired(&body).as_deref().unwrap_or(&body), &mut events)?;
        } else {
            let mut reader = Reader::new(self.wire.framing(), decoder);
            reader.push(body.as_bytes(), &mut events)?;
            reader.end(&mut events)?;
        }
        Ok(Box::pin(futures_util::stream::iter(events.into_iter().map(Event::into_storable).map(Ok))))
    }

    /// Why it was refused. What cannot be read in time is judged by its status alone.
    async fn refusal(&self, response: Response) -> ModelError {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = self.read(response, error::LONGEST_REFUSAL).await.unwrap_or_default();
        error::refused(status, &headers, &body)
    }

    /// The body, at most `longest` bytes of it.
    async fn read(&self, mut response: Response, longest: usize) -> Result<Vec<u8>, ModelError> {
        let idle = self.http.timeouts.idle;
        let mut body = Vec::new();
        while body.len() < longest {
            let chunk = timeout(idle, response.chunk()).await.map_err(|_| silent("silence", idle))?;
            let Some(chunk) = chunk.map_err(error::transport)? else { break };
            body.extend_from_slice(&chunk[..chunk.len().min(longest - body.len())]);
        }
        Ok(body)
    }
}

/// Nothing came for too long.
pub(crate) fn silent(what: &str, limit: std::time::Duration) -> ModelError {
    ModelError::new(ModelErrorCode::Timeout, format!("{what} for {limit:?}"))
}

/// It came, but not to its end.
pub(crate) fn too_long(limit: std::time::Duration) -> ModelError {
    ModelError::new(ModelErrorCode::Timeout, format!("the answer was not complete after {limit:?}"))
}

impl Model for HttpModel {
    fn description(&self) -> &Description {
        &self.caller.description
    }

    fn key(&self) -> Option<Fingerprint> {
        self.caller.key.as_ref().map(Secret::fingerprint)
    }

    fn stream<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Result<EventStream, ModelError>> {
        Box::pin(self.ask(request))
    }
}

impl fmt::Debug for HttpModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpModel").field("model", &self.caller.description).finish_non_exhaustive()
    }
}
