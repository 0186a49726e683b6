//! Middleware around all endpoints: request id, deadline, problem bodies, the headers `no-store` and `nosniff`, and one
//! log line per request.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use houston_spans::Span;
use tokio::time::Instant;
use uuid::Uuid;

use crate::admission::with_admission;
use crate::deadline::Deadline;
use crate::dialects::openai;
use crate::error::{ApiError, ResponseError};
use crate::request::rates::limited;
use crate::request::request_trace::{RequestTrace, within};
use crate::resources::approve;
use crate::resources::audit;
use crate::state::App;
use crate::state::streams::{aborted, with_place};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Wraps every endpoint and the fallbacks.
pub(crate) async fn envelope(
    axum::extract::State(app): axum::extract::State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let id = client_request_id(request.headers())
        .unwrap_or_else(|| format!("req_{}", app.state.ids.next::<Uuid>().simple()));
    let log = RequestLog::new(&request);
    let resumes_stream = request.headers().contains_key("last-event-id");
    let changes = !request.method().is_safe();
    let trace = log.trace(&app, request.headers());
    let deadline = Deadline::new(log.timeout(&app));
    request.extensions_mut().insert(deadline.clone());
    if changes {
        request.extensions_mut().insert(audit::RequestId(id.clone()));
    }
    let handled =
        with_admission(Arc::clone(&app.places), deadline.clone(), Box::pin(with_place(next.run(request))));
    let run = limited(app.state.store.rates, (&log.method, log.route()), handled);
    let answered = within(trace.clone(), deadline.enforce(run)).await;
    let (answered, limits) = answered.map_or((None, None), |(answer, limits)| (Some(answer), Some(limits)));
    let mut response =
        answered.unwrap_or_else(|| ApiError::TimedOut { within: deadline.within, changes }.into_response());

    let response_error = response.extensions_mut().remove::<ResponseError>();
    if let Some(response_error) = &response_error {
        response_error.write(&log.path, &id, &mut response);
        if openai::is_path(&log.path) {
            openai::error::rewrite(response_error.error(), &mut response);
        }
        if resumes_stream
            && [StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS].contains(&response.status())
        {
            // An EventSource does not reconnect after an error status, but it does after a broken connection.
            *response.body_mut() = aborted();
        }
    }
    let headers = response.headers_mut();
    headers.extend(limits.unwrap_or_default());
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if let Ok(value) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, value);
    }
    log.count(&app, response.status(), began);
    let trace = trace.and_then(|trace| log.end(&trace.span, response.status()));
    let ids = (id.as_str(), trace.as_deref());
    log.write(ids, response.status(), began, response_error.as_ref().map(ResponseError::error));
    response
}

/// `X-Request-Id` of the client, if it has 1 to 128 visible ASCII characters.
fn client_request_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get(&REQUEST_ID)?.to_str().ok()?;
    let valid = !id.is_empty() && id.len() <= 128 && id.bytes().all(|byte| byte.is_ascii_graphic());
    valid.then(|| id.to_owned())
}

/// A path for logs and problems: without what gives access.
fn without_secrets(path: &str) -> &str {
    if path.starts_with(approve::PREFIX) { approve::PREFIX } else { path }
}

/// The fields of one request's log line.
struct RequestLog {
    method: Method,
    path: String,
    route: Option<MatchedPath>,
}

impl RequestLog {
    fn new(request: &Request) -> Self {
        Self {
            method: request.method().clone(),
            path: without_secrets(request.uri().path()).to_owned(),
            route: request.extensions().get::<MatchedPath>().cloned(),
        }
    }

    /// The pattern of its path; empty if there is no such route.
    fn route(&self) -> &str {
        self.route.as_ref().map_or("", MatchedPath::as_str)
    }

    /// The time limit of the request.
    fn timeout(&self, app: &App) -> Duration {
        let route = self.route();
        let is_document =
            ["/export", "/fork", "/import", "/import/{kinds}"].iter().any(|end| route.ends_with(end));
        let config = &app.state.config;
        let of_documents = Duration::from_secs(config.conversation.timeout_s.max(1));
        if is_document { of_documents } else { config.request_timeout() }
    }

    /// Whether this is a probe. Probes come every second and are not logged.
    fn is_probe(&self) -> bool {
        matches!(self.path.as_str(), "/livez" | "/readyz" | "/healthz")
    }

    /// Counts the request; probes are not of interest.
    fn count(&self, app: &App, status: StatusCode, began: Instant) {
        if !self.is_probe() {
            let route = self.route.as_ref().map_or("none", MatchedPath::as_str);
            let metrics = &app.state.metrics.http;
            metrics.answered(route, self.method.as_str(), status.as_u16(), began.elapsed());
        }
    }

    /// The trace of the request; probes have none.
    fn trace(&self, app: &App, headers: &HeaderMap) -> Option<Arc<RequestTrace>> {
        if self.is_probe() {
            return None;
        }
        RequestTrace::begin(&app.state.spans, self.method.as_str(), headers)
    }

    /// Ends the span of the request. Returns the id of its trace.
    fn end(&self, span: &Span, status: StatusCode) -> Option<String> {
        let route = self.route.as_ref().map_or("none", MatchedPath::as_str);
        span.answered_request(self.method.as_str(), route, status.as_u16());
        span.ids().map(|(trace, _)| trace)
    }

    /// `trace_id`: that of the request's span.
    fn write(
        &self,
        (request_id, trace_id): (&str, Option<&str>),
        status: StatusCode,
        began: Instant,
        error: Option<&ApiError>,
    ) {
        if self.is_probe() {
            return;
        }
        let route = self.route.as_ref().map_or("none", MatchedPath::as_str);
        let (method, path, status) = (self.method.as_str(), self.path.as_str(), status.as_u16());
        let duration_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        macro_rules! request_line {
            ($level:ident $(, $more:ident)*) => {
                tracing::$level!(
                    request_id, trace_id, method, route, path, status, duration_us, $($more,)* "request"
                )
            };
        }
        let Some(error) = error else { return request_line!(info) };
        let code = error.code().as_str();
        match error {
            // Clients without a valid key must not fill the log: `KeyCache` logs their number.
            ApiError::Unauthorized | ApiError::InvalidJwt(_) | ApiError::TooManyKeys => {
                request_line!(debug, code)
            }
            ApiError::Internal(cause) => {
                let error = cause.to_string();
                request_line!(error, code, error);
            }
            ApiError::Unavailable(Some(cause)) => {
                let error = cause.to_string();
                request_line!(warn, code, error);
            }
            _ => request_line!(info, code),
        }
    }
}
