//! A connection to a server in memory, with a clock that jumps: no time limit depends on the speed of the machine.

use std::path::PathBuf;

use rmcp::model::JsonObject;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};

use super::*;
use crate::surroundings::Surroundings;

const CALL: Duration = Duration::from_secs(60);

fn shared() -> Shared {
    let surroundings = Surroundings { path: None, homes: PathBuf::new(), variable: |_| None };
    Shared::new(surroundings, 1)
}

/// A connection to a server that answers with what `answer` makes of a method, its parameters, and how often it was called.
async fn connected(
    answer: impl FnMut(&str, &Value, usize) -> Option<Value> + Send + 'static,
) -> Result<Arc<Connection>, StartError> {
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let shared = shared();
    shared.tracker.spawn(serve(theirs, answer));
    let way = Way {
        transport: tokio::io::split(ours),
        is_modern: false,
        process: None,
        too_large: Arc::default(),
        place: None,
    };
    let limits = Limits { call: CALL, idle: Duration::from_hours(24), message_bytes: 1 << 20 };
    Connection::open(way, limits, &shared).await
}

async fn serve(
    stream: DuplexStream,
    mut answer: impl FnMut(&str, &Value, usize) -> Option<Value> + Send + 'static,
) {
    let (from, mut to) = tokio::io::split(stream);
    let mut lines = BufReader::new(from).lines();
    let mut calls = std::collections::BTreeMap::<String, usize>::new();
    while let Ok(Some(line)) = lines.next_line().await {
        let message: Value = serde_json::from_str(&line).unwrap();
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let nth = calls.entry(method.clone()).or_default();
        *nth += 1;
        let result = match method.as_str() {
            "initialize" => Some(json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "s", "version": "1"},
            })),
            method => answer(method, &message["params"], *nth),
        };
        if let Some(notification) = result.as_ref().and_then(|result| result.get("method")) {
            let text = format!("{}\n", json!({"jsonrpc": "2.0", "method": notification}));
            to.write_all(text.as_bytes()).await.unwrap();
        } else if let Some(error) = result.as_ref().and_then(|result| result.get("error")) {
            let text = format!("{}\n", json!({"jsonrpc": "2.0", "id": message["id"], "error": error}));
            to.write_all(text.as_bytes()).await.unwrap();
        } else if let Some(result) = result {
            let text = format!("{}\n", json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
            to.write_all(text.as_bytes()).await.unwrap();
        }
    }
}

fn tools(names: &[&str]) -> Value {
    let tool = |name: &&str| json!({"name": name, "inputSchema": {"type": "object"}});
    json!({"tools": names.iter().map(tool).collect::<Vec<_>>()})
}

/// The names of the tools that a connection knows now.
async fn names(connection: &Connection) -> Vec<String> {
    let listed = connection.tools(Instant::now() + CALL).await.unwrap();
    listed.iter().map(|tool| tool.name.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn list_is_asked_for_again_whatever_its_server_promises() {
    let connection = connected(|_, _, nth| {
        let mut list = tools(if nth == 1 { &["old"] } else { &["new"] });
        (list["ttlMs"], list["cacheScope"]) = (json!(86_400_000), json!("private"));
        Some(list)
    });
    let connection = connection.await.unwrap();
    assert_eq!(names(&connection).await, ["old"]);
    tokio::time::advance(LISTED_FOR).await;
    assert_eq!(names(&connection).await, ["new"]);
}

#[tokio::test(start_paused = true)]
async fn old_list_is_not_used_while_or_after_the_new_one_fails() {
    let connection = connected(|_, _, nth| match nth {
        1 => Some(tools(&["old"])),
        // The second question is never answered, and the third is refused.
        2 => None,
        3 => Some(json!({"error": {"code": -32603, "message": "not now"}})),
        _ => Some(tools(&["new"])),
    });
    let connection = connection.await.unwrap();
    connection.heard.changes.fetch_add(1, Ordering::Relaxed);
    let given_up = timeout(Duration::from_secs(1), connection.tools(Instant::now() + CALL)).await;
    assert!(given_up.is_err());
    let refused = connection.tools(Instant::now() + CALL).await.unwrap_err();
    assert_eq!(refused, CallError::List("Mcp error: -32603: not now".to_owned()));
    assert_eq!(names(&connection).await, ["new"]);
}

#[tokio::test(start_paused = true)]
async fn list_without_end_is_refused() {
    let endless = connected(|_, _, _| Some(json!({"tools": [], "nextCursor": "more"}))).await;
    let error = endless.err().unwrap().to_string();
    assert!(error.contains("100 pages"), "{error}");
    let many: Vec<String> = (0..300).map(|nth| format!("t{nth}")).collect();
    let large = connected(move |_, params, _| {
        let mut page = tools(&many.iter().map(String::as_str).collect::<Vec<_>>());
        if params["cursor"].is_null() {
            page["nextCursor"] = json!("2");
        }
        Some(page)
    });
    let error = large.await.err().unwrap().to_string();
    assert!(error.contains("more than 500 tools"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn pages_of_a_list_are_put_together() {
    let connection = connected(|_, params, _| {
        let mut page = tools(if params["cursor"].is_null() { &["a", "b"] } else { &["c"] });
        if params["cursor"].is_null() {
            page["nextCursor"] = json!("2");
        }
        Some(page)
    });
    assert_eq!(names(&connection.await.unwrap()).await, ["a", "b", "c"]);
}

fn hang() -> Request {
    let (tool, key) = ("hang".to_owned(), "k".to_owned());
    Request {
        tool,
        arguments: JsonObject::new(),
        key,
        again: None,
        progress: houston_tools::Progress::default(),
    }
}

/// A server with one tool that answers no call, and pings only if it `pongs`.
async fn silent(pongs: bool) -> Arc<Connection> {
    let connection = connected(move |method, _, _| match method {
        "tools/list" => Some(tools(&["hang"])),
        "ping" if pongs => Some(json!({})),
        _ => None,
    });
    connection.await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn server_that_answers_a_ping_stays_after_a_call_timed_out() {
    let connection = silent(true).await;
    let begun = Instant::now();
    let answer = connection.begin().unwrap().call(hang(), begun + CALL).await;
    assert_eq!(answer.unwrap_err(), CallError::Timeout(60));
    assert_eq!(begun.elapsed().as_secs(), 60);
    assert!(timeout(PING * 2, connection.ended()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn server_that_answers_nothing_is_ended() {
    let connection = silent(false).await;
    let in_use = connection.begin().unwrap();
    let answer = in_use.call(hang(), Instant::now() + CALL).await;
    assert_eq!(answer.unwrap_err(), CallError::Timeout(60));
    timeout(PING * 2, connection.ended()).await.unwrap();
    let why = connection.begin().err().unwrap();
    assert!(matches!(&why, Ended::Failed { reason, .. } if reason.contains("ping")), "{why:?}");
}
