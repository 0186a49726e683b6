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
async fn costs_are_shown_as_decimals_of_calls_runs_agentables_and_users() {
    let app = App::start().await;
    let message = app.say("hello").await;
    let run = format!("/v1/runs/{}", message["run_id"].as_str().unwrap());
    let user = format!("/v1/users/{}", app.user);
    let of = |shown: serde_json::Value, name: &str| (shown[name].clone(), shown["unpriced_calls"].clone());
    assert_eq!(of(app.get(&run).await.ok(), "cost"), (json!("0"), json!(0)));
    Worker::start(&app).await.claim().await.answer("hi").await;
    assert_eq!(of(app.get(&run).await.ok(), "cost"), (json!("0.0015"), json!(0)));
    let goal = app.get(&format!("/v1/goals/{}", app.goal)).await.ok();
    assert_eq!(of(goal, "cost"), (json!("0.0015"), json!(0)));
    assert_eq!(of(app.get(&user).await.ok(), "total_llm_cost"), (json!("0.0015"), json!(0)));

    let calls = app.get(&format!("{run}/model_calls")).await.ok();
    assert_eq!(calls["data"].as_array().unwrap().len(), 1);
    let call = &calls["data"][0];
    assert_eq!((&call["cost"], &call["cost_source"]), (&json!("0.0015"), &json!("provider")));
    assert_eq!((&call["model"], &call["usage"]["input_tokens"]), (&json!("fast"), &json!(10)));
    let costs = app.get(&format!("{user}/costs")).await.ok();
    assert_eq!(of(costs.clone(), "total_llm_cost"), (json!("0.0015"), json!(0)));
    let day = &costs["days"][0];
    assert_eq!((&day["cost"], &day["model_calls"]), (&json!("0.0015"), &json!(1)));
    assert!(day["day"].as_str().unwrap().parse::<chrono::NaiveDate>().is_ok());
    let nobody = "user_00000000000000000000000000000000";
    app.get(&format!("/v1/users/{nobody}/costs")).await.refused(404, "not_found");
    app.get("/v1/runs/run_00000000000000000000000000000000/model_calls").await.refused(404, "not_found");
}

#[tokio::test]
async fn what_nobody_knows_the_cost_of_is_null_and_counted() {
    let app = App::start().await;
    let message = app.say("hello").await;
    let run = format!("/v1/runs/{}", message["run_id"].as_str().unwrap());
    let worker = Worker::start(&app).await;
    let mut claimed = worker.claim().await;
    claimed.unpriced = true;
    claimed.answer("hi").await;
    for path in [run, format!("/v1/goals/{}", app.goal)] {
        let shown = app.get(&path).await.ok();
        assert_eq!((&shown["cost"], &shown["unpriced_calls"]), (&json!(null), &json!(1)), "{path}");
    }
    let user = app.get(&format!("/v1/users/{}", app.user)).await.ok();
    assert_eq!((&user["total_llm_cost"], &user["unpriced_calls"]), (&json!(null), &json!(1)));
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
