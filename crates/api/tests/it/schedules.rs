//! Check-ins and feeds that somebody asks for: what is refused, and what is done once however often it is asked.

use serde_json::{Value, json};

use crate::app::{App, make_tenant};
use crate::worker::Worker;

const DAY: i64 = 24 * 60;

#[tokio::test]
async fn a_check_in_is_set_once_listed_and_taken_back() {
    let app = App::start().await;
    let path = app.path("/check-ins");
    let body = json!({"in_minutes": DAY, "reason": "Look at prices"});
    let key = [("idempotency-key", "prices")];
    let first = app.post_with(&path, &key, body.clone()).await;
    assert_eq!(first.status, 201, "{}", first.text());
    let set = first.json();
    assert_eq!((&set["reason"], &set["goal_id"]), (&json!("Look at prices"), &json!(app.goal)));
    let at = |field: &str| set[field].as_str().unwrap().parse::<chrono::DateTime<chrono::Utc>>().unwrap();
    // Nights are moved to the morning; the row is made a moment after its time was reckoned.
    let wait = (at("due_at") - at("created_at") + chrono::TimeDelta::seconds(10)).num_minutes();
    assert!((DAY..DAY + 10 * 60).contains(&wait), "{set}");
    let again = app.post_with(&path, &key, body).await;
    assert_eq!((again.header("idempotent-replayed"), &again.body), ("true", &first.body));
    let other = json!({"in_minutes": DAY, "reason": "Look at something else"});
    app.post_with(&path, &key, other).await.refused(422, "idempotency_key_reused");
    assert_eq!(app.get(&path).await.ok()["data"], json!([set]), "and it is what the list says");

    let at = (at("created_at") + chrono::TimeDelta::days(3)).format("%Y-%m-%dT12:00:00Z").to_string();
    let noon = app.post(&path, json!({"at": at, "reason": "Look again"})).await;
    assert_eq!(
        (noon.status, &noon.json()["due_at"]),
        (201, &json!(at.replace("Z", ".000Z"))),
        "{}",
        noon.text()
    );
    let id = set["id"].as_str().unwrap();
    assert_eq!(app.send("DELETE", &format!("/v1/check-ins/{id}"), Value::Null).await.status, 204);
    let replayed = app.post_with(&path, &key, json!({"in_minutes": DAY, "reason": "Look at prices"})).await;
    assert_eq!(replayed.body, first.body, "what was taken back is not set again");
}

#[tokio::test]
async fn a_check_in_that_cannot_be_says_why_and_sets_nothing() {
    let app = App::start().await;
    let path = app.path("/check-ins");
    let long = "x".repeat(2_001);
    for (body, pointer, words) in [
        (json!({"reason": "Look"}), "/at", "either `at` or `in_minutes`"),
        (json!({"at": "2027-01-04T09:00", "in_minutes": 5, "reason": "Look"}), "/at", "not both"),
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
        let refused = app.post_with(&path, &[("idempotency-key", "wrong")], body).await;
        let problem = refused.refused(422, "invalid_request");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
        assert!(problem["errors"][0]["detail"].as_str().unwrap().contains(words), "{problem}");
    }
    let body = |reason: &str| json!({"in_minutes": DAY, "reason": reason});
    let stranger = "hou_other_0123456789abcdef";
    make_tenant(&app.state, "other", stranger).await;
    app.send_as(stranger, "POST", &path, body("Look")).await.refused(404, "not_found");
    let task = format!("/v1/tasks/task_{}/check-ins", &app.goal["goal_".len()..]);
    app.post(&task, body("Look")).await.refused(404, "not_found");
    assert_eq!(app.get(&path).await.ok()["data"], json!([]), "nothing was set");

    // The key of what was refused may be used again. As many as may be are set, whoever asks at once.
    assert_eq!(app.post_with(&path, &[("idempotency-key", "wrong")], body("Look")).await.status, 201);
    let posts = (0..8).map(|nth| app.post(&path, body(&format!("Look {nth}"))));
    let mut statuses: Vec<u16> =
        futures_util::future::join_all(posts).await.into_iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 201, 409, 409, 409, 409, 409, 409]);
    let told = app.post(&path, body("One more")).await.refused(409, "full");
    assert!(told["detail"].as_str().unwrap().contains("3 check-ins of an agentable"), "{told}");
}

#[tokio::test]
async fn a_feed_that_is_asked_for_twice_under_one_key_is_one_feed() {
    let app = App::start().await;
    let path = format!("/v1/users/{}/feed/generate", app.user);
    let key = |key: &'static str| [("idempotency-key", key)];
    let nothing = app.post_with(&path, &key("early"), json!({})).await;
    assert_eq!((nothing.status, nothing.json()), (200, json!({"status": "nothing_happened"})));
    app.say("hello").await;
    Worker::start(&app).await.claim().await.answer("Gladly").await;
    let again = app.post_with(&path, &key("early"), json!({})).await;
    assert_eq!((again.status, again.header("idempotent-replayed")), (200, "true"));
    assert_eq!(again.body, nothing.body, "whatever has happened since");

    let asked = futures_util::future::join_all(
        (0..6).map(|_| app.post_with(&path, &[("idempotency-key", "feed")], json!({}))),
    )
    .await;
    let replayed = asked.iter().filter(|answer| answer.headers.contains_key("idempotent-replayed")).count();
    assert_eq!(replayed, 5, "one began it");
    for answer in &asked {
        assert_eq!((answer.status, &answer.body), (202, &asked[0].body));
    }
    let begun = asked[0].json();
    assert!(begun["message_id"].is_string() && begun["user_agent_id"].is_string(), "{begun}");
    app.post_with(&path, &key("feed"), json!({"now": true})).await.refused(422, "invalid_request");
    let other = format!("/v1/users/{}/feed/generate?x=1", app.user);
    assert_eq!(app.post_with(&other, &key("feed"), json!({})).await.body, asked[0].body);
    app.post_with(&app.path("/fork"), &key("feed"), json!({})).await.refused(422, "idempotency_key_reused");
    // Without a key, the one that is being written is named, and no message of its own.
    let bare = app.post(&path, json!({})).await;
    assert_eq!((bare.status, &bare.json()["run_id"]), (202, &begun["run_id"]));
    assert_eq!(bare.json()["message_id"], Value::Null);
    let messages =
        app.get(&format!("/v1/user_agents/{}/messages", begun["user_agent_id"].as_str().unwrap())).await;
    assert_eq!(messages.ok()["data"].as_array().unwrap().len(), 1, "its agent was told once");
}
