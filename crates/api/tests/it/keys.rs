//! Wrong keys, many keys at once, and keys that are revoked while in use.

use std::time::Duration;

use chrono::TimeDelta;
use houston_domain::api_key::SecretKind;
use houston_domain::clock::{Clock as _, SystemClock};
use houston_domain::scope::Scope;
use houston_store::api_key::NewApiKey;
use houston_testkit::fault_proxy::Fault;
use serde_json::{Value, json};

use crate::access::key_with;
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
async fn key_with_a_wrong_checksum_costs_no_query() {
    let api = TestApi::start_with_own_postgres(|config| config.clients.wrong_keys_per_minute = 5).await;
    let right = SecretKind::Key.secret([7; 32]);
    get_as(&api, &right).await.refused(401, "unauthorized");
    api.servers.kill_postgres().unwrap();
    for nth in 0..20 {
        // The last digit is one of the checksum.
        let wrong = format!("{}{}", &right[..right.len() - 1], if right.ends_with('0') { '1' } else { '0' });
        get_as(&api, &wrong.replacen("07", &format!("{nth:02x}"), 1)).await.refused(401, "unauthorized");
    }
    get_as(&api, &SecretKind::Key.secret([8; 32])).await.refused(503, "unavailable");
}

#[tokio::test]
async fn wrong_keys_behind_a_proxy_are_counted_for_its_clients() {
    let api = TestApi::start_with(|config| {
        config.clients.forwarded = true;
        config.clients.wrong_keys_per_minute = 2;
    })
    .await;
    let from = async |client: &str, nth: u8| {
        let key = bearer(&SecretKind::Key.secret([nth; 32]));
        api.get_with(&api.path(""), &[("authorization", &key), ("x-forwarded-for", client)]).await
    };
    for nth in 0..2 {
        from("203.0.113.9, 192.0.2.1", nth).await.refused(401, "unauthorized");
    }
    from("203.0.113.10, 192.0.2.1", 2).await.refused(429, "too_many_keys");
    from("203.0.113.9, 192.0.2.2", 3).await.refused(401, "unauthorized");
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

#[tokio::test]
async fn key_says_what_it_allows() {
    let api = TestApi::start().await;
    const ADA: &str = "hou_ada_0123456789abc";
    let read_and_post = [Scope::Read, Scope::Post].into_iter().collect();
    let id = key_with(&api, ADA, read_and_post, Some(&api.user)).await;
    let of_ada = get_own(&api, ADA).await;
    assert_eq!(of_ada, json!({"id": id.to_string(), "scopes": ["read", "post"], "user_id": api.user}));
    let of_tenant = get_own(&api, KEY).await;
    assert_eq!(of_tenant["user_id"], Value::Null);
    assert!(of_tenant["scopes"].as_array().unwrap().contains(&json!("admin")), "{of_tenant}");
}

async fn get_own(api: &TestApi, key: &str) -> Value {
    api.send_as(key, "GET", "/v1/key", Value::Null).await.ok()
}

#[tokio::test]
async fn admins_list_and_revoke_the_keys_of_their_tenant() {
    let api = TestApi::start_with(|config| config.key_cache_s = 1).await;
    key_with(&api, OTHER, [Scope::Operate].into_iter().collect(), None).await;
    make_tenant(&api.store, &api.state.ids, "beta", "hou_beta_0123456789abcde").await;
    let all = api.get("/v1/keys?active=true").await.ok();
    let keys = all["data"].as_array().unwrap();
    assert_eq!(keys.len(), 2, "{all}");
    let other = &keys[0];
    assert_eq!((&other["scopes"], &other["status"]), (&json!(["operate"]), &json!("active")));
    assert!(other["secret"].is_null() && !all.to_string().contains(OTHER), "{all}");
    let path = format!("/v1/keys/{}/revoke", other["id"].as_str().unwrap());
    api.send_as(OTHER, "GET", "/v1/keys", Value::Null).await.refused(403, "forbidden");
    api.send_as(OTHER, "POST", &path, Value::Null).await.refused(403, "forbidden");
    api.send_as("hou_beta_0123456789abcde", "POST", &path, Value::Null).await.refused(404, "not_found");
    let revoked = api.post(&path, Value::Null).await.ok();
    assert_eq!((&revoked["status"], &revoked["id"]), (&json!("revoked"), &other["id"]));
    assert_eq!(
        api.post(&path, Value::Null).await.ok()["revoked_at"],
        revoked["revoked_at"],
        "it stays revoked"
    );
    while get_as(&api, OTHER).await.status != 401 {}
    let first = api.get("/v1/keys?limit=1").await.ok();
    assert_eq!(first["data"][0], revoked, "it stays in the list");
    let next = format!("/v1/keys?cursor={}", first["next_cursor"].as_str().unwrap());
    assert_eq!(api.get(&next).await.ok()["data"].as_array().unwrap().len(), 1);
    api.get("/v1/keys?active=yes").await.refused(422, "invalid_request");
    let audit = api.get("/v1/audit?operation=revoke_key").await.ok();
    let named = audit["data"].as_array().unwrap().iter().filter(|of| of["actor_name"].is_string());
    assert_eq!(named.count(), 3, "two of the admin, one refused: {audit}");
}

#[tokio::test]
async fn keys_of_sessions_are_deleted_long_after_their_end() {
    let api = TestApi::start().await;
    for (secret, name, days) in [
        ("hou_old_012345", "console: ada", 91),
        ("hou_new_012345", "console: bob", 89),
        ("hou_own_012345", "ci", 91),
    ] {
        let new = NewApiKey {
            id: api.state.ids.next(),
            name,
            key: secret,
            scopes: [Scope::Read].into_iter().collect(),
            user: None,
            expires_at: Some(SystemClock.now() - TimeDelta::days(days)),
            issuer: None,
        };
        api.store.operator().create_api_key(api.tenant, &new).await.unwrap();
    }
    assert_eq!(api.store.operator().delete_ended_sessions(api.tenant).await.unwrap(), 1);
    let left = api.store.operator().list_api_keys().await.unwrap();
    let names: Vec<&str> = left.iter().map(|key| key.name.as_str()).collect();
    assert!(
        !names.contains(&"console: ada") && names.contains(&"console: bob") && names.contains(&"ci"),
        "{names:?}"
    );
}
