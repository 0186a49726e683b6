use houston_domain::event::Live;
use houston_domain::run::RunStatus;
use houston_queue::Received;
use serde_json::json;

use crate::app::App;
use crate::worker::Worker;

#[tokio::test]
async fn a_run_shows_what_it_did() {
    let app = App::start().await;
    let message = app.say("hello").await;
    let path = format!("/v1/runs/{}", message["run_id"].as_str().unwrap());
    let queued = app.get(&path).await.ok();
    assert_eq!((&queued["status"], &queued["goal_id"]), (&json!("queued"), &json!(app.goal)));
    let worker = Worker::start(&app).await;
    let run = worker.claim().await;
    assert_eq!(app.get(&path).await.ok()["status"], "running");
    run.end(RunStatus::Failed, Some(("TIMEOUT", "too slow"))).await;
    let failed = app.get(&path).await.ok();
    assert_eq!(failed["error"], json!({"code": "TIMEOUT", "message": "too slow"}));
    assert_eq!((&failed["usage"]["input_tokens"], &failed["model"]), (&json!(10), &json!("simulated/fast")));
    assert!(failed["ended_at"].is_string());
}

#[tokio::test]
async fn a_run_is_cancelled_once_however_often_it_is_asked_for() {
    let app = App::start().await;
    let message = app.say("hello").await;
    let run_id = message["run_id"].as_str().unwrap();
    let path = format!("/v1/runs/{run_id}/cancel");
    let worker = Worker::start(&app).await;
    let run = worker.claim().await;
    let mut control = app.state.bus.subscribe_control();
    for _ in 0..2 {
        let asked = app.post(&path, json!({})).await;
        assert_eq!((asked.status, &asked.json()["cancel_requested"]), (202, &json!(true)));
        let Received::Item(item) = control.recv().await else { panic!("lagged") };
        assert_eq!((item.agentable, &item.live), (app.agentable(), &Live::CancelRequested(run.run())));
    }
    assert_eq!(app.state.store.cancelled_runs_of(worker.id).await.unwrap(), [(app.agentable(), run.run())]);
    run.end(RunStatus::Cancelled, None).await;
    let over = app.post(&path, json!({})).await;
    assert_eq!((over.status, &over.json()["status"]), (202, &json!("cancelled")));
}

#[tokio::test]
async fn a_run_that_is_over_cannot_be_cancelled() {
    let app = App::start().await;
    let message = app.say("hello").await;
    let worker = Worker::start(&app).await;
    worker.claim().await.answer("hi").await;
    let path = format!("/v1/runs/{}/cancel", message["run_id"].as_str().unwrap());
    let problem = app.post(&path, json!({})).await.refused(409, "invalid_state");
    assert_eq!(problem["current_status"], "message_sent");
    app.post("/v1/runs/run_00000000000000000000000000000000/cancel", json!({}))
        .await
        .refused(404, "not_found");
}
