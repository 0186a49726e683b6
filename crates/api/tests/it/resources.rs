use serde_json::json;

use crate::test_api::TestApi;
use crate::worker::Worker;

#[tokio::test]
async fn users_and_goals_are_created_and_read() {
    let api = TestApi::start().await;
    let body = json!({"name": "Grace", "external_id": "g-1", "time_zone": "America/New_York"});
    let made = api.post("/v1/users", body.clone()).await;
    assert_eq!(made.status, 201);
    let user = made.json();
    assert_eq!(made.header("location"), format!("/v1/users/{}", user["id"].as_str().unwrap()));
    assert_eq!(api.get(made.header("location")).await.ok(), user);
    assert_eq!(user["time_zone"], "America/New_York");
    api.post("/v1/users", body).await.refused(409, "already_exists");
    for (body, pointer) in [
        (json!({"name": " "}), "/name"),
        (json!({"name": "x".repeat(201)}), "/name"),
        (json!({"name": "x", "time_zone": "Mars/Base"}), "/time_zone"),
        (json!({"name": "x", "external_id": ""}), "/external_id"),
    ] {
        let problem = api.post("/v1/users", body).await.refused(422, "invalid_request");
        assert_eq!(problem["errors"][0]["pointer"], pointer);
    }

    let agent = user["user_agent_id"].as_str().unwrap();
    let agent = api.get(&format!("/v1/user_agents/{agent}")).await.ok();
    assert_eq!((&agent["user_id"], &agent["status"]), (&user["id"], &json!(null)));

    let made = api.post("/v1/goals", json!({"user_id": user["id"], "title": "Sail"})).await;
    assert_eq!(made.status, 201);
    let goal = made.json();
    assert_eq!((&goal["status"], &goal["description"]), (&json!("waiting"), &json!("")));
    assert_eq!(api.get(made.header("location")).await.ok(), goal);
    let unknown = json!({"user_id": "user_00000000000000000000000000000000", "title": "x"});
    api.post("/v1/goals", unknown).await.refused(404, "not_found");
    let problem = api.post("/v1/goals", json!({"user_id": "me", "title": "x"})).await;
    assert_eq!(problem.refused(422, "invalid_request")["errors"][0]["pointer"], "/user_id");
}

#[tokio::test]
async fn repeated_creation_gets_an_identical_response() {
    let api = TestApi::start().await;
    let bodies = [
        ("/v1/users", json!({"name": "Grace", "external_id": "g-1"})),
        ("/v1/goals", json!({"user_id": api.user, "title": "Sail", "description": "ä"})),
    ];
    for (path, body) in bodies {
        let key = format!("key for {path}");
        let first = api.post_with(path, &[("idempotency-key", &key)], body.clone()).await;
        assert_eq!((first.status, first.header("idempotent-replayed")), (201, ""));
        let quoted = format!("\"{key}\"");
        let again = api.post_with(path, &[("idempotency-key", &quoted)], body.clone()).await;
        assert_eq!((again.status, again.header("idempotent-replayed")), (201, "true"));
        assert_eq!((&first.body, first.header("location")), (&again.body, again.header("location")));
        let mut other = body;
        other["name"] = json!("other");
        other["title"] = json!("other");
        other
            .as_object_mut()
            .unwrap()
            .retain(|field, _| field != if path == "/v1/users" { "title" } else { "name" });
        let reused = api.post_with(path, &[("idempotency-key", &key)], other).await;
        reused.refused(422, "idempotency_key_reused");
    }
    let long = "k".repeat(256);
    let refused = api.post_with("/v1/users", &[("idempotency-key", &long)], json!({"name": "x"})).await;
    refused.refused(422, "invalid_idempotency_key");
}

#[tokio::test]
async fn history_is_paged_oldest_first() {
    let api = TestApi::start().await;
    api.post_message("hello").await;
    let worker = Worker::start(&api).await;
    let mut run = worker.claim().await;
    run.use_tool("hm").await;
    run.answer("done").await;
    let first = api.get(&api.path("/history?limit=3")).await.ok();
    assert_eq!(first["has_more"], true);
    let roles: Vec<_> = first["data"].as_array().unwrap().iter().map(|entry| entry["role"].clone()).collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
    assert_eq!(first["data"][0]["content"][0], json!({"type": "text", "text": "hello"}));
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = api.get(&api.path(&format!("/history?cursor={cursor}"))).await.ok();
    assert_eq!((&rest["has_more"], &rest["next_cursor"]), (&json!(false), &json!(null)));
    assert_eq!(rest["data"][0]["content"][0]["text"], "done");
    assert_eq!(rest["data"].as_array().unwrap().len(), 1);
}
