//! Check-ins and feeds on request: errors and idempotency.

use serde_json::{Value, json};

use crate::test_api::{TestApi, make_tenant};
use crate::worker::Worker;

const DAY: i64 = 24 * 60;

#[tokio::test]
async fn check_in_is_created_once_listed_and_deleted() {
    let api = TestApi::start().await;
    let path = api.path("/check-ins");
    let body = json!({"in_minutes": DAY, "reason": "Look at prices"});
    let key = [("idempotency-key", "prices")];
    let first = api.post_with(&path, &key, body.clone()).await;
    assert_eq!(first.status, 201, "{}", first.text());
    let set = first.json();
    assert_eq!((&set["reason"], &set["goal_id"]), (&json!("Look at prices"), &json!(api.goal)));
    let at = |field: &str| set[field].as_str().unwrap().parse::<chrono::DateTime<chrono::Utc>>().unwrap();
    // Times at night move to the morning; the row is created a moment after its time was computed.
    let wait = (at("due_at") - at("created_at") + chrono::TimeDelta::seconds(10)).num_minutes();
    assert!((DAY..DAY + 10 * 60).contains(&wait), "{set}");
    let again = api.post_with(&path, &key, body).await;
    assert_eq!((again.header("idempotent-replayed"), &again.body), ("true", &first.body));
    let other = json!({"in_minutes": DAY, "reason": "Look at something else"});
    api.post_with(&path, &key, other).await.refused(422, "idempotency_key_reused");
    assert_eq!(api.get(&path).await.ok()["data"], json!([set]), "the list has the same");

    let at = (at("created_at") + chrono::TimeDelta::days(3)).format("%Y-%m-%dT12:00:00Z").to_string();
    let noon = api.post(&path, json!({"at": at, "reason": "Look again"})).await;
    assert_eq!(
        (noon.status, &noon.json()["due_at"]),
        (201, &json!(at.replace("Z", ".000Z"))),
        "{}",
        noon.text()
    );
    let id = set["id"].as_str().unwrap();
    assert_eq!(api.send("DELETE", &format!("/v1/check-ins/{id}"), Value::Null).await.status, 204);
    let replayed = api.post_with(&path, &key, json!({"in_minutes": DAY, "reason": "Look at prices"})).await;
    assert_eq!(replayed.body, first.body, "a deleted check-in is not created again");
}

#[tokio::test]
async fn invalid_check_in_is_refused_with_a_reason() {
    let api = TestApi::start().await;
    let path = api.path("/check-ins");
    let long = "x".repeat(2_001);
    for (body, pointer, words) in [
        (json!({"reason": "Look"}), "/at", "exactly one of `at` and `in_minutes`"),
        (
            json!({"at": "2027-01-04T09:00", "in_minutes": 5, "reason": "Look"}),
            "/at",
            "exactly one of `at` and `in_minutes`",
        ),
        (json!({"at": "tomorrow", "reason": "Look"}), "/at", "2026-11-23T09:00:00Z"),
        (json!({"at": "2020-01-01T09:00:00Z", "reason": "Look"}), "/at", "at least 5 minutes away"),
        (json!({"in_minutes": 4, "reason": "Look"}), "/in_minutes", "at least 5 minutes away"),
        (json!({"in_minutes": 91 * DAY, "reason": "Look"}), "/in_minutes", "at most 90 days away"),
        (json!({"in_minutes": -4, "reason": "Look"}), "/in_minutes", "u32"),
        (json!({"in_minutes": DAY}), "/reason", "missing"),
        (json!({"in_minutes": DAY, "reason": " "}), "/reason", "empty"),
        (json!({"in_minutes": DAY, "reason": long}), "/reason", "2000 are allowed"),
        (json!({"in_minutes": DAY, "reason": "a\u{0}"}), "/reason", "U+0000"),
        (json!({"in_minutes": DAY, "reason": "Look", "every": "day"}), "/every", "unknown field"),
    ] {
        let refused = api.post_with(&path, &[("idempotency-key", "wrong")], body).await;
        let problem = refused.refused(422, "invalid_request");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
        assert!(problem["errors"][0]["detail"].as_str().unwrap().contains(words), "{problem}");
    }
    let body = |reason: &str| json!({"in_minutes": DAY, "reason": reason});
    let stranger = "hou_other_0123456789abcdef";
    make_tenant(&api.store, &api.state.ids, "other", stranger).await;
    api.send_as(stranger, "POST", &path, body("Look")).await.refused(404, "not_found");
    let task = format!("/v1/tasks/task_{}/check-ins", &api.goal["goal_".len()..]);
    api.post(&task, body("Look")).await.refused(404, "not_found");
    assert_eq!(api.get(&path).await.ok()["data"], json!([]), "no check-in was created");

    // The key of a refused request may be used again. Concurrent requests create at most the maximum.
    assert_eq!(api.post_with(&path, &[("idempotency-key", "wrong")], body("Look")).await.status, 201);
    let posts = (0..8).map(|nth| api.post(&path, body(&format!("Look {nth}"))));
    let mut statuses: Vec<u16> =
        futures_util::future::join_all(posts).await.into_iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 201, 409, 409, 409, 409, 409, 409]);
    let problem = api.post(&path, body("One more")).await.refused(409, "full");
    assert!(problem["detail"].as_str().unwrap().contains("3 check-ins of an agentable"), "{problem}");
}

#[tokio::test]
async fn repeated_feed_request_with_one_key_generates_one_feed() {
    let api = TestApi::start().await;
    let path = format!("/v1/users/{}/feed/generate", api.user);
    let key = |key: &'static str| [("idempotency-key", key)];
    let nothing = api.post_with(&path, &key("early"), json!({})).await;
    assert_eq!((nothing.status, nothing.json()), (200, json!({"status": "nothing_happened"})));
    api.post_message("hello").await;
    Worker::start(&api).await.claim().await.answer("Gladly").await;
    let again = api.post_with(&path, &key("early"), json!({})).await;
    assert_eq!((again.status, again.header("idempotent-replayed")), (200, "true"));
    assert_eq!(again.body, nothing.body, "the first response is replayed");

    let asked = futures_util::future::join_all(
        (0..6).map(|_| api.post_with(&path, &[("idempotency-key", "feed")], json!({}))),
    )
    .await;
    let replayed = asked.iter().filter(|answer| answer.headers.contains_key("idempotent-replayed")).count();
    assert_eq!(replayed, 5, "one request started the feed");
    for answer in &asked {
        assert_eq!((answer.status, &answer.body), (202, &asked[0].body));
    }
    let begun = asked[0].json();
    assert!(begun["message_id"].is_string() && begun["user_agent_id"].is_string(), "{begun}");
    api.post_with(&path, &key("feed"), json!({"now": true})).await.refused(422, "invalid_request");
    let other = format!("/v1/users/{}/feed/generate?x=1", api.user);
    assert_eq!(api.post_with(&other, &key("feed"), json!({})).await.body, asked[0].body);
    api.post_with(&api.path("/fork"), &key("feed"), json!({})).await.refused(422, "idempotency_key_reused");
    // Without a key the response names the feed that is being written, and has no message.
    let bare = api.post(&path, json!({})).await;
    assert_eq!((bare.status, &bare.json()["run_id"]), (202, &begun["run_id"]));
    assert_eq!(bare.json()["message_id"], Value::Null);
    let messages =
        api.get(&format!("/v1/user_agents/{}/messages", begun["user_agent_id"].as_str().unwrap())).await;
    assert_eq!(messages.ok()["data"].as_array().unwrap().len(), 1, "one message was posted to the agent");
}
