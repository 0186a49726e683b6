//! Keys that are wrong, many at once, and keys that are revoked while they are used.

use std::time::Duration;

use houston_testkit::fault_proxy::Fault;

use crate::app::{App, KEY, bearer, make_tenant};
use crate::http::{Answer, End, request};
use crate::proxied;

const OTHER: &str = "hou_other_0123456789abcdef";

async fn get_as(app: &App, key: &str) -> Answer {
    app.get_with(&app.path(""), &[("authorization", &bearer(key))]).await
}

#[tokio::test]
async fn a_revoked_key_ends_its_streams() {
    let app = App::start_with(|config| {
        config.key_cache_s = 1;
        config.heartbeat_s = 1;
    })
    .await;
    let keys = app.state.store.list_api_keys().await.unwrap();
    make_tenant(&app.state, "acme", OTHER).await;
    let other = bearer(OTHER);
    let path = app.path("/events?follow=true");
    let mut revoked = app.stream("?follow=true", None).await;
    let mut kept = crate::http::Stream::open(app.address, &path, &[("authorization", &other)]).await.unwrap();
    app.say("hello").await;
    revoked.until("houston.message.posted").await;
    kept.until("houston.message.posted").await;
    app.state.store.revoke_api_key(keys[0].id).await.unwrap();
    assert_eq!(revoked.rest().await, (vec![], End::Aborted));
    get_as(&app, KEY).await.refused(401, "unauthorized");
    assert_eq!(kept.chunk().await.unwrap(), ":\n".as_bytes(), "another key's stream lives on");
}

#[tokio::test]
async fn a_wrong_key_that_is_known_costs_no_query() {
    let app = App::start_with_own_postgres(|config| config.key_cache_s = 3600).await;
    get_as(&app, "hou_wrong").await.refused(401, "unauthorized");
    app.servers.kill_postgres().unwrap();
    get_as(&app, "hou_wrong").await.refused(401, "unauthorized");
    get_as(&app, "hou_unknown").await.refused(503, "unavailable");
}

#[tokio::test]
async fn an_address_guesses_a_few_keys_and_valid_ones_go_on() {
    let app = App::start_with(|config| {
        config.clients.proxies.clear();
        config.clients.wrong_keys_per_minute = 5;
        config.key_cache_s = 0;
    })
    .await;
    for nth in 0..5 {
        get_as(&app, &format!("hou_wrong_{nth}")).await.refused(401, "unauthorized");
    }
    let refused = get_as(&app, "hou_wrong_5").await;
    refused.refused(429, "too_many_keys");
    assert_eq!(refused.header("retry-after"), "60");
    // Nothing is trusted from before here: each of these is looked up.
    for _ in 0..3 {
        get_as(&app, KEY).await.ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_keys_are_looked_up_together() {
    let app = App::start().await;
    // One connection, which a look-up has for half a second: a hundred of them, one by one, would wait in vain.
    let (proxy, address) = proxied::start(&app, 1, |_| {}).await;
    let path = app.path("");
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
