//! Erasing over HTTP: nothing is found after the 202, and the erasure reports its progress.

use houston_store::erasure::sweep::Swept;
use serde_json::{Value, json};

use crate::http::End;
use crate::test_api::{KEY, TestApi, make_tenant};
use crate::worker::Worker;

/// Every path below an agentable that can be read.
const BELOW: [&str; 15] = [
    "",
    "/messages",
    "/events",
    "/history",
    "/runs",
    "/sessions",
    "/compressions",
    "/notes",
    "/learnings",
    "/files",
    "/tasks",
    "/check-ins",
    "/export",
    "/stats",
    "/state",
];

async fn delete(api: &TestApi, path: &str) -> Value {
    let answer = api.send("DELETE", path, Value::Null).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    let erasure = answer.json();
    assert_eq!(answer.header("location"), format!("/v1/erasures/{}", erasure["id"].as_str().unwrap()));
    erasure
}

async fn sweep(api: &TestApi) {
    while api.store.runs().erase_some(2).await.unwrap() != Swept::Nothing {}
}

async fn made(api: &TestApi, path: &str, body: Value) -> String {
    let answer = api.post(path, body).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.header("location").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn erased_goal_is_not_found_after_the_202() {
    let api = TestApi::start().await;
    let other = api.make_goal("Sail").await;
    let note = made(&api, &api.path("/notes"), json!({"title": "Milk", "content": "Buy it"})).await;
    let learning = made(&api, &api.path("/learnings"), json!({"content": "likes trains"})).await;
    let said = api.post_message("hello").await;
    let worker = Worker::start(&api).await;
    let run = worker.claim().await;
    let mut stream = api.stream("?follow=true", None).await;
    stream.until("RUN_STARTED").await;

    let erasure = delete(&api, &api.path("")).await;
    assert_eq!((&erasure["status"], &erasure["resource_id"]), (&json!("running"), &json!(api.goal)));
    assert_eq!(erasure["resource"], "goal");
    for rest in BELOW {
        api.get(&api.path(rest)).await.refused(404, "not_found");
    }
    let message = format!("/v1/messages/{}", said["id"].as_str().unwrap());
    let of_run = format!("/v1/runs/{}", said["run_id"].as_str().unwrap());
    for path in [&note, &learning, &message, &of_run, &format!("{of_run}/model_calls")] {
        api.get(path).await.refused(404, "not_found");
    }
    api.send("PATCH", &note, json!({"content": "x"})).await.refused(404, "not_found");
    api.send("DELETE", &note, Value::Null).await.refused(404, "not_found");
    let posts = [
        ("/messages", json!({"content": "hello?"})),
        ("/notes", json!({"title": "x", "content": "x"})),
        ("/check-ins", json!({"in_minutes": 60 * 24, "reason": "x"})),
        ("/fork", json!({})),
        ("/archive", json!({})),
    ];
    for (rest, body) in posts {
        api.post(&api.path(rest), body).await.refused(404, "not_found");
    }
    let (_, end) = stream.rest().await;
    assert_eq!(end, End::Aborted, "the stream is aborted; its client reconnects and gets 404");
    assert!(!api.store.runs().is_held(&run.claimed.fence).await.unwrap(), "a zombie writes nothing");

    assert_eq!(
        delete(&api, &api.path("")).await["id"],
        erasure["id"],
        "a repeated request returns the same erasure"
    );
    sweep(&api).await;
    let path = format!("/v1/erasures/{}", erasure["id"].as_str().unwrap());
    let done = api.get(&path).await.ok();
    assert_eq!((&done["status"], &done["deleted"]["notes"]), (&json!("completed"), &json!(1)));
    assert!(
        done["completed_at"].is_string() && done["api_key_id"].as_str().unwrap().starts_with("key_"),
        "{done}"
    );
    assert_eq!(api.get("/v1/erasures").await.ok()["data"], json!([done]));
    let goals = api.get("/v1/goals").await.ok();
    assert_eq!(goals["data"].as_array().unwrap().len(), 1);
    assert_eq!(goals["data"][0]["id"], json!(other));
    let stranger = "hou_other_0123456789abcdef";
    make_tenant(&api.store, &api.state.ids, "other", stranger).await;
    api.send_as(stranger, "GET", &path, Value::Null).await.refused(404, "not_found");
    for key in [stranger, KEY] {
        let status = api.send_as(key, "DELETE", &format!("/v1/goals/{other}"), Value::Null).await.status;
        assert_eq!(status, if key == KEY { 202 } else { 404 });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn erasing_a_user_erases_all_and_frees_the_external_id() {
    let api = TestApi::start().await;
    let path = format!("/v1/users/{}", api.user);
    api.send("PATCH", &path, json!({"external_id": "ada"})).await.ok();
    let below = |rest: &str| format!("{path}/{rest}");
    let items = [
        made(&api, &below("memories"), json!({"content": "likes trains"})).await,
        made(&api, &below("custom-instructions"), json!({"content": "Be brief"})).await,
        made(&api, &below("feed"), json!({"title": "News", "content": "none"})).await,
    ];
    let key = [("idempotency-key", "grace")];
    let body = json!({"user_id": api.user, "title": "Sail"});
    api.post_with("/v1/goals", &key, body.clone()).await.ok();
    delete(&api, &path).await;
    for path in
        items.iter().cloned().chain([path.clone(), below("memories"), below("profile"), below("costs")])
    {
        api.get(&path).await.refused(404, "not_found");
    }
    for path in &items {
        api.send("DELETE", path, Value::Null).await.refused(404, "not_found");
    }
    api.get(&api.path("")).await.refused(404, "not_found");
    api.post("/v1/goals", body.clone()).await.refused(404, "not_found");
    api.post(&below("memories"), json!({"content": "x"})).await.refused(404, "not_found");
    let again = api.post("/v1/users", json!({"name": "Ada", "external_id": "ada"})).await;
    assert_eq!(again.status, 201, "{}", again.text());
    sweep(&api).await;
    api.post_with("/v1/goals", &key, body).await.refused(404, "not_found");
    assert_eq!(api.sql("select count(*) from houston.users"), "1");
    api.send("DELETE", "/v1/users/user_00000000000000000000000000000000", Value::Null)
        .await
        .refused(404, "not_found");
}
