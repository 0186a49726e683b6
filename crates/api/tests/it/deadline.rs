//! Responses while Postgres hangs, and that no transaction stays open.

use std::net::SocketAddr;
use std::time::Instant;

use houston_testkit::fault_proxy::Fault;
use serde_json::{Value, json};

use crate::http::{Answer, PATIENCE, Stream, request};
use crate::proxied;
use crate::test_api::{KEY, TestApi, bearer};

async fn send(address: SocketAddr, method: &str, path: &str, body: &Value) -> Answer {
    let key = bearer(KEY);
    let headers =
        [("authorization", key.as_str()), ("content-type", "application/json"), ("idempotency-key", "once")];
    let body = if method == "GET" { String::new() } else { body.to_string() };
    request(address, method, path, &headers, &body).await
}

/// As [`send`], again while a busy machine does not answer in time.
async fn ask(address: SocketAddr, method: &str, path: &str, body: &Value) -> Answer {
    let end = Instant::now() + PATIENCE;
    loop {
        let answer = send(address, method, path, body).await;
        if answer.status != 503 || Instant::now() > end {
            return answer;
        }
    }
}

/// What timed out may have been done, so it is in the audit log.
async fn assert_recorded_as_not_answered(address: SocketAddr, agent: &str) {
    let path = "/v1/audit?operation=delete_agent";
    let recorded = async {
        loop {
            let found = ask(address, "GET", path, &Value::Null).await.ok();
            if let Some(record) = found["data"].get(0) {
                break record.clone();
            }
        }
    };
    let record = tokio::time::timeout(PATIENCE, recorded).await.expect("it is not in the audit log");
    assert_eq!(
        (&record["status"], &record["code"], &record["target"]),
        (&json!(499), &json!("not_answered"), &json!(agent))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_time_out_while_postgres_hangs() {
    let api = TestApi::start().await;
    let (proxy, address) = proxied::start(&api, 10, |config| {
        config.request_timeout_s = 2;
        config.key_cache_s = 3_600;
        config.conversation.timeout_s = 2;
    })
    .await;
    let (goal, messages, events) = (api.path(""), api.path("/messages"), api.path("/events?follow=true"));
    ask(address, "GET", &goal, &Value::Null).await.ok();
    let key = bearer(KEY);
    let mut stream = Stream::open(address, &events, &[("authorization", &key)]).await.unwrap();

    proxy.set(Fault::Stall);
    let hello = json!({"content": "hello"});
    let export = api.path("/export");
    let get = async |path: &str| send(address, "GET", path, &Value::Null).await;
    let no_agent = format!("/v1/agents/agent_{}", "0".repeat(32));
    let (read, posted, exported, opened, probe, deleted) = tokio::join!(
        get(&goal),
        send(address, "POST", &messages, &hello),
        get(&export),
        get(&events),
        get("/readyz"),
        send(address, "DELETE", &no_agent, &Value::Null),
    );
    for answer in [&read, &exported, &opened, &posted, &deleted] {
        answer.refused(503, "timed_out");
        assert_eq!(answer.header("retry-after"), "1");
    }
    assert!(!read.text().contains("Idempotency-Key"), "{}", read.text());
    assert!(posted.text().contains("Idempotency-Key"), "{}", posted.text());
    assert_eq!((probe.status, &probe.json()["checks"]["postgres"]), (503, &json!("slow")));

    // The pending queries reach Postgres now: the message may have been posted, and is posted once.
    proxy.set(Fault::None);
    assert_eq!(ask(address, "POST", &messages, &hello).await.status, 202);
    let thread = ask(address, "GET", &messages, &Value::Null).await.ok();
    assert_eq!(thread["data"].as_array().unwrap().len(), 1, "{thread}");
    stream.until("houston.message.posted").await;
    assert_recorded_as_not_answered(address, no_agent.trim_start_matches("/v1/agents/")).await;
    // More requests at once than there are connections: all connections are usable again.
    let again = (0..30).map(|_| ask(address, "GET", &goal, &Value::Null));
    let all = futures_util::future::join_all(again).await;
    assert!(all.iter().all(|answer| answer.status == 200));
    let open = "select count(*) from pg_stat_activity where state like 'idle in transaction%' and datname = current_database()";
    let none_open = async {
        while api.servers.sql(open).unwrap() != "0" {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, none_open).await.expect("a transaction was left open");
}
