//! One goal's own choice among the tools of its kind: given when it is made, changed while workers run, handed on to
//! its tasks and its copies.

use houston_testkit::model_server::Reply;
use serde_json::{Value, json};

use crate::house::{environment, houston};
use crate::scripted::{Asked, Scripted};
use crate::tasks::says;

/// Creates a task when it is told to; else answers.
fn script(asked: &Asked) -> Reply {
    if asked.system.contains("You carry out one task") {
        return Reply::text("done");
    }
    match asked.texts.last().map(String::as_str) {
        Some("go") => Reply::tool("create_task", json!({"title": "Find", "instructions": "Find hotels."}))
            .then_tool("send_message", json!({"content": "begun"})),
        _ => says("ok"),
    }
}

/// What the model was told it may call when it was last asked by an agent that is or is no task.
fn offered(rig: &Scripted, task: bool) -> Vec<String> {
    let asked = rig.asked();
    let of = |asked: &&Asked| asked.system.contains("You carry out one task") == task;
    asked.iter().rev().find(of).unwrap().tools.clone()
}

/// What `houston tools` says of each tool that it says this of.
fn told(rig: &Scripted, goal: &str, reason: &str) -> Vec<String> {
    let mut command = environment(houston(), &rig.house.servers.lock().unwrap(), rig.house.folder.path());
    let output = command.args(["tools", goal, "--json"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let tools: Value = serde_json::from_slice(&output.stdout).unwrap();
    let tools = tools["data"].as_array().unwrap().iter();
    let of = tools.filter(|tool| tool["reason"].as_str().unwrap().contains(reason));
    of.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_goal_calls_the_tools_that_are_left_to_it_from_its_next_run_on() {
    let rig = Scripted::start(script).await;
    let _worker = rig.worker("local/usual");
    let cook = rig.agent("cook", json!({"tools": ["send_message", "list_notes", "create_note"]})).await;
    let some = json!(["send_message", "create_note"]);
    let goal = rig.goal(json!({"tools": some})).await;
    let path = format!("/v1/goals/{goal}");
    assert_eq!(rig.house.get(&path).await["tools"], some);
    rig.ask(&goal, "hello").await;
    assert_eq!(json!(offered(&rig, false)), some);

    let all = rig.goal(json!({})).await;
    assert_eq!(rig.house.get(&format!("/v1/goals/{all}")).await["tools"], Value::Null);
    rig.ask(&all, "hello").await;
    let kinds = offered(&rig, false);
    assert!(kinds.len() > 10, "{kinds:?}");

    // Who answers stays when tools change, and tools stay when who answers changes.
    let changed = rig.ok("PATCH", &path, json!({"agent_id": cook})).await;
    assert_eq!((&changed["agent_id"], &changed["tools"]), (&json!(cook), &some));
    let fewer = json!(["list_notes", "send_message", "create_task"]);
    let changed = rig.ok("PATCH", &path, json!({"tools": fewer})).await;
    assert_eq!((&changed["agent_id"], &changed["tools"]), (&json!(cook), &fewer));
    rig.ask(&goal, "again").await;
    assert_eq!(offered(&rig, false), ["send_message", "list_notes"], "what both its agent and it may call");
    assert_eq!(told(&rig, &goal, "switched off for it alone"), ["create_note"]);

    rig.ok("PATCH", &path, json!({"agent_id": null, "tools": null})).await;
    rig.ask(&goal, "and now?").await;
    assert_eq!(offered(&rig, false), kinds);
    assert_eq!(told(&rig, &goal, "switched off"), [""; 0]);

    // Nothing to call: its text is what it says.
    rig.ok("PATCH", &path, json!({"tools": []})).await;
    rig.house.answered(&rig.house.post(&goal, "none", "hello").await).await;
    assert_eq!(offered(&rig, false), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_may_call_what_is_left_to_its_goal_and_nobody_gives_it_more() {
    let rig = Scripted::start(script).await;
    let _worker = rig.worker("local/usual");
    let goal = rig.goal(json!({"tools": ["send_message", "create_task", "create_note"]})).await;
    rig.ask(&goal, "go").await;
    let tasks = format!("/v1/goals/{goal}/tasks");
    let done = |page: &Value| page["data"][0]["status"] == "completed";
    rig.house.until(&tasks, "its task", done).await;
    assert_eq!(offered(&rig, true), ["create_note"]);
    let task = rig.house.get(&tasks).await["data"][0].clone();
    assert_eq!(task["tools"], json!(["create_note"]));
    let path = format!("/v1/tasks/{}", task["id"].as_str().unwrap());
    for more in [Value::Null, json!(["list_notes"])] {
        let (status, refused) = rig.refused("PATCH", &path, json!({"tools": more})).await;
        assert!(status == 422 && refused.contains("/tools") && refused.contains(&goal), "{refused}");
    }
    assert_eq!(rig.house.get(&path).await["tools"], json!(["create_note"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_a_goal_cannot_have_is_told_with_its_place_what_is_allowed_and_the_nearest() {
    let rig = Scripted::start(script).await;
    let goal = rig.goal(json!({"tools": ["create_note"]})).await;
    let path = format!("/v1/goals/{goal}");
    let user = rig.house.get(&path).await["user_id"].clone();
    let exported = rig.house.get(&format!("{path}/export")).await;
    for (tools, words) in [
        (
            json!(["send_message", "creat_note"]),
            [
                "/tools/1",
                "no tool `creat_note`",
                "a goal may have: send_message, ",
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
            let (status, refused) = rig.refused(method, path, body).await;
            assert_eq!(status, 422, "{method} {path}: {refused}");
            for word in words {
                assert!(refused.contains(word), "{method} {path}: `{refused}` does not say `{word}`");
            }
        }
    }
    assert_eq!(rig.house.get(&path).await["tools"], json!(["create_note"]), "nothing was changed");
    assert_eq!(rig.house.sql("select count(*) from houston.agentables where kind = 'goal'"), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_keeps_what_was_left_to_the_original() {
    let rig = Scripted::start(script).await;
    let _worker = rig.worker("local/usual");
    let some = json!(["send_message", "create_note"]);
    let goal = rig.goal(json!({"tools": some})).await;
    rig.ask(&goal, "hello").await;
    let path = format!("/v1/goals/{goal}");
    let conversation = rig.house.get(&format!("{path}/export")).await;
    assert_eq!(conversation["tools"], some);
    let user = rig.house.get(&path).await["user_id"].clone();
    let imported = json!({"user_id": user, "conversation": conversation});
    for (path, body) in [(format!("{path}/fork"), json!({})), ("/v1/goals/import".to_owned(), imported)] {
        let copy = rig.ok("POST", &path, body).await;
        assert_eq!(copy["tools"], some, "{path}");
        let copy = copy["id"].as_str().unwrap();
        assert_eq!(rig.house.get(&format!("/v1/goals/{copy}")).await["tools"], some);
        rig.ask(copy, "and you?").await;
        assert_eq!(json!(offered(&rig, false)), some);
    }
}
