//! The streams of all events of a tenant and of a user: complete, resumable, and of no one else.

use std::collections::BTreeSet;

use houston_domain::scope::{Scope, Scopes};
use houston_store::api_key::NewApiKey;
use serde_json::json;

use crate::http::{End, Frame, Stream};
use crate::test_api::{TestApi, bearer, make_tenant};

/// The ids of the events up to and including the one that is expected last.
async fn read(stream: &mut Stream, last: &str) -> Vec<Frame> {
    let mut frames = Vec::new();
    loop {
        let frame = stream.next().await.unwrap_or_else(|end| panic!("{end:?} before {last}: {frames:#?}"));
        let id = frame.data["id"].as_str().unwrap().to_owned();
        frames.push(frame);
        if id == last {
            return frames;
        }
    }
}

/// What happened, without positions.
fn events(frames: &[Frame]) -> BTreeSet<String> {
    let events = frames.iter().filter(|frame| frame.kind() != "stream.position");
    events.map(|frame| frame.data["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn stream_of_a_user_names_every_thread() {
    let api = TestApi::start().await;
    let mut stream = api.stream_at(&format!("/v1/users/{}/events", api.user), None).await.unwrap();
    assert_eq!(stream.status, 200);
    assert_eq!(stream.headers["content-type"], "text/event-stream");
    let first = stream.next().await.unwrap();
    assert_eq!(first.kind(), "stream.position");
    let other = api.make_goal("Another").await;
    api.post_message("hello").await;
    api.post(&format!("/v1/goals/{other}/messages"), json!({"content": "hi"})).await.ok();
    let mut frames = read(&mut stream, &format!("{}:2", api.goal)).await;
    if !events(&frames).contains(&format!("{other}:2")) {
        frames.extend(read(&mut stream, &format!("{other}:2")).await);
    }
    let posted = frames.iter().find(|frame| frame.data["id"] == format!("{other}:2")).unwrap();
    assert_eq!(posted.kind(), "message.posted");
    assert_eq!(posted.data["data"]["agentable_id"], other.as_str());
    assert_eq!(posted.data["data"]["user_id"], api.user.as_str());
    assert!(!posted.data.to_string().contains("\"hi\""), "texts are read with their ids");
}

#[tokio::test]
async fn client_that_was_away_resumes_without_a_gap() {
    let api = TestApi::start().await;
    let mut stream = api.stream_at("/v1/events", None).await.unwrap();
    api.post_message("one").await;
    let before = read(&mut stream, &format!("{}:2", api.goal)).await;
    let last = before.last().unwrap().id.clone();
    drop(stream);
    for text in ["two", "three"] {
        api.post_message(text).await;
    }
    let mut resumed = api.stream_at("/v1/events", Some(&last)).await.unwrap();
    let missed = read(&mut resumed, &format!("{}:4", api.goal)).await;
    api.post_message("four").await;
    let live = read(&mut resumed, &format!("{}:5", api.goal)).await;
    let all: BTreeSet<String> =
        [events(&before), events(&missed), events(&live)].into_iter().flatten().collect();
    assert_eq!(all, (1..=5).map(|seq| format!("{}:{seq}", api.goal)).collect());
    assert!(!events(&missed).contains(&format!("{}:1", api.goal)), "what it had does not come again");
    // Processes of the release before read no names.
    assert!(!last.contains('!'), "{last}");
    let after = api.stream_at(&format!("/v1/events?after=0000-ffff!{last}&types=message.*"), None).await;
    let only = read(&mut after.unwrap(), &format!("{}:5", api.goal)).await;
    assert!(only.iter().all(|frame| ["message.posted", "stream.position"].contains(&frame.kind())));
}

#[tokio::test]
async fn streams_show_nothing_of_other_tenants_or_users() {
    let api = TestApi::start().await;
    make_tenant(&api.store, &api.state.ids, "other", "hou_tenant_0123456789").await;
    let bob = api.post("/v1/users", json!({"name": "Bob"})).await.ok()["id"].as_str().unwrap().to_owned();
    let read_only: Scopes = [Scope::Read].into_iter().collect();
    let (id, user) = (api.state.ids.next(), Some(bob.parse().unwrap()));
    let key = "hou_bob_0123456789abc";
    let new = NewApiKey { id, name: "bob", key, scopes: read_only, user, expires_at: None, issuer: None };
    api.store.operator().create_api_key(api.tenant, &new).await.unwrap();
    let open = async |key: &str, path: &str| {
        let key = bearer(key);
        Stream::open(api.address, path, &[("authorization", &key)]).await.unwrap()
    };
    let mut theirs = open("hou_tenant_0123456789", "/v1/events").await;
    let mut of_bob = open(key, "/v1/events").await;
    assert_eq!(open(key, &format!("/v1/users/{}/events", api.user)).await.status, 404);
    assert_eq!(open(key, &format!("/v1/events?user_id={}", api.user)).await.status, 404);
    api.post_message("secret").await;
    let goal = api.send_as(key, "GET", "/v1/goals", json!(null)).await;
    assert!(goal.ok()["data"].as_array().unwrap().is_empty());
    let own = api
        .post("/v1/goals", json!({"user_id": bob, "title": "Mine", "message": {"content": "x"}}))
        .await
        .ok();
    let own = own["id"].as_str().unwrap();
    let seen = read(&mut of_bob, &format!("{own}:2")).await;
    assert!(events(&seen).iter().all(|id| id.starts_with(own)), "{seen:?}");
    assert_eq!(theirs.next().await.unwrap().kind(), "stream.position");
    // The key of the other tenant is revoked: its stream ends, and had nothing else in it.
    api.sql("update houston.api_keys set revoked_at = now() where name = 'test' and tenant_id <> (select tenant_id from houston.users limit 1)");
    let (rest, end) = theirs.rest().await;
    assert!(rest.is_empty(), "{rest:?}");
    assert_eq!(end, End::Aborted);
}

#[tokio::test]
async fn wrong_positions_and_patterns_are_refused() {
    let api = TestApi::start().await;
    for path in [
        "/v1/events?after=7",
        "/v1/events?after=9000000000.9000000001.9000000000",
        "/v1/events?types=runs.*",
        "/v1/events?types=",
        "/v1/events?user_id=goal_1",
    ] {
        api.get(path).await.refused(422, "invalid_request");
    }
    let missing = format!("/v1/users/user_{}/events", "0".repeat(32));
    api.get(&missing).await.refused(404, "not_found");
}

#[tokio::test]
async fn drain_aborts_the_stream() {
    let mut api = TestApi::start().await;
    let mut stream = api.stream_at("/v1/events", None).await.unwrap();
    stream.next().await.unwrap();
    api.stop.cancel();
    assert_eq!(stream.rest().await.1, End::Aborted);
    api.ended.take();
}
