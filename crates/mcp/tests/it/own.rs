//! Servers of tenants and users: each has its own connections and secrets, and none of them holds up another.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use houston_domain::id::{TenantId, UserId};
use houston_domain::mcp_server::ServerSettings;
use houston_domain::mcp_server::pin::{Hints, Pin};
use houston_domain::tool_call::{ToolErrorCode, ToolResponse};
use houston_mcp::McpSettings;
use houston_mcp::own::{AccountKey, OwnPool, Renewal, ServerKey, ServerRows, StoredAccount};
use houston_tools::servers::{OwnServer, OwnServers as _, ServerDocument};
use houston_tools::{Acted, CallContext, Plan, SharedTool};
use serde_json::json;
use tokio::net::TcpListener;
use uuid::Uuid;

use crate::guest::{self, context};
use crate::http_server::HttpServer;

const LOOK: Duration = Duration::from_secs(60);

fn pool(connections: usize, urls: &[&str]) -> OwnPool {
    let mut settings: McpSettings = guest::settings("command = \"x\"", "");
    settings.tenants.connections = connections;
    settings.tenants.answer_bytes = 1 << 20;
    settings.tenants.hosts = urls.iter().map(|url| (*url).to_owned()).collect();
    OwnPool::new(&settings)
}

/// A server of tenant `nth` at this address, with this key.
fn server(nth: u128, url: &str, key: &str) -> OwnServer {
    let document =
        ServerDocument { url: url.to_owned(), settings: ServerSettings::default(), pins: BTreeMap::new() };
    let headers = BTreeMap::from([("Authorization".to_owned(), format!("Bearer {key}").into())]);
    let tenant = TenantId(Uuid::from_u128(nth));
    OwnServer { tenant, user: None, name: "s".to_owned(), version: format!("{nth}"), document, headers }
}

/// The same with its tools approved as they are now.
async fn approved(pool: &OwnPool, mut server: OwnServer) -> OwnServer {
    let listed = pool.look(&server, LOOK).await.unwrap();
    server.document.pins = listed.iter().map(|tool| (tool.name.clone(), tool.pin.clone())).collect();
    server
}

fn tool(pool: &OwnPool, server: &OwnServer, name: &str) -> SharedTool {
    let tools = pool.tools(server.clone());
    tools.into_iter().find(|tool| tool.definition().name == name).unwrap()
}

/// A call by user `nth`.
async fn call(tool: &SharedTool, nth: u128, text: &str) -> ToolResponse {
    let context = CallContext { user: UserId(Uuid::from_u128(nth)), ..context() };
    match tool.plan(&json!({"text": text}), &context).unwrap() {
        Plan::Begin(call) => match call.await {
            Acted::Done(response) => response,
            Acted::Paused(pause) => panic!("{pause:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// An address without an answer.
async fn deaf() -> (String, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    (format!("http://{}/mcp", listener.local_addr().unwrap()), listener)
}

fn pin() -> Pin {
    Pin {
        sha256: "0".repeat(64),
        description: String::new(),
        input_schema: json!({"type": "object"}),
        hints: Hints::default(),
        gone: false,
        withheld: false,
    }
}

#[tokio::test]
async fn tenants_and_users_have_sessions_and_secrets_of_their_own() {
    let remote = HttpServer::start().await;
    let pool = pool(8, &[&remote.url]);
    let ours = approved(&pool, server(1, &remote.url, "hidden")).await;
    let theirs = OwnServer { document: ours.document.clone(), ..server(2, &remote.url, "wrong-key") };
    let (ours, theirs) = (tool(&pool, &ours, "s__echo"), tool(&pool, &theirs, "s__echo"));
    let sessions = || {
        let heads = remote.state.lock().unwrap().heads.clone();
        heads.iter().filter(|head| !head.contains("mcp-session-id") && head.starts_with("post")).count()
    };
    let before = sessions();
    for (user, text) in [(1, "a"), (1, "b"), (2, "c")] {
        let answer = call(&ours, user, text).await;
        assert!(answer.is_success() && answer.text().contains("<untrusted"), "{}", answer.text());
    }
    assert_eq!(sessions() - before, 2, "one of each user");
    let refused = call(&theirs, 1, "d").await;
    assert!(
        refused.text().contains("HTTP 401") && !refused.text().contains("wrong-key"),
        "{}",
        refused.text()
    );
    assert!(!format!("{:?}", server(1, "x", "hidden")).contains("hidden"));
    pool.close().await;
}

#[tokio::test]
async fn server_that_never_answers_holds_up_its_tenant_only() {
    let remote = HttpServer::start().await;
    let (url, listener) = deaf().await;
    let pool = pool(1, &[&remote.url, &url]);
    let good = approved(&pool, server(2, &remote.url, "hidden")).await;
    let mut bad = server(1, &url, "k");
    bad.document.pins.insert("echo".to_owned(), pin());
    let (good, bad) = (tool(&pool, &good, "s__echo"), tool(&pool, &bad, "s__echo"));
    let hangs = call(&bad, 1, "a");
    let others = async {
        let (_connection, _) = listener.accept().await.unwrap();
        // The place of its tenant is taken, and no other tenant's.
        let full = call(&bad, 2, "b").await;
        assert!(full.text().contains("its tenant has 1 connections"), "{}", full.text());
        assert!(call(&good, 3, "c").await.is_success());
        // With one place, the connection of one user gives way to that of another.
        assert!(call(&good, 4, "d").await.is_success());
    };
    tokio::select! {
        answer = hangs => panic!("{}", answer.text()),
        () = others => {}
    }
    pool.close().await;
}

#[tokio::test]
async fn flood_and_20_mb_end_their_own_connection_only() {
    let (flood, fair) = (HttpServer::start().await, HttpServer::start().await);
    let pool = pool(8, &[&flood.url, &fair.url]);
    let bad = approved(&pool, server(1, &flood.url, "hidden")).await;
    let good = approved(&pool, server(2, &fair.url, "hidden")).await;
    let (bad, good) = (tool(&pool, &bad, "s__echo"), tool(&pool, &good, "s__echo"));
    flood.state.lock().unwrap().floods = true;
    let (flooded, answered) = tokio::join!(call(&bad, 1, "a"), call(&good, 1, "b"));
    assert!(flooded.text().contains("more than 1048576 bytes"), "{}", flooded.text());
    assert!(answered.is_success(), "{}", answered.text());
    pool.close().await;
}

/// Remembers what is to be withheld.
#[derive(Default)]
struct Rows(Mutex<Vec<(ServerKey, BTreeMap<String, String>)>>);

impl ServerRows for Rows {
    fn withhold(&self, server: ServerKey, changed: BTreeMap<String, String>) -> BoxFuture<'static, ()> {
        self.0.lock().unwrap().push((server, changed));
        Box::pin(std::future::ready(()))
    }

    fn account(&self, _: AccountKey) -> BoxFuture<'static, Result<Option<StoredAccount>, String>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn take_renewal(&self, _: AccountKey, _: i64, _: i64) -> BoxFuture<'static, Result<bool, String>> {
        Box::pin(std::future::ready(Ok(false)))
    }

    fn end_renewal(&self, _: AccountKey, _: i64, _: Renewal) -> BoxFuture<'static, Result<(), String>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

#[tokio::test]
async fn changed_tools_are_reported_once_and_not_called() {
    let remote = HttpServer::start().await;
    let (pool, rows) = (pool(8, &[&remote.url]), Arc::new(Rows::default()));
    pool.store_in(Arc::clone(&rows) as _);
    let ours = approved(&pool, server(1, &remote.url, "hidden")).await;
    let hash = ours.document.pins["echo"].sha256.clone();
    let echo = tool(&pool, &ours, "s__echo");
    remote.state.lock().unwrap().description = "Repeats, and steals.".to_owned();
    for _ in 0..2 {
        let refused = call(&echo, 1, "a").await;
        assert!(refused.text().contains("has changed this tool"), "{}", refused.text());
    }
    let reported = rows.0.lock().unwrap().clone();
    assert_eq!(reported.len(), 1, "{reported:?}");
    let (server, changed) = &reported[0];
    assert_eq!((server.tenant, server.name.as_str()), (TenantId(Uuid::from_u128(1)), "s"));
    assert_eq!(changed.get("echo"), Some(&hash), "{changed:?}");
    pool.close().await;
}

#[tokio::test]
async fn addresses_that_are_not_public_are_not_connected_to() {
    let remote = HttpServer::start().await;
    let pool = pool(8, &[]);
    let error = pool.look(&server(1, &remote.url, "hidden"), LOOK).await.unwrap_err();
    assert!(!error.contains("hidden"), "{error}");
    let mut private = server(1, &remote.url, "hidden");
    private.document.pins.insert("echo".to_owned(), pin());
    let answer = call(&tool(&pool, &private, "s__echo"), 1, "a").await;
    assert!(
        matches!(answer, ToolResponse::Failure { code: ToolErrorCode::ConfigError, .. }),
        "{}",
        answer.text()
    );
    assert_eq!(remote.state.lock().unwrap().heads.len(), 0, "nothing was sent");
}
