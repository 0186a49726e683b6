//! Expressions that would take all time or memory of a process: they are refused, or fail alone.

use houston_testkit::process::Process;
use serde_json::{Value, json};

use crate::test_houston::TestHouston;

/// Doubles a list so often: 110 bytes that no machine has the time for.
fn doubling(times: &str) -> String {
    format!(
        "{{% set ns = namespace(x=[1, 2]) %}}{{% for i in range({times}) %}}{{% set ns.x = ns.x + ns.x %}}{{% endfor %}}{{{{ ns.x|length }}}}"
    )
}

fn plan(prompt: &str, n: u32) -> Value {
    let steps = json!([
        {"id": "one", "type": "tool", "tool": "create_note", "args": {"title": prompt, "content": "c"}, "on_error": "fail"},
    ]);
    json!({"document": {"v": 1, "goal": "Count", "steps": steps}, "input": {"n": n}})
}

async fn user_of(houston: &TestHouston, goal: &str) -> String {
    houston.get(&format!("/v1/goals/{goal}")).await["user_id"].as_str().unwrap().to_owned()
}

fn is_running(worker: &mut Process) -> bool {
    worker.ended().unwrap().is_none()
}

#[tokio::test(flavor = "multi_thread")]
async fn expressions_without_end_are_refused_when_stored() {
    let houston = TestHouston::start();
    let goal = houston.goal("bounds").await;
    let user = user_of(&houston, &goal).await;
    let refused = async |path: &str, body: &Value, pointer: &str| {
        let (status, problem) = houston.send(reqwest::Method::POST, path, body).await;
        assert_eq!(status, 422, "{problem}");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
        let message = problem["errors"][0]["detail"].as_str().unwrap();
        assert!(message.starts_with("cannot be used, because it "), "{message}");
    };
    let path = format!("/v1/goals/{goal}/plans");
    refused(&path, &plan(&doubling("40"), 1), "/document/steps/0/args/title").await;
    let triggers = format!("/v1/users/{user}/triggers");
    let trigger = |instructions: &str| {
        json!({"name": "Much", "when": {"type": "event", "topics": ["message.posted"]},
               "then": {"type": "tell", "agentable_id": goal, "instructions": instructions}})
    };
    refused(&triggers, &trigger(&doubling("40")), "/then/instructions").await;
    // What has an end is not refused, though it is not plain.
    let counted = plan("{% for i in range(input.n) %}{{ i }}{% endfor %}", 3);
    let (status, made) = houston.send(reqwest::Method::POST, &path, &counted).await;
    assert_eq!(status, 201, "{made}");
}

/// How often they double depends on what they read, so that they can be stored.
#[tokio::test(flavor = "multi_thread")]
async fn expressions_that_grow_with_data_fail_alone() {
    let houston = TestHouston::start();
    let mut worker = houston.worker();
    let goal = houston.goal("bounds").await;
    let user = user_of(&houston, &goal).await;
    let mut plans = Vec::new();
    for n in [40, 40, 3] {
        let (path, key) = (format!("/v1/goals/{goal}/plans"), format!("p{}", plans.len()));
        let made = houston.create(&path, &key, &plan(&doubling("input.n"), n)).await;
        plans.push(made["id"].as_str().unwrap().to_owned());
    }
    let when = json!({"type": "event", "topics": ["message.posted"], "kind": "goal"});
    let then = json!({"type": "tell", "agentable_id": goal, "instructions": doubling("event.content|int")});
    let body = json!({"name": "Much", "when": when, "then": then});
    let trigger = houston.create(&format!("/v1/users/{user}/triggers"), "t", &body).await;
    let message = houston.post(&goal, "m", "40").await;
    houston.wait_until_answered(&message).await;
    for plan in &plans[..2] {
        let path = format!("/v1/plans/{plan}");
        let failed = houston.wait_until(&path, "the plan's end", |plan| plan["status"] == "failed").await;
        let text = failed.to_string();
        assert!(text.contains("args: takes more than a second of processor time"), "{text}");
    }
    let path = format!("/v1/plans/{}", plans[2]);
    houston.wait_until(&path, "the plan's end", |plan| plan["status"] == "completed").await;
    let path = format!("/v1/triggers/{}", trigger["id"].as_str().unwrap());
    let off = houston.wait_until(&path, "the trigger's end", |trigger| trigger["enabled"] == false).await;
    let text = off.to_string();
    assert!(text.contains("template: takes more than a second of processor time"), "{text}");
    assert!(is_running(&mut worker), "the worker has ended");
}
