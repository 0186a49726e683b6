//! What may be changed of a thing, and what messages are about.

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
