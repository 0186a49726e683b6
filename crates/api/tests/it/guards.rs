//! Guards over HTTP: of the tenant, of users, agents and agentables.

use serde_json::{Value, json};

use crate::test_api::{TestApi, make_tenant};

const OTHER: &str = "hou_other_0123456789abcdef";

#[tokio::test]
async fn guards_of_each_owner_are_set_read_and_removed() {
    let api = TestApi::start().await;
    make_tenant(&api.store, &api.state.ids, "other", OTHER).await;
    let agent = api.post("/v1/agents", json!({"name": "cook", "kind": "goal"})).await.ok();
    let user = api.get(&api.path("")).await.ok()["user_id"].clone();
    let guards = json!({
        "level": "read", "denied": ["delete_*"],
        "rule": [{"tool": "create_note", "when": {"/title": "secret*"}, "decide": "deny", "why": "no secrets"}]
    });
    for path in [
        "/v1/guards".to_owned(),
        format!("/v1/users/{}/guards", user.as_str().unwrap()),
        format!("/v1/agents/{}/guards", agent["id"].as_str().unwrap()),
        api.path("/guards"),
    ] {
        assert_eq!(api.get(&path).await.ok(), json!({}), "{path}");
        let set = api.send("PUT", &path, guards.clone()).await.ok();
        assert_eq!(set["denied"], guards["denied"], "{path}: {set}");
        assert_eq!(api.get(&path).await.ok(), set, "{path}");
        // What is wrong is refused with the place, and changes nothing.
        for (body, words) in [
            (json!({"level": "everything"}), "admin"),
            (json!({"moods": []}), "moods"),
            (json!([null, null]), "an object"),
            (json!({"rule": [{"tool": "x", "decide": "maybe"}]}), "/rule/0/decide"),
            (json!({"denied": ["a["]}), "denied"),
            (json!({"tools": {"create_note": {"reply": true}}}), "only the installation"),
            (json!({"denied": ["x".repeat(40_000)]}), "at most"),
        ] {
            let refused = api.send("PUT", &path, body).await;
            assert!(refused.status >= 400 && refused.status < 500, "{path}: {}", refused.text());
            assert!(refused.text().contains(words), "{path}: {}", refused.text());
        }
        assert_eq!(api.get(&path).await.ok(), set, "{path}");
        if path != "/v1/guards" {
            for (method, body) in [("GET", Value::Null), ("PUT", json!({}))] {
                assert_eq!(api.send_as(OTHER, method, &path, body).await.status, 404, "{method} {path}");
            }
        }
        assert_eq!(api.send("PUT", &path, json!({})).await.ok(), json!({}), "{path}");
        assert_eq!(api.get(&path).await.ok(), json!({}), "{path}");
    }
    assert_eq!(api.send_as(OTHER, "GET", "/v1/guards", Value::Null).await.ok(), json!({}));
}

#[tokio::test]
async fn change_and_reset_of_an_agent_keep_its_guards() {
    let api = TestApi::start().await;
    let agents = api.get("/v1/agents").await.ok();
    let goal = agents["data"].as_array().unwrap().iter().find(|agent| agent["kind"] == "goal").unwrap();
    let path = format!("/v1/agents/{}", goal["id"].as_str().unwrap());
    let guards = format!("{path}/guards");
    let set = api.send("PUT", &guards, json!({"denied": ["delete_*"]})).await.ok();
    api.send("PATCH", &path, json!({"role": "You cook."})).await.ok();
    assert_eq!(api.get(&guards).await.ok(), set);
    api.post("/v1/agents/resync", Value::Null).await.ok();
    assert_eq!(api.get(&guards).await.ok(), set);
    assert_eq!(api.post(&format!("{path}/reset"), Value::Null).await.ok()["changed"], false);
    assert_eq!(api.get(&guards).await.ok(), set);
}

#[tokio::test]
async fn copy_of_a_conversation_has_its_guards() {
    let api = TestApi::start().await;
    let set = api.send("PUT", &api.path("/guards"), json!({"level": "read"})).await.ok();
    let copy = api.post(&api.path("/fork"), json!({})).await.ok();
    let path = format!("/v1/goals/{}/guards", copy["id"].as_str().unwrap());
    assert_eq!(api.get(&path).await.ok(), set, "{copy}");
}
