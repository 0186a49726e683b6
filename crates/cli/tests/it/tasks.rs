//! Tasks from beginning to end: a goal creates one, it works, its note and its result reach the goal, which tells its
//! user. What is too much is refused, what is cancelled goes with all below it, and no kill loses or doubles any of it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use houston_testkit::model_server::{Call, Gate, ModelServer, Reply};
use houston_testkit::process::Process;
use reqwest::Method;
use serde_json::{Value, json};

use crate::house::House;

pub(crate) fn says(text: &str) -> Reply {
    Reply::tool("send_message", json!({"content": text}))
}

/// Whether the model is asked for a task.
pub(crate) fn is_task(call: &Call) -> bool {
    call.system().contains("You carry out one task")
}

/// A worker that asks `server`.
pub(crate) fn worker(house: &House, server: &ModelServer, more: &[(&str, &str)]) -> Process {
    let url = server.url();
    let mut variables = vec![
        ("HOUSTON_MODEL", "openai/scripted"),
        ("OPENAI_BASE_URL", url.as_str()),
        ("OPENAI_API_KEY", "sk-test"),
        ("HOUSTON_ORCHESTRATOR__RETRY__IMMEDIATE__ATTEMPTS", "0"),
        ("HOUSTON_ORCHESTRATOR__RETRY__DELAYED__BASE_MS", "100"),
        ("HOUSTON_ORCHESTRATOR__SWEEP__EVERY_MS", "500"),
    ];
    variables.extend(more);
    house.worker_with(&variables)
}

/// A goal that creates one task for "go", and says what became of it; the task writes a note once `gate` is open.
fn one_task(gate: &Gate) -> impl Fn(&Call) -> Reply + Send + Sync + 'static {
    let gate = gate.clone();
    move |call| {
        let asked = call.last_user_text();
        match (is_task(call), call.has_tool_results()) {
            (true, false) => Reply::tool("create_note", json!({"title": "Hotels", "content": "Shibuya, Asakusa"}))
                .held_by(&gate),
            (true, true) => Reply::text("Found two hotels."),
            (false, _) if asked.contains("<task_ended") => says("Your task is done."),
            (false, false) => {
                Reply::tool("create_task", json!({"title": "Find hotels", "instructions": "Find hotels in Tokyo."}))
            }
            (false, true) => says("I am on it."),
        }
    }
}

async fn tasks(house: &House, goal: &str) -> Vec<Value> {
    let page = house.get(&format!("/v1/goals/{goal}/tasks")).await;
    page["data"].as_array().unwrap_or_else(|| panic!("{page}")).clone()
}

async fn until_said(house: &House, goal: &str, text: &str) {
    let path = format!("/v1/goals/{goal}/messages?limit=100");
    house
        .until(&path, text, |page| {
            page["data"].as_array().is_some_and(|all| all.iter().any(|message| message["content"] == text))
        })
        .await;
}

/// Messages that Houston itself wrote into a thread.
async fn told(house: &House, path: &str) -> Vec<Value> {
    let page = house.get(&format!("{path}/messages?limit=100")).await;
    page["data"].as_array().unwrap().iter().filter(|message| message["source"] == "system").cloned().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_works_on_its_own_and_its_note_and_result_reach_the_goal_that_tells_its_user() {
    let house = House::start();
    let gate = Gate::new();
    let server = ModelServer::start(one_task(&gate)).await.unwrap();
    let _worker = worker(&house, &server, &[]);
    let user = house.create("/v1/users", "user", &json!({"name": "Ada"})).await;
    let body = json!({"user_id": user["id"], "title": "Tokyo", "description": "A week in spring."});
    let goal = house.create("/v1/goals", "goal", &body).await["id"].as_str().unwrap().to_owned();
    let noted = json!({"title": "Secret of the goal", "content": "not for tasks"});
    house.create(&format!("/v1/goals/{goal}/notes"), "note", &noted).await;
    let rules = json!({"content": "Answer in Latin."});
    let user_path = format!("/v1/users/{}", user["id"].as_str().unwrap());
    house.create(&format!("{user_path}/custom-instructions"), "rule", &rules).await;

    let message = house.post(&goal, "1", "go").await;
    let events = Mutex::new(Vec::new());
    let keep = |event: &Value| {
        if event["type"].as_str().unwrap().starts_with("SUBAGENT") {
            events.lock().unwrap().push(event.clone());
        }
    };
    let first = house.watch_with(message["events_url"].as_str().unwrap(), keep).await;
    assert_eq!(house.said(&goal).await, ["I am on it."]);
    let begun = tasks(&house, &goal).await;
    let [task] = &begun[..] else { panic!("one call, one task: {begun:?}") };
    assert_eq!(
        (&task["parent_id"], &task["status"], &task["title"]),
        (&json!(goal), &json!("active"), &json!("Find hotels"))
    );
    let task_path = format!("/v1/tasks/{}", task["id"].as_str().unwrap());
    gate.open();
    until_said(&house, &goal, "Your task is done.").await;

    // What the task's model was told: what the goal is about and its instructions, and nothing else.
    let task_call = server.journal().exchanges().into_iter().find(|exchange| {
        let body = String::from_utf8_lossy(&exchange.body);
        body.contains("You carry out one task")
    });
    let body = String::from_utf8(task_call.unwrap().body.to_vec()).unwrap();
    for known in ["A week in spring.", "Find hotels in Tokyo.", "create_note"] {
        assert!(body.contains(known), "{known}: {body}");
    }
    for unknown in ["Secret of the goal", "Answer in Latin", "\"send_message\"", "\"create_task\"", "manage_learning"] {
        assert!(!body.contains(unknown), "{unknown}: {body}");
    }

    let done = house.get(&task_path).await;
    assert_eq!((&done["status"], &done["parent_id"]), (&json!("completed"), &json!(goal)));
    let notes = house.get(&format!("/v1/goals/{goal}/notes")).await;
    let titles: Vec<&str> =
        notes["data"].as_array().unwrap().iter().map(|note| note["title"].as_str().unwrap()).collect();
    assert_eq!(titles, ["Hotels", "Secret of the goal"], "the note of the task is the goal's");
    let reports = told(&house, &format!("/v1/goals/{goal}")).await;
    let [report] = &reports[..] else { panic!("told once: {reports:?}") };
    assert_eq!(report["metadata"]["type"], "task_ended");
    let content = report["content"].as_str().unwrap();
    for part in ["Find hotels", "status=\"completed\"", "Found two hotels.", ">Hotels</item>"] {
        assert!(content.contains(part), "{part}: {content}");
    }
    assert_eq!(told(&house, &task_path).await[0]["content"], "Find hotels in Tokyo.");

    // The stream says when it began and when it ended, and closes what it opens.
    let run = report["run_id"].as_str().unwrap();
    house.until(&format!("/v1/runs/{run}"), "its end", |run| !run["ended_at"].is_null()).await;
    let last = house.watch_with(&format!("/v1/goals/{goal}/events"), keep).await;
    let events = events.into_inner().unwrap();
    let types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["SUBAGENT_STARTED", "SUBAGENT_FINISHED", "SUBAGENT_STARTED", "SUBAGENT_FINISHED"]);
    assert!(events.iter().all(|event| event["subagentRunId"] == task["run_id"]), "{events:?}");
    assert_eq!(events[0]["metadata"]["houston"]["task_id"], task["id"]);
    assert!(events[0]["parentToolCallId"].is_string());
    assert_eq!((&events[1]["outcome"]["type"], &events[3]["outcome"]["type"]), (&json!("suspended"), &json!("success")));
    for watched in [first, last] {
        assert_eq!(watched.types.last().map(String::as_str), Some("RUN_FINISHED"), "{watched:?}");
    }
}
