use houston_domain::event::Live;
use houston_domain::run::RunStatus;
use houston_queue::Received;
use serde_json::json;

use crate::test_api::TestApi;
use crate::worker::Worker;

#[tokio::test]
async fn run_response_has_status_usage_and_error() {
    let api = TestApi::start().await;
    let message = api.post_message("hello").await;
    let path = format!("/v1/runs/{}", message["run_id"].as_str().unwrap());
    let queued = api.get(&path).await.ok();
    assert_eq!((&queued["status"], &queued["goal_id"]), (&json!("queued"), &json!(api.goal)));
    let worker = Worker::start(&api).await;
    let run = worker.claim().await;
    assert_eq!(api.get(&path).await.ok()["status"], "running");
    run.end(RunStatus::Failed, Some(("TIMEOUT", "too slow"))).await;
    let failed = api.get(&path).await.ok();
    assert_eq!(failed["error"], json!({"code": "TIMEOUT", "message": "too slow"}));
    assert_eq!((&failed["usage"]["input_tokens"], &failed["model"]), (&json!(10), &json!("simulated/fast")));
    assert!(failed["ended_at"].is_string());
}

#[tokio::test]
async fn costs_are_decimals_of_calls_runs_goals_and_users() {
    let api = TestApi::start().await;
    let message = api.post_message("hello").await;
    let run = format!("/v1/runs/{}", message["run_id"].as_str().unwrap());
    let user = format!("/v1/users/{}", api.user);
    let of = |run: serde_json::Value, name: &str| (run[name].clone(), run["unpriced_calls"].clone());
    assert_eq!(of(api.get(&run).await.ok(), "cost"), (json!("0"), json!(0)));
    assert_eq!(of(api.get(&user).await.ok(), "total_llm_cost"), (json!("0"), json!(0)), "nothing spent yet");
    Worker::start(&api).await.claim().await.answer("hi").await;
    assert_eq!(of(api.get(&run).await.ok(), "cost"), (json!("0.0015"), json!(0)));
    let goal = api.get(&format!("/v1/goals/{}", api.goal)).await.ok();
    assert_eq!(of(goal, "cost"), (json!("0.0015"), json!(0)));
    assert_eq!(of(api.get(&user).await.ok(), "total_llm_cost"), (json!("0.0015"), json!(0)));

    let calls = api.get(&format!("{run}/model_calls")).await.ok();
    assert_eq!(calls["data"].as_array().unwrap().len(), 1);
    let call = &calls["data"][0];
    assert_eq!((&call["cost"], &call["cost_source"]), (&json!("0.0015"), &json!("provider")));
    assert_eq!((&call["model"], &call["usage"]["input_tokens"]), (&json!("fast"), &json!(10)));
    let costs = api.get(&format!("{user}/costs")).await.ok();
    assert_eq!(of(costs.clone(), "total_llm_cost"), (json!("0.0015"), json!(0)));
    let day = &costs["days"][0];
    assert_eq!((&day["cost"], &day["model_calls"]), (&json!("0.0015"), &json!(1)));
    assert!(day["day"].as_str().unwrap().parse::<chrono::NaiveDate>().is_ok());
    let unknown = "user_00000000000000000000000000000000";
    api.get(&format!("/v1/users/{unknown}/costs")).await.refused(404, "not_found");
    api.get("/v1/runs/run_00000000000000000000000000000000/model_calls").await.refused(404, "not_found");
}

#[tokio::test]
async fn unknown_cost_is_null_and_counted() {
    let api = TestApi::start().await;
    let message = api.post_message("hello").await;
    let run = format!("/v1/runs/{}", message["run_id"].as_str().unwrap());
    let worker = Worker::start(&api).await;
    let mut claimed = worker.claim().await;
    claimed.unpriced = true;
    claimed.answer("hi").await;
    for path in [run, format!("/v1/goals/{}", api.goal)] {
        let run = api.get(&path).await.ok();
        assert_eq!((&run["cost"], &run["unpriced_calls"]), (&json!(null), &json!(1)), "{path}");
    }
    let user = api.get(&format!("/v1/users/{}", api.user)).await.ok();
    assert_eq!((&user["total_llm_cost"], &user["unpriced_calls"]), (&json!(null), &json!(1)));
}

#[tokio::test]
async fn cancelling_a_run_is_idempotent() {
    let api = TestApi::start().await;
    let message = api.post_message("hello").await;
    let run_id = message["run_id"].as_str().unwrap();
    let path = format!("/v1/runs/{run_id}/cancel");
    let worker = Worker::start(&api).await;
    let run = worker.claim().await;
    let mut control = api.state.bus.subscribe_control();
    for _ in 0..2 {
        let asked = api.post(&path, json!({})).await;
        assert_eq!((asked.status, &asked.json()["cancel_requested"]), (202, &json!(true)));
        let Received::Item(item) = control.recv().await else { panic!("lagged") };
        assert_eq!((item.agentable, &item.live), (api.agentable(), &Live::CancelRequested(run.run())));
    }
    assert_eq!(api.store.runs().cancelled_runs_of(worker.id).await.unwrap(), [(api.agentable(), run.run())]);
    run.end(RunStatus::Cancelled, None).await;
    let over = api.post(&path, json!({})).await;
    assert_eq!((over.status, &over.json()["status"]), (202, &json!("cancelled")));
}

#[tokio::test]
async fn ended_run_cannot_be_cancelled() {
    let api = TestApi::start().await;
    let message = api.post_message("hello").await;
    let worker = Worker::start(&api).await;
    worker.claim().await.answer("hi").await;
    let path = format!("/v1/runs/{}/cancel", message["run_id"].as_str().unwrap());
    let problem = api.post(&path, json!({})).await.refused(409, "invalid_state");
    assert_eq!(problem["current_status"], "message_sent");
    api.post("/v1/runs/run_00000000000000000000000000000000/cancel", json!({}))
        .await
        .refused(404, "not_found");
}
