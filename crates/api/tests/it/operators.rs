//! What operators read of queues and workers.

use houston_domain::id::{QuestionId, WorkerId};
use houston_domain::question::{NewQuestion, QuestionKind};
use houston_domain::scope::{Scope, Scopes};
use serde_json::{Value, json};

use crate::access::key_with;
use crate::test_api::{TestApi, make_tenant};
use crate::worker::Worker;

pub(crate) const OPERATOR: &str = "hou_operator_0123456789";

/// Makes a key that operates the installation.
pub(crate) async fn make_operator(api: &TestApi) {
    let scopes: Scopes = [Scope::Operate, Scope::Installation].into_iter().collect();
    key_with(api, OPERATOR, scopes, None).await;
}

async fn stats(api: &TestApi, key: &str) -> Value {
    api.send_as(key, "GET", "/v1/queues/interactive/stats", Value::Null).await.ok()
}

/// A question that any value answers.
pub(crate) fn question(api: &TestApi) -> NewQuestion {
    let id: QuestionId = api.state.ids.next();
    NewQuestion {
        id,
        kind: QuestionKind::Input,
        subject: None,
        text: "Which one?".into(),
        schema: None,
        default_value: None,
        expires_at: None,
        approval: None,
        message_id: None,
    }
}

#[tokio::test]
async fn queue_counts_what_waits_runs_and_asks() {
    let api = TestApi::start().await;
    make_operator(&api).await;
    let empty = stats(&api, OPERATOR).await;
    assert_eq!(
        (&empty["depth"], &empty["oldest_age_s"], &empty["of"]),
        (&json!(0), &json!(0), &json!("installation"))
    );
    api.post_message("hello").await;
    api.sql("update houston.run_locks set waiting_since = now() - interval '90 s' where wake");
    let queued = stats(&api, OPERATOR).await;
    assert_eq!((&queued["depth"], &queued["scaling"]["pending_slots"]), (&json!(1), &json!(1)));
    assert!(queued["oldest_age_s"].as_i64().unwrap() >= 90, "{queued}");
    let worker = Worker::start(&api).await;
    let run = worker.claim().await;
    let running = stats(&api, OPERATOR).await;
    assert_eq!((&running["depth"], &running["running"]), (&json!(0), &json!(1)));
    assert_eq!(running["orphaned"], 0, "its worker lives");
    assert_eq!(running["scaling"], json!({"pending_slots": 0, "wanted_slots": 1}));
    run.ask(question(&api)).await;
    let asking = stats(&api, OPERATOR).await;
    assert_eq!((&asking["running"], &asking["waiting"], &asking["depth"]), (&json!(0), &json!(1), &json!(0)));
    let lanes = api.send_as(OPERATOR, "GET", "/v1/queues", Value::Null).await.ok();
    assert_eq!((&lanes["data"][0], &lanes["data"][1]["depth"]), (&asking, &json!(0)));
    api.send_as(OPERATOR, "GET", "/v1/queues/fast/stats", Value::Null).await.refused(404, "not_found");
}

#[tokio::test]
async fn users_at_their_limit_need_no_more_slots() {
    let api = TestApi::start().await;
    make_operator(&api).await;
    for number in 0..12 {
        let goal = api.make_goal(&number.to_string()).await;
        let posted = api.post(&format!("/v1/goals/{goal}/messages"), json!({"content": "hello"})).await;
        assert_eq!(posted.status, 202);
    }
    let waiting = stats(&api, OPERATOR).await;
    assert_eq!((&waiting["depth"], &waiting["scaling"]["pending_slots"]), (&json!(12), &json!(10)));
    let retry = "update houston.run_locks set next_attempt_at = now() + interval '1 h', failed_attempts = 1
                  where agentable_id in (select agentable_id from houston.run_locks where wake limit 5)";
    api.sql(retry);
    let later = stats(&api, OPERATOR).await;
    assert_eq!((&later["depth"], &later["retrying"]), (&json!(7), &json!(5)));
}

#[tokio::test]
async fn keys_of_a_tenant_see_its_own_work_only() {
    let api = TestApi::start().await;
    make_operator(&api).await;
    make_tenant(&api.store, &api.state.ids, "other", "hou_tenant_0123456789").await;
    api.post_message("hello").await;
    let of = |stats: &Value| (stats["of"].clone(), stats["depth"].clone(), stats["slots"].clone());
    let own = stats(&api, crate::test_api::KEY).await;
    assert_eq!(of(&own), (json!("tenant"), json!(1), Value::Null));
    let other = stats(&api, "hou_tenant_0123456789").await;
    assert_eq!(of(&other), (json!("tenant"), json!(0), Value::Null));
    assert_eq!(of(&stats(&api, OPERATOR).await), (json!("installation"), json!(1), json!(0)));
}

#[tokio::test]
async fn workers_are_for_keys_of_the_installation() {
    let api = TestApi::start().await;
    make_operator(&api).await;
    let worker = Worker::start(&api).await;
    let drain = format!("/v1/workers/{}/drain", worker.id);
    for (method, path) in [("GET", "/v1/workers"), ("POST", drain.as_str())] {
        let problem = api.send(method, path, json!({})).await.refused(403, "forbidden");
        assert!(problem["detail"].as_str().unwrap().contains("installation"), "admin has not: {problem}");
    }
    let as_operator = async |method: &str, path: &str| api.send_as(OPERATOR, method, path, json!({})).await;
    let listed = as_operator("GET", "/v1/workers").await.ok();
    let found = &listed["data"][0];
    assert_eq!(
        (&found["id"], &found["status"], &found["slots"]["busy"]),
        (&json!(worker.id), &json!("alive"), &json!(0))
    );
    for _ in 0..2 {
        let asked = as_operator("POST", &drain).await;
        assert_eq!((asked.status, &asked.json()["status"]), (202, &json!("draining")), "{}", asked.text());
    }
    let pause = "/v1/queues/interactive/pause";
    api.post(pause, json!({})).await.refused(403, "forbidden");
    api.post_message("hello").await;
    let paused = as_operator("POST", pause).await.ok();
    assert_eq!(
        (&paused["paused"], &paused["depth"], &paused["scaling"]["pending_slots"]),
        (&json!(true), &json!(1), &json!(0))
    );
    let why = api.get(&api.path("/why")).await.ok();
    assert_eq!(why["reasons"][0]["cause"], "lane_paused");
    assert_eq!(as_operator("POST", "/v1/queues/interactive/resume").await.ok()["paused"], json!(false));
    let audit = async |key| {
        let page = api.send_as(key, "GET", "/v1/audit", Value::Null).await.ok();
        let records = page["data"].as_array().unwrap().iter();
        let done = records.map(|one| (one["operation"].as_str().unwrap(), one["status"].as_i64().unwrap()));
        done.map(|(what, status)| format!("{what} {status}")).collect::<Vec<_>>()
    };
    let refused = ["pause_queue 403", "drain_worker 403"];
    let done = ["resume_queue 200", "pause_queue 200", "drain_worker 202", "drain_worker 202"];
    assert_eq!(
        audit(crate::test_api::KEY).await,
        refused,
        "what was done to the installation is not the tenant's"
    );
    assert_eq!(audit(OPERATOR).await, [done[0], done[1], refused[0], done[2], done[3], refused[1]]);
    let unknown: WorkerId = api.state.ids.next();
    as_operator("POST", &format!("/v1/workers/{unknown}/drain")).await.refused(404, "not_found");
}
