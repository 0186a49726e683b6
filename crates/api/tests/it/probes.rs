use houston_api::{State, serve};
use houston_store::Store;
use serde_json::json;
use tokio::net::TcpListener;

use crate::app::App;
use crate::http::{Answer, End, PATIENCE, request};

/// Asks until the answer is as expected: what is asked about happens elsewhere.
async fn readyz(app: &App, expected: impl Fn(&Answer) -> bool) -> Answer {
    let asking = async {
        loop {
            let answer = app.get_with("/readyz", &[]).await;
            if expected(&answer) {
                return answer;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.expect("readyz did not change")
}

#[tokio::test]
async fn probes_are_open_and_tell_the_mode() {
    let mut app = App::start_with_own_postgres(|_| {}).await;
    for path in ["/livez", "/healthz", "/version"] {
        assert_eq!(app.get_with(path, &[]).await.status, 200, "{path}");
    }
    let ready = readyz(&app, |answer| answer.json()["checks"]["redis"] == "hints").await;
    let checks = json!({"postgres": "ok", "schema": "ok", "disk": "ok", "redis": "hints"});
    assert_eq!(ready.ok(), json!({"status": "ready", "checks": checks, "draining": false}));

    app.servers.kill_redis().unwrap();
    let polling = readyz(&app, |answer| answer.json()["checks"]["redis"] != "hints").await;
    assert_eq!(polling.ok()["checks"]["redis"], "polling postgres each second");

    app.servers.kill_postgres().unwrap();
    let away = readyz(&app, |answer| answer.status == 503).await.json();
    assert_eq!((&away["status"], &away["checks"]["postgres"]), (&json!("not_ready"), &json!("unavailable")));
    let refused = app.post(&app.path("/messages"), json!({"content": "x"})).await;
    refused.refused(503, "unavailable");
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(app.get_with("/livez", &[]).await.status, 200);
    app.servers.restart_postgres().unwrap();
    readyz(&app, |answer| answer.status == 200).await;
}

#[tokio::test]
async fn draining_turns_balancers_away_aborts_streams_and_answers_the_rest() {
    let mut app = App::start().await;
    app.say("hello").await;
    let mut stream = app.stream("", None).await;
    stream.until("houston.message.posted").await;
    app.state.draining.cancel();
    assert_eq!(stream.rest().await, (vec![], End::Aborted));
    if let Some(mut late) = app.stream_at(&app.path("/events"), None).await {
        assert_eq!(late.rest().await, (vec![], End::Aborted));
    }
    let drained = app.get_with("/readyz", &[]).await;
    assert_eq!((drained.status, &drained.json()["draining"]), (503, &json!(true)));
    app.say("still answered").await;

    app.stop.cancel();
    tokio::time::timeout(PATIENCE, app.ended.take().unwrap()).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_stop_aborts_streams_and_ends() {
    let mut app = App::start().await;
    let mut stream = app.stream("", None).await;
    app.stop.cancel();
    assert_eq!(stream.rest().await, (vec![], End::Aborted));
    tokio::time::timeout(PATIENCE, app.ended.take().unwrap()).await.unwrap().unwrap();
}

#[tokio::test]
async fn readyz_turns_red_when_postgres_cannot_write() {
    let app = App::start().await;
    // For new sessions Postgres has no room for temporary files: that stands for a full disk.
    let set = |what: &str| {
        app.servers
            .sql(&format!(
                "do $$ begin execute format('alter database %I {what}', current_database()); end $$"
            ))
            .unwrap();
    };
    set("set temp_file_limit = 64");
    let config = houston_store::Config {
        url: app.servers.database_url().to_owned(),
        max_connections: 2,
        acquire_timeout: PATIENCE,
    };
    let state = State { store: Store::open(&config).unwrap(), ..app.state.clone() };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio_util::task::TaskTracker::new().spawn(serve(listener, state, app.stop.clone()));
    let readyz = async || request(address, "GET", "/readyz", &[], "").await;
    let red = readyz().await;
    assert_eq!((red.status, &red.json()["checks"]["disk"]), (503, &json!("full")), "{}", red.text());
    assert_eq!(red.json()["checks"]["postgres"], "ok");

    set("reset temp_file_limit");
    let others = "pid <> pg_backend_pid() and datname = current_database()";
    app.servers
        .sql(&format!("select pg_terminate_backend(pid) from pg_stat_activity where {others}"))
        .unwrap();
    let green = async {
        while readyz().await.status != 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, green).await.expect("readyz stays red");
}
