//! The tool selection of a goal: set when it is created, changed while workers run, inherited by its tasks and copies.

use houston_testkit::model_server::Reply;
use serde_json::{Value, json};

use crate::scripted::{Asked, Scripted};
use crate::tasks::says;
use crate::test_houston::{environment, houston_command};

/// Creates a task when the message asks for one, else answers.
fn script(asked: &Asked) -> Reply {
    if asked.system.contains("You carry out one task") {
        return Reply::text("done");
    }
    match asked.texts.last().map(String::as_str) {
        Some("go") => Reply::tool("create_task", json!({"title": "Find", "instructions": "Find hotels."}))
            .then_tool("send_message", json!({"content": "begun"})),
        _ if asked.tools.is_empty() => Reply::text("ok"),
        _ => says("ok"),
    }
}

/// The tools of the last model call by a task, or by an agent that is no task.
fn offered(scripted: &Scripted, task: bool) -> Vec<String> {
    let asked = scripted.asked();
    let of = |asked: &&Asked| asked.system.contains("You carry out one task") == task;
    asked.iter().rev().find(of).unwrap().tools.clone()
}

/// The tools for which `houston tools` gives this reason.
fn tools_with_reason(scripted: &Scripted, goal: &str, reason: &str) -> Vec<String> {
    let mut command = environment(
        houston_command(),
        &scripted.houston.servers.lock().unwrap(),
        scripted.houston.folder.path(),
    );
    let output = command.args(["tools", goal, "--json"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let tools: Value = serde_json::from_slice(&output.stdout).unwrap();
    let tools = tools["data"].as_array().unwrap().iter();
    let of = tools.filter(|tool| tool["reason"].as_str().unwrap().contains(reason));
    of.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_tool_selection_applies_from_the_next_run() {
    let scripted = Scripted::start(script).await;
    let _worker = scripted.worker("local/usual");
    let cook = scripted.agent("cook", json!({"tools": ["send_message", "list_notes", "create_note"]})).await;
    let some = json!(["send_message", "create_note"]);
    let goal = scripted.goal(json!({"tools": some})).await;
    let path = format!("/v1/goals/{goal}");
    assert_eq!(scripted.houston.get(&path).await["tools"], some);
    scripted.ask(&goal, "hello").await;
    assert_eq!(json!(offered(&scripted, false)), some);

    let all = scripted.goal(json!({})).await;
    assert_eq!(scripted.houston.get(&format!("/v1/goals/{all}")).await["tools"], Value::Null);
    scripted.ask(&all, "hello").await;
    let kinds = offered(&scripted, false);
    assert!(kinds.len() > 10, "{kinds:?}");

    // The agent stays when the tools change, and the tools stay when the agent changes.
    let changed = scripted.ok("PATCH", &path, json!({"agent_id": cook})).await;
    assert_eq!((&changed["agent_id"], &changed["tools"]), (&json!(cook), &some));
    let fewer = json!(["list_notes", "send_message", "create_task"]);
    let changed = scripted.ok("PATCH", &path, json!({"tools": fewer})).await;
    assert_eq!((&changed["agent_id"], &changed["tools"]), (&json!(cook), &fewer));
    scripted.ask(&goal, "again").await;
    assert_eq!(
        offered(&scripted, false),
        ["send_message", "list_notes"],
        "what both its agent and it may call"
    );
    assert_eq!(tools_with_reason(&scripted, &goal, "switched off for it alone"), ["create_note"]);

    scripted.ok("PATCH", &path, json!({"agent_id": null, "tools": null})).await;
    scripted.ask(&goal, "and now?").await;
    assert_eq!(offered(&scripted, false), kinds);
    assert_eq!(tools_with_reason(&scripted, &goal, "switched off"), [""; 0]);

    // Without tools, the model's text is the reply.
    scripted.ok("PATCH", &path, json!({"tools": []})).await;
    scripted.houston.wait_until_answered(&scripted.houston.post(&goal, "none", "hello").await).await;
    assert_eq!(offered(&scripted, false), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn task_inherits_the_tool_selection_of_its_goal() {
    let scripted = Scripted::start(script).await;
    let _worker = scripted.worker("local/usual");
    let goal = scripted.goal(json!({"tools": ["send_message", "create_task", "create_note"]})).await;
    scripted.ask(&goal, "go").await;
    let tasks = format!("/v1/goals/{goal}/tasks");
    let done = |page: &Value| page["data"][0]["status"] == "completed";
    scripted.houston.wait_until(&tasks, "its task", done).await;
    assert_eq!(offered(&scripted, true), ["create_note"]);
    let task = scripted.houston.get(&tasks).await["data"][0].clone();
    assert_eq!(task["tools"], json!(["create_note"]));
    let path = format!("/v1/tasks/{}", task["id"].as_str().unwrap());
    for more in [Value::Null, json!(["list_notes"])] {
        let (status, refused) = scripted.refused("PATCH", &path, json!({"tools": more})).await;
        assert!(status == 422 && refused.contains("/tools") && refused.contains(&goal), "{refused}");
    }
    assert_eq!(scripted.houston.get(&path).await["tools"], json!(["create_note"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_tool_is_refused_with_pointer_and_suggestion() {
    let scripted = Scripted::start(script).await;
    let goal = scripted.goal(json!({"tools": ["create_note"]})).await;
    let path = format!("/v1/goals/{goal}");
    let user = scripted.houston.get(&path).await["user_id"].clone();
    let exported = scripted.houston.get(&format!("{path}/export")).await;
    for (tools, words) in [
        (
            json!(["send_message", "creat_note"]),
            [
                "/tools/1",
                "no tool `creat_note`",
                "allowed for the kind `goal`: send_message, ",
                "did you mean `create_note`?",
            ],
        ),
        (
            json!(["create_feed_item"]),
            ["/tools/0", "not among the tools of the kind `goal`", "send_message", "invalid_request"],
        ),
        (json!(["create_note", "create_note"]), ["/tools/1", "`create_note`", "twice", "invalid_request"]),
    ] {
        let mut conversation = exported.clone();
        conversation["tools"] = tools.clone();
        for (method, path, body) in [
            ("POST", "/v1/goals", json!({"user_id": user, "title": "Tokyo", "tools": tools})),
            ("PATCH", path.as_str(), json!({"tools": tools})),
            ("POST", "/v1/goals/import", json!({"user_id": user, "conversation": conversation})),
        ] {
            let (status, refused) = scripted.refused(method, path, body).await;
            assert_eq!(status, 422, "{method} {path}: {refused}");
            for word in words {
                assert!(refused.contains(word), "{method} {path}: `{refused}` does not contain `{word}`");
            }
        }
    }
    assert_eq!(scripted.houston.get(&path).await["tools"], json!(["create_note"]), "nothing was changed");
    assert_eq!(scripted.houston.sql("select count(*) from houston.agentables where kind = 'goal'"), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn copy_keeps_the_tool_selection() {
    let scripted = Scripted::start(script).await;
    let _worker = scripted.worker("local/usual");
    let some = json!(["send_message", "create_note"]);
    let goal = scripted.goal(json!({"tools": some})).await;
    scripted.ask(&goal, "hello").await;
    let path = format!("/v1/goals/{goal}");
    let conversation = scripted.houston.get(&format!("{path}/export")).await;
    assert_eq!(conversation["tools"], some);
    let user = scripted.houston.get(&path).await["user_id"].clone();
    let imported = json!({"user_id": user, "conversation": conversation});
    for (path, body) in [(format!("{path}/fork"), json!({})), ("/v1/goals/import".to_owned(), imported)] {
        let copy = scripted.ok("POST", &path, body).await;
        assert_eq!(copy["tools"], some, "{path}");
        let copy = copy["id"].as_str().unwrap();
        assert_eq!(scripted.houston.get(&format!("/v1/goals/{copy}")).await["tools"], some);
        scripted.ask(copy, "and you?").await;
        assert_eq!(json!(offered(&scripted, false)), some);
    }
}
