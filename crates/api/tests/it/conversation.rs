//! Whole conversations and debugging views: errors, and resources of other tenants.

use serde_json::{Value, json};

use crate::http::request;
use crate::test_api::{TestApi, bearer, make_tenant};
use crate::worker::Worker;

/// Paths below an agentable that read a conversation or its debugging views.
const READ: [&str; 5] = ["/export", "/stats", "/state", "/prompt", "/tools"];

async fn said(api: &TestApi, text: &str) {
    api.post_message(text).await;
    Worker::start(api).await.claim().await.answer("Gladly").await;
}

#[tokio::test]
async fn resources_of_another_tenant_are_not_found() {
    let api = TestApi::start().await;
    said(&api, "hello").await;
    let exported = api.get(&api.path("/export")).await.ok();
    let stranger = "hou_other_0123456789abcdef";
    make_tenant(&api.store, &api.state.ids, "other", stranger).await;
    for rest in READ {
        let answer = api.get_with(&api.path(rest), &[("authorization", &bearer(stranger))]).await;
        answer.refused(404, "not_found");
        assert_eq!(api.get(&api.path(rest)).await.status, 200, "{rest}");
    }
    for rest in ["/fork", "/reset"] {
        api.send_as(stranger, "POST", &api.path(rest), json!({})).await.refused(404, "not_found");
    }
    let body = json!({"user_id": api.user, "conversation": exported});
    api.send_as(stranger, "POST", "/v1/goals/import", body.clone()).await.refused(404, "not_found");
    assert_eq!(api.send("POST", "/v1/goals/import", body).await.status, 201);
    let hex = &api.goal["goal_".len()..];
    api.get(&format!("/v1/tasks/task_{hex}/export")).await.refused(404, "not_found");
}

#[tokio::test]
async fn optional_body_may_be_missing_or_null_else_is_validated() {
    let api = TestApi::start().await;
    said(&api, "hello").await;
    let key = bearer(crate::test_api::KEY);
    let post = async |rest: &str, kind: Option<&str>, body: &str| {
        let mut headers = vec![("authorization", key.as_str())];
        headers.extend(kind.map(|kind| ("content-type", kind)));
        request(api.address, "POST", &api.path(rest), &headers, body).await
    };
    let fork = post("/fork", None, "").await;
    assert_eq!(fork.status, 201, "{}", fork.text());
    let copy = fork.header("location").to_owned();
    assert_eq!(api.get(&copy).await.ok()["title"], "Learn Rust");
    assert_eq!(api.get(&format!("{copy}/export")).await.ok(), api.get(&api.path("/export")).await.ok());
    post("/fork", Some("text/plain"), "{}").await.refused(415, "unsupported_media_type");
    let json = Some("application/json");
    assert_eq!(post("/fork", json, " null\n").await.status, 201, "null is like no body");
    for (rest, body, pointer) in [
        ("/fork", r#"{"positon": 1}"#, "/positon"),
        ("/fork", r#"{"position": "1"}"#, "/position"),
        ("/fork", r#"{"position": 0}"#, "/position"),
        ("/fork", r#"{"title": " "}"#, "/title"),
        ("/reset", r#"{"knowledge": "yes"}"#, "/knowledge"),
    ] {
        let problem = post(rest, json, body).await.refused(422, "invalid_request");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
    let key = [("idempotency-key", "fork")];
    let first = api.post_with(&api.path("/fork"), &key, json!({})).await;
    let again = api.post_with(&api.path("/fork"), &key, json!({})).await;
    assert_eq!((again.header("idempotent-replayed"), &again.body), ("true", &first.body));
    api.post_with(&api.path("/fork"), &key, json!({"position": 1}))
        .await
        .refused(422, "idempotency_key_reused");
    assert_eq!(api.get(&api.path("/reset")).await.refused(405, "method_not_allowed")["status"], 405);
    assert_eq!(post("/reset", None, "").await.ok()["closed_entries"], 2);
    assert_eq!(post("/reset", None, "").await.ok()["closed_entries"], 0, "a second reset closes nothing");
}

#[tokio::test]
async fn refused_reset_names_the_open_run() {
    let api = TestApi::start().await;
    let posted = api.post_message("hello").await;
    let problem = api.post(&api.path("/reset"), json!({})).await.refused(409, "run_in_progress");
    assert_eq!(problem["run_id"], posted["run_id"], "{problem}");
}

#[tokio::test]
async fn too_large_conversations_are_refused_with_the_limit() {
    let api = TestApi::start_with(|config| config.conversation.max_bytes = 4_000).await;
    said(&api, "hello").await;
    let exported = api.get(&api.path("/export")).await.ok();
    let body = |document: &Value| json!({"user_id": api.user, "conversation": document});
    assert_eq!(api.post("/v1/goals/import", body(&exported)).await.status, 201);
    let mut long = exported;
    long["description"] = json!("x".repeat(4_000));
    let problem = api.post("/v1/goals/import", body(&long)).await.refused(413, "body_too_large");
    assert!(problem["detail"].as_str().unwrap().contains("4000"), "{problem}");
    said(&api, &"y".repeat(3_000)).await;
    for answer in [api.get(&api.path("/export")).await, api.post(&api.path("/fork"), json!({})).await] {
        let problem = answer.refused(413, "too_large");
        assert!(problem["detail"].as_str().unwrap().contains("4000"), "{problem}");
    }
}

#[tokio::test]
async fn only_user_creatable_kinds_can_be_imported() {
    let api = TestApi::start().await;
    let mut document = api.get(&api.path("/export")).await.ok();
    document["kind"] = json!("task");
    let body = json!({"user_id": api.user, "conversation": document});
    let problem = api.post("/v1/tasks/import", body.clone()).await.refused(409, "not_creatable");
    assert!(problem["detail"].as_str().unwrap().contains("only agents create it"), "{problem}");
    let problem = api.post("/v1/goals/import", body.clone()).await.refused(422, "invalid_request");
    assert_eq!(problem["errors"][0]["pointer"], "/conversation/kind", "{problem}");
    api.post("/v1/unicorns/import", body).await.refused(404, "not_found");
    let body = json!({"user_id": api.user, "conversation": {"messages": []}});
    let problem = api.post("/v1/goals/import", body).await.refused(422, "invalid_request");
    assert_eq!(problem["errors"][0]["pointer"], "/conversation/format", "{problem}");
}

#[tokio::test]
async fn state_has_a_diagnosis_prompt_and_tools_come_from_the_engine() {
    let api = TestApi::start().await;
    let state = api.get(&api.path("/state")).await.ok();
    assert_eq!((&state["run"], &state["status"]), (&Value::Null, &json!("waiting")), "{state}");
    assert!(state["diagnosis"][0].as_str().unwrap().contains("when a message arrives"), "{state}");
    api.post_message("hello").await;
    let state = api.get(&api.path("/state")).await.ok();
    assert_eq!((&state["wake"], &state["unread"]), (&json!(true), &json!(1)), "{state}");
    assert!(state["diagnosis"][0].as_str().unwrap().contains("no worker is alive"), "{state}");
    let worker = Worker::start(&api).await;
    let test_run = worker.claim().await;
    let state = api.get(&api.path("/state")).await.ok();
    assert_eq!((&state["holder"]["worker"], &state["epoch"]), (&json!(worker.id), &json!(1)), "{state}");
    assert_eq!((&state["run"]["status"], &state["holder"]["name"]), (&json!("running"), &Value::Null));
    test_run.answer("Gladly").await;
    let stats = api.get(&api.path("/stats")).await.ok();
    assert_eq!((&stats["entries"], &stats["messages"]["count"]), (&json!(2), &json!(2)), "{stats}");
    for (rest, question) in [("/prompt", "Prompt"), ("/tools", "Tools")] {
        let explained = api.get(&api.path(rest)).await.ok();
        assert_eq!(explained, json!({"asked": question, "title": "Learn Rust"}));
    }
}
