use serde_json::json;

use crate::app::App;
use crate::http::{Answer, End, PATIENCE};

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
    let mut app = App::start().await;
    for path in ["/livez", "/healthz", "/version"] {
        assert_eq!(app.get_with(path, &[]).await.status, 200, "{path}");
    }
    let ready = readyz(&app, |answer| answer.json()["checks"]["redis"] == "hints").await;
    let checks = json!({"postgres": "ok", "schema": "ok", "redis": "hints"});
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
