//! An agentable that is created together with its user and its first message.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::test_api::TestApi;

/// Number of rows of the tables that a creation writes: users, goals, user agents, messages, runs.
fn counts(api: &TestApi) -> Vec<i64> {
    let tables = api.sql(
        "select (select count(*) from houston.users), count(*) filter (where kind = 'goal'),
                count(*) filter (where kind = 'user_agent'), (select count(*) from houston.messages),
                (select count(*) from houston.runs)
           from houston.agentables",
    );
    tables.trim().split('|').map(|count| count.parse().unwrap()).collect()
}

fn grown(before: &[i64], after: &[i64]) -> Vec<i64> {
    before.iter().zip(after).map(|(before, after)| after - before).collect()
}

fn request(external_id: &str) -> Value {
    json!({
        "user": {"external_id": external_id, "name": "Ada", "time_zone": "Europe/London"},
        "title": "Rome",
        "message": {"content": "Find a flight.", "metadata": {"from": "ios"}},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn one_request_creates_user_goal_and_message() {
    let api = TestApi::start().await;
    let before = counts(&api);
    let created = api.post("/v1/goals", request("ada")).await;
    assert_eq!(created.status, 201, "{created:?}");
    assert_eq!(grown(&before, &counts(&api)), [1, 1, 1, 1, 1]);
    let goal = created.json();
    let message = &goal["message"];
    assert_eq!(goal["status"], "working");
    assert_eq!(message["run_id"], goal["run_id"]);
    assert_eq!(message["content"], "Find a flight.");
    assert_eq!(message["goal_id"], goal["id"]);

    // What is read later is what was answered.
    let read = api.get(&format!("/v1/goals/{}", goal["id"].as_str().unwrap())).await.json();
    let without = |mut value: Value, field: &str| {
        value.as_object_mut().unwrap().remove(field);
        value
    };
    assert_eq!(read, without(goal.clone(), "message"));
    let stored = api.get(&format!("/v1/messages/{}", message["id"].as_str().unwrap())).await.json();
    assert_eq!(stored, without(message.clone(), "events_url"));
    let user = api.get(&format!("/v1/users/{}", goal["user_id"].as_str().unwrap())).await.json();
    assert_eq!((&user["external_id"], &user["time_zone"]), (&json!("ada"), &json!("Europe/London")));
    let mut stream = api.stream_at(message["events_url"].as_str().unwrap(), None).await.unwrap();
    assert_eq!(stream.next().await.unwrap().kind(), "RUN_STARTED");
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_creation_with_a_key_creates_nothing_new() {
    let api = TestApi::start().await;
    let key = [("idempotency-key", "one")];
    let first = api.post_with("/v1/goals", &key, request("ada")).await;
    let before = counts(&api);
    let again = api.post_with("/v1/goals", &key, request("ada")).await;
    assert_eq!((again.status, again.json()), (201, first.json()));
    assert_eq!(again.header("idempotent-replayed"), "true");
    let other = api.post_with("/v1/goals", &key, request("bob")).await;
    other.refused(422, "idempotency_key_reused");
    assert_eq!(grown(&before, &counts(&api)), [0, 0, 0, 0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_at_once_create_a_user_once() {
    let api = TestApi::start().await;
    let before = counts(&api);
    let created = join_all((0..8).map(|_| api.post("/v1/goals", request("ada")))).await;
    let users: Vec<Value> = created.iter().map(|created| created.json()["user_id"].clone()).collect();
    assert!(created.iter().all(|created| created.status == 201), "{created:?}");
    assert!(users.iter().all(|user| *user == users[0]), "{users:?}");
    assert_eq!(grown(&before, &counts(&api)), [1, 8, 1, 8, 8]);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_creation_creates_nothing() {
    let api = TestApi::start().await;
    let before = counts(&api);
    let change = |path: &[&str], value: Value| {
        let mut body = request("ada");
        let last = path.len() - 1;
        let parent = path[..last].iter().fold(&mut body, |at, name| &mut at[*name]);
        parent[path[last]] = value;
        body
    };
    for (body, status, pointer) in [
        (change(&["user"], Value::Null), 422, Some("/user_id")),
        (change(&["user_id"], json!(format!("user_{:032x}", 1))), 422, Some("/user")),
        (change(&["user", "name"], json!("")), 422, Some("/user/name")),
        (change(&["user", "time_zone"], json!("Mars")), 422, Some("/user/time_zone")),
        (change(&["message", "content"], json!(" ")), 422, None),
        (change(&["message", "content"], json!("a\u{0}")), 422, Some("/message/content")),
        (change(&["message", "metadata"], json!({"a": "x".repeat(20_000)})), 422, Some("/message/metadata")),
        (change(&["agent_id"], json!(format!("agent_{:032x}", 1))), 422, Some("/agent_id")),
    ] {
        let refused = api.post("/v1/goals", body).await;
        let problem = refused.json();
        assert_eq!(refused.status, status, "{problem}");
        assert_eq!(problem["errors"][0]["pointer"].as_str(), pointer, "{problem}");
    }
    let unknown =
        json!({"user_id": format!("user_{:032x}", 1), "title": "Rome", "message": {"content": "hi"}});
    assert_eq!(api.post("/v1/goals", unknown).await.status, 404);
    assert_eq!(grown(&before, &counts(&api)), [0, 0, 0, 0, 0]);
}
