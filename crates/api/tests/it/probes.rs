use std::time::Instant;

use houston_api::{State, serve};
use houston_store::Store;
use serde_json::json;
use tokio::net::TcpListener;

use crate::http::{Answer, End, PATIENCE, request};
use crate::test_api::TestApi;

/// Repeats the probe until the response is as expected.
async fn readyz(api: &TestApi, expected: impl Fn(&Answer) -> bool) -> Answer {
    let end = Instant::now() + PATIENCE;
    loop {
        let answer = api.get_with("/readyz", &[]).await;
        if expected(&answer) {
            return answer;
        }
        assert!(Instant::now() < end, "readyz did not change: {}", answer.text());
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn probes_need_no_key_and_report_the_mode() {
    let mut api = TestApi::start_with_own_postgres(|_| {}).await;
    for path in ["/livez", "/healthz", "/version"] {
        assert_eq!(api.get_with(path, &[]).await.status, 200, "{path}");
    }
    let ready =
        readyz(&api, |answer| answer.status == 200 && answer.json()["checks"]["redis"] == "hints").await;
    let checks = json!({"postgres": "ok", "schema": "ok", "disk": "ok", "redis": "hints"});
    assert_eq!(ready.ok(), json!({"status": "ready", "checks": checks, "draining": false}));

    api.servers.kill_redis().unwrap();
    // On a busy machine a check may find Postgres slow.
    let is_polling = |answer: &Answer| answer.status == 200 && answer.json()["checks"]["redis"] != "hints";
    let polling = readyz(&api, is_polling).await;
    assert_eq!(polling.ok()["checks"]["redis"], "polling postgres each second");

    api.servers.kill_postgres().unwrap();
    let away = readyz(&api, |answer| answer.json()["checks"]["postgres"] == "unavailable").await;
    assert_eq!((away.status, &away.json()["status"]), (503, &json!("not_ready")));
    // No connection is left, so that the pool tries to connect.
    for _ in 0..=api.store.connections(houston_store::Purpose::Requests).free {
        readyz(&api, |answer| answer.json()["checks"]["postgres"] == "unavailable").await;
    }
    let refused = api.post(&api.path("/messages"), json!({"content": "x"})).await;
    refused.refused(503, "unavailable");
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(api.get_with("/livez", &[]).await.status, 200);
    api.servers.restart_postgres().unwrap();
    readyz(&api, |answer| answer.status == 200).await;
}

#[tokio::test]
async fn draining_fails_readyz_aborts_streams_answers_requests() {
    let mut api = TestApi::start().await;
    api.post_message("hello").await;
    let mut stream = api.stream("", None).await;
    stream.until("houston.message.posted").await;
    api.state.draining.cancel();
    assert_eq!(stream.rest().await, (vec![], End::Aborted));
    if let Some(mut late) = api.stream_at(&api.path("/events"), None).await {
        assert_eq!(late.rest().await, (vec![], End::Aborted));
    }
    let drained = api.get_with("/readyz", &[]).await;
    assert_eq!((drained.status, &drained.json()["draining"]), (503, &json!(true)));
    api.post_message("still answered").await;

    api.stop.cancel();
    tokio::time::timeout(PATIENCE, api.ended.take().unwrap()).await.unwrap().unwrap();
}

#[tokio::test]
async fn stop_aborts_streams_and_ends_the_server() {
    let mut api = TestApi::start().await;
    let mut stream = api.stream("", None).await;
    api.stop.cancel();
    assert_eq!(stream.rest().await, (vec![], End::Aborted));
    tokio::time::timeout(PATIENCE, api.ended.take().unwrap()).await.unwrap().unwrap();
}

#[tokio::test]
async fn readyz_is_503_when_postgres_cannot_write() {
    let api = TestApi::start().await;
    // New sessions have no space for temporary files: this simulates a full disk.
    let set = |what: &str| {
        api.servers
            .sql(&format!(
                "do $$ begin execute format('alter database %I {what}', current_database()); end $$"
            ))
            .unwrap();
    };
    set("set temp_file_limit = 64");
    let config = houston_store::Config {
        url: api.servers.database_url().to_owned(),
        connections: houston_store::Sizes::ones(),
        acquire_timeout: PATIENCE,
    };
    let state = State { store: Store::open(&config).unwrap().api(), ..api.state.clone() };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio_util::task::TaskTracker::new().spawn(serve(listener, state, api.stop.clone()));
    let readyz = async || request(address, "GET", "/readyz", &[], "").await;
    let red = async {
        loop {
            let answer = readyz().await;
            if answer.json()["checks"]["disk"] == "full" {
                break answer;
            }
        }
    };
    let red = tokio::time::timeout(PATIENCE, red).await.expect("the disk is not full");
    assert_eq!(red.status, 503, "{}", red.text());
    assert_eq!(red.json()["checks"]["postgres"], "ok");

    set("reset temp_file_limit");
    let others = "pid <> pg_backend_pid() and datname = current_database()";
    api.servers
        .sql(&format!("select pg_terminate_backend(pid) from pg_stat_activity where {others}"))
        .unwrap();
    let green = async {
        while readyz().await.status != 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, green).await.expect("readyz stays red");
}

#[tokio::test]
async fn process_stays_ready_when_a_newer_release_migrates() {
    let api = TestApi::start().await;
    readyz(&api, |answer| answer.status == 200).await;
    let newer = "insert into houston.migrations (version, description, success, checksum, execution_time)
                 values (99990101000000, 'from the future', true, '', 0)";
    api.servers.sql(newer).unwrap();
    let ready = readyz(&api, |answer| answer.json()["checks"]["schema"] == "newer than this binary").await;
    assert_eq!(ready.ok()["status"], "ready");
    // That one, and the newest of this release.
    let older = "delete from houston.migrations
                  where version in (select version from houston.migrations order by version desc limit 2)";
    api.servers.sql(older).unwrap();
    let older = readyz(&api, |answer| answer.json()["checks"]["schema"] == "older than this binary").await;
    assert_eq!(older.status, 503);
}
