//! The runs of a tenant for operators: listing, cancelling and retrying many, and the causes of failures.

use houston_domain::run::RunStatus;
use houston_domain::scope::{Scope, Scopes};
use serde_json::{Value, json};

use crate::access::key_with;
use crate::test_api::{TestApi, make_tenant};
use crate::worker::Worker;

/// Makes a goal with a message; returns its id and that of the run.
async fn posted(api: &TestApi, title: &str) -> (String, String) {
    let goal = api.make_goal(title).await;
    let message = api.post(&format!("/v1/goals/{goal}/messages"), json!({"content": title})).await.json();
    (goal, message["run_id"].as_str().unwrap().to_owned())
}

/// A run of a new goal that has failed.
pub(crate) async fn failed(api: &TestApi, title: &str, (code, text): (&str, &str)) -> (String, String) {
    let (goal, run) = posted(api, title).await;
    let agentable = houston_domain::id::parse_prefixed("goal", &goal).unwrap().into();
    let worker = Worker::start(api).await;
    worker.claim_of(agentable).await.end(RunStatus::Failed, Some((code, text))).await;
    (goal, run)
}

fn ids(page: &Value) -> Vec<&str> {
    page["data"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn runs_are_listed_newest_first_by_what_is_asked_for() {
    let api = TestApi::start().await;
    let (_, first) = posted(&api, "one").await;
    let (_, second) = failed(&api, "two", ("AUTH", "the key is wrong")).await;
    let (_, third) = posted(&api, "three").await;
    let all = api.get("/v1/runs").await.ok();
    assert_eq!(ids(&all), [third.as_str(), &second, &first]);
    assert_eq!((&all["data"][1]["title"], &all["data"][1]["kind"]), (&json!("two"), &json!("goal")));
    assert_eq!(
        (&all["data"][1]["user_id"], &all["data"][1]["error"]["code"]),
        (&json!(api.user), &json!("AUTH"))
    );
    for (query, wanted) in [
        ("status=failed", vec![&second]),
        ("status=failed,queued&limit=2", vec![&third, &second]),
        ("error_code=AUTH", vec![&second]),
        ("error_code=TIMEOUT", vec![]),
        ("kind=task", vec![]),
        ("since=2100-01-01T00:00:00Z", vec![]),
        ("until=2100-01-01T00:00:00Z&status=dead_lettered", vec![]),
    ] {
        assert_eq!(ids(&api.get(&format!("/v1/runs?{query}")).await.ok()), wanted, "{query}");
    }
    let page = api.get("/v1/runs?limit=2").await.ok();
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = api.get(&format!("/v1/runs?limit=2&cursor={cursor}")).await.ok();
    assert_eq!((ids(&rest), &rest["has_more"]), (vec![first.as_str()], &json!(false)));
    make_tenant(&api.store, &api.state.ids, "other", "hou_tenant_0123456789").await;
    let other = api.send_as("hou_tenant_0123456789", "GET", "/v1/runs", Value::Null).await.ok();
    assert_eq!(ids(&other), [""; 0]);
    let wrong = api.get("/v1/runs?status=broken").await.refused(422, "invalid_request");
    assert_eq!(wrong["errors"][0]["parameter"], "status");
    for name in ["kind", "error_code"] {
        api.get(&format!("/v1/runs?{name}=a%00")).await.refused(422, "invalid_request");
        let filter = json!({"filter": {name: "a\0"}, "dry_run": true});
        api.post("/v1/runs/cancel", filter).await.refused(422, "invalid_request");
    }
}

#[tokio::test]
async fn many_runs_are_counted_before_they_are_cancelled() {
    let api = TestApi::start().await;
    for number in 0..3 {
        posted(&api, &number.to_string()).await;
    }
    let (_, ended) = failed(&api, "ended", ("AUTH", "no")).await;
    let cancel = async |body: Value| api.post("/v1/runs/cancel", body).await.ok();
    let counted = cancel(json!({"filter": {"kind": "goal"}, "dry_run": true})).await;
    assert_eq!((&counted["matched"], &counted["changed"]), (&json!(3), &json!(0)));
    let requested = "select count(*) from houston.runs where cancel_seq is not null";
    assert_eq!(api.sql(requested), "0", "a dry run changes nothing");
    const WATCHER: &str = "hou_watcher_0123456789";
    let watches: Scopes = [Scope::Read, Scope::Operate, Scope::Installation].into_iter().collect();
    key_with(&api, WATCHER, watches, None).await;
    for path in ["/v1/runs/cancel", "/v1/runs/retry"] {
        let of_all = json!({"filter": {}});
        let refused = api.send_as(WATCHER, "POST", path, of_all).await.refused(403, "forbidden");
        assert!(refused["detail"].as_str().unwrap().contains("post"), "{refused}");
        for filter in [json!({"agnet_id": "agent_1"}), json!({"status": ["broken"]}), json!({"kind": 1})] {
            api.post(path, json!({"filter": filter})).await.refused(422, "invalid_request");
        }
    }
    assert_eq!(api.sql(requested), "0", "what is refused changes nothing");
    let done = cancel(json!({"filter": {"kind": "goal"}})).await;
    assert_eq!((&done["changed"], &done["next_cursor"]), (&json!(3), &Value::Null));
    assert_eq!(api.sql(requested), "3");
    let again = cancel(json!({"filter": {}})).await;
    assert_eq!(again["matched"], 0, "those to be cancelled do not match again");
    let unknown = format!("run_{}", "0".repeat(32));
    let by_ids = cancel(json!({"ids": [ended, unknown]})).await;
    let reasons: Vec<&Value> =
        by_ids["skipped"].as_array().unwrap().iter().map(|one| &one["reason"]).collect();
    assert_eq!(reasons, ["ended", "not_found"]);
    api.post("/v1/runs/cancel", json!({})).await.refused(422, "invalid_request");
}

#[tokio::test]
async fn failed_runs_are_tried_again_once() {
    let api = TestApi::start().await;
    let (goal, run) = failed(&api, "hotels", ("AUTH", "the key is wrong")).await;
    let (_, waiting) = posted(&api, "waits").await;
    api.sql(&format!(
        "update houston.runs set status = 'retrying' where id = '{0}';
         update houston.run_locks set next_attempt_at = now() + interval '1 h', failed_attempts = 1 where run_id = '{0}'",
        uuid::Uuid::try_parse(waiting.trim_start_matches("run_")).unwrap()
    ));
    let retry = async |body: Value| api.post("/v1/runs/retry", body).await.ok();
    let counted = retry(json!({"filter": {}, "dry_run": true})).await;
    assert_eq!(counted["matched"], 2);
    let done = retry(json!({"filter": {}})).await;
    assert_eq!((&done["changed"], &done["skipped"]), (&json!(2), &json!([])));
    assert_eq!(api.sql("select count(*) from houston.run_locks where next_attempt_at > now()"), "0");
    let thread = api.get(&format!("/v1/goals/{goal}/messages")).await.ok();
    assert_eq!(
        (&thread["data"][0]["content"], &thread["data"][0]["metadata"]["retry_of"]),
        (&json!("hotels"), &json!(run))
    );
    let again = retry(json!({"ids": [run]})).await;
    assert_eq!((&again["changed"], &again["skipped"][0]["reason"]), (&json!(0), &json!("superseded")));
}

#[tokio::test]
async fn failures_of_one_cause_are_one_group() {
    let api = TestApi::start().await;
    let (_, first_run) =
        failed(&api, "one", ("RATE_LIMITED", "openai: slow down for 12 s, request req_1a")).await;
    failed(&api, "other", ("RATE_LIMITED", "acme: too many requests")).await;
    let (_, latest) =
        failed(&api, "two", ("RATE_LIMITED", "openai: slow down for 3 s, request req_2b")).await;
    failed(&api, "three", ("AUTH", "the key is wrong")).await;
    api.sql("update houston.runs set status = 'dead_lettered' where error_code = 'AUTH'");
    let groups = api.get("/v1/errors").await.ok();
    assert_eq!(groups["data"].as_array().unwrap().len(), 3, "{groups}");
    let first = &groups["data"][0];
    assert_eq!((&first["count"], &first["sample_run_id"]), (&json!(2), &json!(latest)));
    assert_eq!(first["message"], "openai: slow down for # s, request #");
    let given_up = groups["data"].as_array().unwrap().iter().find(|group| group["code"] == "AUTH").unwrap();
    assert_eq!(given_up["dead_lettered"], 1);
    assert_runs_of(&api, first["fingerprint"].as_str().unwrap(), [&latest, &first_run]).await;
    make_tenant(&api.store, &api.state.ids, "other", "hou_tenant_0123456789").await;
    let other = api.send_as("hou_tenant_0123456789", "GET", "/v1/errors", Value::Null).await.ok();
    assert_eq!(other["data"], json!([]));
    api.sql("update houston.runs set ended_at = now() - interval '30 h' where ended_at is not null");
    assert_eq!(api.get("/v1/errors").await.ok()["data"], json!([]));
    assert_eq!(api.get("/v1/errors?hours=48").await.ok()["data"].as_array().unwrap().len(), 3);
    api.get("/v1/errors?hours=9000").await.refused(422, "invalid_request");
}

/// The runs of a group, the latest first, are listed and tried again together, and no others of the same code.
async fn assert_runs_of(api: &TestApi, fingerprint: &str, wanted: [&String; 2]) {
    let list = format!("/v1/runs?error_code=RATE_LIMITED&fingerprint={fingerprint}");
    assert_eq!(ids(&api.get(&list).await.ok()), wanted);
    let page = api.get(&format!("{list}&limit=1")).await.ok();
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = api.get(&format!("{list}&limit=1&cursor={cursor}")).await.ok();
    assert_eq!((ids(&page), ids(&rest)), (vec![wanted[0].as_str()], vec![wanted[1].as_str()]));
    let counted = json!({"filter": {"fingerprint": fingerprint}, "dry_run": true});
    assert_eq!(api.post("/v1/runs/retry", counted).await.ok()["matched"], 2);
    let wrong = json!({"filter": {"fingerprint": "8C1F"}, "dry_run": true});
    api.post("/v1/runs/retry", wrong).await.refused(422, "invalid_request");
    api.get("/v1/runs?fingerprint=8C1F").await.refused(422, "invalid_request");
}

#[tokio::test]
async fn usage_names_who_spent_most() {
    let api = TestApi::start().await;
    let worker = Worker::start(&api).await;
    let bob = api.post("/v1/users", json!({"name": "Bob"})).await.ok()["id"].as_str().unwrap().to_owned();
    let of_bob = json!({"user_id": bob, "title": "Bob's"});
    let goal = api.post("/v1/goals", of_bob).await.ok()["id"].as_str().unwrap().to_owned();
    for number in 0..2 {
        api.post(&format!("/v1/goals/{goal}/messages"), json!({"content": number.to_string()})).await.ok();
        let agentable = houston_domain::id::parse_prefixed("goal", &goal).unwrap().into();
        worker.claim_of(agentable).await.answer("hi").await;
    }
    api.post_message("open").await;
    worker.claim().await.answer("hi").await;
    api.post_message("not ended").await;
    let usage = api.get("/v1/usage").await.ok();
    assert_eq!((&usage["window_h"], &usage["capped"]), (&json!(24), &json!(false)));
    assert_eq!((&usage["total"]["runs"], &usage["total"]["cost"]), (&json!(3), &json!("0.0045")));
    let users = usage["users"].as_array().unwrap();
    assert_eq!(usage["budgets"], json!({"per_run": null, "per_agentable": null, "per_user_day": "1000"}));
    assert_eq!(users[0]["today"], "0.003", "of that budget");
    let users: Vec<_> = users.iter().map(|of| (&of["user_id"], &of["name"], &of["cost"])).collect();
    assert_eq!(users[0], (&json!(bob), &json!("Bob"), &json!("0.003")));
    assert_eq!((users.len(), users[1].0), (2, &json!(api.user)));
    let agent = &usage["agents"][0];
    assert_eq!(
        (&agent["kind"], &agent["agent_id"], &agent["runs"]),
        (&json!("goal"), &Value::Null, &json!(3))
    );
    assert_eq!(
        (&usage["models"][0]["runs"], usage["days"].as_array().unwrap().is_empty()),
        (&json!(3), false)
    );
    api.sql("update houston.runs set ended_at = ended_at - interval '2 days' where ended_at is not null");
    assert_eq!(api.get("/v1/usage").await.ok()["users"], json!([]));
    assert_eq!(api.get("/v1/usage?hours=72").await.ok()["total"]["runs"], 3);
    make_tenant(&api.store, &api.state.ids, "other", "hou_tenant_0123456789").await;
    let other = api.send_as("hou_tenant_0123456789", "GET", "/v1/usage?hours=72", Value::Null).await.ok();
    assert_eq!((&other["total"]["runs"], &other["users"]), (&json!(0), &json!([])));
    api.get("/v1/usage?hours=0").await.refused(422, "invalid_request");
}

#[tokio::test]
async fn usage_is_by_model_call() {
    let api = TestApi::start().await;
    let worker = Worker::start(&api).await;
    for _ in 0..2 {
        api.post_message("hi").await;
        worker.claim().await.answer("hi").await;
    }
    // As the run of a plan: it has no model of its own, and its calls have several.
    api.sql("update houston.runs set model = null");
    api.sql(
        "insert into houston.model_calls
         select (jsonb_populate_record(o.c, jsonb_build_object(
                    'write_id', gen_random_uuid(), 'provider', 'openai', 'model', 'gpt-5-mini', 'cost', null))).*
           from (select c from houston.model_calls c limit 1) o",
    );
    let usage = api.get("/v1/usage").await.ok();
    let models: Vec<_> = usage["models"]
        .as_array()
        .unwrap()
        .iter()
        .map(|of| json!([of["model"], of["runs"], of["model_calls"], of["unpriced_calls"]]))
        .collect();
    assert_eq!(models, [json!(["simulated/fast", 2, 2, 0]), json!(["openai/gpt-5-mini", 1, 1, 1])]);
    let total = &usage["total"];
    assert_eq!((&total["runs"], &total["model_calls"]), (&json!(2), &json!(3)), "{total}");
    assert_eq!(usage["users"][0]["runs"], 2, "a run counts once, however many models it has called");
    // Calls that are not kept any more: the sums of the run count.
    api.sql("delete from houston.model_calls");
    let usage = api.get("/v1/usage").await.ok();
    assert_eq!((&usage["total"]["runs"], &usage["total"]["cost"]), (&json!(2), &json!("0.003")));
    assert_eq!(usage["models"], json!([]));
}
