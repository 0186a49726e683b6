//! Conversations as a whole, and why an agentable does what it does: what is refused, and to whom.

use serde_json::{Value, json};

use crate::app::{App, bearer, make_tenant};
use crate::http::request;
use crate::worker::Worker;

/// What is asked of a conversation.
const READ: [&str; 5] = ["/export", "/stats", "/state", "/prompt", "/tools"];

async fn said(app: &App, text: &str) {
    app.say(text).await;
    Worker::start(app).await.claim().await.answer("Gladly").await;
}

#[tokio::test]
async fn what_belongs_to_another_tenant_does_not_exist() {
    let app = App::start().await;
    said(&app, "hello").await;
    let exported = app.get(&app.path("/export")).await.ok();
    let stranger = "hou_other_0123456789abcdef";
    make_tenant(&app.state, "other", stranger).await;
    for rest in READ {
        let answer = app.get_with(&app.path(rest), &[("authorization", &bearer(stranger))]).await;
        answer.refused(404, "not_found");
        assert_eq!(app.get(&app.path(rest)).await.status, 200, "{rest}");
    }
    for rest in ["/fork", "/reset"] {
        app.send_as(stranger, "POST", &app.path(rest), json!({})).await.refused(404, "not_found");
    }
    let body = json!({"user_id": app.user, "conversation": exported});
    app.send_as(stranger, "POST", "/v1/goals/import", body.clone()).await.refused(404, "not_found");
    assert_eq!(app.send("POST", "/v1/goals/import", body).await.status, 201);
    let hex = &app.goal["goal_".len()..];
    app.get(&format!("/v1/tasks/task_{hex}/export")).await.refused(404, "not_found");
}

#[tokio::test]
async fn a_body_that_says_nothing_may_be_left_out_and_any_other_is_read() {
    let app = App::start().await;
    said(&app, "hello").await;
    let key = bearer(crate::app::KEY);
    let post = async |rest: &str, kind: Option<&str>, body: &str| {
        let mut headers = vec![("authorization", key.as_str())];
        headers.extend(kind.map(|kind| ("content-type", kind)));
        request(app.address, "POST", &app.path(rest), &headers, body).await
    };
    let fork = post("/fork", None, "").await;
    assert_eq!(fork.status, 201, "{}", fork.text());
    let copy = fork.header("location").to_owned();
    assert_eq!(app.get(&copy).await.ok()["title"], "Learn Rust");
    assert_eq!(app.get(&format!("{copy}/export")).await.ok(), app.get(&app.path("/export")).await.ok());
    post("/fork", Some("text/plain"), "{}").await.refused(415, "unsupported_media_type");
    let json = Some("application/json");
    assert_eq!(post("/fork", json, " null\n").await.status, 201, "it says nothing, too");
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
    let first = app.post_with(&app.path("/fork"), &key, json!({})).await;
    let again = app.post_with(&app.path("/fork"), &key, json!({})).await;
    assert_eq!((again.header("idempotent-replayed"), &again.body), ("true", &first.body));
    app.post_with(&app.path("/fork"), &key, json!({"position": 1}))
        .await
        .refused(422, "idempotency_key_reused");
    assert_eq!(app.get(&app.path("/reset")).await.refused(405, "method_not_allowed")["status"], 405);
    assert_eq!(post("/reset", None, "").await.ok()["closed_entries"], 2);
    assert_eq!(post("/reset", None, "").await.ok()["closed_entries"], 0, "once more does nothing more");
}

#[tokio::test]
async fn what_is_too_long_to_be_held_is_told_so() {
    let app = App::start_with(|config| config.conversation.max_bytes = 4_000).await;
    said(&app, "hello").await;
    let exported = app.get(&app.path("/export")).await.ok();
    let body = |document: &Value| json!({"user_id": app.user, "conversation": document});
    assert_eq!(app.post("/v1/goals/import", body(&exported)).await.status, 201);
    let mut long = exported;
    long["description"] = json!("x".repeat(4_000));
    let told = app.post("/v1/goals/import", body(&long)).await.refused(413, "body_too_large");
    assert!(told["detail"].as_str().unwrap().contains("4000"), "{told}");
    said(&app, &"y".repeat(3_000)).await;
    for answer in [app.get(&app.path("/export")).await, app.post(&app.path("/fork"), json!({})).await] {
        let told = answer.refused(413, "too_large");
        assert!(told["detail"].as_str().unwrap().contains("4000"), "{told}");
    }
}

#[tokio::test]
async fn only_what_people_begin_is_made_of_a_document() {
    let app = App::start().await;
    let mut document = app.get(&app.path("/export")).await.ok();
    document["kind"] = json!("task");
    let body = json!({"user_id": app.user, "conversation": document});
    let told = app.post("/v1/tasks/import", body.clone()).await.refused(409, "not_creatable");
    assert!(told["detail"].as_str().unwrap().contains("an agent begins it"), "{told}");
    let told = app.post("/v1/goals/import", body.clone()).await.refused(422, "invalid_request");
    assert_eq!(told["errors"][0]["pointer"], "/conversation/kind", "{told}");
    app.post("/v1/unicorns/import", body).await.refused(404, "not_found");
    let body = json!({"user_id": app.user, "conversation": {"messages": []}});
    let told = app.post("/v1/goals/import", body).await.refused(422, "invalid_request");
    assert_eq!(told["errors"][0]["pointer"], "/conversation/format", "{told}");
}

#[tokio::test]
async fn a_state_says_what_it_waits_for_and_the_engine_is_asked_the_rest() {
    let app = App::start().await;
    let state = app.get(&app.path("/state")).await.ok();
    assert_eq!((&state["run"], &state["status"]), (&Value::Null, &json!("waiting")), "{state}");
    assert!(state["diagnosis"][0].as_str().unwrap().contains("when a message comes"), "{state}");
    app.say("hello").await;
    let state = app.get(&app.path("/state")).await.ok();
    assert_eq!((&state["wake"], &state["unread"]), (&json!(true), &json!(1)), "{state}");
    assert!(state["diagnosis"][0].as_str().unwrap().contains("none lives"), "{state}");
    let worker = Worker::start(&app).await;
    let driven = worker.claim().await;
    let state = app.get(&app.path("/state")).await.ok();
    assert_eq!((&state["holder"]["worker"], &state["epoch"]), (&json!(worker.id), &json!(1)), "{state}");
    assert_eq!((&state["run"]["status"], &state["holder"]["name"]), (&json!("running"), &Value::Null));
    driven.answer("Gladly").await;
    let stats = app.get(&app.path("/stats")).await.ok();
    assert_eq!((&stats["entries"], &stats["messages"]["count"]), (&json!(2), &json!(2)), "{stats}");
    for (rest, question) in [("/prompt", "Prompt"), ("/tools", "Tools")] {
        let told = app.get(&app.path(rest)).await.ok();
        assert_eq!(told, json!({"asked": question, "title": "Learn Rust"}));
    }
}
