use std::time::Duration;

use houston_domain::run::RunStatus;
use serde_json::{Value, json};

use crate::http::Answer;
use crate::questions::question;
use crate::test_api::{KEY, TestApi, bearer, make_tenant};
use crate::worker::Worker;

fn path_of(message: &Value) -> String {
    format!("/v1/runs/{}", message["run_id"].as_str().unwrap())
}

/// Polls a waiting request together with what is to wake it.
async fn woken(waiting: impl Future<Output = Answer>, waking: impl AsyncFnOnce(), api: &TestApi) -> Answer {
    let waking = async {
        until_open(api, 1).await;
        waking().await;
    };
    tokio::join!(waiting, waking).0
}

/// Waits until this many requests wait: each is a subscription to the bus.
async fn until_open(api: &TestApi, count: usize) {
    while api.state.bus.listeners() < count {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn waiting_request_gets_the_run_when_it_has_ended() {
    let api = TestApi::start().await;
    let message = api.post_message("hello").await;
    let path = path_of(&message);
    let worker = Worker::start(&api).await;
    let run = worker.claim().await;
    assert_eq!(api.get(&format!("{path}?wait=0")).await.ok()["status"], "running");
    let waits = format!("{path}?wait=60");
    let ended = woken(api.get(&waits), async || drop(run.answer("hi").await), &api).await;
    assert_eq!(ended.ok()["status"], "message_sent");
    assert_eq!(api.get(&format!("{path}?wait=60")).await.ok()["status"], "message_sent", "at once");
    assert_eq!(api.state.bus.listeners(), 0, "nothing stays");
}

#[tokio::test]
async fn end_that_the_bus_has_lost_is_found_by_the_poll() {
    let api = TestApi::start().await;
    let message = api.post_message("hello").await;
    let mut run = Worker::start(&api).await.claim().await;
    run.publishes = false;
    let waits = format!("{}?wait=60", path_of(&message));
    let ended = woken(api.get(&waits), async || drop(run.end(RunStatus::Failed, None).await), &api).await;
    assert_eq!(ended.ok()["status"], "failed");
}

#[tokio::test]
async fn waiting_request_gets_a_run_that_waits_for_a_person() {
    let api = TestApi::start().await;
    let message = api.post_message("hello").await;
    let run = Worker::start(&api).await.claim().await;
    let question = question(&api);
    let waits = format!("{}?wait=60", path_of(&message));
    let asks = woken(api.get(&waits), async || run.ask(question).await, &api).await;
    assert_eq!(asks.ok()["status"], "waiting");
    assert_eq!(api.get(&waits).await.ok()["status"], "waiting", "at once");
}

#[tokio::test]
async fn waits_end_with_time_drain_and_revoked_keys() {
    let api = TestApi::start_with(|config| config.key_cache_s = 1).await;
    let message = api.post_message("hello").await;
    let path = path_of(&message);
    assert_eq!(api.get(&format!("{path}?wait=1")).await.ok()["status"], "queued", "after a second");
    for wrong in ["61", "-1", "x", ""] {
        let problem = api.get(&format!("{path}?wait={wrong}")).await.refused(422, "invalid_request");
        assert_eq!(problem["errors"][0]["parameter"], "wait", "{problem}");
    }
    let waits = format!("{path}?wait=60");
    let made = api.post("/v1/client-tokens", json!({"user_id": api.user})).await.ok();
    let key = bearer(made["token"].as_str().unwrap());
    let headers = [("authorization", key.as_str())];
    let delete = format!("/v1/client-tokens/{}", made["id"].as_str().unwrap());
    let revoke = async || assert_eq!(api.send("DELETE", &delete, Value::Null).await.status, 204);
    woken(api.get_with(&waits, &headers), revoke, &api).await.refused(401, "unauthorized");
    let drained = woken(api.get(&waits), async || api.state.draining.cancel(), &api).await;
    assert_eq!(drained.ok()["status"], "queued");
    assert_eq!(api.get(&waits).await.ok()["status"], "queued", "at once");
}

#[tokio::test]
async fn waits_are_limited_like_streams_and_end_with_erased_runs() {
    let api = TestApi::start_with(|config| config.max_streams_per_tenant = 1).await;
    let message = api.post_message("hello").await;
    let waits = format!("{}?wait=60", path_of(&message));
    make_tenant(&api.store, &api.state.ids, "other", "hou_other_0123456789").await;
    api.send_as("hou_other_0123456789", "GET", &waits, Value::Null).await.refused(404, "not_found");
    let erase = async || {
        api.get(&waits).await.refused(429, "too_many_streams");
        assert_eq!(api.send("DELETE", &api.path(""), Value::Null).await.status, 202);
    };
    woken(api.get(&waits), erase, &api).await.refused(404, "not_found");
    let key = bearer(KEY);
    api.get_with(&waits, &[("authorization", key.as_str())]).await.refused(404, "not_found");
}
