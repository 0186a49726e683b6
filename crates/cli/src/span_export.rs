//! [`SpanExport`]: sends spans to a collector over OTLP, if the environment names one.
//!
//! The variables are those of OpenTelemetry: `OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_SERVICE_NAME`,
//! `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER`, `OTEL_BSP_…` and so on ([`Settings`]). Without an endpoint nothing of
//! this is made.
//!
//! Spans that ended wait in a queue, from which a task sends them in batches. A span for which the queue has no room is lost:
//! a collector that is slow or gone stops nobody.

use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::anyhow;
use backon::{ExponentialBuilder, Retryable as _};
use houston_spans::{Contents, Limits, Sampler, Spans, Tracer, otlp};
use percent_encoding::percent_decode_str;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{StatusCode, Url};
use tokio::sync::mpsc::{self, Receiver};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::environment::environment;
use crate::failure::{Failure, Result};

/// How long the end of the process waits until the last spans are sent.
const STOP_TIMEOUT: Duration = Duration::from_millis(1500);

/// Bytes of the contents of one attribute, if the operator asks for contents.
const MAX_CONTENT_BYTES: usize = 16 * 1024;

/// What exports spans; by default, nothing does.
#[derive(Default)]
pub(crate) struct SpanExport {
    sending: TaskTracker,
    ends: CancellationToken,
}

impl SpanExport {
    /// Begins to export, if the environment names a collector. Returns what makes spans.
    ///
    /// # Errors
    /// [`Failure::Usage`] when a variable has a value that cannot be used.
    pub(crate) fn start() -> Result<(Spans, Self)> {
        let export = Self::default();
        if !is_wanted(environment) {
            return Ok((Spans::default(), export));
        }
        let failed = |error: String| Failure::Usage(anyhow!("traces cannot be exported: {error}"));
        let Settings { collector, batches, sampler, limits, content_bytes } =
            Settings::read(environment).map_err(failed)?;
        let collector = Collector::new(collector).map_err(failed)?;
        let (sender, ended) = mpsc::channel(batches.queue);
        export.sending.spawn(send(ended, collector, batches, export.ends.clone()));
        let take = Box::new(move |span| {
            // One that finds no room is lost.
            let _ = sender.try_send(span);
        });
        let contents = Contents::up_to(content_bytes);
        Ok((Spans::new(Tracer { sampler, limits, contents, take }), export))
    }

    /// Sends what is left, for a moment.
    pub(crate) async fn stop(self) {
        self.ends.cancel();
        self.sending.close();
        if timeout(STOP_TIMEOUT, self.sending.wait()).await.is_err() {
            tracing::warn!("the last spans were not sent");
        }
    }
}

/// Sends spans until the end, then those that are left: a batch when it is full, or a while after its first span.
async fn send(mut ended: Receiver<Vec<u8>>, collector: Collector, batches: Batches, ends: CancellationToken) {
    let mut spans = Vec::new();
    loop {
        tokio::select! {
            _ = ended.recv_many(&mut spans, batches.most) => {}
            () = ends.cancelled(), if !ended.is_closed() => ended.close(),
        }
        let fill = async {
            let late = Instant::now() + batches.delay;
            loop {
                let room = batches.most - spans.len();
                // None: the batch is full, or no span comes any more.
                let Ok(1..) = timeout_at(late, ended.recv_many(&mut spans, room)).await else { break };
            }
        };
        ends.run_until_cancelled(fill).await;
        if !spans.is_empty() {
            collector.send(&spans).await;
            spans.clear();
        } else if ended.is_closed() && ended.is_empty() {
            return;
        }
    }
}

/// Where the collector is, and what it is told.
#[derive(Debug)]
struct CollectorSettings {
    endpoint: reqwest::Url,
    headers: HeaderMap,
    /// Time limit of a batch, with its repetitions.
    timeout: Duration,
    /// The attributes of this process.
    resource: Vec<(String, String)>,
}

/// Sends requests to the collector.
struct Collector {
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
    fn new(mut settings: CollectorSettings) -> Result<Self, String> {
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
    async fn send(&self, spans: &[Vec<u8>]) {
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

/// Whether spans are wanted: an endpoint is set, and nothing switches traces off.
fn is_wanted(variable: impl Fn(&str) -> Option<String>) -> bool {
    let is = |name: &str, value: &str| variable(name).is_some_and(|set| set.eq_ignore_ascii_case(value));
    let endpoints = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
    endpoints.iter().any(|name| variable(name).is_some())
        && !is("OTEL_SDK_DISABLED", "true")
        && !is("OTEL_TRACES_EXPORTER", "none")
}

/// What the environment says about spans.
#[derive(Debug)]
struct Settings {
    collector: CollectorSettings,
    batches: Batches,
    sampler: Sampler,
    limits: Limits,
    /// Bytes of the contents of an attribute; 0: there are none.
    content_bytes: usize,
}

/// How spans are sent.
#[derive(Debug, PartialEq, Eq)]
struct Batches {
    /// Spans that wait.
    queue: usize,
    /// Spans of a batch.
    most: usize,
    /// How long a batch waits for more.
    delay: Duration,
}

impl Settings {
    fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        // What is set for traces is before what is set for everything.
        let of_exporter = |name: &str| {
            variable(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}"))
                .or_else(|| variable(&format!("OTEL_EXPORTER_OTLP_{name}")))
        };
        for name in ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"] {
            if let Some(protocol) = variable(name).filter(|protocol| protocol != "http/protobuf") {
                return Err(format!("{name} is `{protocol}`: traces are sent as `http/protobuf` only"));
            }
        }
        let number = |name: &str, default: usize| parsed(variable(name)).unwrap_or(default);
        let timeout = parsed(of_exporter("TIMEOUT")).unwrap_or(10_000);
        let queue = number("OTEL_BSP_MAX_QUEUE_SIZE", 2_048).max(1);
        let delay = parsed(variable("OTEL_BSP_SCHEDULE_DELAY")).unwrap_or(5_000);
        let wants_contents = variable("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT")
            .is_some_and(|set| set.eq_ignore_ascii_case("true"));
        Ok(Self {
            collector: CollectorSettings {
                endpoint: endpoint(&variable)?,
                headers: headers(&of_exporter("HEADERS").unwrap_or_default()),
                timeout: Duration::from_millis(timeout),
                resource: resource(&variable),
            },
            batches: Batches {
                queue,
                most: number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512).clamp(1, queue),
                delay: Duration::from_millis(delay),
            },
            sampler: sampler(&variable),
            limits: Limits {
                attributes: number("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", Limits::DEFAULT.attributes),
                links: number("OTEL_SPAN_LINK_COUNT_LIMIT", Limits::DEFAULT.links),
            },
            content_bytes: if wants_contents { MAX_CONTENT_BYTES } else { 0 },
        })
    }
}

fn parsed<T: FromStr>(value: Option<String>) -> Option<T> {
    value.and_then(|value| value.parse().ok())
}

fn endpoint(variable: &impl Fn(&str) -> Option<String>) -> Result<Url, String> {
    let name = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    let (name, url) = match variable(name) {
        Some(url) => (name, url),
        None => {
            let name = "OTEL_EXPORTER_OTLP_ENDPOINT";
            let base = variable(name).unwrap_or_default();
            (name, format!("{}/v1/traces", base.strip_suffix('/').unwrap_or(&base)))
        }
    };
    match Url::parse(&url) {
        Ok(url) if url.has_host() => Ok(url),
        Ok(_) => Err(format!("{name}: `{url}` has no host")),
        Err(error) => Err(format!("{name}: `{url}` is no URL: {error}")),
    }
}

/// `name=value,…`.
fn pairs(list: &str) -> impl Iterator<Item = (&str, &str)> {
    list.split(',').filter_map(|pair| pair.split_once('=')).map(|(name, value)| (name.trim(), value.trim()))
}

/// `name=value,…`, of which values may be percent-encoded.
fn headers(list: &str) -> HeaderMap {
    let header = |(name, value): (&str, &str)| {
        let decoded = percent_decode_str(value).decode_utf8().ok()?;
        let name = HeaderName::from_str(name).ok()?;
        Some((name, HeaderValue::from_str(&decoded).ok().filter(|value| !value.is_empty())?))
    };
    pairs(list).filter_map(header).collect()
}

/// The attributes of this process: what it is called, and what the operator says.
fn resource(variable: &impl Fn(&str) -> Option<String>) -> Vec<(String, String)> {
    let set = variable("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    let name = variable("OTEL_SERVICE_NAME").unwrap_or_else(|| "houston".to_owned());
    let mut attributes = std::collections::BTreeMap::from([
        ("telemetry.sdk.name", "houston"),
        ("telemetry.sdk.language", "rust"),
        ("telemetry.sdk.version", env!("CARGO_PKG_VERSION")),
    ]);
    attributes.extend(pairs(&set));
    attributes.insert("service.name", &name);
    attributes.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn sampler(variable: &impl Fn(&str) -> Option<String>) -> Sampler {
    let name = variable("OTEL_TRACES_SAMPLER").unwrap_or_default();
    let of_parent = name.strip_prefix("parentbased_");
    let share = match of_parent.unwrap_or(&name) {
        "always_on" => 1.0,
        "always_off" => 0.0,
        "traceidratio" => parsed(variable("OTEL_TRACES_SAMPLER_ARG")).unwrap_or(1.0),
        _ => return Sampler::DEFAULT,
    };
    Sampler { share, follows_parent: of_parent.is_some() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");

    fn variables(set: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> {
        let set: Vec<(String, String)> =
            set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        move |name| set.iter().find(|(set, _)| set == name).map(|(_, value)| value.clone())
    }

    fn read(set: &[(&str, &str)]) -> Result<Settings, String> {
        Settings::read(variables(set))
    }

    #[test]
    fn spans_are_exported_only_to_a_named_collector() {
        let with = |set: &[(&str, &str)]| is_wanted(variables(set));
        assert!(!with(&[]) && with(&[ENDPOINT]));
        assert!(with(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:4318/v1/traces")]));
        assert!(!with(&[ENDPOINT, ("OTEL_SDK_DISABLED", "true")]));
        assert!(!with(&[ENDPOINT, ("OTEL_TRACES_EXPORTER", "none")]));
    }

    #[test]
    fn defaults_are_those_of_opentelemetry() {
        let settings = read(&[ENDPOINT]).unwrap();
        assert_eq!(settings.collector.endpoint.as_str(), "http://127.0.0.1:4318/v1/traces");
        assert_eq!(settings.collector.timeout, Duration::from_secs(10));
        assert!(settings.collector.headers.is_empty());
        assert_eq!(settings.batches, Batches { queue: 2_048, most: 512, delay: Duration::from_secs(5) });
        assert_eq!((settings.sampler, settings.limits), (Sampler::DEFAULT, Limits::DEFAULT));
        assert_eq!(settings.content_bytes, 0);
        assert!(settings.collector.resource.contains(&("service.name".to_owned(), "houston".to_owned())));
    }

    #[test]
    fn what_is_set_for_traces_is_before_what_is_set_for_everything() {
        let settings = read(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all/"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://traces/in?a=b"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "1"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "250"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "all=1"),
            (
                "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
                "Authorization = Basic%20YTpi+w==, x-team=a%2Cb, empty=, none",
            ),
        ])
        .unwrap();
        assert_eq!(settings.collector.endpoint.as_str(), "https://traces/in?a=b");
        assert_eq!(settings.collector.timeout, Duration::from_millis(250));
        let headers = settings.collector.headers;
        assert_eq!(
            (headers.len(), &headers["authorization"]),
            (2, &HeaderValue::from_static("Basic YTpi+w=="))
        );
        assert_eq!(headers["x-team"], "a,b");
        let settings = read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all/otlp/")]).unwrap();
        assert_eq!(settings.collector.endpoint.as_str(), "http://all/otlp/v1/traces");
    }

    #[test]
    fn unusable_values_are_refused_with_the_name_of_the_variable() {
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "127.0.0.1:4318"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "localhost:4318"),
        ] {
            let error = read(&[ENDPOINT, (name, value)]).unwrap_err();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }

    #[test]
    fn batches_fit_into_the_queue() {
        let settings = read(&[
            ENDPOINT,
            ("OTEL_BSP_MAX_QUEUE_SIZE", "100"),
            ("OTEL_BSP_SCHEDULE_DELAY", "50"),
            ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "many"),
        ])
        .unwrap();
        assert_eq!(settings.batches, Batches { queue: 100, most: 100, delay: Duration::from_millis(50) });
        assert_eq!(settings.limits, Limits::DEFAULT);
        let settings = read(&[ENDPOINT, ("OTEL_BSP_MAX_QUEUE_SIZE", "0")]).unwrap();
        assert_eq!((settings.batches.queue, settings.batches.most), (1, 1));
    }

    #[test]
    fn samplers_have_the_names_of_opentelemetry() {
        let sampler = |name: &str, argument: &str| {
            let set = [ENDPOINT, ("OTEL_TRACES_SAMPLER", name), ("OTEL_TRACES_SAMPLER_ARG", argument)];
            let Sampler { share, follows_parent } = read(&set).unwrap().sampler;
            (share, follows_parent)
        };
        assert_eq!(sampler("always_off", "0.5"), (0.0, false));
        assert_eq!(sampler("traceidratio", "0.5"), (0.5, false));
        assert_eq!(sampler("parentbased_traceidratio", "0.1"), (0.1, true));
        assert_eq!(sampler("parentbased_traceidratio", "?"), (1.0, true));
        assert_eq!(sampler("xray", ""), (1.0, true));
    }

    #[test]
    fn process_has_the_name_that_the_operator_gives_it() {
        let attributes = "service.name=other,deployment.environment.name = test,none";
        let of = |set: &[(&str, &str)]| {
            let resource = read(&[&[ENDPOINT], set].concat()).unwrap().collector.resource;
            move |name: &str| resource.iter().find(|(set, _)| set == name).map(|(_, value)| value.clone())
        };
        let named = of(&[("OTEL_RESOURCE_ATTRIBUTES", attributes), ("OTEL_SERVICE_NAME", "agents")]);
        assert_eq!(named("service.name").as_deref(), Some("agents"));
        assert_eq!(named("deployment.environment.name").as_deref(), Some("test"));
        assert_eq!(of(&[])("service.name").as_deref(), Some("houston"));
    }
}
