//! The client through which all requests to named addresses go.

use std::error::Error as _;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::{self, HeaderValue};
use http_body_util::Full;
use hyper_util::client::legacy::{self, Client as HyperClient};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::{Instant, timeout_at};

use crate::connector::{Connector, Tls};
use crate::error::{Phase, Refusal, WebError};
use crate::network::{Dial, Lookup, SystemLookup, Tcp};
use crate::request::{Hop, Limits, Request};
use crate::response::{Answer, Response};
use crate::target::{ListedHost, Reach, Target};

/// The most bytes of the head of an answer, and the most headers.
const MAX_HEAD: usize = 64 * 1024;
const MAX_HEADERS: usize = 100;

const USER_AGENT: &str = concat!("houston/", env!("CARGO_PKG_VERSION"));

/// Sends requests. Cheap to clone; clones share connections, clients that are built separately share nothing.
#[derive(Clone)]
pub struct Client {
    http: HyperClient<Connector, Full<Bytes>>,
    reach: Arc<Reach>,
    limits: Limits,
}

/// [`Tls::system`], read when the first client needs it.
#[derive(Debug, Default)]
pub struct SystemTls(OnceLock<Tls>);

impl SystemTls {
    /// A client for the host of this URL, which an operator has named.
    ///
    /// # Errors
    /// Why there is none, for people: the text is not an http or https URL, or rustls rejects its own settings.
    pub fn client_for(&self, url: &str, limits: Limits) -> Result<Client, String> {
        let host = ListedHost::of(url).map_err(|error| error.to_string())?;
        let tls = match self.0.get() {
            Some(tls) => tls,
            None => {
                let tls = Tls::system().map_err(|error| format!("TLS does not start: {error}"))?;
                self.0.get_or_init(|| tls)
            }
        };
        Ok(Client::listed(vec![host], tls.clone()).limits(limits).build())
    }
}

/// What tenants may name: the public internet over https, and the hosts that the operator lists.
#[derive(Debug)]
pub struct TenantReach {
    hosts: Vec<ListedHost>,
    /// What could be read on the way to an address without TLS.
    what: &'static str,
}

impl TenantReach {
    /// `hosts`: addresses that were checked with the settings. `what` is sent there, as people read it: `events`.
    pub fn new(hosts: &[String], what: &'static str) -> Self {
        Self { hosts: hosts.iter().filter_map(|url| ListedHost::of(url).ok()).collect(), what }
    }

    /// Whether this address is one of the listed hosts; others are on the public internet, as far as this can be said before a
    /// name is looked up.
    ///
    /// # Errors
    /// Why a tenant may not name it, for people.
    pub fn judge(&self, url: &str) -> Result<bool, String> {
        if Target::parse(url, &Reach::Listed(self.hosts.clone())).is_ok() {
            return Ok(true);
        }
        let target = Target::parse(url, &Reach::Public).map_err(|refusal| refusal.to_string())?;
        if target.url().scheme() != "https" {
            return Err(format!("must begin with https://: {} would be readable on the way", self.what));
        }
        Ok(false)
    }

    /// A client for the listed hosts, or for the public internet.
    pub fn client(&self, is_listed: bool, tls: Tls, limits: Limits) -> Client {
        let builder = if is_listed { Client::listed(self.hosts.clone(), tls) } else { Client::guarded(tls) };
        builder.limits(limits).build()
    }
}

/// Builds a [`Client`].
#[must_use]
pub struct Builder {
    reach: Reach,
    tls: Tls,
    limits: Limits,
    lookup: Arc<dyn Lookup>,
    dial: Arc<dyn Dial>,
}

impl Client {
    /// A client for URLs that a tenant, a page or a model names: it reaches the public internet only.
    pub fn guarded(tls: Tls) -> Builder {
        Builder::new(Reach::Public, tls, true)
    }

    /// A client for hosts that the operator of the installation names, wherever they are, and no others.
    pub fn listed(hosts: Vec<ListedHost>, tls: Tls) -> Builder {
        Builder::new(Reach::Listed(hosts), tls, false)
    }

    /// Judges a URL without sending anything, for instance when a tenant registers it. Its name is not looked up.
    ///
    /// # Errors
    /// A [`Refusal`] that says what is allowed.
    pub fn judge(&self, url: &str) -> Result<Target, Refusal> {
        Target::parse(url, &self.reach)
    }

    /// Sends a request and reads the whole answer, up to [`Limits::body`].
    ///
    /// # Errors
    /// A [`WebError`]; an answer with an error status is an `Ok`.
    pub async fn send(&self, request: Request) -> Result<Response, WebError> {
        self.open(request).await?.whole().await
    }

    /// Sends a request and returns when the head of the answer has arrived.
    ///
    /// # Errors
    /// A [`WebError`]; an answer with an error status is an `Ok`.
    pub async fn open(&self, request: Request) -> Result<Answer, WebError> {
        let deadline = Instant::now() + self.limits.whole;
        let mut hop = Hop::first(&request, &self.reach)?;
        let first = hop.target.host().to_owned();
        let has_written = |error: WebError| match request.method {
            Method::GET | Method::HEAD => error,
            _ => WebError::AfterWrite { host: first.clone(), error: Box::new(error) },
        };
        for hops in 0..=self.limits.redirects {
            let response = self.exchange(&hop, deadline).await;
            let response = response.map_err(|error| if hops > 0 { has_written(error) } else { error })?;
            let location = response.headers().get(header::LOCATION);
            match hop.next(response.status(), location, &self.reach)? {
                Some(next) => hop = next,
                None => {
                    return Answer::new(response, hop.target, hops, &request.accepts, self.limits, deadline);
                }
            }
        }
        let host = hop.target.host().to_owned();
        Err(Refusal::Redirects { host, most: self.limits.redirects }.into())
    }

    async fn exchange(
        &self,
        hop: &Hop,
        deadline: Instant,
    ) -> Result<http::Response<hyper::body::Incoming>, WebError> {
        let host = hop.target.host().to_owned();
        let mut request = http::Request::builder()
            .method(hop.method.clone())
            .uri(hop.target.url().as_str())
            .body(Full::new(hop.body.clone()))
            .map_err(|error| Refusal::NotAUrl(error.to_string()))?;
        *request.headers_mut() = hop.headers.clone();
        request.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        let agent = HeaderValue::from_static(USER_AGENT);
        request.headers_mut().entry(header::USER_AGENT).or_insert(agent);
        match timeout_at(deadline, self.http.request(request)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(cause(host, &error)),
            Err(_) => Err(WebError::Timeout { host, phase: Phase::Head, limit: self.limits.whole }),
        }
    }
}

/// What made a request fail: an error of our connector, or one of HTTP.
fn cause(host: String, error: &legacy::Error) -> WebError {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(ours) = error.downcast_ref::<WebError>() {
            return ours.clone();
        }
        if let Some(error) = error.downcast_ref::<hyper::Error>() {
            let reason = if error.is_parse_too_large() {
                format!("its headers are longer than {} KiB or more than {MAX_HEADERS}", MAX_HEAD / 1024)
            } else if error.is_parse() {
                "it is not HTTP".to_owned()
            } else {
                "the connection was closed".to_owned()
            };
            return WebError::Broken { host, reason };
        }
        source = error.source();
    }
    WebError::Broken { host, reason: "the request failed".to_owned() }
}

impl Builder {
    fn new(reach: Reach, tls: Tls, complete: bool) -> Self {
        let lookup = Arc::new(SystemLookup { complete });
        Self { reach, tls, limits: Limits::default(), lookup, dial: Arc::new(Tcp) }
    }

    /// Sets the limits.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Replaces the operating system's resolver. Its answers are judged like any others.
    pub fn lookup(mut self, lookup: Arc<dyn Lookup>) -> Self {
        self.lookup = lookup;
        self
    }

    /// Replaces TCP.
    pub fn dial(mut self, dial: Arc<dyn Dial>) -> Self {
        self.dial = dial;
        self
    }

    /// The client.
    pub fn build(self) -> Client {
        let reach = Arc::new(self.reach);
        let connector = Connector {
            reach: Arc::clone(&reach),
            lookup: self.lookup,
            dial: self.dial,
            tls: self.tls,
            limit: self.limits.connect,
        };
        let http = HyperClient::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(30))
            .pool_max_idle_per_host(8)
            .http1_max_buf_size(MAX_HEAD)
            .http1_max_headers(MAX_HEADERS)
            .build(connector);
        Client { http, reach, limits: self.limits }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("reach", &self.reach)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
