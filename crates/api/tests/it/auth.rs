use serde_json::json;

use crate::test_api::{KEY, TestApi, bearer, make_tenant};

#[tokio::test]
async fn only_valid_keys_are_accepted_and_revoked_keys_refused() {
    let api = TestApi::start_with(|config| config.key_cache_s = 0).await;
    let path = api.path("");
    let wrong_key = bearer(&format!("{}x", &KEY[..KEY.len() - 1]));
    for header in ["", "Bearer", "Bearer ", "Basic hou_x", "Bearer nope", "Bearer hou_nobody", &wrong_key] {
        let answer = api.get_with(&path, &[("authorization", header)]).await;
        answer.refused(401, "unauthorized");
        assert_eq!(answer.header("www-authenticate"), "Bearer");
    }
    api.get_with(&path, &[]).await.refused(401, "unauthorized");
    api.get_with(&path, &[("authorization", &format!("bearer {KEY}"))]).await.ok();

    let keys = api.store.operator().list_api_keys().await.unwrap();
    api.store.operator().revoke_api_key(keys[0].id).await.unwrap();
    api.get(&path).await.refused(401, "unauthorized");
}

#[tokio::test]
async fn resources_of_another_tenant_are_not_found() {
    let api = TestApi::start().await;
    let posted = api.post_message("hello").await;
    make_tenant(&api.store, &api.state.ids, "other", "hou_other_0123456789").await;
    let other = [("authorization", "Bearer hou_other_0123456789"), ("content-type", "application/json")];
    let (message, run) = (posted["id"].as_str().unwrap(), posted["run_id"].as_str().unwrap());
    for path in [
        format!("/v1/users/{}", api.user),
        api.path(""),
        api.path("/messages"),
        api.path("/history"),
        api.path("/events"),
        api.path("/events?after=0"),
        format!("/v1/messages/{message}"),
        format!("/v1/runs/{run}"),
    ] {
        api.get_with(&path, &other).await.refused(404, "not_found");
        let own = if path.contains("/events") { continue } else { api.get(&path).await };
        own.ok();
    }
    let send = |path: String, body: serde_json::Value| {
        let address = api.address;
        async move { crate::http::request(address, "POST", &path, &other, &body.to_string()).await }
    };
    send(api.path("/messages"), json!({"content": "x"})).await.refused(404, "not_found");
    send(format!("/v1/runs/{run}/cancel"), json!({})).await.refused(404, "not_found");
    send("/v1/goals".into(), json!({"user_id": api.user, "title": "x"})).await.refused(404, "not_found");
    assert_eq!(api.get(&format!("/v1/runs/{run}")).await.json()["cancel_requested"], false);
}
