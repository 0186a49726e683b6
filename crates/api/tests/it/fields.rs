//! What may be changed of a thing, and what messages are about.

use houston_domain::field::{Entity, FieldType, Max};
use serde_json::{Value, json};

use crate::test_api::TestApi;

#[tokio::test(flavor = "multi_thread")]
async fn refusal_of_a_field_names_what_may_be_changed() {
    let api = TestApi::start().await;
    let table = api.get("/v1/fields/goal").await.ok();
    let names: Vec<&str> =
        table["data"].as_array().unwrap().iter().map(|field| field["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["title", "description", "status", "agent_id", "team_id", "tools"]);
    assert_eq!(table["data"][0]["max"], json!({"chars": 200}));
    api.get("/v1/fields/spaceship").await.refused(404, "not_found");

    let changed =
        api.send("PATCH", &api.path(""), json!({"title": "Osaka", "description": "In June."})).await.ok();
    assert_eq!((&changed["title"], &changed["description"]), (&json!("Osaka"), &json!("In June.")));
    let archived = api.send("PATCH", &api.path(""), json!({"status": "archived"})).await.ok();
    assert_eq!(archived["status"], "archived");
    let refused =
        api.send("PATCH", &api.path(""), json!({"owner": "me"})).await.refused(422, "invalid_request");
    let detail = refused["errors"][0]["detail"].as_str().unwrap();
    assert_eq!(refused["errors"][0]["pointer"], "/owner");
    assert!(detail.contains("updatable are title (both)") && detail.contains("agent_id (api)"), "{detail}");
    assert!(detail.ends_with("see GET /v1/fields/goal"), "{detail}");
    let note = api.post(&api.path("/notes"), json!({"title": "a", "content": "b"})).await.ok();
    let path = format!("/v1/notes/{}", note["id"].as_str().unwrap());
    let refused = api.send("PATCH", &path, json!({"owner": "me"})).await.refused(422, "invalid_request");
    assert!(refused["errors"][0]["detail"].as_str().unwrap().contains("GET /v1/fields/note"), "{refused}");
}

/// Something of each entity with texts, and its path.
async fn changeable(api: &TestApi) -> Vec<(Entity, String)> {
    let of = |path: &str, made: &Value| format!("/v1/{path}/{}", made["id"].as_str().unwrap());
    let user = format!("/v1/users/{}", api.user);
    let note = api.post(&api.path("/notes"), json!({"title": "a", "content": "b"})).await.ok();
    let todo = api.post(&format!("{user}/todos"), json!({"title": "a"})).await.ok();
    let agent = json!({"kind": "goal", "name": "ann", "role": "You help."});
    let agent = api.post("/v1/agents", agent).await.ok();
    let team = json!({"name": "all", "agents": [agent["id"]], "router": {"by": "rules", "rules": [{"when": {"regex": "x"}, "agent_id": agent["id"]}]}});
    let team = api.post("/v1/teams", team).await.ok();
    let trigger = json!({"name": "a", "when": {"type": "cron", "cron": "30 7 * * 1-5", "zone": "Europe/Berlin"},
                         "then": {"type": "tell", "agentable_id": api.goal, "instructions": "Look."}});
    let trigger = api.post(&format!("{user}/triggers"), trigger).await.ok();
    vec![
        (Entity::Goal, api.path("")),
        (Entity::User, user),
        (Entity::Note, of("notes", &note)),
        (Entity::Todo, of("todos", &todo)),
        (Entity::Agent, of("agents", &agent)),
        (Entity::Team, of("teams", &team)),
        (Entity::Trigger, of("triggers", &trigger)),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_have_the_limits_of_the_tables() {
    let api = TestApi::start().await;
    let mut checked = 0;
    for (entity, path) in changeable(&api).await {
        let texts =
            entity.fields().iter().filter(|field| field.kind == FieldType::String && field.values.is_empty());
        for field in texts {
            let most = match field.max {
                Some(Max::Chars(most) | Max::Bytes(most)) => most,
                _ => continue,
            };
            let longest = "x".repeat(most);
            let changed = api.send("PATCH", &path, json!({field.name: longest})).await.ok();
            assert!(changed.to_string().contains(&longest), "{entity:?}.{}", field.name);
            let mut wrong = vec![json!("x".repeat(most + 1))];
            wrong.extend(field.required.then(|| json!("")));
            for value in wrong {
                let refused = api.send("PATCH", &path, json!({field.name: value})).await;
                let refused = refused.refused(422, "invalid_request");
                assert_eq!(
                    refused["errors"][0]["pointer"],
                    format!("/{}", field.name),
                    "{entity:?} {refused}"
                );
                checked += 1;
            }
        }
    }
    assert!(checked >= 15, "{checked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn message_may_say_what_it_is_about() {
    let api = TestApi::start().await;
    let post = async |context: Value| {
        api.post(&api.path("/messages"), json!({"content": "Where is it?", "context": context})).await
    };
    post(json!({"type": "order", "id": "17", "data": {"tab": "delivery"}})).await.ok();
    let stored = api.sql("select offer -> 'focus' ->> 'id' from houston.client_offers");
    assert_eq!(stored.trim(), "17");
    for (wrong, pointer) in [
        (json!({"type": "an order", "id": "17"}), "/context/type"),
        (json!({"type": "order", "id": "a\nb"}), "/context/id"),
        (json!({"type": "order", "id": "17", "data": "x".repeat(5_000)}), "/context/data"),
        (json!({"type": "order", "id": "17", "data": "\u{0}"}), "/context/data"),
        (json!({"type": "order"}), "/context/id"),
        (json!({"type": "order", "id": "17", "name": "x"}), "/context/name"),
    ] {
        let refused = post(wrong).await.refused(422, "invalid_request");
        assert_eq!(refused["errors"][0]["pointer"], pointer, "{refused}");
    }
    api.post_message("Nothing in particular.").await;
    assert_eq!(api.sql("select count(*) from houston.client_offers").trim(), "1", "it costs no row");
}

#[tokio::test(flavor = "multi_thread")]
async fn message_may_say_how_its_model_is_called() {
    let api = TestApi::start().await;
    let post = async |policy: Value| {
        api.post(&api.path("/messages"), json!({"content": "No hurry.", "model_policy": policy})).await
    };
    post(json!({"latency": "relaxed", "cache": "long"})).await.ok();
    let stored = api.sql("select offer -> 'model_policy' from houston.client_offers");
    assert_eq!(
        serde_json::from_str::<Value>(&stored).unwrap(),
        json!({"cache": "long", "latency": "relaxed"})
    );
    for (wrong, allowed) in [
        (json!({"latency": "slow"}), "`interactive`, `relaxed`, `batch`"),
        (json!({"cache": "1h"}), "`off`, `short`, `long`, `auto`"),
        (json!({"tier": "flex"}), "`cache` or `latency`"),
    ] {
        let refused = post(wrong).await.refused(422, "invalid_request");
        assert!(refused.to_string().contains(allowed), "{refused}");
        assert!(refused["errors"][0]["pointer"].as_str().unwrap().starts_with("/model_policy"), "{refused}");
    }
    post(json!({})).await.ok();
    assert_eq!(api.sql("select count(*) from houston.client_offers").trim(), "1", "it costs no row");
}
