//! The worst that one tenant can send, and that the server's threads are free for others meanwhile.
//!
//! The server has one thread here, and a probe on it that wakes each millisecond: what the thread computes from one wake
//! to the next is what a request of somebody else waits for. CPU time, not wall-clock time: other processes do not count.

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

use crate::app::{App, KEY, bearer, make_tenant};
use crate::http::{Answer, request};

const OTHER: &str = "hou_other_0123456789abcdef";
/// What a debug build may compute at once, where a release build takes a tenth of it.
const MOST: Duration = Duration::from_millis(100);

fn cpu_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

/// Computes for a second.
fn compute() {
    let began = cpu_time();
    while cpu_time() - began < Duration::from_secs(1) {
        std::hint::spin_loop();
    }
}

/// A server on a thread of its own.
struct Server {
    address: SocketAddr,
    /// The longest time it computed at once, in µs.
    longest: Arc<AtomicU64>,
    stop: CancellationToken,
}

impl Server {
    async fn start(app: &App) -> Self {
        let (longest, stop) = (Arc::new(AtomicU64::new(0)), CancellationToken::new());
        let (url, state) = (app.servers.database_url().to_owned(), app.state.clone());
        let (told, address) = tokio::sync::oneshot::channel();
        let (measured, stopped) = (Arc::clone(&longest), stop.clone());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                told.send(listener.local_addr().unwrap()).unwrap();
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

    /// The longest time it computed at once since this was asked before.
    fn longest(&self) -> Duration {
        Duration::from_micros(self.longest.swap(0, Ordering::Relaxed))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The state with connections of the server's own runtime, and prompts that take a second to put together.
fn own(state: State, url: String, stop: &CancellationToken) -> State {
    let config = houston_store::Config { url, max_connections: 10, acquire_timeout: Duration::from_secs(10) };
    let tasks = TaskTracker::new();
    let bus = DeltaBus::start(None, state.ids.next(), &tasks, stop.clone());
    State {
        store: Store::open(&config).unwrap(),
        hints: HintSender::start(None, &tasks, stop.clone()),
        redis: bus.health().clone(),
        bus,
        explain: Explain::by(|_, _| {
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
fn document(app: &App, entries: usize) -> String {
    let at = "2026-01-01T00:00:00Z";
    let entry = |nth: usize| {
        let role = if nth.is_multiple_of(2) { "user" } else { "assistant" };
        json!({"role": role, "content": [{"type": "text", "text": "x"}], "created_at": at})
    };
    let history: Vec<Value> = (0..entries).map(entry).collect();
    let conversation = json!({"format": "houston.conversation", "version": 2, "kind": "goal", "title": "t", "history": history});
    json!({"user_id": app.user, "conversation": conversation}).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_worst_of_one_tenant_holds_up_no_other() {
    let app = App::start().await;
    make_tenant(&app.state, "other", OTHER).await;
    let server = Server::start(&app).await;
    for key in [KEY, OTHER] {
        server.send(key, "GET", "/v1/agents", "").await.ok();
    }
    let agent = server.send(KEY, "GET", "/v1/agents", "").await.json()["data"][0]["id"].clone();
    // Slow to compile, and refused at last.
    let rule = json!({"when": {"regex": r"\w[\w&&\W&&\w]"}, "agent_id": agent});
    let mut rules = vec![rule; 49];
    rules.push(json!({"when": {"regex": r"(\w{50}){50}"}, "agent_id": agent}));
    let team = json!({"name": "slow", "agents": [agent], "router": {"by": "rules", "rules": rules}});
    let numbers = vec![1; 450_000];
    let metadata = json!({"content": "x", "metadata": {"numbers": numbers}});
    let tools = json!({"name": "a", "kind": "goal", "tools": ["x".repeat(1_000_000)]});
    let imported = document(&app, 10_000);
    let goal = server.send(KEY, "POST", "/v1/goals/import", &document(&app, 5_000)).await;
    let goal = format!("/v1/goals/{}", goal.ok()["id"].as_str().unwrap());
    server.longest();
    for (method, path, body, status) in [
        ("POST", "/v1/teams".to_owned(), team.to_string(), 422),
        ("POST", app.path("/messages"), metadata.to_string(), 422),
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
        assert!(longest < MOST, "{method} {path} held up others for {longest:?}");
    }
}
