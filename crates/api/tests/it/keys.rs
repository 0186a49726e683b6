//! Wrong keys, many keys at once, and keys that are revoked while in use.

use std::time::Duration;

use houston_testkit::fault_proxy::Fault;

use crate::http::{Answer, End, request};
use crate::proxied;
use crate::test_api::{KEY, TestApi, bearer, make_tenant};

const OTHER: &str = "hou_other_0123456789abcdef";

async fn get_as(api: &TestApi, key: &str) -> Answer {
    api.get_with(&api.path(""), &[("authorization", &bearer(key))]).await
}

#[tokio::test]
async fn revoked_key_ends_its_streams() {
    let api = TestApi::start_with(|config| {
        config.key_cache_s = 1;
        config.heartbeat_ms = 1_000;
    })
    .await;
    let keys = api.store.operator().list_api_keys().await.unwrap();
    make_tenant(&api.store, &api.state.ids, "acme", OTHER).await;
    let other = bearer(OTHER);
    let path = api.path("/events?follow=true");
    let mut revoked = api.stream("?follow=true", None).await;
    let mut other_stream =
        crate::http::Stream::open(api.address, &path, &[("authorization", &other)]).await.unwrap();
    api.post_message("hello").await;
    revoked.until("houston.message.posted").await;
    other_stream.until("houston.message.posted").await;
    api.store.operator().revoke_api_key(keys[0].id).await.unwrap();
    assert_eq!(revoked.rest().await, (vec![], End::Aborted));
    get_as(&api, KEY).await.refused(401, "unauthorized");
    assert_eq!(other_stream.chunk().await.unwrap(), ":\n".as_bytes(), "a stream with another key stays open");
}

#[tokio::test]
async fn cached_wrong_key_costs_no_query() {
    let api = TestApi::start_with_own_postgres(|config| config.key_cache_s = 3600).await;
    get_as(&api, "hou_wrong").await.refused(401, "unauthorized");
    api.servers.kill_postgres().unwrap();
    get_as(&api, "hou_wrong").await.refused(401, "unauthorized");
    get_as(&api, "hou_unknown").await.refused(503, "unavailable");
}

#[tokio::test]
async fn wrong_keys_are_limited_per_address_valid_keys_are_not() {
    let api = TestApi::start_with(|config| {
        config.clients.proxies.clear();
        config.clients.wrong_keys_per_minute = 5;
        config.key_cache_s = 0;
    })
    .await;
    for nth in 0..5 {
        get_as(&api, &format!("hou_wrong_{nth}")).await.refused(401, "unauthorized");
    }
    let refused = get_as(&api, "hou_wrong_5").await;
    refused.refused(429, "too_many_keys");
    assert_eq!(refused.header("retry-after"), "60");
    // No key is cached here: each request looks the key up.
    for _ in 0..3 {
        get_as(&api, KEY).await.ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_keys_are_looked_up_in_one_query() {
    let api = TestApi::start().await;
    // One connection, used by a look-up for half a second: a hundred look-ups one by one would time out.
    let (proxy, address) = proxied::start(&api, 1, |_| {}).await;
    let path = api.path("");
    let get = async |key: String| {
        let key = bearer(&key);
        request(address, "GET", &path, &[("authorization", &key)], "").await
    };
    get("hou_first".to_owned()).await.refused(401, "unauthorized");
    proxy.set(Fault::Latency(Duration::from_millis(200)));
    let wrong = futures_util::future::join_all((0..100).map(|nth| get(format!("hou_wrong_{nth}"))));
    let (wrong, right) = tokio::join!(wrong, get(KEY.to_owned()));
    right.ok();
    wrong.iter().for_each(|answer| {
        answer.refused(401, "unauthorized");
    });
}
