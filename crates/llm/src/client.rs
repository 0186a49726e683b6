//! A model behind HTTP: sends one request and decodes the answer as it arrives.

mod answer;
mod submission;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, stream};
use houston_domain::ensure;
use houston_domain::model::{ModelError, ModelErrorCode, Tier, Usage};
use houston_domain::model_policy::{CachePrices, Latency};
use houston_domain::storable::storable;
use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
};
use reqwest::{Body, Response, Url};
use tokio::time::{Instant, timeout, timeout_at};

use self::answer::AnswerStream;
use crate::cache;
use crate::capabilities;
use crate::error;
use crate::framing::Framing;
use crate::http::{Http, Timeouts};
use crate::model::{Description, Event, EventStream, Model, Request, Submitting};
use crate::profile::correction::{Correction, correction};
use crate::profile::{Changes, Profile, Submits};
use crate::protocol::Wire;
use crate::provider::{AuthStyle, Provider, TokenSource, nearest};
use crate::reader::Reader;
use crate::scrub::Scrubber;
use crate::secret::{Fingerprint, Secret};
use crate::wire::repair::repaired;
use crate::wire::tool_schema::Originals;
use crate::wire::{Decoder, anthropic};

/// Longest answer accepted in one piece (from servers that do not stream), in bytes.
const LONGEST_BODY: usize = 8 << 20;

/// How similar a name must be to be suggested as a correction (Jaro-Winkler, 0 to 1).
const MIN_SIMILARITY: f64 = 0.8;

/// A model that is called over HTTP.
pub(crate) struct HttpModel {
    context: Arc<CallContext>,
    profile: Arc<Profile>,
    endpoint: Endpoint,
    headers: HeaderMap,
    http: Http,
    /// What its provider takes for what it keeps.
    cache_prices: Option<CachePrices>,
    /// Fetches the key before each call, if no key is set.
    tokens: Option<Arc<dyn TokenSource>>,
}

/// Where requests are sent.
pub(crate) struct Endpoint {
    /// On the wire of the model's profile.
    pub(crate) url: Url,
    /// On its [alternative](Wire::alternative), if it has one.
    pub(crate) other: Option<Url>,
}

/// The model and key of a call, which its errors are completed with.
pub(crate) struct CallContext {
    pub(crate) description: Description,
    key: Option<Secret>,
    scrubber: Scrubber,
}

impl CallContext {
    pub(crate) fn new(description: Description, key: Option<Secret>, url: &Url) -> Self {
        let scrubber = Scrubber::new(key.as_ref(), Some(url));
        Self { description, key, scrubber }
    }

    /// Completes an error for users: adds the provider's name, replaces secrets that the provider quoted, and
    /// suggests a similar model name when the model was not found. The provider's original text goes to the log.
    pub(crate) fn complete(&self, mut error: ModelError) -> ModelError {
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
            "model call failed"
        );
        error
    }

    fn scrubbed(&self, text: &str) -> String {
        let mut text = text.to_owned();
        storable(&mut text);
        self.scrubber.scrub(&text)
    }

    /// The model of the provider whose name is most similar to the one that was not found.
    fn nearest_model(&self) -> Option<&'static str> {
        let Description { provider, model, .. } = &self.description;
        if let Some(nearest) = capabilities::nearest(provider, model) {
            return Some(nearest);
        }
        // The model is in a table but no longer offered, or no table lists any model of this provider.
        let row = Provider::named(provider).ok()?;
        let others =
            capabilities::names(provider).chain(row.models.iter().copied()).filter(|name| name != model);
        nearest(others, model, MIN_SIMILARITY)
    }
}

impl HttpModel {
    /// # Errors
    /// `PROVIDER_NOT_CONFIGURED` when the key cannot be sent in a header.
    pub(crate) fn new(
        context: CallContext,
        profile: Profile,
        endpoint: Endpoint,
        auth: AuthStyle,
        http: &Http,
    ) -> Result<Self, ModelError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
        if profile.wire == Wire::Anthropic {
            headers.insert("anthropic-version", HeaderValue::from_static(anthropic::VERSION));
        }
        if let Some(key) = &context.key {
            let of = |name| (HeaderName::from_static(name), key.expose().to_owned());
            let (name, value) = match auth {
                AuthStyle::ApiKeyHeader => of("x-api-key"),
                // Entra tokens are JWTs and go into another header than keys.
                AuthStyle::AzureKeyHeader if !key.is_jwt() => of("api-key"),
                AuthStyle::GoogleKeyHeader => of("x-goog-api-key"),
                AuthStyle::Bearer | AuthStyle::AzureKeyHeader => {
                    (AUTHORIZATION, format!("Bearer {}", key.expose()))
                }
            };
            let mut value = HeaderValue::from_str(&value).map_err(|_| {
                let message = "the key contains characters that are not allowed in an HTTP header";
                context.complete(ModelError::new(ModelErrorCode::ProviderNotConfigured, message))
            })?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let cache_prices = cache::of_profile(&context.description, &profile);
        Ok(Self {
            cache_prices,
            context: Arc::new(context),
            profile: Arc::new(profile),
            endpoint,
            headers,
            http: http.clone(),
            tokens: None,
        })
    }

    /// Where requests on `wire` are sent.
    fn url_on(&self, wire: Wire) -> Option<&Url> {
        let Endpoint { url, other } = &self.endpoint;
        if wire == self.profile.wire { Some(url) } else { other.as_ref() }
    }

    /// Fetches the key of each call from `tokens`, if given.
    pub(crate) fn with_tokens(self, tokens: Option<Arc<dyn TokenSource>>) -> Self {
        Self { tokens, ..self }
    }

    /// The call context and the headers of one call.
    async fn authorised(&self) -> Result<(Arc<CallContext>, HeaderMap), ModelError> {
        let mut headers = self.headers.clone();
        let Some(tokens) = &self.tokens else { return Ok((Arc::clone(&self.context), headers)) };
        let description = &self.context.description;
        let missing = || {
            let hint = Provider::named(&description.provider).map_or("", |row| row.key_hint);
            let message = format!("no key is set, and {hint} could not be read");
            ModelError::new(ModelErrorCode::ProviderNotConfigured, message)
        };
        let token = tokens.token().await.ok_or_else(missing)?;
        let mut value =
            HeaderValue::from_str(&format!("Bearer {}", token.expose())).map_err(|_| missing())?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
        Ok((Arc::new(CallContext::new(description.clone(), Some(token), &self.endpoint.url)), headers))
    }

    async fn ask(&self, request: &Request<'_>) -> Result<EventStream, ModelError> {
        let deadline = Instant::now() + self.http.timeouts.total;
        let (context, headers) = self.authorised().await.map_err(|error| self.context.complete(error))?;
        let started =
            timeout_at(deadline, self.begin(request, Arc::clone(&context), headers, deadline)).await;
        started
            .unwrap_or_else(|_| Err(total_timeout(self.http.timeouts.total)))
            .map_err(|error| context.complete(error))
    }

    /// Sends the request as the model's profile says. What the provider contradicts is sent once the other way.
    async fn begin(
        &self,
        request: &Request<'_>,
        context: Arc<CallContext>,
        headers: HeaderMap,
        deadline: Instant,
    ) -> Result<EventStream, ModelError> {
        let mut attempt = Attempt::first(self);
        match request.submitting {
            // Boxed, like what follows: hardly a call is submitted.
            Submitting::Fetch(call) => {
                return Box::pin(self.fetch(&attempt, request, call, (context, headers))).await;
            }
            Submitting::Withdraw(call) => return Ok(Box::pin(self.withdraw(&attempt, call, headers)).await),
            Submitting::No | Submitting::Allowed => {}
        }
        let cache = cache::resolved(request.cache, request.pauses, self.cache_prices.as_ref());
        // A copy of the request would be held while the model thinks.
        let with = |latency| Request { cache, latency, ..*request };
        let mut latency = request.latency;
        loop {
            let sent = attempt.encode(&with(latency));
            if let Some(way) = attempt.profile.submits_for(&with(latency)) {
                match Box::pin(self.submit(&attempt, way, &sent, &headers)).await? {
                    Ok(submitted) => return Ok(submitted),
                    Err(refused) if way.is_unknown_to(&refused) => attempt.stop_submitting(),
                    // Sent as usual, the request is refused for the same reason, and corrected.
                    Err(refused) if (400..429).contains(&refused.status) => latency = Latency::Interactive,
                    Err(refused) => return Err(refused.error),
                }
                continue;
            }
            // A cheap tier lets requests wait.
            let waits = latency.is_patient() && attempt.profile.tier_for(&with(latency)).is_some();
            let Timeouts { first_byte, total, .. } = self.http.timeouts;
            let patience = if waits { total } else { first_byte };
            let note = |is_sent| {
                if let Some(noted) = request.is_sent {
                    noted.store(is_sent, Ordering::Relaxed);
                }
            };
            note(true);
            let response = self.send(&attempt, sent, &headers, patience).await;
            note(false);
            let response = response?;
            if response.status().is_success() {
                attempt.succeeded();
                let asked = with(latency);
                let tier = attempt.profile.tier_for(&asked).filter(|_| attempt.profile.wire == Wire::Gemini);
                let served = tier.and_then(|tier| served_tier(response.headers(), tier));
                let answer = self.answer(response, &attempt.profile, context, deadline)?;
                return Ok(finished(answer, served, request, &attempt.profile));
            }
            let refused = self.refusal(response).await;
            ensure!(self.http.corrects, refused.error);
            if let Some(tier) = attempt.profile.tier_for(&with(latency)).filter(|_| refused.has_no_capacity())
            {
                tracing::info!(model = %self.context.description, tier, "no capacity; asking the usual tier");
                latency = Latency::Interactive;
                continue;
            }
            if let Some(error) = attempt.correct(refused, &with(latency)) {
                return Err(error);
            }
        }
    }

    async fn send(
        &self,
        attempt: &Attempt<'_>,
        body: Vec<u8>,
        headers: &HeaderMap,
        patience: Duration,
    ) -> Result<Response, ModelError> {
        // As a body that cannot be cloned it is freed when it is sent. Otherwise the client would keep a copy for redirects and
        // retries, which are off, for as long as the model thinks.
        let body = Body::wrap(Body::from(body));
        sent(self.http.client.post(attempt.url.clone()).headers(headers.clone()).body(body), patience).await
    }

    /// Decodes a response with a success status.
    fn answer(
        &self,
        response: Response,
        profile: &Profile,
        context: Arc<CallContext>,
        deadline: Instant,
    ) -> Result<EventStream, ModelError> {
        ensure!(!error::is_compressed(response.headers(), &[]), error::compressed());
        let decoder = profile.wire.decoder(&self.context.description.provider, profile.answer_end);
        let content_type =
            response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
        let framing = profile.wire.framing();
        if !framing.by_line && content_type.starts_with("application/json") {
            let whole = whole(response, framing, decoder, self.http.timeouts, deadline);
            return Ok(whole_stream(whole, context));
        }
        if content_type.starts_with("text/html") {
            return Err(error::invalid(
                "the server returned a web page instead of an answer; check the base URL",
            ));
        }
        let reader = Reader::new(framing, decoder);
        Ok(Box::pin(AnswerStream::new(response, reader, context, self.http.timeouts, deadline)))
    }

    /// Reads the error body and classifies it. A body that cannot be read in time leaves the status to decide alone.
    async fn refusal(&self, response: Response) -> Refused {
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let body = read(response, error::LONGEST_REFUSAL, self.http.timeouts.idle).await.unwrap_or_default();
        Refused { error: error::refused(status, &headers, &body), status, body }
    }
}

/// Sends a request, and waits so long for the head of its answer.
///
/// # Errors
/// Those of the connection.
async fn sent(request: reqwest::RequestBuilder, patience: Duration) -> Result<Response, ModelError> {
    timeout(patience, request.send())
        .await
        .map_err(|_| idle_timeout("no answer", patience))?
        .map_err(error::transport)
}

/// What a refusal changes for another attempt.
struct Corrected<'m> {
    profile: Arc<Profile>,
    changes: Changes,
    url: &'m Url,
    /// For people.
    what: String,
}

/// A request that was refused.
struct Refused {
    error: ModelError,
    status: u16,
    body: Vec<u8>,
}

impl Refused {
    /// Whether the tier that was asked for has no room now, in words of a provider whose cheap tier is not always there.
    fn has_no_capacity(&self) -> bool {
        let text = String::from_utf8_lossy(&self.body).to_lowercase();
        let says = |words: &[&str]| words.iter().any(|words| text.contains(words));
        match self.status {
            429 => says(&["resource unavailable", "resource_unavailable", "capacity"]),
            498 | 503 => true,
            _ => false,
        }
    }
}

/// The tier that served a request which had asked for `asked`, for a wire whose answers do not say it.
fn served_tier(headers: &HeaderMap, asked: &str) -> Option<Tier> {
    let said = headers.get("x-gemini-service-tier").and_then(|tier| tier.to_str().ok());
    Tier::named(&said.unwrap_or(asked).to_lowercase())
}

/// An answer with the tier that served it, if the wire does not say it, and with the names that tools have in the request.
fn finished(
    answer: EventStream,
    tier: Option<Tier>,
    request: &Request<'_>,
    profile: &Profile,
) -> EventStream {
    let names = Originals::of(profile.wire.tool_rules(), request);
    if tier.is_none() && names.is_none() {
        return answer;
    }
    Box::pin(answer.map(move |event| {
        let event = served_by(tier, event?);
        Ok(match &names {
            Some(names) => names.restore(event),
            None => event,
        })
    }))
}

/// The event of an answer that this tier served.
fn served_by(tier: Option<Tier>, mut event: Event) -> Event {
    match &mut event {
        // A report without counts stays one.
        Event::Usage(usage) if **usage != Usage::default() => usage.tier = usage.tier.or(tier),
        Event::Done(answer) => answer.usage.tier = answer.usage.tier.or(tier),
        _ => {}
    }
    event
}

/// Most corrections of one call. Providers name one parameter at a time.
const MOST_CORRECTIONS: usize = 3;

/// One attempt to send a request, by a profile that refusals of the call have corrected.
struct Attempt<'m> {
    model: &'m HttpModel,
    profile: Arc<Profile>,
    url: &'m Url,
    /// What this process has learned of the model, this call included.
    changes: Changes,
    /// What this call has learned, for the log.
    corrections: Vec<String>,
    /// The profiles that were refused in this call: none is tried twice.
    refused: Vec<Arc<Profile>>,
    /// The first refusal: what the user is told if no correction helps.
    first: Option<ModelError>,
}

impl<'m> Attempt<'m> {
    fn first(model: &'m HttpModel) -> Self {
        let known = model.http.learned.get(model.endpoint.url.as_str(), &model.context.description.model);
        let usual = || (Changes::default(), Arc::clone(&model.profile));
        let (changes, profile) = known.unwrap_or_else(usual);
        let url = model.url_on(profile.wire).unwrap_or(&model.endpoint.url);
        Self { model, profile, url, changes, corrections: Vec::new(), refused: Vec::new(), first: None }
    }

    /// The provider does not take calls that it answers later.
    fn stop_submitting(&mut self) {
        let none = Changes { submits: Some(Submits::No), ..Changes::default() };
        self.changes = std::mem::take(&mut self.changes).then(none);
        self.profile = Arc::new(Profile { submits: Submits::No, ..Profile::clone(&self.profile) });
        self.corrections.push("it takes no calls that are answered later".to_owned());
    }

    fn encode(&self, request: &Request<'_>) -> Vec<u8> {
        self.profile.wire.encode(&self.model.context.description, &self.profile, request)
    }

    fn succeeded(&mut self) {
        if !self.corrections.is_empty() {
            let Self { model, changes, profile, .. } = self;
            let learned = (std::mem::take(changes), Arc::clone(profile));
            let HttpModel { http, endpoint, context, .. } = model;
            let address = endpoint.url.as_str();
            http.learned.remember(address, &context.description, learned, &self.corrections);
        }
    }

    /// Corrects the profile for another attempt; the error of the call when the refusal does not ask for one.
    fn correct(&mut self, refused: Refused, request: &Request<'_>) -> Option<ModelError> {
        let Refused { error, status, body } = refused;
        let next = self.corrected(&error, status, &body, request);
        // A refusal of a corrected request says less than the first one; a failure of the provider says more.
        let is_refusal = (400..429).contains(&status);
        let Some(Corrected { profile, changes, url, what }) = next else {
            return Some(self.first.take().filter(|_| is_refusal).unwrap_or(error));
        };
        self.first.get_or_insert(error);
        self.refused.push(std::mem::replace(&mut self.profile, profile));
        self.changes = changes;
        self.url = url;
        self.corrections.push(what);
        None
    }

    /// What to correct, unless the request would be the same.
    fn corrected(
        &self,
        error: &ModelError,
        status: u16,
        body: &[u8],
        request: &Request<'_>,
    ) -> Option<Corrected<'m>> {
        if self.corrections.len() >= MOST_CORRECTIONS {
            return None;
        }
        let names_no_model = error.code != ModelErrorCode::ModelNotFound;
        let Correction { changes, what } = correction(&self.profile, status, names_no_model, body)?;
        let changes = self.changes.clone().then(changes);
        let Description { provider, model, .. } = &self.model.context.description;
        // A wire that the user has set counts less than what the provider says.
        let own = Changes { wire: Some(self.profile.wire), ..Changes::default() };
        let profile = Profile::with(provider, model, &own.then(changes.clone()));
        if self.refused.iter().any(|refused| **refused == profile) {
            return None;
        }
        let url = self.model.url_on(profile.wire)?;
        let description = &self.model.context.description;
        let is_another =
            url != self.url || profile.wire.encode(description, &profile, request) != self.encode(request);
        is_another.then(|| Corrected { profile: Arc::new(profile), changes, url, what })
    }
}

/// Reads an answer in one piece: from a server that does not stream, or a stream with the content type JSON.
///
/// # Errors
/// Those of the connection and of the provider, and whether anything was received before.
async fn whole(
    response: Response,
    framing: Framing,
    decoder: Box<dyn Decoder>,
    timeouts: Timeouts,
    deadline: Instant,
) -> Result<VecDeque<Event>, (ModelError, bool)> {
    let request_id = error::request_id(response.headers());
    let named = |error: ModelError| ModelError { request_id: error.request_id.or(request_id), ..error };
    let read = timeout_at(deadline, read(response, LONGEST_BODY + 1, timeouts.idle)).await;
    let body = match read {
        Ok(Ok(body)) => body,
        Ok(Err((error, received))) => return Err((named(error), received > 0)),
        Err(_) => return Err((total_timeout(timeouts.total), true)),
    };
    decoded(&body, framing, decoder).map_err(|error| (named(error), false))
}

/// Decodes an answer in one piece.
fn decoded(
    body: &[u8],
    framing: Framing,
    mut decoder: Box<dyn Decoder>,
) -> Result<VecDeque<Event>, ModelError> {
    ensure!(body.len() <= LONGEST_BODY, error::invalid("the answer is longer than 8 MiB"));
    ensure!(!error::is_compressed(&HeaderMap::new(), body), error::compressed());
    let body = String::from_utf8_lossy(body);
    let mut events = VecDeque::new();
    if body.trim_start().starts_with(['{', '[']) {
        decoder.whole_answer(repaired(&body).as_deref().unwrap_or(&body), &mut events)?;
    } else {
        let mut reader = Reader::new(framing, decoder);
        reader.push(body.as_bytes(), &mut events)?;
        reader.end(&mut events)?;
    }
    Ok(events)
}

/// The events of an answer in one piece. The provider has accepted the request before.
fn whole_stream(
    whole: impl Future<Output = Result<VecDeque<Event>, (ModelError, bool)>> + Send + 'static,
    context: Arc<CallContext>,
) -> EventStream {
    Box::pin(stream::once(whole).flat_map(move |read| {
        let events: VecDeque<Result<Event, ModelError>> = match read {
            Ok(events) => events.into_iter().map(Event::into_storable).map(Ok).collect(),
            Err((error, begun)) => {
                let begun = begun.then(|| Ok(Event::Usage(Box::default())));
                begun.into_iter().chain([Err(context.complete(error))]).collect()
            }
        };
        stream::iter(events)
    }))
}

/// Reads at most `longest` bytes of the body.
///
/// # Errors
/// That of the connection, and how many bytes were received before.
async fn read(
    mut response: Response,
    longest: usize,
    idle: Duration,
) -> Result<Vec<u8>, (ModelError, usize)> {
    let mut body = Vec::new();
    while body.len() < longest {
        let chunk = match timeout(idle, response.chunk()).await {
            Ok(Ok(chunk)) => chunk,
            Ok(Err(error)) => return Err((error::transport(error), body.len())),
            Err(_) => return Err((idle_timeout("no data", idle), body.len())),
        };
        let Some(chunk) = chunk else { break };
        body.extend_from_slice(&chunk[..chunk.len().min(longest - body.len())]);
    }
    Ok(body)
}

/// The error of a call that received nothing for `limit`.
pub(crate) fn idle_timeout(what: &str, limit: Duration) -> ModelError {
    ModelError::new(ModelErrorCode::Timeout, format!("{what} for {limit:?}"))
}

/// The error of an answer that was not complete within `limit`.
pub(crate) fn total_timeout(limit: Duration) -> ModelError {
    ModelError::new(ModelErrorCode::Timeout, format!("the answer was not complete after {limit:?}"))
}

impl Model for HttpModel {
    fn description(&self) -> &Description {
        &self.context.description
    }

    fn key(&self) -> Option<Fingerprint> {
        self.context.key.as_ref().map(Secret::fingerprint)
    }

    fn stream<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Result<EventStream, ModelError>> {
        Box::pin(self.ask(request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of the future that `make` returns.
    fn future_size<A, F: Future>(_: impl Fn(A) -> F) -> usize {
        size_of::<F>()
    }

    /// What exists while a model thinks: the call, and then its answer.
    #[test]
    fn waiting_call_holds_little_memory() {
        let call = future_size(|(model, request): (&'static HttpModel, &'static Request<'static>)| {
            model.ask(request)
        });
        assert!(call <= 2048, "{call} bytes");
        assert!(size_of::<AnswerStream>() <= 1024, "{} bytes", size_of::<AnswerStream>());
    }
}
