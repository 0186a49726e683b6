//! [`SpanExport`]: sends spans to a collector over OTLP, if the environment names one.
//!
//! The variables are those of OpenTelemetry: `OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_SERVICE_NAME`,
//! `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER`, `OTEL_BSP_…` and so on. Without an endpoint nothing of this is made.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::anyhow;
use houston_spans::genai::VERSION;
use houston_spans::{BoxedTracer, Contents, Spans};
use opentelemetry::InstrumentationScope;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use crate::commands::Failure;
use crate::models::environment;

/// Bytes of the contents of one attribute, if the operator asks for contents.
const MAX_CONTENT_BYTES: usize = 16 * 1024;
/// Time limit of a request to the collector.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the end of the process waits until the last spans are sent.
const STOP_TIMEOUT: Duration = Duration::from_millis(1500);

/// What exports spans; `None`: nothing does.
pub(crate) struct SpanExport(Option<SdkTracerProvider>);

/// Whether spans are wanted: an endpoint is set, and nothing switches traces off.
fn is_wanted(variable: impl Fn(&str) -> Option<String>) -> bool {
    let is = |name: &str, value: &str| variable(name).is_some_and(|set| set.eq_ignore_ascii_case(value));
    let endpoints = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
    endpoints.iter().any(|name| variable(name).is_some())
        && !is("OTEL_SDK_DISABLED", "true")
        && !is("OTEL_TRACES_EXPORTER", "none")
}

impl SpanExport {
    /// Begins to export, if the environment names a collector. Returns what makes spans.
    ///
    /// # Errors
    /// [`Failure::Usage`] when a variable has a value that cannot be used.
    pub(crate) fn start() -> Result<(Spans, Self), Failure> {
        if !is_wanted(environment) {
            return Ok((Spans::default(), Self(None)));
        }
        for name in ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"] {
            if let Some(protocol) = environment(name).filter(|protocol| protocol != "http/protobuf") {
                let error = anyhow!("{name} is `{protocol}`: traces are sent as `http/protobuf` only");
                return Err(Failure::Usage(error));
            }
        }
        let failed = |error: String| Failure::Usage(anyhow!("traces cannot be exported: {error}"));
        let client = CollectorClient::new().map_err(failed)?;
        let exporter = SpanExporter::builder().with_http().with_http_client(client).build();
        let exporter = exporter.map_err(|error| failed(error.to_string()))?;
        let mut resource = Resource::builder();
        if environment("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name("houston");
        }
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource.build())
            .build();
        let scope = InstrumentationScope::builder("houston")
            .with_version(env!("CARGO_PKG_VERSION"))
            .with_schema_url(format!("https://opentelemetry.io/schemas/{VERSION}"))
            .build();
        let tracer = BoxedTracer::new(Box::new(provider.tracer_with_scope(scope)));
        let wants_contents = environment("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT")
            .is_some_and(|set| set.eq_ignore_ascii_case("true"));
        let contents = if wants_contents { Contents::up_to(MAX_CONTENT_BYTES) } else { Contents::NONE };
        Ok((Spans::new(tracer, contents), Self(Some(provider))))
    }

    /// Sends what is left, for a moment.
    pub(crate) async fn stop(self) {
        let Some(provider) = self.0 else { return };
        // It waits for a thread that sends through this runtime.
        let stopped = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(STOP_TIMEOUT)).await;
        if let Ok(Err(error)) = stopped {
            tracing::warn!(%error, "the last spans were not sent");
        }
    }
}

/// Sends to the collector from the runtime of the process: the thread that exports has none.
struct CollectorClient {
    http: reqwest::Client,
    runtime: Handle,
    sending: TaskTracker,
    /// Whether the last request failed: then the next failure is not logged.
    fails: AtomicBool,
}

impl CollectorClient {
    fn new() -> Result<Self, String> {
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(crate::chat::tls().map_err(|error| error.to_string())?)
            .timeout(EXPORT_TIMEOUT)
            // A redirect would send the headers, which may have a key, to another server.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("houston/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| error.to_string())?;
        let runtime = Handle::try_current().map_err(|error| error.to_string())?;
        Ok(Self { http, runtime, sending: TaskTracker::new(), fails: AtomicBool::new(false) })
    }

    /// Logs the first failure after a success, and the first success after a failure.
    fn report(&self, result: Result<u16, &str>) {
        let is_bad = !result.is_ok_and(|status| (200..300).contains(&status));
        if self.fails.swap(is_bad, Ordering::Relaxed) == is_bad {
            return;
        }
        match result {
            Ok(status) if is_bad => {
                tracing::warn!(status, "the collector of traces refuses spans; they are lost")
            }
            Ok(_) => tracing::info!("the collector of traces takes spans again"),
            Err(error) => tracing::warn!(error, "the collector of traces cannot be reached; spans are lost"),
        }
    }
}

impl fmt::Debug for CollectorClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CollectorClient").finish_non_exhaustive()
    }
}

impl HttpClient for CollectorClient {
    fn send_bytes<'c, 'f>(
        &'c self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'f>>
    where
        'c: 'f,
        Self: 'f,
    {
        Box::pin(async move {
            let request = reqwest::Request::try_from(request)?;
            let http = self.http.clone();
            let sent = self.sending.spawn_on(
                async move {
                    let answer = http.execute(request).await?;
                    let status = answer.status();
                    Ok::<_, reqwest::Error>((status, answer.bytes().await?))
                },
                &self.runtime,
            );
            match sent.await? {
                Ok((status, body)) => {
                    self.report(Ok(status.as_u16()));
                    Ok(Response::builder().status(status).body(body)?)
                }
                Err(error) => {
                    let error = error.without_url();
                    self.report(Err(&error.to_string()));
                    Err(error.into())
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_exported_only_to_a_named_collector() {
        let with = |set: &[(&str, &str)]| {
            let set: Vec<(String, String)> =
                set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            is_wanted(move |name| set.iter().find(|(set, _)| set == name).map(|(_, value)| value.clone()))
        };
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");
        assert!(!with(&[]) && with(&[endpoint]));
        assert!(with(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:4318/v1/traces")]));
        assert!(!with(&[endpoint, ("OTEL_SDK_DISABLED", "true")]));
        assert!(!with(&[endpoint, ("OTEL_TRACES_EXPORTER", "none")]));
    }
}
