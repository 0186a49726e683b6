//! Webhooks over REST: what is stored, what is refused, and who may do it.

use serde_json::{Value, json};

use crate::test_api::TestApi;

const URL: &str = "https://hooks.acme.com/houston";

async fn create(api: &TestApi, body: Value) -> Value {
    let answer = api.post("/v1/webhooks", body).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()
}

fn id(made: &Value) -> &str {
    made["id"].as_str().unwrap()
}

#[tokio::test]
async fn webhook_is_created_changed_and_deleted() {
    let api = TestApi::start().await;
    let made = create(&api, json!({"url": URL, "topics": ["run.*"], "agentable_id": api.goal})).await;
    let secret = made["secret"].as_str().unwrap();
    assert!(secret.starts_with("whsec_") && secret.len() > 40, "{secret}");
    assert_eq!(made["agentable_id"], api.goal.as_str());
    let path = format!("/v1/webhooks/{}", id(&made));
    let stored = api.get(&path).await.ok();
    assert!(stored.get("secret").is_none());
    assert_eq!(api.get("/v1/webhooks").await.ok()["data"], json!([stored]));
    let in_database = api.sql("select encode(sealed, 'escape') from houston.webhooks");
    assert!(!in_database.contains(&secret[6..]), "it is sealed");

    let changed = api.send("PATCH", &path, json!({"topics": ["**"], "enabled": false})).await.ok();
    assert_eq!((&changed["topics"], &changed["enabled"]), (&json!(["**"]), &json!(false)));
    assert_eq!(changed["url"], URL);
    let rotated = api.post(&format!("{path}/secret"), json!({"old_secret_hours": 1})).await.ok();
    assert_ne!(rotated["secret"], made["secret"]);
    assert!(rotated["old_secret_until"].is_string());
    assert_eq!(api.send("DELETE", &path, json!(null)).await.status, 204);
    api.get(&path).await.refused(404, "not_found");
}

#[tokio::test]
async fn wrong_webhooks_are_refused_with_a_pointer() {
    let api = TestApi::start().await;
    for (pointer, body) in [
        ("/url", json!({"url": "http://hooks.acme.com", "topics": ["**"]})),
        ("/url", json!({"url": "https://127.0.0.1/", "topics": ["**"]})),
        ("/url", json!({"url": "https://169.254.169.254/latest", "topics": ["**"]})),
        ("/url", json!({"url": "https://localhost/", "topics": ["**"]})),
        ("/topics", json!({"url": URL, "topics": []})),
        ("/topics", json!({"url": URL, "topics": vec!["**"; 21]})),
        ("/topics/1", json!({"url": URL, "topics": ["**", "runs.*"]})),
        ("/kind", json!({"url": URL, "topics": ["**"], "kind": "golf"})),
        ("/agentable_id", json!({"url": URL, "topics": ["**"], "agentable_id": "goal_1"})),
        ("/kind", json!({"url": URL, "topics": ["**"], "kind": "task", "agentable_id": api.goal})),
    ] {
        let problem = api.post("/v1/webhooks", body).await.refused(422, "invalid_request");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
    let missing = format!("user_{}", "0".repeat(32));
    let body = json!({"url": URL, "topics": ["**"], "user_id": missing});
    api.post("/v1/webhooks", body).await.refused(404, "not_found");
}

#[tokio::test]
async fn test_event_says_what_the_receiver_answered() {
    let api = TestApi::start().await;
    // The operator allows this address; nothing listens there.
    let made = create(&api, json!({"url": "http://127.0.0.1:9/hook", "topics": ["**"]})).await;
    let tested = api.post(&format!("/v1/webhooks/{}/test", id(&made)), json!(null)).await.ok();
    assert_eq!((&tested["accepted"], &tested["status"]), (&json!(false), &json!(null)));
    assert!(tested["error"].as_str().is_some_and(|error| !error.is_empty()), "{tested}");
}

#[tokio::test]
async fn deliveries_are_listed_and_sent_again() {
    let api = TestApi::start().await;
    let made = create(&api, json!({"url": URL, "topics": ["**"]})).await;
    api.post_message("hello").await;
    let now = api.state.ids.clock().now();
    api.store.runs().fan_out(&api.state.ids, 100, now).await.unwrap();
    let path = format!("/v1/webhooks/{}/deliveries", id(&made));
    let first = api.get(&format!("{path}?limit=1")).await.ok();
    assert_eq!((first["data"].as_array().unwrap().len(), &first["has_more"]), (1, &json!(true)));
    let next = first["next_cursor"].as_str().unwrap();
    let second = api.get(&format!("{path}?cursor={next}")).await.ok();
    let both = [&first["data"][0], &second["data"][0]];
    let mut events =
        both.map(|one| format!("{} {}", one["event_id"].as_str().unwrap(), one["type"].as_str().unwrap()));
    events.sort();
    assert_eq!(events, [format!("{}:1 run.queued", api.goal), format!("{}:2 message.posted", api.goal)]);
    api.sql("update houston.deliveries set state = 'dead'; delete from houston.open_deliveries");
    let dead = api.get(&format!("{path}?state=dead")).await.ok();
    let again = format!("{path}/{}/redeliver", dead["data"][0]["id"].as_str().unwrap());
    assert_eq!(api.post(&again, json!(null)).await.status, 202);
    assert_eq!(api.get(&format!("{path}?state=pending")).await.ok()["data"].as_array().unwrap().len(), 1);
    assert_eq!(api.sql("select count(*) from houston.open_deliveries").trim(), "1");
    api.get(&format!("{path}?state=lost")).await.refused(422, "invalid_request");
    let since = json!({"since": "2026-01-01T00:00:00Z"});
    let replay = format!("/v1/webhooks/{}/replay", id(&made));
    assert_eq!(api.post(&replay, since).await.status, 202);
    while api.store.runs().replay_some(&api.state.ids, 100, now).await.unwrap() {}
    assert_eq!(api.get(&format!("{path}?state=pending")).await.ok()["data"].as_array().unwrap().len(), 2);
}
