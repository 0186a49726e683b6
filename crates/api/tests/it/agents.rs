//! Agents and teams: whose they are, and what many may do to one at once.

use serde_json::{Value, json};

use crate::app::{App, KEY, make_tenant};

const OTHER: &str = "hou_other_0123456789abcdef";

async fn agent(app: &App, name: &str) -> Value {
    app.post("/v1/agents", json!({"name": name, "kind": "goal"})).await.ok()
}

#[tokio::test]
async fn agents_and_teams_of_another_tenant_do_not_exist() {
    let app = App::start().await;
    make_tenant(&app.state, "other", OTHER).await;
    let agent = agent(&app, "cook").await;
    let router = json!({"by": "model"});
    let team =
        app.post("/v1/teams", json!({"name": "all", "agents": [agent["id"]], "router": router})).await.ok();
    for (path, change) in [
        (format!("/v1/agents/{}", agent["id"].as_str().unwrap()), json!({"role": "x"})),
        (format!("/v1/teams/{}", team["id"].as_str().unwrap()), json!({"name": "x"})),
    ] {
        for (method, body) in [("GET", Value::Null), ("PATCH", change), ("DELETE", Value::Null)] {
            let answer = app.send_as(OTHER, method, &path, body).await;
            assert_eq!(answer.status, 404, "{method} {path}: {}", answer.text());
        }
    }
    let reset = format!("/v1/agents/{}/reset", agent["id"].as_str().unwrap());
    assert_eq!(app.send_as(OTHER, "POST", &reset, Value::Null).await.status, 404);
    // Nor can they be used; and both may call theirs alike.
    let same = json!({"name": "cook", "kind": "goal"});
    assert_eq!(app.send_as(OTHER, "POST", "/v1/agents", same).await.status, 201);
    let user = app.send_as(OTHER, "POST", "/v1/users", json!({"name": "Eve"})).await.ok();
    for served_by in [json!({"agent_id": agent["id"]}), json!({"team_id": team["id"]})] {
        let mut body = served_by;
        body["user_id"] = user["id"].clone();
        body["title"] = json!("Tokyo");
        let answer = app.send_as(OTHER, "POST", "/v1/goals", body).await;
        assert_eq!(answer.status, 422, "{}", answer.text());
    }
    let body = json!({"name": "mine", "agents": [agent["id"]], "router": router});
    let answer = app.send_as(OTHER, "POST", "/v1/teams", body).await;
    assert!(answer.status == 422 && answer.text().contains("/agents/0"), "{}", answer.text());
    let list = app.send_as(OTHER, "GET", "/v1/agents", Value::Null).await.ok();
    assert_eq!(list["data"].as_array().unwrap().len(), 4, "three default ones and its own: {list}");
    let list = app.send_as(KEY, "GET", "/v1/agents?limit=2", Value::Null).await.ok();
    let next = format!("/v1/agents?limit=2&cursor={}", list["next_cursor"].as_str().unwrap());
    assert_eq!(app.get(&next).await.ok()["data"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn changes_of_different_fields_at_the_same_time_are_all_kept() {
    let app = App::start().await;
    let agent = agent(&app, "cook").await;
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
        futures_util::future::join_all(changes.iter().map(|change| app.send("PATCH", &path, change.clone())));
    for answer in all.await {
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let now = app.get(&path).await.ok();
    for change in changes {
        for (field, value) in change.as_object().unwrap() {
            assert_eq!(&now[field], value, "{now}");
        }
    }
    assert_eq!(now["version"], 7);
    // Of those that go by the same version, one wins.
    let change = |role: &str| app.send("PATCH", &path, json!({"role": role, "version": 7}));
    let (one, other) = (change("a"), change("b"));
    let (one, other) = tokio::join!(one, other);
    let mut statuses = [one.status, other.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);
}
