use serde_json::json;

use crate::http::request;
use crate::test_api::{KEY, TestApi, bearer};

#[tokio::test]
async fn every_body_error_has_a_code() {
    let api = TestApi::start().await;
    let key = bearer(KEY);
    let messages = api.path("/messages");
    let post = async |kind: &str, body: &str| {
        let headers = [("authorization", key.as_str()), ("content-type", kind)];
        request(api.address, "POST", &messages, &headers, body).await
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
    assert!(problem["errors"][0]["detail"].as_str().unwrap().contains("at most 16384 bytes"), "{problem}");
    post(json, r#"{"content": " \n\t"}"#).await.refused(422, "empty_message");
    let long = json!({"content": "ä".repeat(128 * 1024 + 1)}).to_string();
    let problem = post(json, &long).await.refused(413, "message_too_large");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("262146") && detail.contains("262144"), "{detail}");
    let largest = json!({"content": "x".repeat(256 * 1024)}).to_string();
    assert_eq!(post(json, &largest).await.status, 202);
    // The body of a message may be longer, for its images.
    let headers = [("authorization", key.as_str()), ("content-type", json)];
    let too_long = request(api.address, "POST", "/v1/goals", &headers, &"x".repeat(1024 * 1024 + 1)).await;
    too_long.refused(413, "body_too_large");
}

#[tokio::test]
async fn every_path_query_and_method_error_has_a_code() {
    let api = TestApi::start().await;
    let hex = &api.goal["goal_".len()..];
    for path in [
        "/".to_owned(),
        "/v1/nothing".to_owned(),
        "/v1/goals/goal_1".to_owned(),
        "/v1/goals/task_00000000000000000000000000000000".to_owned(),
        "/v1/goals/goal_00000000000000000000000000000000".to_owned(),
        format!("/v1/tasks/task_{hex}/messages"),
        format!("/v1/user_agents/user_agent_{hex}/events"),
        format!("/v1/unicorns/unicorn_{hex}/messages"),
        format!("/v1/goal/{}", api.goal),
        "/v1/messages/msg_00000000000000000000000000000000".to_owned(),
        "/v1/messages/%FF".to_owned(),
        "/v1/runs/7".to_owned(),
        "/v1/users/user_00000000000000000000000000000000".to_owned(),
    ] {
        let problem = api.get(&path).await.refused(404, "not_found");
        assert_eq!(problem["instance"], path);
    }
    let to_wrong_kind = format!("/v1/user_agents/user_agent_{hex}/messages");
    api.post(&to_wrong_kind, json!({"content": "x"})).await.refused(404, "not_found");

    for (query, parameter) in [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=x", "limit"),
        ("lmit=1", "lmit"),
        ("limit=1&limit=2", "limit"),
    ] {
        let problem = api.get(&api.path(&format!("/messages?{query}"))).await.refused(422, "invalid_request");
        assert_eq!(problem["errors"][0]["parameter"], parameter, "{problem}");
    }
    api.get(&api.path("/messages?cursor=x")).await.refused(422, "invalid_cursor");
    api.get(&api.path("/history?cursor=m1")).await.refused(422, "invalid_cursor");
    for position in ["x", "-1", "1:", "1:2:3"] {
        api.get(&api.path(&format!("/events?after={position}"))).await.refused(422, "invalid_position");
    }
    let follow = api.get(&api.path("/events?follow=perhaps")).await.refused(422, "invalid_request");
    assert_eq!(follow["errors"][0]["parameter"], "follow", "{follow}");

    let wrong_method = request(api.address, "DELETE", &api.path("/messages"), &[], "").await;
    wrong_method.refused(405, "method_not_allowed");
    let allow = wrong_method.header("allow");
    assert!(allow.contains("GET") && allow.contains("POST"), "{allow}");
}

#[tokio::test]
async fn request_id_is_returned_and_responses_are_not_cached() {
    let api = TestApi::start().await;
    let key = bearer(KEY);
    let with_id = |id: &'static str| {
        let headers = [("authorization", key.clone()), ("x-request-id", id.to_owned())];
        let (address, path) = (api.address, api.path(""));
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
async fn too_many_pending_reports_the_limit_and_retry_after() {
    let api = TestApi::start().await;
    let first_key = [("idempotency-key", "kept")];
    let path = api.path("/messages");
    let first = api.post_with(&path, &first_key, json!({"content": "first"})).await;
    assert_eq!(first.status, 202);
    // Simulates 10,000 unread messages.
    let full = "update houston.run_locks set unread = 10000 where wake";
    api.servers.sql(full).unwrap();
    let refused = api.post_with(&path, &[("idempotency-key", "k")], json!({"content": "more"})).await;
    let problem = refused.refused(429, "too_many_pending");
    assert_eq!((refused.header("retry-after"), &problem["limit"]), ("5", &json!(10000)));
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("10000 messages") && detail.contains("not stored"), "{detail}");
    let again = api.post_with(&path, &first_key, json!({"content": "first"})).await;
    assert_eq!((again.status, again.json()), (202, first.json()), "an accepted message is replayed");
}

#[tokio::test]
async fn request_without_a_place_for_its_stream_posts_nothing() {
    let api = TestApi::start_with(|config| config.max_streams_per_tenant = 1).await;
    api.post_message("hello").await;
    let stream = api.stream("", None).await;
    let (user, goal) = (api.user.as_str(), api.goal.as_str());
    let part = json!([{"type": "text", "text": "hi"}]);
    let run = json!({"threadId": goal, "runId": "1", "messages": [{"id": "a", "role": "user", "content": "hi"}],
                     "tools": [], "context": [], "state": {}, "forwardedProps": {}});
    let a2a = json!({"message": {"messageId": "b", "role": "ROLE_USER", "contextId": "new", "parts": [{"text": "hi"}]}});
    let chat = json!({"model": "goal", "messages": [{"role": "user", "content": "hi"}], "user": user});
    let said = json!({"id": "new", "messages": [{"id": "c", "role": "user", "parts": part}], "user": user});
    let response = json!({"model": "goal", "input": "hi", "stream": true, "user": user});
    for (path, body) in [
        (api.path("/ag-ui"), run.clone()),
        ("/ag-ui/goal".to_owned(), run),
        ("/compat/ai-sdk/goal".to_owned(), said),
        ("/compat/openai/v1/responses".to_owned(), response),
        ("/compat/openai/v1/chat/completions".to_owned(), chat),
        ("/a2a/goal/message:send".to_owned(), a2a.clone()),
        ("/a2a/goal/message:stream".to_owned(), a2a),
    ] {
        let refused = api.post_with(&path, &[("houston-user", user)], body).await;
        assert_eq!(refused.status, 429, "{path}: {}", refused.text());
        assert_eq!(refused.header("retry-after"), "5", "{path}");
    }
    let counts = "select (select count(*) from houston.messages) || ' ' || (select count(*) from houston.agentables where kind = 'goal')";
    assert_eq!(api.sql(counts).trim(), "1 1", "nothing was posted, and no thread was made");
    drop(stream);
}

#[tokio::test]
async fn streams_beyond_the_limit_wait_for_one_to_end() {
    let api = TestApi::start_with(|config| config.max_streams_per_tenant = 1).await;
    api.post_message("hello").await;
    let stream = api.stream("", None).await;
    let refused = api.get(&api.path("/events")).await;
    let problem = refused.refused(429, "too_many_streams");
    assert_eq!((refused.header("retry-after"), &problem["limit"]), ("5", &json!(1)));
    // An EventSource that reconnects must not get an error status: it would not try again.
    assert!(api.stream_at(&api.path("/events"), Some("1")).await.is_none());
    drop(stream);
    let opened = async {
        while api.stream("", None).await.status == 429 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::http::PATIENCE, opened).await.unwrap();
}
