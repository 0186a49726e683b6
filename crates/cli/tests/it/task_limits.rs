//! Limits on the depth and the number of tasks: further ones are refused with advice for the model.

use std::sync::Mutex;

use houston_testkit::model_server::{Call, Gate, ModelServer, Reply};
use serde_json::{Value, json};

use crate::tasks::{is_task, says, tasks, tools_answered, worker};
use crate::test_houston::{PATIENCE, TestHouston};

/// The tool results of all agents.
type ToolResults = std::sync::Arc<Mutex<Vec<String>>>;

/// A goal that creates too many tasks, and a task that creates subtasks too deep.
fn too_many(gate: &Gate, results: &ToolResults) -> impl Fn(&Call) -> Reply + Send + Sync + 'static {
    let (held, results) = (gate.clone(), ToolResults::clone(results));
    move |call: &Call| {
        let new = |title: &str, more: Value| {
            let mut task = json!({"title": title, "instructions": "Do it."});
            task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            ("create_task".to_owned(), task)
        };
        results.lock().unwrap().extend(call.tool_results().into_iter().map(|result| result.content));
        let calls = |calls: Vec<(String, Value)>| {
            let mut calls = calls.into_iter();
            let (name, input) = calls.next().unwrap();
            calls.fold(Reply::tool(name, input), |reply, (name, input)| reply.then_tool(name, input))
        };
        if is_task(call) {
            return Reply::text("done").held_by(&held);
        }
        match (call.system().contains("You research"), tools_answered(call)) {
            (true, false) => calls(vec![new("deeper", json!({}))]),
            (true, true) => Reply::text("I did it myself.").held_by(&held),
            (false, _) if call.last_user_text().contains("<task_ended") => says("ok"),
            (false, false) => calls(vec![
                new("one", json!({"kind": "researcher"})),
                new("two", json!({"tools": ["list_notes"]})),
                new("three", json!({})),
                new("wrong kind", json!({"kind": "goal"})),
                new("wrong tool", json!({"tools": ["send_message"]})),
            ]),
            (false, true) => says("begun"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn task_count_and_depth_limits_are_refused_with_advice() {
    let houston = TestHouston::start();
    // A kind of task that may create tasks.
    let researcher = include_str!("../../../../jobs/agents/task.toml")
        .replace("kind = \"task\"", "kind = \"researcher\"")
        .replace("tools = [", "creates = [\"task\"]\ntools = [\"create_task\", ")
        .replace("You carry out one task", "You research");
    std::fs::write(houston.folder.path().join("agents/researcher.toml"), researcher).unwrap();
    let goal_file = houston.folder.path().join("agents/goal.toml");
    let text = std::fs::read_to_string(&goal_file).unwrap();
    let text =
        text.replace("creates = [\"task\", \"plan\"]", "creates = [\"task\", \"researcher\", \"plan\"]");
    std::fs::write(&goal_file, text).unwrap();

    let results = ToolResults::default();
    let gate = Gate::new();
    let server = ModelServer::start(too_many(&gate, &results)).await.unwrap();
    let _worker = worker(&houston, &server, &[("HOUSTON_ORCHESTRATOR__TASKS__MAX_OPEN", "2")]);
    let goal = houston.goal("limits").await;
    let message = houston.post(&goal, "1", "go").await;
    houston.wait_until_answered(&message).await;
    let deadline = std::time::Instant::now() + PATIENCE;
    while results.lock().unwrap().len() < 6 {
        assert!(std::time::Instant::now() < deadline, "{:?}", results.lock().unwrap());
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let results = results.lock().unwrap().clone();
    let has = |part: &str| results.iter().filter(|result| result.contains(part)).count();
    assert_eq!(has("Created researcher_"), 1, "{results:?}");
    assert_eq!(has("Created task_"), 1, "{results:?}");
    assert_eq!(
        has("2 of your tasks are open, and at most 2 may be: wait until one has ended"),
        1,
        "{results:?}"
    );
    assert_eq!(has("you cannot create a `goal`; there are: task, researcher"), 1, "{results:?}");
    assert_eq!(has("a task cannot have `send_message`; there are:"), 1, "{results:?}");
    assert_eq!(has("tasks may go 1 deep, and you are 1 deep: do it yourself"), 1, "{results:?}");
    assert_eq!(tasks(&houston, &goal).await.len(), 2);
    let offered = loop {
        // The task's first request may come after the results of its creator.
        if let Some(tools) = tools_offered_to(&server, "<title>two</title>") {
            break tools;
        }
        assert!(std::time::Instant::now() < deadline, "the model was not asked for the task `two`");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    let offered: Vec<&str> =
        offered.as_array().unwrap().iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect();
    assert_eq!(offered, ["list_notes"], "of its tools, those it was given");
    gate.open();
}

/// The tools offered with the first request whose prompt contains `text`.
fn tools_offered_to(server: &ModelServer, text: &str) -> Option<Value> {
    server.journal().exchanges().into_iter().find_map(|exchange| {
        let body: Value = serde_json::from_slice(&exchange.body).ok()?;
        let is_for = body["messages"][0]["content"].to_string().contains(text);
        is_for.then(|| body["tools"].clone())
    })
}
