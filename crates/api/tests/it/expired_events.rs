//! Streams of an agentable whose old events were deleted by age.

use serde_json::json;

use crate::http::End;
use crate::test_api::TestApi;
use crate::worker::Worker;

#[tokio::test]
async fn stream_from_deleted_events_is_refused_with_advice() {
    let api = TestApi::start().await;
    api.post_message("hello").await;
    Worker::start(&api).await.claim().await.answer("Hi").await;
    let last = api.get(&api.path("")).await.ok()["last_seq"].as_i64().unwrap();
    let mut open = api.stream(&format!("?follow=true&after={last}"), None).await;
    // What happens next is deleted before the stream has read it.
    api.sql(&format!("update houston.run_locks set last_seq = {}, events_from = {}", last + 3, last + 4));
    assert_eq!(open.rest().await, (Vec::new(), End::Aborted), "nothing is skipped");
    let resumed = api.get(&api.path(&format!("/events?follow=true&after={last}"))).await;
    resumed.refused(410, "event_log_expired");
    api.sql(&format!("update houston.run_locks set last_seq = {last}"));
    // As the health monitor does when the run is old.
    api.sql("delete from houston.events");
    api.sql(&format!("update houston.run_locks set events_from = {}", last + 1));
    for after in [0, last - 1] {
        let refused = api.get(&api.path(&format!("/events?after={after}"))).await;
        let detail = refused.refused(410, "event_log_expired")["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(&format!("`after={last}`")) && detail.contains("messages"), "{detail}");
    }
    assert_eq!(api.get(&api.path(&format!("/events?after={last}"))).await.status, 204);
    assert_eq!(api.get(&api.path("/events")).await.status, 204, "without a position, what is kept");
    let messages = api.get(&api.path("/messages")).await.ok();
    assert_eq!(messages["data"].as_array().unwrap().len(), 2, "the thread is whole");

    api.post(&api.path("/messages"), json!({"content": "again"})).await.ok();
    let mut stream = api.stream("", None).await;
    assert_eq!(stream.status, 200, "the next run is streamed");
    stream.next().await.unwrap();
}
