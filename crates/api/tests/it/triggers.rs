//! Triggers: creating, listing, changing, deleting, and what is refused.

use serde_json::{Value, json};

use crate::test_api::TestApi;

fn trigger(api: &TestApi, when: Value) -> Value {
    let then = json!({"type": "tell", "agentable_id": api.goal, "instructions": "Look around."});
    json!({"name": "Look", "when": when, "then": then})
}

#[tokio::test]
async fn trigger_is_created_once_changed_and_deleted() {
    let api = TestApi::start().await;
    let path = format!("/v1/users/{}/triggers", api.user);
    let body = trigger(&api, json!({"type": "cron", "cron": "30 7 * * 1-5", "zone": "Europe/Berlin"}));
    let key = [("idempotency-key", "mornings")];
    let first = api.post_with(&path, &key, body.clone()).await;
    assert_eq!(first.status, 201, "{}", first.text());
    let made = first.json();
    assert_eq!((&made["when"]["misfire"], &made["then"]), (&json!("once"), &body["then"]));
    assert!(made["next_at"].is_string(), "{made}");
    let again = api.post_with(&path, &key, body).await;
    assert_eq!((again.header("idempotent-replayed"), &again.body), ("true", &first.body));
    let listed = api.get(&path).await.ok();
    assert_eq!(listed["data"].as_array().unwrap().len(), 1, "{listed}");
    let due = api.get("/v1/triggers").await.ok();
    assert_eq!(due, listed, "it is the next of the tenant");
    let one = format!("/v1/triggers/{}", made["id"].as_str().unwrap());
    assert_eq!(api.get(&one).await.ok()["next_at"], made["next_at"]);
    let words = json!({"type": "keyword", "words": ["invoice"]});
    let changed = api.send("PATCH", &one, json!({"when": words, "enabled": false})).await.ok();
    assert_eq!((&changed["next_at"], &changed["enabled"]), (&Value::Null, &json!(false)), "{changed}");
    assert_eq!(api.get("/v1/triggers").await.ok()["data"], json!([]));
    api.send("PATCH", &one, json!({})).await.refused(422, "invalid_request");
    assert_eq!(api.send("DELETE", &one, Value::Null).await.status, 204);
    api.get(&one).await.refused(404, "not_found");
}

#[tokio::test]
async fn refused_triggers_say_where_they_are_wrong() {
    let api = TestApi::start().await;
    let path = format!("/v1/users/{}/triggers", api.user);
    let cron = |cron: &str, zone: &str| trigger(&api, json!({"type": "cron", "cron": cron, "zone": zone}));
    let mut of_task = cron("0 9 * * *", "UTC");
    of_task["then"]["agentable_id"] = json!("task_00000000000000000000000000000001");
    let event = |rest: Value| {
        let mut when = json!({"type": "event", "topics": ["task.ended"]});
        when.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        trigger(&api, when)
    };
    let starts = |kind: &str, title: &str, instructions: &str| {
        let mut starts = cron("0 9 * * *", "UTC");
        starts["then"] = json!({"type": "task", "agentable_id": api.goal, "kind": kind, "title": title,
                                "instructions": instructions});
        starts
    };
    let mut silent = cron("0 9 * * *", "UTC");
    silent["then"]["instructions"] = json!(" ");
    for (body, pointer) in [
        (cron("30 2 31 2 *", "UTC"), "/when/cron"),
        (cron("* * * * * *", "UTC"), "/when/cron"),
        (cron("0 9 * * *", "Mars/Base"), "/when/zone"),
        (trigger(&api, json!({"type": "keyword", "regex": "("})), "/when/regex"),
        (trigger(&api, json!({"type": "keyword", "words": ["a\0"]})), "/when/words/0"),
        (trigger(&api, json!({"type": "event", "topics": ["run.*", "runs.x"]})), "/when/topics/1"),
        (event(json!({"if": "event.data.status =="})), "/when/if"),
        (event(json!({"if": "run.status == 'failed'"})), "/when/if"),
        (event(json!({"if": "event.kind | nothing"})), "/when/if"),
        (event(json!({"agentable_id": "goal"})), "/when/agentable_id"),
        (event(json!({"kind": ""})), "/when/kind"),
        (starts("goal", "t", "i"), "/then/kind"),
        (starts("task", "{{ event", "i"), "/then/title"),
        (starts("task", "t", "{{ user.name }}"), "/then/instructions"),
        (of_task, "/then/agentable_id"),
        (silent, "/then/instructions"),
    ] {
        let answer = api.post(&path, body.clone()).await;
        assert_eq!(answer.status, 422, "{body}: {}", answer.text());
        assert!(answer.text().contains(&format!("\"{pointer}\"")), "{pointer}: {}", answer.text());
    }
    let mut of_none = cron("0 9 * * *", "UTC");
    of_none["then"]["agentable_id"] = json!("goal_00000000000000000000000000000001");
    api.post(&path, of_none).await.refused(404, "not_found");
}

#[tokio::test]
async fn trigger_with_condition_and_task_is_shown_as_it_was_given() {
    let api = TestApi::start().await;
    let path = format!("/v1/users/{}/triggers", api.user);
    let body = json!({
        "name": "Failed tasks",
        "when": {"type": "event", "topics": ["task.ended"], "kind": "goal", "agentable_id": api.goal,
                 "if": "event.data.status == 'failed'"},
        "then": {"type": "task", "agentable_id": api.goal, "kind": "task", "title": "After {{ event.data.task_id }}",
                 "instructions": "Find out why."},
    });
    let made = api.post(&path, body.clone()).await.ok();
    assert_eq!((&made["when"], &made["then"]), (&body["when"], &body["then"]), "{made}");
    let one = format!("/v1/triggers/{}", made["id"].as_str().unwrap());
    assert_eq!(api.get(&one).await.ok()["then"], body["then"]);
    assert_eq!(api.get(&format!("{one}/firings")).await.ok(), json!({"data": []}));
    let unknown = "/v1/triggers/trigger_00000000000000000000000000000001/firings";
    api.get(unknown).await.refused(404, "not_found");
}

#[tokio::test]
async fn trigger_of_a_plan_is_checked_and_returned_as_it_was() {
    let api = TestApi::start().await;
    let path = format!("/v1/users/{}/triggers", api.user);
    let body = |document: Value, input: Value| {
        let mut body = trigger(&api, json!({"type": "event", "topics": ["task.ended"]}));
        body["then"] =
            json!({"type": "plan", "agentable_id": api.goal, "document": document, "input": input});
        body
    };
    let right = body(crate::plans::document(), json!({"city": "{{ event.data.title }}"}));
    let made = api.post(&path, right.clone()).await.ok();
    assert_eq!(made["then"], right["then"], "{made}");
    let one = format!("/v1/triggers/{}", made["id"].as_str().unwrap());
    assert_eq!(api.get(&one).await.ok()["then"], right["then"]);
    let with = |step: Value| json!({"v": 1, "goal": "g", "steps": [step]});
    let step = || json!({"id": "a", "type": "llm", "prompt": "x"});
    for (body, pointer) in [
        (
            body(with(json!({"id": "a", "type": "tool", "tool": "fly", "args": {}})), json!({})),
            "/then/document/steps/0/tool",
        ),
        (
            body(with(json!({"id": "a", "type": "llm", "prompt": "{{ b.result }}"})), json!({})),
            "/then/document/steps/0",
        ),
        (body(with(step()), json!({"list": ["{{ event"]})), "/then/input/list/0"),
        (body(with(step()), json!({"a/b": "{{ user.name }}"})), "/then/input/a~1b"),
    ] {
        let answer = api.post(&path, body.clone()).await;
        assert_eq!(answer.status, 422, "{body}: {}", answer.text());
        assert!(answer.text().contains(&format!("\"{pointer}\"")), "{pointer}: {}", answer.text());
    }
}
