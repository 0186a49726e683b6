//! What clients are told while Postgres hangs, and that nothing of it stays behind.

use std::net::SocketAddr;

use houston_testkit::fault_proxy::Fault;
use serde_json::{Value, json};

use crate::app::{App, KEY, bearer};
use crate::http::{Answer, PATIENCE, Stream, request};
use crate::proxied;

async fn send(address: SocketAddr, method: &str, path: &str, body: &Value) -> Answer {
    let key = bearer(KEY);
    let headers =
        [("authorization", key.as_str()), ("content-type", "application/json"), ("idempotency-key", "once")];
    let body = if method == "GET" { String::new() } else { body.to_string() };
    request(address, method, path, &headers, &body).await
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_answered_while_postgres_hangs() {
    let app = App::start().await;
    let (proxy, address) = proxied::start(&app, 10, |config| {
        config.request_timeout_s = 2;
        config.conversation.timeout_s = 2;
    })
    .await;
    let (goal, messages, events) = (app.path(""), app.path("/messages"), app.path("/events?follow=true"));
    send(address, "GET", &goal, &Value::Null).await.ok();
    let key = bearer(KEY);
    let mut stream = Stream::open(address, &events, &[("authorization", &key)]).await.unwrap();

    proxy.set(Fault::Stall);
    let hello = json!({"content": "hello"});
    let export = app.path("/export");
    let get = async |path: &str| send(address, "GET", path, &Value::Null).await;
    let (read, posted, exported, opened, probe) = tokio::join!(
        get(&goal),
        send(address, "POST", &messages, &hello),
        get(&export),
        get(&events),
        get("/readyz"),
    );
    for answer in [&read, &exported, &opened, &posted] {
        answer.refused(503, "timed_out");
        assert_eq!(answer.header("retry-after"), "1");
    }
    assert!(!read.text().contains("Idempotency-Key"), "{}", read.text());
    assert!(posted.text().contains("Idempotency-Key"), "{}", posted.text());
    assert_eq!((probe.status, &probe.json()["checks"]["postgres"]), (503, &json!("slow")));

    // What was sent arrives now: the message may be posted already, and is posted once.
    proxy.set(Fault::None);
    assert_eq!(send(address, "POST", &messages, &hello).await.status, 202);
    let thread = get(&messages).await.ok();
    assert_eq!(thread["data"].as_array().unwrap().len(), 1, "{thread}");
    stream.until("houston.message.posted").await;
    // More requests at once than there are connections: all of them serve again.
    let all = futures_util::future::join_all((0..30).map(|_| get(&goal))).await;
    assert!(all.iter().all(|answer| answer.status == 200));
    let open = "select count(*) from pg_stat_activity where state like 'idle in transaction%' and datname = current_database()";
    let none_open = async {
        while app.servers.sql(open).unwrap() != "0" {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, none_open).await.expect("a transaction was left open");
}
