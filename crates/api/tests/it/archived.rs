//! Archived goals, results of tasks, and limits of imports.

use serde_json::{Value, json};

use crate::test_api::TestApi;
use crate::worker::Worker;

#[tokio::test]
async fn archived_goal_refuses_check_ins_and_answers_messages() {
    let api = TestApi::start().await;
    let path = api.path("/check-ins");
    let body = json!({"in_minutes": 24 * 60, "reason": "Look at prices"});
    assert_eq!(api.post(&path, body.clone()).await.status, 201);
    api.post(&api.path("/archive"), json!({})).await.ok();
    assert_eq!(api.get(&path).await.ok()["data"], json!([]), "archiving deletes check-ins");
    let problem = api.post(&path, body.clone()).await.refused(409, "archived");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("unarchive") && detail.contains(&api.goal), "{detail}");
    api.post_message("still there?").await;
    Worker::start(&api).await.claim().await.answer("Yes").await;
    assert_eq!(api.get(&api.path("")).await.ok()["status"], "archived", "a message does not unarchive");
    api.post(&path, body.clone()).await.refused(409, "archived");
    api.post(&api.path("/unarchive"), json!({})).await.ok();
    assert_eq!(api.post(&path, body).await.status, 201);
}

#[tokio::test]
async fn status_is_set_by_the_rules_of_the_kind() {
    let api = TestApi::start().await;
    api.post(&api.path("/check-ins"), json!({"in_minutes": 24 * 60, "reason": "Look at prices"})).await.ok();
    let archived = api.send("PATCH", &api.path(""), json!({"status": "archived", "title": "Old"})).await.ok();
    assert_eq!((&archived["status"], &archived["title"]), (&json!("archived"), &json!("Old")));
    assert_eq!(api.get(&api.path("/check-ins")).await.ok()["data"], json!([]), "as with POST …/archive");
    let back = api.send("PATCH", &api.path(""), json!({"status": "waiting"})).await.ok();
    assert_eq!(back["status"], "waiting");
    let refused = api.send("PATCH", &api.path(""), json!({"status": "working", "title": "Not set"})).await;
    let refused = refused.refused(422, "invalid_request");
    assert_eq!(refused["errors"][0]["pointer"], "/status");
    let detail = refused["errors"][0]["detail"].as_str().unwrap();
    assert_eq!(detail, "cannot be set to `working`; allowed are: waiting, archived");
    assert_eq!(
        api.get(&api.path("")).await.ok()["title"],
        "Old",
        "nothing of a refused request is carried out"
    );
}

/// Inserts a task of the goal with a run that ended as `run` says, and one text of its agent.
fn ended_task(api: &TestApi, nth: u32, run: &str) -> String {
    let id = format!("0190000000007000800000000000000{nth}");
    api.sql(&format!(
        "insert into houston.agentables (id, tenant_id, user_id, parent_id, depth, kind, title)
         select '{id}', tenant_id, user_id, id, 1, 'task', 'Find hotels' from houston.agentables where id = '{goal}';
         insert into houston.runs (id, tenant_id, agentable_id, first_seq, status, error_code, error_message,
                                   cancelled_with_parent, ended_at)
         select '{id}', tenant_id, id, 1, {run}, now() from houston.agentables where id = '{id}';
         insert into houston.run_locks (agentable_id, tenant_id, user_id, run_id)
         select id, tenant_id, user_id, id from houston.agentables where id = '{id}';
         insert into houston.history (agentable_id, position, tenant_id, run_id, epoch, role, content)
         select id, n, tenant_id, id, 1, 'assistant', content
           from houston.agentables, (values (1, '[{{\"type\": \"text\", \"text\": \"Three\"}}]'::jsonb),
                                            (2, '[{{\"type\": \"tool_use\"}}]')) as h (n, content) where id = '{id}'",
        goal = api.agentable().0
    ));
    format!("task_{id}")
}

#[tokio::test]
async fn task_response_has_its_result() {
    let api = TestApi::start().await;
    for (nth, (run, status, reason, message)) in [
        ("'completed', null, null, false", "completed", Value::Null, Value::Null),
        ("'same_tool', null, null, false", "stopped", json!("same_tool"), Value::Null),
        ("'failed', 'TIMEOUT', 'too slow', false", "failed", json!("timeout"), json!("too slow")),
        ("'dead_lettered', null, null, false", "failed", json!("dead_lettered"), Value::Null),
        ("'cancelled', null, null, true", "cancelled", json!("parent"), Value::Null),
        ("'cancelled', null, null, false", "cancelled", json!("user"), Value::Null),
    ]
    .into_iter()
    .enumerate()
    {
        let id = ended_task(&api, u32::try_from(nth).unwrap(), run);
        let task = api.get(&format!("/v1/tasks/{id}")).await.ok();
        let result = &task["result"];
        assert_eq!((&task["status"], &result["reason"]), (&json!(status), &reason), "{task}");
        assert_eq!((&result["text"], &result["message"]), (&json!("Three"), &message), "{task}");
        assert!(result["ended_at"].is_string(), "{task}");
        let listed = api.get(&api.path("/tasks?limit=1")).await.ok();
        assert_eq!(listed["data"][0], task, "the list has the same");
        let filtered = api.get(&format!("/v1/tasks?status={status}&limit=1")).await.ok();
        assert_eq!(filtered["data"][0], task, "the filter by status finds it");
    }
    assert_eq!(api.get(&api.path("")).await.ok().get("result"), None, "a goal has no result");
}

#[tokio::test]
async fn import_has_the_same_limits_as_posting() {
    let api = TestApi::start().await;
    api.post_message("hello").await;
    Worker::start(&api).await.claim().await.answer("Gladly").await;
    let exported = api.get(&api.path("/export")).await.ok();
    let import = async |change: &dyn Fn(&mut Value)| {
        let mut conversation = exported.clone();
        change(&mut conversation);
        api.post("/v1/goals/import", json!({"user_id": api.user, "conversation": conversation})).await
    };
    let note = |title: &str, content: &str| {
        let at = "2026-11-22T12:00:00Z";
        json!([{"title": title, "content": content, "created_at": at, "updated_at": at}])
    };
    let long = "x".repeat(16 * 1024);
    type Change<'a> = &'a dyn Fn(&mut Value);
    let cases: [(&str, Change<'_>); 5] = [
        ("/conversation/messages/0/metadata", &|c| c["messages"][0]["metadata"] = json!({"x": long})),
        ("/conversation/messages/1/metadata", &|c| c["messages"][1]["metadata"] = json!({"x": long})),
        ("/conversation/messages/1/content", &|c| {
            c["messages"][1]["content"] = json!("x".repeat(1024 * 1024 + 1))
        }),
        ("/conversation/notes/0/title", &|c| c["notes"] = note("a\nb", "x")),
        ("/conversation/notes/0/content", &|c| c["notes"] = note("a", " ")),
    ];
    for (pointer, change) in cases {
        let problem = import(change).await.refused(422, "invalid_request");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
    assert_eq!(import(&|c| c["title"] = json!("")).await.status, 201, "a title may be generated later");
}

#[tokio::test]
async fn page_of_a_thread_has_50_messages() {
    let api = TestApi::start().await;
    api.post_message("hello").await;
    api.sql(
        "insert into houston.messages (id, tenant_id, agentable_id, seq, source, message_type, content, run_id)
         select gen_random_uuid(), m.tenant_id, m.agentable_id, 10 + n, 'user', 'text', 'x', m.run_id
           from houston.messages m, generate_series(1, 60) n",
    );
    let page = api.get(&api.path("/messages")).await.ok();
    assert_eq!((page["data"].as_array().unwrap().len(), &page["has_more"]), (50, &json!(true)));
}
