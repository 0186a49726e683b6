use serde_json::json;

use crate::app::{App, KEY, bearer, make_tenant};

#[tokio::test]
async fn only_a_known_key_opens_and_a_revoked_one_no_more() {
    let app = App::start_with(|config| config.key_cache_s = 0).await;
    let path = app.path("");
    let wrong_key = bearer(&format!("{}x", &KEY[..KEY.len() - 1]));
    for header in ["", "Bearer", "Bearer ", "Basic hou_x", "Bearer nope", "Bearer hou_nobody", &wrong_key] {
        let answer = app.get_with(&path, &[("authorization", header)]).await;
        answer.refused(401, "unauthorized");
        assert_eq!(answer.header("www-authenticate"), "Bearer");
    }
    app.get_with(&path, &[]).await.refused(401, "unauthorized");
    app.get_with(&path, &[("authorization", &format!("bearer {KEY}"))]).await.ok();

    let keys = app.state.store.list_api_keys().await.unwrap();
    app.state.store.revoke_api_key(keys[0].id).await.unwrap();
    app.get(&path).await.refused(401, "unauthorized");
}

#[tokio::test]
async fn what_is_another_tenants_does_not_exist() {
    let app = App::start().await;
    let posted = app.say("hello").await;
    make_tenant(&app.state, "other", "hou_other_0123456789").await;
    let other = [("authorization", "Bearer hou_other_0123456789"), ("content-type", "application/json")];
    let (message, run) = (posted["id"].as_str().unwrap(), posted["run_id"].as_str().unwrap());
    for path in [
        format!("/v1/users/{}", app.user),
        app.path(""),
        app.path("/messages"),
        app.path("/history"),
        app.path("/events"),
        app.path("/events?after=0"),
        format!("/v1/messages/{message}"),
        format!("/v1/runs/{run}"),
    ] {
        app.get_with(&path, &other).await.refused(404, "not_found");
        let own = if path.contains("/events") { continue } else { app.get(&path).await };
        own.ok();
    }
    let send = |path: String, body: serde_json::Value| {
        let address = app.address;
        async move { crate::http::request(address, "POST", &path, &other, &body.to_string()).await }
    };
    send(app.path("/messages"), json!({"content": "x"})).await.refused(404, "not_found");
    send(format!("/v1/runs/{run}/cancel"), json!({})).await.refused(404, "not_found");
    send("/v1/goals".into(), json!({"user_id": app.user, "title": "x"})).await.refused(404, "not_found");
    assert_eq!(app.get(&format!("/v1/runs/{run}")).await.json()["cancel_requested"], false);
}
