//! Agents and teams: tenants and concurrent changes.

use serde_json::{Value, json};

use crate::test_api::{KEY, TestApi, make_tenant};

const OTHER: &str = "hou_other_0123456789abcdef";

async fn agent(api: &TestApi, name: &str) -> Value {
    api.post("/v1/agents", json!({"name": name, "kind": "goal"})).await.ok()
}

#[tokio::test]
async fn agents_and_teams_of_other_tenants_are_not_found() {
    let api = TestApi::start().await;
    make_tenant(&api.store, &api.state.ids, "other", OTHER).await;
    let agent = agent(&api, "cook").await;
    let router = json!({"by": "model"});
    let team =
        api.post("/v1/teams", json!({"name": "all", "agents": [agent["id"]], "router": router})).await.ok();
    for (path, change) in [
        (format!("/v1/agents/{}", agent["id"].as_str().unwrap()), json!({"role": "x"})),
        (format!("/v1/teams/{}", team["id"].as_str().unwrap()), json!({"name": "x"})),
    ] {
        for (method, body) in [("GET", Value::Null), ("PATCH", change), ("DELETE", Value::Null)] {
            let answer = api.send_as(OTHER, method, &path, body).await;
            assert_eq!(answer.status, 404, "{method} {path}: {}", answer.text());
        }
    }
    let reset = format!("/v1/agents/{}/reset", agent["id"].as_str().unwrap());
    assert_eq!(api.send_as(OTHER, "POST", &reset, Value::Null).await.status, 404);
    // They cannot be used either; and both tenants may use the same name.
    let same = json!({"name": "cook", "kind": "goal"});
    assert_eq!(api.send_as(OTHER, "POST", "/v1/agents", same).await.status, 201);
    let user = api.send_as(OTHER, "POST", "/v1/users", json!({"name": "Eve"})).await.ok();
    for served_by in [json!({"agent_id": agent["id"]}), json!({"team_id": team["id"]})] {
        let mut body = served_by;
        body["user_id"] = user["id"].clone();
        body["title"] = json!("Tokyo");
        let answer = api.send_as(OTHER, "POST", "/v1/goals", body).await;
        assert_eq!(answer.status, 422, "{}", answer.text());
    }
    let body = json!({"name": "mine", "agents": [agent["id"]], "router": router});
    let answer = api.send_as(OTHER, "POST", "/v1/teams", body).await;
    assert!(answer.status == 422 && answer.text().contains("/agents/0"), "{}", answer.text());
    let list = api.send_as(OTHER, "GET", "/v1/agents", Value::Null).await.ok();
    assert_eq!(list["data"].as_array().unwrap().len(), 6, "five default agents and its own: {list}");
    let kinds = api.send_as(OTHER, "GET", "/v1/kinds", Value::Null).await.ok();
    let named = |kind: &str| kinds["data"].as_array().unwrap().iter().find(|of| of["kind"] == kind).unwrap();
    let (goal, task) = (named("goal"), named("task"));
    assert_eq!((&goal["agents"], &task["agents"]), (&json!(2), &json!(1)), "of its own tenant only: {kinds}");
    assert_eq!((&goal["created_by"], &task["created_by"]), (&json!("clients"), &json!("agents")));
    assert!(goal["tools"].as_array().unwrap().contains(&json!("send_message")), "{goal}");
    let found = list["data"].as_array().unwrap().iter().any(|of| of["id"] == goal["default_agent_id"]);
    assert!(found && goal["limits"]["max_iterations"].as_i64().unwrap() > 0, "{goal}");
    let list = api.send_as(KEY, "GET", "/v1/agents?limit=2", Value::Null).await.ok();
    let next = format!("/v1/agents?limit=2&cursor={}", list["next_cursor"].as_str().unwrap());
    assert_eq!(api.get(&next).await.ok()["data"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn concurrent_changes_of_different_fields_all_apply() {
    let api = TestApi::start().await;
    let agent = agent(&api, "cook").await;
    let path = format!("/v1/agents/{}", agent["id"].as_str().unwrap());
    let changes = [
        json!({"role": "one"}),
        json!({"guidelines": "two"}),
        json!({"description": "three"}),
        json!({"tools": ["create_note"]}),
        json!({"limits": {"max_iterations": 4}}),
        json!({"name": "five"}),
    ];
    let all =
        futures_util::future::join_all(changes.iter().map(|change| api.send("PATCH", &path, change.clone())));
    for answer in all.await {
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let now = api.get(&path).await.ok();
    for change in changes {
        for (field, value) in change.as_object().unwrap() {
            assert_eq!(&now[field], value, "{now}");
        }
    }
    assert_eq!(now["version"], 7);
    // Of two changes with the same version, one wins.
    let change = |role: &str| api.send("PATCH", &path, json!({"role": role, "version": 7}));
    let (one, other) = (change("a"), change("b"));
    let (one, other) = tokio::join!(one, other);
    let mut statuses = [one.status, other.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);
}
