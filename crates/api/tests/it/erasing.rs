//! Erasing over HTTP: from the 202 on nothing of it is found, and the erasure says how far it is.

use houston_store::erasure::sweep::Swept;
use serde_json::{Value, json};

use crate::app::{App, KEY, make_tenant};
use crate::http::End;
use crate::worker::Worker;

/// Every path below an agentable that reads something.
const BELOW: [&str; 14] = [
    "",
    "/messages",
    "/events",
    "/history",
    "/runs",
    "/sessions",
    "/compressions",
    "/notes",
    "/learnings",
    "/tasks",
    "/check-ins",
    "/export",
    "/stats",
    "/state",
];

async fn delete(app: &App, path: &str) -> Value {
    let answer = app.send("DELETE", path, Value::Null).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    let erasure = answer.json();
    assert_eq!(answer.header("location"), format!("/v1/erasures/{}", erasure["id"].as_str().unwrap()));
    erasure
}

async fn sweep(app: &App) {
    while app.state.store.erase_some(2).await.unwrap() != Swept::Nothing {}
}

async fn made(app: &App, path: &str, body: Value) -> String {
    let answer = app.post(path, body).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.header("location").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erased_goal_is_not_found_from_the_answer_on() {
    let app = App::start().await;
    let other = app.make_goal("Sail").await;
    let note = made(&app, &app.path("/notes"), json!({"title": "Milk", "content": "Buy it"})).await;
    let learning = made(&app, &app.path("/learnings"), json!({"content": "likes trains"})).await;
    let said = app.say("hello").await;
    let worker = Worker::start(&app).await;
    let run = worker.claim().await;
    let mut stream = app.stream("?follow=true", None).await;
    stream.until("RUN_STARTED").await;

    let erasure = delete(&app, &app.path("")).await;
    assert_eq!((&erasure["status"], &erasure["resource_id"]), (&json!("running"), &json!(app.goal)));
    assert_eq!(erasure["resource"], "goal");
    for rest in BELOW {
        app.get(&app.path(rest)).await.refused(404, "not_found");
    }
    let message = format!("/v1/messages/{}", said["id"].as_str().unwrap());
    let of_run = format!("/v1/runs/{}", said["run_id"].as_str().unwrap());
    for path in [&note, &learning, &message, &of_run, &format!("{of_run}/model_calls")] {
        app.get(path).await.refused(404, "not_found");
    }
    app.send("PATCH", &note, json!({"content": "x"})).await.refused(404, "not_found");
    app.send("DELETE", &note, Value::Null).await.refused(404, "not_found");
    let posts = [
        ("/messages", json!({"content": "hello?"})),
        ("/notes", json!({"title": "x", "content": "x"})),
        ("/check-ins", json!({"in_minutes": 60 * 24, "reason": "x"})),
        ("/fork", json!({})),
        ("/archive", json!({})),
    ];
    for (rest, body) in posts {
        app.post(&app.path(rest), body).await.refused(404, "not_found");
    }
    let (_, end) = stream.rest().await;
    assert_eq!(end, End::Aborted, "its client comes back, and is told 404");
    assert!(!app.state.store.is_held(&run.claimed.fence).await.unwrap(), "a zombie writes nothing");

    assert_eq!(delete(&app, &app.path("")).await["id"], erasure["id"], "asked again, it is the same");
    sweep(&app).await;
    let path = format!("/v1/erasures/{}", erasure["id"].as_str().unwrap());
    let done = app.get(&path).await.ok();
    assert_eq!((&done["status"], &done["deleted"]["notes"]), (&json!("completed"), &json!(1)));
    assert!(
        done["completed_at"].is_string() && done["api_key_id"].as_str().unwrap().starts_with("key_"),
        "{done}"
    );
    assert_eq!(app.get("/v1/erasures").await.ok()["data"], json!([done]));
    let goals = app.get("/v1/goals").await.ok();
    assert_eq!(goals["data"].as_array().unwrap().len(), 1);
    assert_eq!(goals["data"][0]["id"], json!(other));
    let stranger = "hou_other_0123456789abcdef";
    make_tenant(&app.state, "other", stranger).await;
    app.send_as(stranger, "GET", &path, Value::Null).await.refused(404, "not_found");
    for key in [stranger, KEY] {
        let status = app.send_as(key, "DELETE", &format!("/v1/goals/{other}"), Value::Null).await.status;
        assert_eq!(status, if key == KEY { 202 } else { 404 });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erased_user_takes_all_along_and_frees_the_external_id() {
    let app = App::start().await;
    let path = format!("/v1/users/{}", app.user);
    app.send("PATCH", &path, json!({"external_id": "ada"})).await.ok();
    let below = |rest: &str| format!("{path}/{rest}");
    let items = [
        made(&app, &below("memories"), json!({"content": "likes trains"})).await,
        made(&app, &below("custom-instructions"), json!({"content": "Be brief"})).await,
        made(&app, &below("feed"), json!({"title": "News", "content": "none"})).await,
    ];
    let key = [("idempotency-key", "grace")];
    let body = json!({"user_id": app.user, "title": "Sail"});
    app.post_with("/v1/goals", &key, body.clone()).await.ok();
    delete(&app, &path).await;
    for path in
        items.iter().cloned().chain([path.clone(), below("memories"), below("profile"), below("costs")])
    {
        app.get(&path).await.refused(404, "not_found");
    }
    for path in &items {
        app.send("DELETE", path, Value::Null).await.refused(404, "not_found");
    }
    app.get(&app.path("")).await.refused(404, "not_found");
    app.post("/v1/goals", body.clone()).await.refused(404, "not_found");
    app.post(&below("memories"), json!({"content": "x"})).await.refused(404, "not_found");
    let again = app.post("/v1/users", json!({"name": "Ada", "external_id": "ada"})).await;
    assert_eq!(again.status, 201, "{}", again.text());
    sweep(&app).await;
    app.post_with("/v1/goals", &key, body).await.refused(404, "not_found");
    assert_eq!(app.sql("select count(*) from houston.users"), "1");
    app.send("DELETE", "/v1/users/user_00000000000000000000000000000000", Value::Null)
        .await
        .refused(404, "not_found");
}
