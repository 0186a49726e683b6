//! Users, goals, runs and results, found, filtered and changed by who has lost their ids.

use houston_domain::run::RunStatus;
use serde_json::{Value, json};

use crate::app::{App, make_tenant};
use crate::worker::Worker;

fn ids(page: &Value) -> Vec<&str> {
    page["data"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn users_are_listed_by_pages_and_found_by_external_id() {
    let app = App::start().await;
    let grace = app.post("/v1/users", json!({"name": "Grace", "external_id": "g/1 ä"})).await.ok();
    let page = app.get("/v1/users?limit=1").await.ok();
    assert_eq!(
        (&page["data"], &page["has_more"]),
        (&json!([grace]), &json!(true)),
        "newest first, as GET shows it"
    );
    let cursor = page["next_cursor"].as_str().unwrap();
    let page = app.get(&format!("/v1/users?cursor={cursor}")).await.ok();
    assert_eq!((ids(&page), &page["has_more"]), (vec![app.user.as_str()], &json!(false)));

    let found = app.get("/v1/users?external_id=g%2F1%20%C3%A4").await.ok();
    assert_eq!(found["data"], json!([grace]));
    assert_eq!(app.get("/v1/users?external_id=nobody").await.ok()["data"], json!([]));
    app.get("/v1/users?external_id=a%00").await.refused(422, "invalid_request");
    app.get("/v1/users?cursor=m1").await.refused(422, "invalid_cursor");
    let stranger = "hou_other_0123456789abcdef";
    make_tenant(&app.state, "other", stranger).await;
    let other = app.send_as(stranger, "GET", "/v1/users", Value::Null).await.ok();
    assert_eq!(other["data"], json!([]), "a tenant sees its own");
}

#[tokio::test]
async fn what_exists_already_is_named_with_its_id() {
    let app = App::start().await;
    let body = json!({"name": "Grace", "external_id": "g-1"});
    let grace = app.post("/v1/users", body.clone()).await.ok();
    let problem = app.post("/v1/users", body).await.refused(409, "already_exists");
    assert_eq!(problem["existing_id"], grace["id"]);
    let ada = format!("/v1/users/{}", app.user);
    let problem = app.send("PATCH", &ada, json!({"external_id": "g-1"})).await.refused(409, "already_exists");
    assert_eq!(problem["existing_id"], grace["id"]);

    let agent = json!({"name": "clerk", "kind": "goal"});
    let clerk = app.post("/v1/agents", agent.clone()).await.ok();
    let problem = app.post("/v1/agents", agent).await.refused(409, "already_exists");
    assert_eq!(problem["existing_id"], clerk["id"]);
    assert!(problem["detail"].as_str().unwrap().starts_with("an agent with this name exists"), "{problem}");
    let cook = app.post("/v1/agents", json!({"name": "cook", "kind": "goal"})).await.ok();
    let path = format!("/v1/agents/{}", cook["id"].as_str().unwrap());
    let problem = app.send("PATCH", &path, json!({"name": "clerk"})).await.refused(409, "already_exists");
    assert_eq!(problem["existing_id"], clerk["id"]);
    let problem = app.send("PATCH", &path, json!({"name": "goal"})).await.refused(409, "already_exists");
    let default = app.get(&format!("/v1/agents/{}", problem["existing_id"].as_str().unwrap())).await.ok();
    assert_eq!((&default["name"], &default["is_default"]), (&json!("goal"), &json!(true)));

    let router = json!({"by": "model"});
    let team = json!({"name": "office", "agents": [clerk["id"], cook["id"]], "router": router});
    let office = app.post("/v1/teams", team.clone()).await.ok();
    let problem = app.post("/v1/teams", team.clone()).await.refused(409, "already_exists");
    assert_eq!(problem["existing_id"], office["id"]);
    let mut second = team;
    second["name"] = json!("kitchen");
    let kitchen = app.post("/v1/teams", second).await.ok();
    let path = format!("/v1/teams/{}", kitchen["id"].as_str().unwrap());
    let problem = app.send("PATCH", &path, json!({"name": "office"})).await.refused(409, "already_exists");
    assert_eq!(problem["existing_id"], office["id"]);
}

#[tokio::test]
async fn a_user_is_changed_in_what_is_given_and_in_nothing_else() {
    let app = App::start().await;
    let path = format!("/v1/users/{}", app.user);
    let before = app.get(&path).await.ok();
    let moved = app.send("PATCH", &path, json!({"time_zone": "Asia/Tokyo", "external_id": "ada"})).await.ok();
    let mut expected = before;
    expected["time_zone"] = json!("Asia/Tokyo");
    expected["external_id"] = json!("ada");
    assert_eq!(moved, expected);
    assert_eq!(app.get(&path).await.ok(), expected);
    expected["external_id"] = json!(null);
    expected["name"] = json!("Ada L.");
    assert_eq!(app.send("PATCH", &path, json!({"external_id": null, "name": "Ada L."})).await.ok(), expected);
    for (body, pointer) in [
        (json!({}), ""),
        (json!({"name": " "}), "/name"),
        (json!({"time_zone": "Mars/Base"}), "/time_zone"),
        (json!({"external_id": ""}), "/external_id"),
        (json!({"cost": 0}), "/cost"),
    ] {
        let problem = app.send("PATCH", &path, body).await.refused(422, "invalid_request");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
    let nobody = "/v1/users/user_00000000000000000000000000000000";
    app.send("PATCH", nobody, json!({"name": "x"})).await.refused(404, "not_found");
}

#[tokio::test]
async fn goals_are_filtered_by_user_and_by_the_status_they_show() {
    let app = App::start().await;
    let working = app.make_goal("Sail").await;
    let said = app.post(&format!("/v1/goals/{working}/messages"), json!({"content": "hello"})).await;
    assert_eq!(said.status, 202);
    let archived = app.make_goal("Ski").await;
    app.post(&format!("/v1/goals/{archived}/archive"), json!({})).await.ok();
    let grace = app.post("/v1/users", json!({"name": "Grace"})).await.ok();
    let body = json!({"user_id": grace["id"], "title": "Cook"});
    let cook = app.post("/v1/goals", body).await.ok()["id"].as_str().unwrap().to_owned();

    let all = app.get("/v1/goals").await.ok();
    assert_eq!(ids(&all), [cook.as_str(), &archived, &working, &app.goal], "of all users, newest first");
    for goal in all["data"].as_array().unwrap() {
        let alike = app.get(&format!("/v1/goals?status={}", goal["status"].as_str().unwrap())).await.ok();
        assert!(ids(&alike).contains(&goal["id"].as_str().unwrap()), "{goal}");
    }
    let of = async |query: &str| app.get(&format!("/v1/goals?{query}")).await.ok();
    assert_eq!(ids(&of("status=working").await), [working.as_str()]);
    assert_eq!(ids(&of("status=archived").await), [archived.as_str()]);
    assert_eq!(ids(&of(&format!("status=waiting&user_id={}", app.user)).await), [app.goal.as_str()]);
    let page = of("status=waiting&limit=1").await;
    assert_eq!((ids(&page), &page["has_more"]), (vec![cook.as_str()], &json!(true)));
    let cursor = page["next_cursor"].as_str().unwrap();
    assert_eq!(ids(&of(&format!("status=waiting&cursor={cursor}")).await), [app.goal.as_str()]);

    let problem = app.get("/v1/goals?status=done").await.refused(422, "invalid_request");
    let detail = problem["errors"][0]["detail"].as_str().unwrap();
    assert!(detail.contains("waiting, working, archived"), "{detail}");
    app.get("/v1/goals?user_id=me").await.refused(422, "invalid_request");
}

#[tokio::test]
async fn a_goal_is_called_otherwise_and_keeps_what_was_not_given() {
    let app = App::start().await;
    let path = app.path("");
    let before = app.get(&path).await.ok();
    let mut expected = before;
    expected["title"] = json!("Learn Zig");
    assert_eq!(app.send("PATCH", &path, json!({"title": "Learn Zig"})).await.ok(), expected);
    expected["description"] = json!("From scratch");
    expected["tools"] = json!(["send_message"]);
    let body = json!({"description": "From scratch", "tools": ["send_message"]});
    assert_eq!(app.send("PATCH", &path, body).await.ok(), expected);
    assert_eq!(app.get(&path).await.ok(), expected);
    for (body, pointer) in [
        (json!({"title": " "}), "/title"),
        (json!({"title": null}), ""),
        (json!({"description": "x".repeat(32 * 1024 + 1)}), "/description"),
    ] {
        let problem = app.send("PATCH", &path, body).await.refused(422, "invalid_request");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
}

#[tokio::test]
async fn runs_of_a_goal_are_listed_by_pages_and_filtered() {
    let app = App::start().await;
    let worker = Worker::start(&app).await;
    let mut runs = Vec::new();
    for nth in 0..3 {
        runs.push(app.say("hello").await["run_id"].as_str().unwrap().to_owned());
        let run = worker.claim().await;
        if nth == 1 {
            run.end(RunStatus::Failed, Some(("TIMEOUT", "too slow"))).await;
        } else {
            run.answer("hi").await;
        }
    }
    let page = app.get(&app.path("/runs?limit=2")).await.ok();
    assert_eq!((ids(&page), &page["has_more"]), (vec![runs[2].as_str(), &runs[1]], &json!(true)));
    assert_eq!(page["data"][1], app.get(&format!("/v1/runs/{}", runs[1])).await.ok(), "as GET shows it");
    let cursor = page["next_cursor"].as_str().unwrap();
    let page = app.get(&app.path(&format!("/runs?cursor={cursor}"))).await.ok();
    assert_eq!((ids(&page), &page["has_more"]), (vec![runs[0].as_str()], &json!(false)));
    let failed = app.get(&app.path("/runs?status=failed")).await.ok();
    assert_eq!(ids(&failed), [runs[1].as_str()]);
    let problem = app.get(&app.path("/runs?status=done")).await.refused(422, "invalid_request");
    assert!(problem["errors"][0]["detail"].as_str().unwrap().contains("message_sent"), "{problem}");
}

#[tokio::test]
async fn a_long_result_is_read_part_by_part() {
    let app = App::start().await;
    let content = "äöü".repeat(3_000);
    let goal = app.agentable();
    let id = "0190000000007000800000000000000a";
    let insert = format!(
        "insert into houston.tool_results (id, tenant_id, agentable_id, run_id, call_id, tool, content)
         select '{id}', tenant_id, id, id, 'call_1', 'fetch', '{content}' from houston.agentables where id = '{}'",
        goal.0
    );
    app.sql(&insert);
    let path = app.path(&format!("/results/result_{id}"));
    let first = app.get(&format!("{path}?limit=4001")).await.ok();
    assert_eq!(
        (&first["bytes"], &first["offset"], &first["next_offset"]),
        (&json!(18_000), &json!(0), &json!(4_000))
    );
    assert_eq!((&first["tool"], &first["goal_id"]), (&json!("fetch"), &json!(app.goal)));
    let mut read = String::new();
    let mut next = json!(0);
    while let Some(offset) = next.as_u64() {
        let part = app.get(&format!("{path}?limit=4001&offset={offset}")).await.ok();
        read.push_str(part["content"].as_str().unwrap());
        next = part["next_offset"].clone();
    }
    assert_eq!(read, content);
    for query in ["limit=3", "limit=x", "offset=-1", "page=2"] {
        app.get(&format!("{path}?{query}")).await.refused(422, "invalid_request");
    }
    let other = app.make_goal("Sail").await;
    app.get(&format!("/v1/goals/{other}/results/result_{id}")).await.refused(404, "not_found");
    app.get(&app.path("/results/result_1")).await.refused(404, "not_found");
    let stranger = "hou_other_0123456789abcdef";
    make_tenant(&app.state, "other", stranger).await;
    app.send_as(stranger, "GET", &path, Value::Null).await.refused(404, "not_found");
}
