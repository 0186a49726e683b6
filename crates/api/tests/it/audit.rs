//! The audit log, and why an agentable does not go on.

use houston_domain::run::RunStatus;
use houston_domain::scope::{Scope, Scopes};
use houston_store::api_key::NewApiKey;
use serde_json::{Value, json};

use crate::access::key_with;
use crate::operators::{OPERATOR, make_operator, question};
use crate::test_api::{TestApi, make_tenant};
use crate::worker::Worker;

async fn records(api: &TestApi, query: &str) -> Vec<Value> {
    api.get(&format!("/v1/audit{query}")).await.ok()["data"].as_array().unwrap().clone()
}

#[tokio::test]
async fn every_change_is_recorded_and_no_reading() {
    let api = TestApi::start().await;
    let agent = json!({"name": "clerk", "kind": "goal", "description": "knows invoices"});
    let agent = api.post("/v1/agents", agent).await.ok()["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/agents/{agent}");
    api.send("PATCH", &path, json!({"description": "knows more"})).await.ok();
    api.get(&path).await.ok();
    api.get("/v1/agents").await.ok();
    api.send("DELETE", &format!("/v1/agents/agent_{}", "0".repeat(32)), Value::Null)
        .await
        .refused(404, "not_found");
    let all = records(&api, "").await;
    let done: Vec<(&str, i64)> =
        all.iter().map(|one| (one["operation"].as_str().unwrap(), one["status"].as_i64().unwrap())).collect();
    assert_eq!(done, [("delete_agent", 404), ("update_agent", 200), ("create_agent", 201)]);
    assert_eq!(
        (&all[0]["code"], &all[1]["target"], &all[2]["target"]),
        (&json!("not_found"), &json!(agent), &Value::Null)
    );
    let actor = all[0]["actor"].as_str().unwrap();
    assert!(
        actor.starts_with("key_") && all[0]["request_id"].as_str().unwrap().starts_with("req_"),
        "{all:?}"
    );
    assert_eq!(
        records(&api, &format!("?operation=update_agent&target={agent}&actor={actor}")).await.len(),
        1
    );
    assert!(records(&api, "?since=2100-01-01T00:00:00Z").await.is_empty());
    for name in ["operation", "actor", "target"] {
        api.get(&format!("/v1/audit?{name}=a%00")).await.refused(422, "invalid_request");
    }
    let page = api.get("/v1/audit?limit=2").await.ok();
    let next = format!("?limit=2&cursor={}", page["next_cursor"].as_str().unwrap());
    assert_eq!(records(&api, &next).await[0]["operation"], "create_agent");
    make_tenant(&api.store, &api.state.ids, "other", "hou_tenant_0123456789").await;
    let other = api.send_as("hou_tenant_0123456789", "GET", "/v1/audit", Value::Null).await.ok();
    assert_eq!(other["data"], json!([]));
}

#[tokio::test]
async fn messages_are_data_and_users_are_named() {
    let api = TestApi::start().await;
    api.post_message("hello").await;
    assert!(records(&api, "").await.is_empty(), "messages and what they need are data");
    let body = json!({"content": "in the name of the user"});
    api.post_with(&api.path("/messages"), &[("houston-audit", "true")], body).await.ok();
    let by_operator = records(&api, "?operation=create_message").await;
    assert_eq!((by_operator.len(), &by_operator[0]["target"]), (1, &json!(api.goal)));
    const ADA: &str = "hou_ada_0123456789abc";
    let read_and_post: Scopes = [Scope::Read, Scope::Post].into_iter().collect();
    key_with(&api, ADA, read_and_post, Some(&api.user)).await;
    api.send_as(ADA, "POST", &api.path("/cancel"), json!({})).await;
    api.send_as(ADA, "POST", "/v1/agents", json!({})).await.refused(403, "forbidden");
    api.send_as("hou_absent_0123456789", "POST", "/v1/agents", json!({})).await.refused(401, "unauthorized");
    let all = records(&api, "").await;
    let [refused, cancelled, _] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!((&refused["code"], &refused["on_behalf_of"]), (&json!("forbidden"), &json!(api.user)));
    assert_eq!(
        (&cancelled["operation"], &cancelled["target"]),
        (&json!("cancel_agentable"), &json!(api.goal))
    );
}

/// The causes for which the goal does not go on.
async fn causes(api: &TestApi, path: &str) -> (Vec<String>, Value) {
    let why = api.get(path).await.ok();
    let reasons = why["reasons"].as_array().unwrap();
    (reasons.iter().map(|reason| reason["cause"].as_str().unwrap().to_owned()).collect(), why)
}

#[tokio::test]
async fn why_names_what_a_goal_waits_for() {
    let api = TestApi::start().await;
    let of_goal = api.path("/why");
    assert_eq!(causes(&api, &of_goal).await.0, ["idle"]);
    let message = api.post_message("hello").await;
    let of_run = format!("/v1/runs/{}/why", message["run_id"].as_str().unwrap());
    let (found, why) = causes(&api, &of_run).await;
    assert_eq!(
        (found, &why["id"], &why["passes"]),
        (vec!["no_worker".to_owned()], &json!(api.goal), &json!(false))
    );
    api.sql(
        "insert into houston.health_checks (id, status, detail, since, checked_at, stale_at)
         select id, 'red', 'of all tenants', now(), now(), now() + interval '1 h' from unnest(array['schema', 'retention']) id",
    );
    let (found, why) = causes(&api, &of_goal).await;
    assert_eq!(found, ["no_worker", "health"], "the check that explains it, and no other");
    assert!(
        why.to_string().contains("houston migrate") && !why.to_string().contains("of all tenants"),
        "{why}"
    );
    api.sql("delete from houston.health_checks");
    for id in ["goals/goal_", "goals/g", "runs/run_", "runs/r"] {
        api.get(&format!("/v1/{id}{}/why", "0".repeat(32))).await.refused(404, "not_found");
    }
    let worker = Worker::start(&api).await;
    assert_eq!(causes(&api, &of_goal).await.0, ["queued"]);
    make_operator(&api).await;
    let run = worker.claim().await;
    assert_eq!(causes(&api, &of_goal).await.0, ["running"]);
    let asked = question(&api);
    let id = asked.id;
    run.ask(asked).await;
    let (found, why) = causes(&api, &of_goal).await;
    assert_eq!((found, &why["reasons"][0]["question_id"]), (vec!["question".to_owned()], &json!(id)));
    assert!(why["reasons"][0]["text"].as_str().unwrap().contains("Which one?"), "{why}");
    api.send_as(OPERATOR, "POST", &format!("/v1/workers/{}/drain", worker.id), json!({})).await;
    let other = api.make_goal("other").await;
    api.post(&format!("/v1/goals/{other}/messages"), json!({"content": "hello"})).await;
    assert_eq!(causes(&api, &format!("/v1/goals/{other}/why")).await.0, ["draining"]);
}

#[tokio::test]
async fn overview_counts_what_waits_and_how_runs_ended() {
    let api = TestApi::start().await;
    make_operator(&api).await;
    api.post_message("one").await;
    let worker = Worker::start(&api).await;
    worker.claim().await.answer("hi").await;
    api.post_message("two").await;
    worker.claim().await.end(RunStatus::Failed, Some(("AUTH", "no"))).await;
    api.post_message("three").await;
    let own = api.get("/v1/overview").await.ok();
    assert_eq!((&own["of"], &own["queued"], &own["failed"]), (&json!("tenant"), &json!(1), &json!(1)));
    assert_eq!(
        (&own["cost_last_hour"], &own["workers"], &own["slots"]),
        (&json!("0.003"), &Value::Null, &Value::Null)
    );
    let sum = |of: &Value, name: &str| -> i64 {
        of["hours"].as_array().unwrap().iter().map(|hour| hour[name].as_i64().unwrap()).sum()
    };
    let ended = |of: &Value| ["finished", "failed", "cancelled", "stopped"].map(|name| sum(of, name));
    assert_eq!(ended(&own), [1, 1, 0, 0], "{own}");
    // The answer for this key is remembered, and not that for the operator.
    api.sql("update houston.runs set status = 'cancelled' where status = 'failed'");
    let whole = api.send_as(OPERATOR, "GET", "/v1/overview", Value::Null).await.ok();
    assert_eq!(
        (&whole["of"], &whole["workers"]),
        (&json!("installation"), &json!({"alive": 1, "draining": 0}))
    );
    assert_eq!(ended(&whole), [1, 0, 1, 0], "{whole}");
    let tenant = make_tenant(&api.store, &api.state.ids, "other", "hou_tenant_0123456789").await;
    const BOTH: &str = "hou_both_0123456789";
    let (id, scopes) = (api.state.ids.next(), Scopes::ALL);
    let key = NewApiKey { id, name: "test", key: BOTH, scopes, user: None, expires_at: None, issuer: None };
    api.store.operator().create_api_key(tenant, &key).await.unwrap();
    let of =
        async |whose: &str| api.send_as(BOTH, "GET", &format!("/v1/overview?of={whose}"), Value::Null).await;
    let (own, all) = (of("tenant").await.ok(), of("installation").await.ok());
    assert_eq!((&own["of"], &own["queued"], &own["workers"]), (&json!("tenant"), &json!(0), &Value::Null));
    assert_eq!((&all["of"], &all["queued"]), (&json!("installation"), &json!(1)));
    of("everyone").await.refused(422, "invalid_request");
    api.get("/v1/overview?of=installation").await.refused(403, "forbidden");
    let other = api.send_as("hou_tenant_0123456789", "GET", "/v1/overview", Value::Null).await.ok();
    assert_eq!((&other["queued"], &other["hours"]), (&json!(0), &json!([])));
}
