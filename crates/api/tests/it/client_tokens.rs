//! Client tokens: made by a backend, used by the browser or the phone of one user.

use houston_domain::id::ApiKeyId;
use houston_domain::scope::{Scope, Scopes};
use houston_store::api_key::NewApiKey;
use serde_json::{Value, json};

use crate::http::{End, Stream};
use crate::test_api::{KEY, TestApi};

async fn token(api: &TestApi, body: Value) -> Value {
    api.post("/v1/client-tokens", body).await.ok()
}

fn text<'v>(made: &'v Value, field: &str) -> &'v str {
    made[field].as_str().unwrap()
}

#[tokio::test]
async fn token_reaches_its_agentables_with_its_scopes() {
    let api = TestApi::start().await;
    let other = api.make_goal("Another").await;
    let made = token(&api, json!({"user_id": api.user, "agentables": [api.goal], "scopes": ["read"]})).await;
    let key = text(&made, "token");
    assert!(key.starts_with("houc_"), "{key}");
    let get = async |path: String| api.send_as(key, "GET", &path, json!(null)).await;
    get(api.path("")).await.ok();
    get(api.path("/messages")).await.ok();
    get(format!("/v1/goals/{other}")).await.refused(404, "not_found");
    get("/v1/goals".to_owned()).await.refused(403, "forbidden");
    get(format!("/v1/users/{}", api.user)).await.refused(403, "forbidden");
    let message = json!({"content": "hello"});
    api.send_as(key, "POST", &api.path("/messages"), message.clone()).await.refused(403, "forbidden");
    let another = json!({"user_id": api.user});
    api.send_as(key, "POST", "/v1/client-tokens", another).await.refused(403, "forbidden");

    let made = token(&api, json!({"user_id": api.user, "scopes": ["read", "post"]})).await;
    let key = text(&made, "token");
    let posted = api.send_as(key, "POST", &api.path("/messages"), message).await;
    assert_eq!(posted.status, 202, "{}", posted.text());
    assert_eq!(
        api.send_as(key, "GET", "/v1/goals", json!(null)).await.ok()["data"].as_array().unwrap().len(),
        2
    );
    let stored = api.sql(&format!("select count(*) from houston.api_keys k where k::text like '%{key}%'"));
    assert_eq!(stored.trim(), "0", "the token itself is not stored");
}

#[tokio::test]
async fn wrong_requests_for_tokens_are_refused() {
    let api = TestApi::start().await;
    let missing = format!("user_{}", "0".repeat(32));
    let missing = api.post("/v1/client-tokens", json!({"user_id": missing})).await;
    missing.refused(404, "not_found");
    for (body, pointer) in [
        (json!({"user_id": api.user, "minutes": 0}), "/minutes"),
        (json!({"user_id": api.user, "minutes": 1441}), "/minutes"),
        (json!({"user_id": api.user, "scopes": []}), "/scopes"),
        (json!({"user_id": api.user, "scopes": ["admin"]}), "/scopes"),
        (json!({"user_id": api.user, "agentables": []}), "/agentables"),
        (json!({"user_id": api.user, "agentables": [api.goal, "run_1"]}), "/agentables/1"),
    ] {
        let problem = api.post("/v1/client-tokens", body).await.refused(422, "invalid_request");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
    let bob = api.post("/v1/users", json!({"name": "Bob"})).await.ok();
    let stolen = json!({"user_id": bob["id"], "agentables": [api.goal]});
    api.post("/v1/client-tokens", stolen).await.refused(404, "not_found");
    let new = NewApiKey {
        id: api.state.ids.next(),
        name: "reader",
        key: "hou_reader_0123456789",
        scopes: [Scope::Read].into_iter().collect::<Scopes>(),
        user: None,
        expires_at: None,
        issuer: None,
    };
    api.store.operator().create_api_key(api.tenant, &new).await.unwrap();
    let more = json!({"user_id": api.user, "scopes": ["post"]});
    api.send_as(new.key, "POST", "/v1/client-tokens", more).await.refused(403, "forbidden");
}

#[tokio::test]
async fn query_token_opens_streams_and_nothing_else() {
    let api = TestApi::start().await;
    api.post_message("hello").await;
    let made = token(&api, json!({"user_id": api.user})).await;
    let key = text(&made, "token");
    let path = api.path(&format!("/events?after=0&access_token={key}"));
    let mut stream = Stream::open(api.address, &path, &[]).await.unwrap();
    stream.until("houston.message.posted").await;
    let elsewhere = api.path(&format!("?access_token={key}"));
    api.get_with(&elsewhere, &[]).await.refused(401, "unauthorized");
    let with_key = api.path(&format!("/events?after=0&access_token={KEY}"));
    api.get_with(&with_key, &[]).await.refused(401, "unauthorized");
}

#[tokio::test]
async fn streams_and_requests_end_with_the_validity_of_a_token() {
    let api = TestApi::start_with(|config| config.key_cache_s = 1).await;
    let parent: ApiKeyId = api.state.ids.next();
    let new = NewApiKey {
        id: parent,
        name: "backend",
        key: "hou_backend_0123456789",
        scopes: Scopes::ADMIN,
        user: None,
        expires_at: Some(api.state.ids.clock().now() + chrono::TimeDelta::hours(1)),
        issuer: None,
    };
    api.store.operator().create_api_key(api.tenant, &new).await.unwrap();
    let mut open = Vec::new();
    for _ in 0..3 {
        let body = json!({"user_id": api.user});
        let made = api.send_as(new.key, "POST", "/v1/client-tokens", body).await.ok();
        let path = api.path(&format!("/events?follow=true&access_token={}", text(&made, "token")));
        open.push((made, Stream::open(api.address, &path, &[]).await.unwrap()));
    }
    api.post_message("hello").await;
    for (_, stream) in &mut open {
        stream.until("houston.message.posted").await;
    }
    let id = |made: &Value| text(made, "id").to_owned();
    let (revoked, mut of_revoked) = open.pop().unwrap();
    let (expired, mut of_expired) = open.pop().unwrap();
    let (deleted, mut of_deleted) = open.pop().unwrap();

    let path = format!("/v1/client-tokens/{}", id(&deleted));
    assert_eq!(api.send("DELETE", &path, json!(null)).await.status, 204);
    assert_eq!(of_deleted.rest().await.1, End::Aborted);
    api.send("DELETE", &path, json!(null)).await.refused(404, "not_found");
    let expired_id: ApiKeyId = id(&expired).parse().unwrap();
    api.sql(&format!("update houston.api_keys set expires_at = now() where id = '{}'", expired_id.0));
    assert_eq!(of_expired.rest().await.1, End::Aborted);
    api.store.operator().revoke_api_key(parent).await.unwrap();
    assert_eq!(of_revoked.rest().await.1, End::Aborted);
    for made in [&revoked, &expired, &deleted] {
        api.send_as(text(made, "token"), "GET", &api.path(""), json!(null))
            .await
            .refused(401, "unauthorized");
    }
}

#[tokio::test]
async fn last_use_of_a_key_is_stored() {
    let api = TestApi::start().await;
    api.get(&api.path("")).await.ok();
    let keys = api.store.operator().list_api_keys().await.unwrap();
    assert!(keys[0].last_used_at.is_some(), "{keys:?}");
}
