//! Listing, filtering and changing users, goals, runs and results.

use houston_domain::run::RunStatus;
use serde_json::{Value, json};

use crate::test_api::{TestApi, make_tenant};
use crate::worker::Worker;

fn ids(page: &Value) -> Vec<&str> {
    page["data"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn users_are_paged_and_found_by_external_id() {
    let api = TestApi::start().await;
    let grace = api.post("/v1/users", json!({"name": "Grace", "external_id": "g/1 ä"})).await.ok();
    let page = api.get("/v1/users?limit=1").await.ok();
    assert_eq!(
        (&page["data"], &page["has_more"]),
        (&json!([grace]), &json!(true)),
        "newest first, as GET shows it"
    );
    let cursor = page["next_cursor"].as_str().unwrap();
    let page = api.get(&format!("/v1/users?cursor={cursor}")).await.ok();
    assert_eq!((ids(&page), &page["has_more"]), (vec![api.user.as_str()], &json!(false)));

    let found = api.get("/v1/users?external_id=g%2F1%20%C3%A4").await.ok();
    assert_eq!(found["data"], json!([grace]));
    assert_eq!(api.get("/v1/users?external_id=unknown").await.ok()["data"], json!([]));
    api.get("/v1/users?external_id=a%00").await.refused(422, "invalid_request");
    api.get("/v1/users?cursor=m1").await.refused(422, "invalid_cursor");
    let stranger = "hou_other_0123456789abcdef";
    make_tenant(&api.store, &api.state.ids, "other", stranger).await;
    let other = api.send_as(stranger, "GET", "/v1/users", Value::Null).await.ok();
    assert_eq!(other["data"], json!([]), "a tenant sees only its own users");
}

#[tokio::test]
async fn already_exists_names_the_existing_id() {
    let api = TestApi::start().await;
    let body = json!({"name": "Grace", "external_id": "g-1"});
    let grace = api.post("/v1/users", body.clone()).await.ok();
    let problem = api.post("/v1/users", body).await.refused(409, "already_exists");
    assert_eq!(problem["existing_id"], grace["id"]);
    let ada = format!("/v1/users/{}", api.user);
    let problem = api.send("PATCH", &ada, json!({"external_id": "g-1"})).await.refused(409, "already_exists");
    assert_eq!(problem["existing_id"], grace["id"]);

    let agent = json!({"name": "clerk", "kind": "goal"});
    let clerk = api.post("/v1/agents", agent.clone()).await.ok();
    let problem = api.post("/v1/agents", agent).await.refused(409, "already_exists");
    assert_eq!(problem["existing_id"], clerk["id"]);
    assert!(
        problem["detail"].as_str().unwrap().starts_with("an agent with this name already exists"),
        "{problem}"
    );
    let cook = api.post("/v1/agents", json!({"name": "cook", "kind": "goal"})).await.ok();
    let path = format!("/v1/agents/{}", cook["id"].as_str().unwrap());
    let problem = api.send("PATCH", &path, json!({"name": "clerk"})).await.refused(409, "already_exists");
    assert_eq!(problem["existing_id"], clerk["id"]);
    let problem = api.send("PATCH", &path, json!({"name": "goal"})).await.refused(409, "already_exists");
    let default = api.get(&format!("/v1/agents/{}", problem["existing_id"].as_str().unwrap())).await.ok();
    assert_eq!((&default["name"], &default["is_default"]), (&json!("goal"), &json!(true)));

    let router = json!({"by": "model"});
    let team = json!({"name": "office", "agents": [clerk["id"], cook["id"]], "router": router});
    let office = api.post("/v1/teams", team.clone()).await.ok();
    let problem = api.post("/v1/teams", team.clone()).await.refused(409, "already_exists");
    assert_eq!(problem["existing_id"], office["id"]);
    let mut second = team;
    second["name"] = json!("kitchen");
    let kitchen = api.post("/v1/teams", second).await.ok();
    let path = format!("/v1/teams/{}", kitchen["id"].as_str().unwrap());
    let problem = api.send("PATCH", &path, json!({"name": "office"})).await.refused(409, "already_exists");
    assert_eq!(problem["existing_id"], office["id"]);
}

#[tokio::test]
async fn user_patch_changes_only_given_fields() {
    let api = TestApi::start().await;
    let path = format!("/v1/users/{}", api.user);
    let before = api.get(&path).await.ok();
    let moved = api.send("PATCH", &path, json!({"time_zone": "Asia/Tokyo", "external_id": "ada"})).await.ok();
    let mut expected = before;
    expected["time_zone"] = json!("Asia/Tokyo");
    expected["external_id"] = json!("ada");
    assert_eq!(moved, expected);
    assert_eq!(api.get(&path).await.ok(), expected);
    expected["external_id"] = json!(null);
    expected["name"] = json!("Ada L.");
    assert_eq!(api.send("PATCH", &path, json!({"external_id": null, "name": "Ada L."})).await.ok(), expected);
    for (body, pointer) in [
        (json!({}), ""),
        (json!({"name": " "}), "/name"),
        (json!({"time_zone": "Mars/Base"}), "/time_zone"),
        (json!({"external_id": ""}), "/external_id"),
        (json!({"cost": 0}), "/cost"),
    ] {
        let problem = api.send("PATCH", &path, body).await.refused(422, "invalid_request");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
    let unknown = "/v1/users/user_00000000000000000000000000000000";
    api.send("PATCH", unknown, json!({"name": "x"})).await.refused(404, "not_found");
}

#[tokio::test]
async fn goals_are_filtered_by_user_and_status() {
    let api = TestApi::start().await;
    let working = api.make_goal("Sail").await;
    let said = api.post(&format!("/v1/goals/{working}/messages"), json!({"content": "hello"})).await;
    assert_eq!(said.status, 202);
    let archived = api.make_goal("Ski").await;
    api.post(&format!("/v1/goals/{archived}/archive"), json!({})).await.ok();
    let grace = api.post("/v1/users", json!({"name": "Grace"})).await.ok();
    let body = json!({"user_id": grace["id"], "title": "Cook"});
    let cook = api.post("/v1/goals", body).await.ok()["id"].as_str().unwrap().to_owned();

    let all = api.get("/v1/goals").await.ok();
    assert_eq!(ids(&all), [cook.as_str(), &archived, &working, &api.goal], "of all users, newest first");
    for goal in all["data"].as_array().unwrap() {
        let alike = api.get(&format!("/v1/goals?status={}", goal["status"].as_str().unwrap())).await.ok();
        assert!(ids(&alike).contains(&goal["id"].as_str().unwrap()), "{goal}");
    }
    let of = async |query: &str| api.get(&format!("/v1/goals?{query}")).await.ok();
    assert_eq!(ids(&of("status=working").await), [working.as_str()]);
    assert_eq!(ids(&of("status=archived").await), [archived.as_str()]);
    assert_eq!(ids(&of(&format!("status=waiting&user_id={}", api.user)).await), [api.goal.as_str()]);
    let page = of("status=waiting&limit=1").await;
    assert_eq!((ids(&page), &page["has_more"]), (vec![cook.as_str()], &json!(true)));
    let cursor = page["next_cursor"].as_str().unwrap();
    assert_eq!(ids(&of(&format!("status=waiting&cursor={cursor}")).await), [api.goal.as_str()]);

    let problem = api.get("/v1/goals?status=done").await.refused(422, "invalid_request");
    let detail = problem["errors"][0]["detail"].as_str().unwrap();
    assert!(detail.contains("waiting, working, archived"), "{detail}");
    api.get("/v1/goals?user_id=me").await.refused(422, "invalid_request");
}

#[tokio::test]
async fn goal_patch_changes_only_given_fields() {
    let api = TestApi::start().await;
    let path = api.path("");
    let before = api.get(&path).await.ok();
    let mut expected = before;
    expected["title"] = json!("Learn Zig");
    assert_eq!(api.send("PATCH", &path, json!({"title": "Learn Zig"})).await.ok(), expected);
    expected["description"] = json!("From scratch");
    expected["tools"] = json!(["send_message"]);
    let body = json!({"description": "From scratch", "tools": ["send_message"]});
    assert_eq!(api.send("PATCH", &path, body).await.ok(), expected);
    assert_eq!(api.get(&path).await.ok(), expected);
    for (body, pointer) in [
        (json!({"title": " "}), "/title"),
        (json!({"title": null}), ""),
        (json!({"description": "x".repeat(32 * 1024 + 1)}), "/description"),
    ] {
        let problem = api.send("PATCH", &path, body).await.refused(422, "invalid_request");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
}

#[tokio::test]
async fn runs_are_paged_and_filtered_by_status() {
    let api = TestApi::start().await;
    let worker = Worker::start(&api).await;
    let mut runs = Vec::new();
    for nth in 0..3 {
        runs.push(api.post_message("hello").await["run_id"].as_str().unwrap().to_owned());
        let run = worker.claim().await;
        if nth == 1 {
            run.end(RunStatus::Failed, Some(("TIMEOUT", "too slow"))).await;
        } else {
            run.answer("hi").await;
        }
    }
    let page = api.get(&api.path("/runs?limit=2")).await.ok();
    assert_eq!((ids(&page), &page["has_more"]), (vec![runs[2].as_str(), &runs[1]], &json!(true)));
    assert_eq!(page["data"][1], api.get(&format!("/v1/runs/{}", runs[1])).await.ok(), "as GET shows it");
    let cursor = page["next_cursor"].as_str().unwrap();
    let page = api.get(&api.path(&format!("/runs?cursor={cursor}"))).await.ok();
    assert_eq!((ids(&page), &page["has_more"]), (vec![runs[0].as_str()], &json!(false)));
    let failed = api.get(&api.path("/runs?status=failed")).await.ok();
    assert_eq!(ids(&failed), [runs[1].as_str()]);
    let problem = api.get(&api.path("/runs?status=done")).await.refused(422, "invalid_request");
    assert!(problem["errors"][0]["detail"].as_str().unwrap().contains("message_sent"), "{problem}");
}

#[tokio::test]
async fn large_result_is_read_in_parts() {
    let api = TestApi::start().await;
    let content = "äöü".repeat(3_000);
    let goal = api.agentable();
    let id = "0190000000007000800000000000000a";
    let insert = format!(
        "insert into houston.tool_results (id, tenant_id, agentable_id, run_id, call_id, tool, content)
         select '{id}', tenant_id, id, id, 'call_1', 'fetch', '{content}' from houston.agentables where id = '{}'",
        goal.0
    );
    api.sql(&insert);
    let path = api.path(&format!("/results/result_{id}"));
    let first = api.get(&format!("{path}?limit=4001")).await.ok();
    assert_eq!(
        (&first["bytes"], &first["offset"], &first["next_offset"]),
        (&json!(18_000), &json!(0), &json!(4_000))
    );
    assert_eq!((&first["tool"], &first["goal_id"]), (&json!("fetch"), &json!(api.goal)));
    let mut read = String::new();
    let mut next = json!(0);
    while let Some(offset) = next.as_u64() {
        let part = api.get(&format!("{path}?limit=4001&offset={offset}")).await.ok();
        read.push_str(part["content"].as_str().unwrap());
        next = part["next_offset"].clone();
    }
    assert_eq!(read, content);
    for query in ["limit=3", "limit=x", "offset=-1", "page=2"] {
        api.get(&format!("{path}?{query}")).await.refused(422, "invalid_request");
    }
    let other = api.make_goal("Sail").await;
    api.get(&format!("/v1/goals/{other}/results/result_{id}")).await.refused(404, "not_found");
    api.get(&api.path("/results/result_1")).await.refused(404, "not_found");
    let stranger = "hou_other_0123456789abcdef";
    make_tenant(&api.store, &api.state.ids, "other", stranger).await;
    api.send_as(stranger, "GET", &path, Value::Null).await.refused(404, "not_found");
}
