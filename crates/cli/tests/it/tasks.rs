//! Tasks end to end: a goal creates one, its note and its result reach the goal, and the goal reports to its user.
//! Kills and retries neither lose nor repeat any of it.

use std::sync::Mutex;

use houston_testkit::model_server::{Call, Gate, ModelServer, Reply};
use houston_testkit::process::Process;
use serde_json::{Value, json};

use crate::test_houston::{PATIENCE, TestHouston};

pub(crate) fn says(text: &str) -> Reply {
    Reply::tool("send_message", json!({"content": text}))
}

/// Whether the call is made by a task.
pub(crate) fn is_task(call: &Call) -> bool {
    call.system().contains("You carry out one task")
}

/// Whether the last message is a tool result.
pub(crate) fn tools_answered(call: &Call) -> bool {
    call.json()["messages"].as_array().and_then(|all| all.last()).is_some_and(|last| last["role"] == "tool")
}

/// Starts a worker with the model `server`.
pub(crate) fn worker(houston: &TestHouston, server: &ModelServer, more: &[(&str, &str)]) -> Process {
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
    houston.worker_with(&variables)
}

/// A goal that creates a task on the message "go" and reports its end; the task writes a note once `gate` is open.
fn one_task(gate: &Gate) -> impl Fn(&Call) -> Reply + Send + Sync + 'static {
    let gate = gate.clone();
    move |call| {
        let asked = call.last_user_text();
        match (is_task(call), tools_answered(call)) {
            (true, false) => {
                Reply::tool("create_note", json!({"title": "Hotels", "content": "Shibuya, Asakusa"}))
                    .held_by(&gate)
            }
            (true, true) => Reply::text("Found two hotels."),
            (false, _) if asked.contains("<task_ended") => says("Your task is done."),
            (false, false) => Reply::tool(
                "create_task",
                json!({"title": "Find hotels", "instructions": "Find hotels in Tokyo."}),
            ),
            (false, true) => says("I am on it."),
        }
    }
}

/// The tasks of a goal, newest first.
pub(crate) async fn tasks(houston: &TestHouston, goal: &str) -> Vec<Value> {
    let page = houston.get(&format!("/v1/goals/{goal}/tasks")).await;
    page["data"].as_array().unwrap_or_else(|| panic!("{page}")).clone()
}

async fn until_said(houston: &TestHouston, goal: &str, text: &str) {
    let path = format!("/v1/goals/{goal}/messages?limit=100");
    houston
        .wait_until(&path, text, |page| {
            page["data"].as_array().is_some_and(|all| all.iter().any(|message| message["content"] == text))
        })
        .await;
}

/// The system messages of a thread.
pub(crate) async fn system_messages(houston: &TestHouston, path: &str) -> Vec<Value> {
    let page = houston.get(&format!("{path}/messages?limit=100")).await;
    page["data"].as_array().unwrap().iter().filter(|message| message["source"] == "system").cloned().collect()
}

/// Checks that a task's prompt has its goal and its instructions, and nothing else.
fn check_prompt_of_a_task(server: &ModelServer) {
    let task_call = server.journal().exchanges().into_iter().find(|exchange| {
        let body = String::from_utf8_lossy(&exchange.body);
        body.contains("You carry out one task")
    });
    let body = String::from_utf8(task_call.unwrap().body.to_vec()).unwrap();
    for text in ["A week in spring.", "Find hotels in Tokyo.", "create_note"] {
        assert!(body.contains(text), "{text}: {body}");
    }
    for unknown in
        ["Secret of the goal", "Answer in Latin", "\"send_message\"", "\"create_task\"", "manage_learning"]
    {
        assert!(!body.contains(unknown), "{unknown}: {body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn task_note_and_result_reach_the_goal() {
    let houston = TestHouston::start();
    let gate = Gate::new();
    let server = ModelServer::start(one_task(&gate)).await.unwrap();
    let _worker = worker(&houston, &server, &[]);
    let user = houston.create("/v1/users", "user", &json!({"name": "Ada"})).await;
    let body = json!({"user_id": user["id"], "title": "Tokyo", "description": "A week in spring."});
    let goal = houston.create("/v1/goals", "goal", &body).await["id"].as_str().unwrap().to_owned();
    let noted = json!({"title": "Secret of the goal", "content": "not for tasks"});
    houston.create(&format!("/v1/goals/{goal}/notes"), "note", &noted).await;
    let rules = json!({"content": "Answer in Latin."});
    let user_path = format!("/v1/users/{}", user["id"].as_str().unwrap());
    houston.create(&format!("{user_path}/custom-instructions"), "rule", &rules).await;

    let message = houston.post(&goal, "1", "go").await;
    let events = Mutex::new(Vec::new());
    let keep = |event: &Value| {
        if event["type"].as_str().unwrap().starts_with("SUBAGENT") {
            events.lock().unwrap().push(event.clone());
        }
    };
    let first = houston.watch_with(message["events_url"].as_str().unwrap(), keep).await;
    assert_eq!(houston.agent_texts(&goal).await, ["I am on it."]);
    let begun = tasks(&houston, &goal).await;
    let [task] = &begun[..] else { panic!("one call, one task: {begun:?}") };
    assert_eq!(
        (&task["parent_id"], &task["status"], &task["title"]),
        (&json!(goal), &json!("active"), &json!("Find hotels"))
    );
    let task_path = format!("/v1/tasks/{}", task["id"].as_str().unwrap());
    gate.open();
    until_said(&houston, &goal, "Your task is done.").await;

    check_prompt_of_a_task(&server);
    let done = houston.get(&task_path).await;
    assert_eq!((&done["status"], &done["parent_id"]), (&json!("completed"), &json!(goal)));
    let notes = houston.get(&format!("/v1/goals/{goal}/notes")).await;
    let notes = notes["data"].as_array().unwrap();
    let titles: Vec<&str> = notes.iter().map(|note| note["title"].as_str().unwrap()).collect();
    assert_eq!(titles, ["Hotels", "Secret of the goal"], "the note of the task is the goal's");
    let reports = system_messages(&houston, &format!("/v1/goals/{goal}")).await;
    let [report] = &reports[..] else { panic!("reported once: {reports:?}") };
    assert_eq!(report["metadata"]["type"], "task_ended");
    let content = report["content"].as_str().unwrap();
    for part in ["Find hotels", "status=\"completed\"", "Found two hotels.", ">Hotels</item>"] {
        assert!(content.contains(part), "{part}: {content}");
    }
    assert_eq!(system_messages(&houston, &task_path).await[0]["content"], "Find hotels in Tokyo.");

    // The stream has a start and an end event for the task.
    let run = report["run_id"].as_str().unwrap();
    houston.wait_until(&format!("/v1/runs/{run}"), "its end", |run| !run["ended_at"].is_null()).await;
    let last = houston.watch_with(&format!("/v1/goals/{goal}/events"), keep).await;
    let events = events.into_inner().unwrap();
    let types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["SUBAGENT_STARTED", "SUBAGENT_FINISHED", "SUBAGENT_STARTED", "SUBAGENT_FINISHED"]);
    assert!(events.iter().all(|event| event["subagentRunId"] == task["run_id"]), "{events:?}");
    assert_eq!(events[0]["metadata"]["houston"]["task_id"], task["id"]);
    assert!(events[0]["parentToolCallId"].is_string());
    let outcomes = [1, 3].map(|at: usize| events[at]["outcome"]["type"].as_str().unwrap());
    assert_eq!(outcomes, ["suspended", "success"]);
    for received in [first, last] {
        assert_eq!(received.types.last().map(String::as_str), Some("RUN_FINISHED"), "{received:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_neither_lose_nor_duplicate_a_task() {
    let houston = TestHouston::start();
    let (asked, worked, told_of) = (Gate::new(), Gate::new(), Gate::new());
    let (call, work, tell) = (asked.clone(), worked.clone(), told_of.clone());
    let server = ModelServer::start(move |asked: &Call| {
        let text = asked.last_user_text();
        match (is_task(asked), tools_answered(asked)) {
            (true, false) => {
                Reply::tool("create_note", json!({"title": "Hotels", "content": "Shibuya"})).held_by(&work)
            }
            (true, true) => Reply::text("Found one."),
            (false, _) if text.contains("<task_ended") => says("Your task is done.").held_by(&tell),
            (false, false) => {
                Reply::tool("create_task", json!({"title": "Find", "instructions": "Find hotels."}))
                    .in_pieces(8)
                    .held_after(4, &call)
            }
            (false, true) => says("I am on it."),
        }
    })
    .await
    .unwrap();
    let goal = houston.goal("kill").await;
    houston.post(&goal, "1", "go").await;

    // During the call that creates the task.
    let mut victim = worker(&houston, &server, &[]);
    assert!(server.journal().wait_until(PATIENCE, |journal| journal.calls() == 1).await);
    victim.kill().unwrap();
    asked.open();
    assert!(tasks(&houston, &goal).await.is_empty(), "half a call creates nothing");
    // While the task runs.
    let mut victim = worker(&houston, &server, &[]);
    let path = format!("/v1/goals/{goal}/tasks");
    let is_running = |page: &Value| page["data"][0]["run_id"].as_str().is_some_and(|run| !run.is_empty());
    houston.wait_until(&path, "a task", is_running).await;
    let run = tasks(&houston, &goal).await[0]["run_id"].as_str().unwrap().to_owned();
    let run = format!("/v1/runs/{run}");
    houston.wait_until(&run, "running", |run| run["status"] == "running").await;
    victim.kill().unwrap();
    // After the task has ended and the goal was woken.
    let mut victim = worker(&houston, &server, &[]);
    houston.wait_until(&run, "its second attempt", |run| run["attempt"] == 2).await;
    worked.open();
    houston.wait_until(&run, "its end", |run| run["status"] == "completed").await;
    let goal_path = format!("/v1/goals/{goal}");
    let report = system_messages(&houston, &goal_path).await.pop().unwrap();
    let report_run = format!("/v1/runs/{}", report["run_id"].as_str().unwrap());
    houston.wait_until(&report_run, "running", |run| run["status"] == "running").await;
    victim.kill().unwrap();
    let _last = worker(&houston, &server, &[]);
    told_of.open();
    until_said(&houston, &goal, "Your task is done.").await;

    assert_eq!(tasks(&houston, &goal).await.len(), 1);
    assert_eq!(system_messages(&houston, &goal_path).await.len(), 1, "reported once");
    assert_eq!(houston.get(&format!("{goal_path}/notes")).await["data"].as_array().unwrap().len(), 1);
    let said = houston.agent_texts(&goal).await;
    assert_eq!(said.iter().filter(|said| *said == "Your task is done.").count(), 1, "{said:?}");
    assert_eq!(houston.sql("select max(open_tasks) from houston.run_locks"), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn retried_task_is_reported_once_and_failed_one_with_reason() {
    let houston = TestHouston::start();
    let tries = Mutex::new(0);
    let server = ModelServer::start(move |call: &Call| {
        let text = call.last_user_text();
        match (is_task(call), tools_answered(call)) {
            (true, _) if text.contains("hopeless") => Reply::status(401),
            (true, _) => {
                let mut tries = tries.lock().unwrap();
                *tries += 1;
                if *tries == 1 {
                    Reply::status(429).header("retry-after-ms", "200")
                } else {
                    Reply::text("It is 42.")
                }
            }
            (false, _) if text.contains("<task_ended") => {
                says(if text.contains("failed") { "bad" } else { "good" })
            }
            (false, false) => Reply::tool("create_task", json!({"title": "Think", "instructions": text})),
            (false, true) => says("begun"),
        }
    })
    .await
    .unwrap();
    let _worker = worker(&houston, &server, &[]);
    let goal = houston.goal("fail").await;
    let path = format!("/v1/goals/{goal}");
    houston.post(&goal, "1", "think").await;
    until_said(&houston, &goal, "good").await;
    let reports = system_messages(&houston, &path).await;
    assert_eq!(reports.len(), 1, "paused is not ended: {reports:?}");
    assert!(reports[0]["content"].as_str().unwrap().contains("It is 42."));
    let notes = houston.get(&format!("{path}/notes")).await;
    assert_eq!(notes["data"][0]["title"], "Think", "its last text is kept although it wrote no note");
    houston.post(&goal, "2", "hopeless").await;
    until_said(&houston, &goal, "bad").await;
    let reports = system_messages(&houston, &path).await;
    assert_eq!((reports.len(), &reports[0]["metadata"]["status"]), (2, &json!("failed")), "{reports:?}");
    assert!(reports[0]["content"].as_str().unwrap().contains("<error>"), "{reports:?}");
    let run = format!("/v1/runs/{}", reports[0]["run_id"].as_str().unwrap());
    houston.wait_until(&run, "its end", |run| !run["ended_at"].is_null()).await;
    let received = houston.watch(&format!("{path}/events?after=0")).await;
    assert_eq!(received.types.iter().filter(|kind| *kind == "SUBAGENT_ERROR").count(), 1);
}
