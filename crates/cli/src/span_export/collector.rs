//! [`Collector`]: what receives spans.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable as _};
use houston_spans::otlp;
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};

/// Where the collector is, and what it is told.
#[derive(Debug)]
pub(super) struct CollectorSettings {
    pub(super) endpoint: reqwest::Url,
    pub(super) headers: HeaderMap,
    /// Time limit of a batch, with its repetitions.
    pub(super) timeout: Duration,
    /// The attributes of this process.
    pub(super) resource: Vec<(String, String)>,
}

/// Sends requests to the collector.
pub(super) struct Collector {
    http: reqwest::Client,
    settings: CollectorSettings,
    /// Whether the last batch failed: then the next failure is not logged.
    fails: AtomicBool,
}

/// Why spans did not arrive.
#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error("it answers {0}")]
    Refused(StatusCode),
    #[error("it cannot be reached: {0}")]
    Unreachable(reqwest::Error),
    #[error("it did not answer in time")]
    TooLate,
}

impl Lost {
    /// Whether OTLP asks for another try.
    fn is_transient(&self) -> bool {
        match self {
            Self::Refused(status) => matches!(status.as_u16(), 429 | 502 | 503 | 504),
            Self::Unreachable(_) => true,
            Self::TooLate => false,
        }
    }
}

impl Collector {
    pub(super) fn new(mut settings: CollectorSettings) -> Result<Self, String> {
        settings.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(crate::chat::tls().map_err(|error| error.to_string())?)
            // A redirect would send the headers, which may have a key, to another server.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("houston/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self { http, settings, fails: AtomicBool::new(false) })
    }

    /// Sends a batch; tries again for a while if that can help.
    pub(super) async fn send(&self, spans: &[Vec<u8>]) {
        let body = bytes::Bytes::from(otlp::request(&self.settings.resource, spans));
        let pauses = ExponentialBuilder::new()
            .with_min_delay(Duration::from_millis(100))
            .with_max_delay(Duration::from_millis(1600))
            .with_max_times(3)
            .with_jitter();
        let tries = (|| self.post(body.clone())).retry(pauses).when(Lost::is_transient);
        let result = tokio::time::timeout(self.settings.timeout, tries).await;
        self.report(result.unwrap_or(Err(Lost::TooLate)));
    }

    async fn post(&self, body: bytes::Bytes) -> Result<(), Lost> {
        let CollectorSettings { endpoint, headers, .. } = &self.settings;
        let request = self.http.post(endpoint.clone()).headers(headers.clone()).body(body);
        let unreachable = |error: reqwest::Error| Lost::Unreachable(error.without_url());
        let answer = request.send().await.map_err(unreachable)?;
        let status = answer.status();
        // Its end frees the connection for the next request.
        answer.bytes().await.map_err(unreachable)?;
        if status.is_success() { Ok(()) } else { Err(Lost::Refused(status)) }
    }

    /// Logs the first failure after a success, and the first success after a failure.
    fn report(&self, result: Result<(), Lost>) {
        if self.fails.swap(result.is_err(), Ordering::Relaxed) == result.is_err() {
            return;
        }
        match result {
            Ok(()) => tracing::info!("the collector of traces takes spans again"),
            Err(error) => {
                tracing::warn!(%error, "the collector of traces does not take spans; they are lost")
            }
        }
    }
}
