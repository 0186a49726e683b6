use serde_json::{Value, json};

use crate::test_api::TestApi;
use crate::worker::Worker;

async fn mark(api: &TestApi, body: Value) -> Value {
    api.post(&api.path("/read"), body).await.ok()
}

#[tokio::test]
async fn unread_messages_are_counted_until_they_are_read() {
    let api = TestApi::start().await;
    let worker = Worker::start(&api).await;
    let mut answers = Vec::new();
    for text in ["one", "two", "three"] {
        api.post_message("hello").await;
        let step = worker.claim().await.answer(text).await;
        answers.push(step.events.iter().map(|event| event.seq).max().unwrap());
    }
    let goal = api.get(&api.path("")).await.ok();
    assert_eq!((&goal["unread"], &goal["read_seq"]), (&json!(3), &json!(0)));
    let last = goal["last_seq"].as_i64().unwrap();
    let listed = api.get(&format!("/v1/goals?user_id={}", api.user)).await.ok();
    assert_eq!(listed["data"][0]["unread"], 3);
    let messages = api.get(&api.path("/messages")).await.ok();
    let of_agent = |message: &&Value| message["source"] == "agent" && message["content"] == "two";
    let second = messages["data"].as_array().unwrap().iter().find(of_agent).unwrap();

    let marked = mark(&api, json!({"message_id": second["id"]})).await;
    assert_eq!((&marked["unread"], &marked["read_seq"]), (&json!(1), &second["seq"]));
    assert!(marked["read_at"].is_string() && marked["goal_id"] == json!(api.goal), "{marked}");
    let again = mark(&api, json!({"seq": 1})).await;
    assert_eq!(again, marked, "a mark moves only forward");
    let unread = api.get(&format!("/v1/users/{}/unread", api.user)).await.ok();
    assert_eq!((&unread["unread"], &unread["has_more"]), (&json!(1), &json!(false)));
    assert_eq!(unread["threads"][0]["goal_id"], json!(api.goal));

    let all = mark(&api, Value::Null).await;
    assert_eq!((&all["unread"], &all["read_seq"], &all["last_seq"]), (&json!(0), &json!(last), &json!(last)));
    assert_eq!(mark(&api, json!({"seq": last + 1_000})).await["read_seq"], json!(last), "not the future");
    let unread = api.get(&format!("/v1/users/{}/unread", api.user)).await.ok();
    assert_eq!((&unread["unread"], &unread["threads"]), (&json!(0), &json!([])));
}

#[tokio::test]
async fn wrong_read_marks_are_refused() {
    let api = TestApi::start().await;
    let other = api.make_goal("Other").await;
    let foreign = api.post(&format!("/v1/goals/{other}/messages"), json!({"content": "hi"})).await.json();
    let path = api.path("/read");
    let problem = api.post(&path, json!({"message_id": foreign["id"]})).await;
    problem.refused(404, "not_found");
    for (body, pointer) in [
        (json!({"seq": -1}), "/seq"),
        (json!({"seq": 1, "message_id": foreign["id"]}), "/seq"),
        (json!({"message_id": "run_1"}), "/message_id"),
        (json!({"up_to": 1}), "/up_to"),
        (json!([null, null]), ""),
    ] {
        let problem = api.post(&path, body).await.refused(422, "invalid_request");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
    assert_eq!(api.get(&api.path("")).await.ok()["read_seq"], 0, "nothing was marked");
}

/// A second device has nothing but what the server says: it begins where the first one has stopped.
#[tokio::test]
async fn second_device_goes_on_where_the_first_has_stopped() {
    let api = TestApi::start().await;
    let worker = Worker::start(&api).await;
    api.post_message("hello").await;
    worker.claim().await.answer("first").await;
    let mut phone = api.stream("?after=0", None).await;
    let (frames, _) = phone.rest().await;
    let position = frames.last().unwrap().id.clone();
    mark(&api, json!({})).await;

    api.post_message("and now?").await;
    worker.claim().await.answer("second").await;
    let goal = api.get(&api.path("")).await.ok();
    assert_eq!(goal["unread"], 1);
    let from_mark = format!("?after={}", goal["read_seq"]);
    let mut texts = Vec::new();
    for (query, last_id) in [(from_mark.as_str(), None), ("", Some(position.as_str()))] {
        let mut tablet = api.stream(query, last_id).await;
        let (frames, _) = tablet.rest().await;
        let text: String = frames.iter().map(|frame| frame.data.to_string()).collect();
        assert!(text.contains("second") && !text.contains("\"delta\":\"first\""), "{text}");
        texts.push(frames.last().unwrap().id.clone());
    }
    assert_eq!(texts[0], texts[1], "both end at the same position");
    assert_eq!(texts[0], goal["last_seq"].to_string());
}
