use std::time::Duration;

use houston_api::{State, serve};
use houston_domain::event::Live;
use houston_store::Store;
use tokio::net::TcpListener;

use crate::http::{End, PATIENCE, request};
use crate::test_api::{KEY, TestApi};
use crate::worker::Worker;

#[tokio::test]
async fn stream_survives_an_outage_of_postgres() {
    let mut api = TestApi::start_with_own_postgres(|config| config.heartbeat_ms = 1_000).await;
    api.post_message("hello").await;
    let mut stream = api.stream("", None).await;
    stream.until("houston.message.posted").await;
    api.servers.kill_postgres().unwrap();
    api.publish(Live::Nudge);
    assert_eq!(stream.chunk().await.unwrap(), ":\n".as_bytes(), "the stream stays open");
    // A client that reconnects now gets no error status but a broken connection, so that it tries again.
    let back = api.stream_at(&api.path("/events"), Some("2")).await;
    assert!(back.is_none(), "no status for a client that resumes");
    api.servers.restart_postgres().unwrap();
    let worker = Worker::start(&api).await;
    worker.claim().await.answer("hi").await;
    let (rest, end) = stream.rest().await;
    assert_eq!((rest.last().unwrap().kind(), end), ("RUN_FINISHED", End::Clean));
}

#[tokio::test(flavor = "multi_thread")]
async fn exhausted_connection_pool_is_503_with_retry_after() {
    let api = TestApi::start().await;
    // A server with a single connection, which a request holds that waits for a lock.
    let config = houston_store::Config {
        url: api.servers.database_url().to_owned(),
        connections: houston_store::Sizes::ones(),
        acquire_timeout: Duration::from_millis(100),
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let state = State { store: Store::open(&config).unwrap().api(), ..api.state.clone() };
    tokio_util::task::TaskTracker::new().spawn(serve(listener, state, api.stop.clone()));
    let path = api.path("");
    let key = format!("Bearer {KEY}");
    let headers = [("authorization", key.as_str())];
    let ask = || request(address, "GET", &path, &headers, "");
    // On a busy machine the connection is not open in time.
    while ask().await.status != 200 {}
    let held = "begin; lock table houston.agentables in access exclusive mode; select pg_sleep(600); commit";
    let mut locker = api.servers.psql(held).spawn().unwrap();
    let until = async |what: &str| {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        let count = format!(
            "select count(*) from pg_locks
              where database = (select oid from pg_database where datname = current_database()) and {what}"
        );
        while api.servers.sql(&count).unwrap() != "1" {
            assert!(tokio::time::Instant::now() < deadline, "it never happened: {what}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    until("granted and relation = 'houston.agentables'::regclass and mode = 'AccessExclusiveLock'").await;
    // A request waits for two seconds only, which a busy machine may miss.
    let (first, refused) = loop {
        let mut first = std::pin::pin!(ask());
        tokio::select! {
            _ = &mut first => continue,
            () = until("not granted") => {}
        }
        let (first, refused) = tokio::join!(first, ask());
        if refused.text().contains("unavailable") {
            break (first, refused);
        }
    };
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert_eq!(refused.header("retry-after"), "1");
    let problem = refused.refused(503, "unavailable");
    assert!(problem["detail"].is_string(), "{problem}");
    assert_eq!(first.status, 503, "waiting too long for a lock is 503, too");
    locker.kill().unwrap();
    locker.wait().unwrap();
}

/// An idle time-out, the restart of a pooler, a failover that is over.
#[tokio::test(flavor = "multi_thread")]
async fn closed_connections_cost_no_request() {
    let api = TestApi::start().await;
    let config = houston_store::Config {
        url: api.servers.database_url().to_owned(),
        connections: houston_store::Sizes { requests: 10, ..houston_store::Sizes::ones() },
        acquire_timeout: PATIENCE,
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let state = State { store: Store::open(&config).unwrap().api(), ..api.state.clone() };
    tokio_util::task::TaskTracker::new().spawn(serve(listener, state, api.stop.clone()));
    let key = format!("Bearer {KEY}");
    let headers = [("authorization", key.as_str()), ("content-type", "application/json")];
    let paths = ["", "/messages", "/history", "/state"].map(|rest| api.path(rest));
    let post = api.path("/messages");
    let read = || async {
        let reads = (0..20).map(|nth| request(address, "GET", &paths[nth % paths.len()], &headers, ""));
        futures_util::future::join_all(reads).await
    };
    for _ in 0..3 {
        let before: Vec<u16> = read().await.iter().map(|answer| answer.status).collect();
        let others =
            "pid <> pg_backend_pid() and datname = current_database() and backend_type = 'client backend'";
        api.servers
            .sql(&format!("select pg_terminate_backend(pid, 10000) from pg_stat_activity where {others}"))
            .unwrap();
        let posting = request(address, "POST", &post, &headers, r#"{"content": "hi"}"#);
        let (after, posted) = tokio::join!(read(), posting);
        assert_eq!(posted.status, 202, "{}", posted.text());
        for (answer, before) in after.iter().zip(before) {
            assert_eq!(answer.status, before, "{}", answer.text());
        }
    }
}
