//! What a client of `GET /v1/goals/{id}/events` receives of each recorded run, to the byte, in `<name>.sse` beside its trace.
//!
//! The stream comes from `houston serve` on Postgres and Redis; [`Worker`] commits and publishes what the trace says. Each
//! file has what two clients receive, each after a comment: one that is there before the run, and one that comes after it.
//!
//! Ids are seeded with the name of the trace. Only the times at which Postgres has committed are not the same each time: the
//! digits of each `"timestamp":1790000000000` and `"created_at":"2026-…Z"` are written as zeros.
//!
//! An event that comes from Redis has its JSON as it was published, one that is read from Postgres has its keys in another
//! order. So the server does not poll Postgres, and the first client gets all events from Redis but the first two, and the
//! answers to questions. It sends no heartbeats.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use houston_domain::clock::SystemClock;
use houston_domain::id::{Ids, TenantId};
use houston_domain::scope::Scopes;
use houston_domain::trace::Trace;
use houston_queue::{DEFAULT_PREFIX, DeltaBus, Redis};
use houston_store::api_key::NewApiKey;
use houston_store::{Config, Store};
use houston_testkit::installation::TestInstallation;
use houston_testkit::process::Process;
use houston_testkit::snapshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::scenarios;
use crate::worker::Worker;

/// The longest time the test waits for anything.
const PATIENCE: Duration = Duration::from_secs(120);
const KEY: &str = "hou_test_0123456789abcdef";
/// Longer than the test takes.
const NEVER_MS: &str = "3600000";
/// Traces at a time: the test waits more than it computes.
const AT_ONCE: usize = 8;

/// An API server, its Postgres and Redis, and a tenant.
pub(crate) struct Service {
    // Ends before its servers.
    _serve: Process,
    pub(crate) servers: TestInstallation,
    address: SocketAddr,
    pub(crate) store: Store,
    pub(crate) bus: DeltaBus,
    pub(crate) tenant: TenantId,
    http: reqwest::Client,
}

/// An open event stream.
pub(crate) struct Client {
    response: reqwest::Response,
    received: String,
}

fn open(url: &str) -> Store {
    Store::open(&Config {
        url: url.to_owned(),
        connections: houston_store::Sizes::ones(),
        acquire_timeout: PATIENCE,
    })
    .unwrap()
}

async fn migrate(url: String) {
    let store = open(&url);
    store.migrate().await.unwrap();
    store.close().await;
}

impl Service {
    async fn start(tracker: &TaskTracker, stop: &CancellationToken) -> Self {
        let servers = TestInstallation::start(migrate).unwrap();
        let store = open(servers.database_url());
        let ids = Ids::new(Arc::new(SystemClock));
        let tenant = store.operator().ensure_tenant(ids.next(), "test").await.unwrap();
        let (name, scopes) = ("test", Scopes::ADMIN);
        let key =
            NewApiKey { id: ids.next(), name, key: KEY, scopes, user: None, expires_at: None, issuer: None };
        store.operator().create_api_key(tenant, &key).await.unwrap();
        let redis = Redis::open(servers.redis_url(), DEFAULT_PREFIX, Arc::new(SystemClock)).unwrap();
        let bus = DeltaBus::start(Some(redis), ids.next(), tracker, stop.clone());
        let mut command = Command::new(env!("CARGO_BIN_EXE_houston"));
        command.args(["serve", "--address", "127.0.0.1:0"]).envs(servers.environment());
        command.env("HOUSTON_MODEL", "simulated").env("HOUSTON_LOG_FORMAT", "text");
        command.env("HOUSTON_SERVER__POLL_MS", NEVER_MS).env("HOUSTON_SERVER__HEARTBEAT_MS", NEVER_MS);
        let mut serve = Process::spawn(&mut command).unwrap();
        let address = serve.wait_for_address(PATIENCE).unwrap();
        serve.wait_for_ready(address, "/readyz", PATIENCE).unwrap();
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { _serve: serve, servers, address, store, bus, tenant, http }
    }

    /// Opens a stream at this path.
    pub(crate) async fn stream(&self, path: &str) -> Client {
        let url = format!("http://{}{path}", self.address);
        let response = self.http.get(url).bearer_auth(KEY).send().await.unwrap();
        assert_eq!(response.status().as_u16(), 200, "{path}");
        Client { response, received: String::new() }
    }
}

impl Client {
    /// The `id` of the last whole frame.
    fn position(&self) -> Option<&str> {
        let whole = &self.received[..self.received.rfind("\n\n")?];
        whole.lines().rev().find_map(|line| line.strip_prefix("id: "))
    }

    /// Reads until a frame has an id that `is_it`; `false` if none has in this time.
    pub(crate) async fn reads_until(&mut self, patience: Duration, is_it: impl Fn(&str) -> bool) -> bool {
        let reading = async {
            while !self.position().is_some_and(&is_it) {
                let bytes = self.response.chunk().await.unwrap().expect("the stream goes on");
                self.received.push_str(std::str::from_utf8(&bytes).unwrap());
            }
        };
        tokio::time::timeout(patience, reading).await.is_ok()
    }

    /// Reads to the clean end; returns everything.
    pub(crate) async fn rest(mut self) -> String {
        let reading = async {
            while let Some(bytes) = self.response.chunk().await.unwrap() {
                self.received.push_str(std::str::from_utf8(&bytes).unwrap());
            }
        };
        tokio::time::timeout(PATIENCE, reading).await.expect("the stream ends");
        self.received
    }
}

/// The bytes without the times of commits; see above.
fn normalised(received: &str) -> String {
    let mut text = String::new();
    let mut rest = received;
    while let Some((at, length)) = next_time(rest) {
        text.push_str(&rest[..at]);
        text.extend(rest[at..at + length].chars().map(|char| if char.is_ascii_digit() { '0' } else { char }));
        rest = &rest[at + length..];
    }
    text + rest
}

/// Where the next time begins, and its length.
fn next_time(text: &str) -> Option<(usize, usize)> {
    let fields = [("\"timestamp\":", "1790000000000,"), ("\"created_at\":\"", "2026-09-21T14:13:20.000Z\"")];
    let found = fields.iter().flat_map(|(field, form)| {
        text.match_indices(field).filter_map(|(at, _)| {
            let at = at + field.len();
            let value = text.get(at..at + form.len())?;
            let is_same =
                |(one, other): (char, char)| one == other || one.is_ascii_digit() && other.is_ascii_digit();
            value.chars().zip(form.chars()).all(is_same).then_some((at, form.len() - 1))
        })
    });
    found.min()
}

async fn recorded(service: &Service, name: &str, trace: &Trace) -> String {
    let (live, path) = Worker::start(service, name).await.carry_out(trace).await;
    let later = service.stream(&format!("{path}?after=0")).await.rest().await;
    format!(
        ": opened before the run\n\n{}: opened after the run, with ?after=0\n\n{}",
        normalised(&live),
        normalised(&later)
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_golden_traces_are_as_recorded() {
    let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
    let service = Service::start(&tracker, &stop).await;
    let recording = scenarios::all().into_iter().map(|(name, trace)| {
        let service = &service;
        async move { (name.to_owned(), recorded(service, name, &trace).await) }
    });
    let streams: Vec<(String, String)> =
        futures_util::stream::iter(recording).buffered(AT_ONCE).collect().await;
    snapshot::assert_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces"), ".sse", &streams);
    stop.cancel();
}

#[test]
fn only_times_of_commits_are_normalised() {
    let received = concat!(
        "retry: 2000\nid: 1\ndata: {\"timestamp\":1790000000123,\"at\":1790000000123,",
        "\"created_at\":\"2026-11-28T03:02:53.102Z\",\"retry_at\":\"2026-11-28T03:02:53.102Z\"}\n\n",
        "id: 2\ndata: {\"timestamp\":12,\"created_at\":\"2026\"}\n\n"
    );
    let expected = concat!(
        "retry: 2000\nid: 1\ndata: {\"timestamp\":0000000000000,\"at\":1790000000123,",
        "\"created_at\":\"0000-00-00T00:00:00.000Z\",\"retry_at\":\"2026-11-28T03:02:53.102Z\"}\n\n",
        "id: 2\ndata: {\"timestamp\":12,\"created_at\":\"2026\"}\n\n"
    );
    assert_eq!(normalised(received), expected);
}
