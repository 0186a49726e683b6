//! The most expensive requests of one tenant must not block the server's threads for others.
//!
//! The server has one thread here, with a probe that wakes every millisecond: the CPU time between two wakes is how
//! long a request of another tenant waits. CPU time is measured, not wall-clock time, so that other processes do not
//! count.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use houston_api::{Explain, State, serve};
use houston_queue::{DeltaBus, HintSender};
use houston_store::Store;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::http::{Answer, request};
use crate::test_api::{KEY, TestApi, bearer, make_tenant};

const OTHER: &str = "hou_other_0123456789abcdef";
/// Maximum CPU time without a pause in a debug build; a release build takes a tenth of it.
const MAX_BLOCKING: Duration = Duration::from_millis(100);

fn cpu_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

/// Spins for a second of CPU time.
fn compute() {
    let began = cpu_time();
    while cpu_time() - began < Duration::from_secs(1) {
        std::hint::spin_loop();
    }
}

/// A server on its own thread.
struct Server {
    address: SocketAddr,
    /// The longest CPU time without a pause, in µs.
    longest: Arc<AtomicU64>,
    stop: CancellationToken,
}

impl Server {
    async fn start(api: &TestApi) -> Self {
        let (longest, stop) = (Arc::new(AtomicU64::new(0)), CancellationToken::new());
        let (url, state) = (api.servers.database_url().to_owned(), api.state.clone());
        let (address_sender, address) = tokio::sync::oneshot::channel();
        let (measured, stopped) = (Arc::clone(&longest), stop.clone());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                address_sender.send(listener.local_addr().unwrap()).unwrap();
                let state = own(state, url, &stopped);
                tokio::select! {
                    () = serve(listener, state, stopped.clone()) => {}
                    () = probe(&measured) => {}
                }
            });
        });
        Self { address: address.await.unwrap(), longest, stop }
    }

    async fn send(&self, key: &str, method: &str, path: &str, body: &str) -> Answer {
        let key = bearer(key);
        let headers = [("authorization", key.as_str()), ("content-type", "application/json")];
        request(self.address, method, path, &headers, body).await
    }

    /// The longest CPU time without a pause since the last call.
    fn longest(&self) -> Duration {
        Duration::from_micros(self.longest.swap(0, Ordering::Relaxed))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The state with connections of the server's own runtime, and prompts that take a second to build.
fn own(state: State, url: String, stop: &CancellationToken) -> State {
    let config = houston_store::Config {
        url,
        connections: houston_store::Sizes::divide(10, 35, 20),
        acquire_timeout: Duration::from_secs(10),
    };
    let tasks = TaskTracker::new();
    let bus = DeltaBus::start(None, state.ids.next(), &tasks, stop.clone());
    State {
        store: Store::open(&config).unwrap().api(),
        hints: HintSender::start(None, &tasks, stop.clone()),
        redis: bus.health.clone(),
        bus,
        explain: Explain::new(|_, _| {
            Box::pin(async {
                compute();
                Ok(json!({}))
            })
        }),
        ..state
    }
}

async fn probe(longest: &AtomicU64) {
    let mut before = cpu_time();
    loop {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let now = cpu_time();
        longest.fetch_max((now - before).as_micros() as u64, Ordering::Relaxed);
        before = now;
    }
}

/// A document of many small entries.
fn document(api: &TestApi, entries: usize) -> String {
    let at = "2026-01-01T00:00:00Z";
    let entry = |nth: usize| {
        let role = if nth.is_multiple_of(2) { "user" } else { "assistant" };
        json!({"role": role, "content": [{"type": "text", "text": "x"}], "created_at": at})
    };
    let history: Vec<Value> = (0..entries).map(entry).collect();
    let conversation = json!({"format": "houston.conversation", "version": 2, "kind": "goal", "title": "t", "history": history});
    json!({"user_id": api.user, "conversation": conversation}).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_requests_of_one_tenant_do_not_delay_others() {
    let api = TestApi::start().await;
    make_tenant(&api.store, &api.state.ids, "other", OTHER).await;
    let server = Server::start(&api).await;
    for key in [KEY, OTHER] {
        server.send(key, "GET", "/v1/agents", "").await.ok();
    }
    let agent = server.send(KEY, "GET", "/v1/agents", "").await.json()["data"][0]["id"].clone();
    // Slow to compile; the last one is refused.
    let rule = json!({"when": {"regex": r"\w[\w&&\W&&\w]"}, "agent_id": agent});
    let mut rules = vec![rule; 49];
    rules.push(json!({"when": {"regex": r"(\w{50}){50}"}, "agent_id": agent}));
    let team = json!({"name": "slow", "agents": [agent], "router": {"by": "rules", "rules": rules}});
    let numbers = vec![1; 450_000];
    let metadata = json!({"content": "x", "metadata": {"numbers": numbers}});
    let tools = json!({"name": "a", "kind": "goal", "tools": ["x".repeat(1_000_000)]});
    let imported = document(&api, 10_000);
    let goal = server.send(KEY, "POST", "/v1/goals/import", &document(&api, 5_000)).await;
    let goal = format!("/v1/goals/{}", goal.ok()["id"].as_str().unwrap());
    server.longest();
    for (method, path, body, status) in [
        ("POST", "/v1/teams".to_owned(), team.to_string(), 422),
        ("POST", api.path("/messages"), metadata.to_string(), 422),
        ("POST", "/v1/agents".to_owned(), tools.to_string(), 422),
        ("POST", "/v1/goals/import".to_owned(), imported, 201),
        ("GET", format!("{goal}/export"), String::new(), 200),
        ("POST", format!("{goal}/fork"), "{}".to_owned(), 201),
        ("GET", format!("{goal}/prompt"), String::new(), 200),
        ("GET", format!("{goal}/history?limit=100"), String::new(), 200),
        ("GET", format!("{goal}/stats"), String::new(), 200),
    ] {
        let heavy = server.send(KEY, method, &path, &body);
        let (heavy, light) = tokio::join!(heavy, server.send(OTHER, "GET", "/v1/agents", ""));
        light.ok();
        assert_eq!(heavy.status, status, "{path}: {}", heavy.text().chars().take(300).collect::<String>());
        let longest = server.longest();
        assert!(longest < MAX_BLOCKING, "{method} {path} blocked other requests for {longest:?}");
    }
}
