use serde_json::json;

use crate::app::{App, KEY, bearer};
use crate::http::request;

#[tokio::test]
async fn every_way_to_get_a_body_wrong_has_a_name() {
    let app = App::start().await;
    let key = bearer(KEY);
    let messages = app.path("/messages");
    let post = async |kind: &str, body: &str| {
        let headers = [("authorization", key.as_str()), ("content-type", kind)];
        request(app.address, "POST", &messages, &headers, body).await
    };
    let json = "application/json; charset=utf-8";
    let broken = post(json, "{\"content\" 1}").await.refused(400, "invalid_json");
    assert!(broken["detail"].as_str().unwrap().contains("line 1, column 12"), "{broken}");
    post(json, "").await.refused(400, "invalid_json");
    post("text/plain", "{}").await.refused(415, "unsupported_media_type");
    for (body, pointer) in [
        ("{}", "/content"),
        (r#"{"content": 1}"#, "/content"),
        (r#"{"content": "x", "extra": 1}"#, "/extra"),
        (r#"{"content": "x", "metadata": "x"}"#, "/metadata"),
        (r#"{"content": "a\u0000b"}"#, "/content"),
        (r#"{"content": "x", "metadata": {"a": ["\u0000"]}}"#, "/metadata"),
    ] {
        let problem = post(json, body).await.refused(422, "invalid_request");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
        assert!(problem["errors"][0]["detail"].is_string(), "{problem}");
    }
    let wide = json!({"content": "x", "metadata": {"a": "b".repeat(16 * 1024)}}).to_string();
    let problem = post(json, &wide).await.refused(422, "invalid_request");
    assert_eq!(problem["errors"][0]["pointer"], "/metadata");
    assert!(problem["errors"][0]["detail"].as_str().unwrap().contains("16384 are allowed"), "{problem}");
    post(json, r#"{"content": " \n\t"}"#).await.refused(422, "empty_message");
    let long = json!({"content": "ä".repeat(128 * 1024 + 1)}).to_string();
    let problem = post(json, &long).await.refused(413, "message_too_large");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("262146") && detail.contains("262144"), "{detail}");
    let largest = json!({"content": "x".repeat(256 * 1024)}).to_string();
    assert_eq!(post(json, &largest).await.status, 202);
    post(json, &"x".repeat(1024 * 1024 + 1)).await.refused(413, "body_too_large");
}

#[tokio::test]
async fn every_way_to_get_the_rest_wrong_has_a_name() {
    let app = App::start().await;
    let hex = &app.goal["goal_".len()..];
    for path in [
        "/".to_owned(),
        "/v1/nothing".to_owned(),
        "/v1/goals/goal_1".to_owned(),
        "/v1/goals/task_00000000000000000000000000000000".to_owned(),
        "/v1/goals/goal_00000000000000000000000000000000".to_owned(),
        format!("/v1/tasks/task_{hex}/messages"),
        format!("/v1/user_agents/user_agent_{hex}/events"),
        format!("/v1/unicorns/unicorn_{hex}/messages"),
        format!("/v1/goal/{}", app.goal),
        "/v1/messages/msg_00000000000000000000000000000000".to_owned(),
        "/v1/messages/%FF".to_owned(),
        "/v1/runs/7".to_owned(),
        "/v1/users/user_00000000000000000000000000000000".to_owned(),
    ] {
        let problem = app.get(&path).await.refused(404, "not_found");
        assert_eq!(problem["instance"], path);
    }
    let to_wrong_kind = format!("/v1/user_agents/user_agent_{hex}/messages");
    app.post(&to_wrong_kind, json!({"content": "x"})).await.refused(404, "not_found");

    for (query, parameter) in
        [("limit=0", "limit"), ("limit=101", "limit"), ("limit=x", "limit"), ("lmit=1", "lmit")]
    {
        let problem = app.get(&app.path(&format!("/messages?{query}"))).await.refused(422, "invalid_request");
        assert_eq!(problem["errors"][0]["parameter"], parameter, "{problem}");
    }
    app.get(&app.path("/messages?cursor=x")).await.refused(422, "invalid_cursor");
    app.get(&app.path("/history?cursor=m1")).await.refused(422, "invalid_cursor");
    for position in ["x", "-1", "1:", "1:2:3"] {
        app.get(&app.path(&format!("/events?after={position}"))).await.refused(422, "invalid_position");
    }
    let follow = app.get(&app.path("/events?follow=perhaps")).await.refused(422, "invalid_request");
    assert_eq!(follow["errors"][0]["parameter"], "follow", "{follow}");

    let wrong_method = request(app.address, "DELETE", &app.path("/messages"), &[], "").await;
    wrong_method.refused(405, "method_not_allowed");
    let allow = wrong_method.header("allow");
    assert!(allow.contains("GET") && allow.contains("POST"), "{allow}");
}

#[tokio::test]
async fn a_request_keeps_its_id_and_is_never_cached() {
    let app = App::start().await;
    let key = bearer(KEY);
    let with_id = |id: &'static str| {
        let headers = [("authorization", key.clone()), ("x-request-id", id.to_owned())];
        let (address, path) = (app.address, app.path(""));
        async move {
            let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
            request(address, "GET", &path, &headers, "").await
        }
    };
    let answer = with_id("trace-1/x").await;
    assert_eq!((answer.header("x-request-id"), answer.header("cache-control")), ("trace-1/x", "no-store"));
    for bad in ["has space", ""] {
        assert!(with_id(bad).await.header("x-request-id").starts_with("req_"), "{bad:?}");
    }
}

#[tokio::test]
async fn who_has_too_much_waiting_is_told_how_much_and_when_to_come_back() {
    let app = App::start().await;
    let kept = [("idempotency-key", "kept")];
    let path = app.path("/messages");
    let first = app.post_with(&path, &kept, json!({"content": "first"})).await;
    assert_eq!(first.status, 202);
    // As if 10,000 messages waited.
    let full = "update houston.run_locks set unread = 10000 where wake";
    app.servers.sql(full).unwrap();
    let refused = app.post_with(&path, &[("idempotency-key", "k")], json!({"content": "more"})).await;
    let problem = refused.refused(429, "too_many_pending");
    assert_eq!((refused.header("retry-after"), &problem["limit"]), ("5", &json!(10000)));
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("10000 messages") && detail.contains("not stored"), "{detail}");
    let again = app.post_with(&path, &kept, json!({"content": "first"})).await;
    assert_eq!((again.status, again.json()), (202, first.json()), "what was accepted is answered again");
}

#[tokio::test]
async fn a_tenant_with_too_many_streams_may_open_one_when_one_ends() {
    let app = App::start_with(|config| config.max_streams_per_tenant = 1).await;
    app.say("hello").await;
    let stream = app.stream("", None).await;
    let refused = app.get(&app.path("/events")).await;
    let problem = refused.refused(429, "too_many_streams");
    assert_eq!((refused.header("retry-after"), &problem["limit"]), ("5", &json!(1)));
    // An EventSource that comes back must not be told off for good.
    assert!(app.stream_at(&app.path("/events"), Some("1")).await.is_none());
    drop(stream);
    let opened = async {
        while app.stream("", None).await.status == 429 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::http::PATIENCE, opened).await.unwrap();
}
