//! Cases about tasks and feeds: a task is created once, and its end is reported once; a feed is started once.

use std::time::Instant;

use houston_testkit::model_server::{Call, Reply};
use serde_json::{Value, json};

use crate::case::{Action, CrashPoint};
use crate::client::Client;
use crate::crash_server::{CrashServer, PATIENCE};
use crate::guarantees;
use crate::model::question;
use crate::scenario::{message, messages, wake};

/// The goal's message after its task has ended.
const TASK_DONE: &str = "The task is done.";

/// The model's answers in these cases.
pub(crate) fn reply(call: &Call, said: &str) -> Option<Reply> {
    let tools_answered = call.json()["messages"].as_array()?.last()?["role"] == "tool";
    let says = |text: &str| Reply::tool("send_message", json!({"content": text}));
    if said.starts_with("<task_ended") {
        return Some(says(TASK_DONE));
    }
    if said.starts_with("Carry out") {
        return Some(Reply::text("Done."));
    }
    if said.starts_with("<feed_generation") {
        let item = json!({"title": "News", "content": "Something happened."});
        return Some(if tools_answered {
            Reply::text("done")
        } else {
            Reply::tool("create_feed_item", item)
        });
    }
    let is_task = said.contains(" C19-") || said.contains(" C20-");
    let task = json!({"title": "Look", "instructions": format!("Carry out: {said}")});
    is_task.then(|| if tools_answered { says("Begun.") } else { Reply::tool("create_task", task) })
}

/// Runs a case and checks its guarantees.
pub(crate) async fn run(server: &mut CrashServer, client: &Client, goal: &str) {
    if matches!(server.case.point, CrashPoint::C17 | CrashPoint::C18) {
        feed(server, client, goal).await;
    } else {
        task(server, client, goal).await;
    }
    assert_eq!(server.faults(), 1, "a case injects one fault");
    guarantees::rows(server);
}

/// Waits until a query returns `expected` and no run is open.
pub(crate) async fn settled(server: &CrashServer, what: &str, expected: &str) {
    let deadline = Instant::now() + PATIENCE;
    let found = || server.environment.sql(what);
    let quiet = || {
        server.environment.sql("select count(*) from houston.run_locks where run_open or holder is not null")
            == "0"
    };
    while found() != expected || !quiet() {
        assert!(Instant::now() < deadline, "{what}: {}, not {expected}", found());
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// A worker fails while it creates a task.
async fn task(server: &mut CrashServer, client: &Client, goal: &str) {
    let faulty = server.work(true);
    client.post(&messages(goal), "the message", &message(server.case)).await;
    server.wait_for_fault(&faulty);
    let since = Instant::now();
    server.work(false);
    let reports = format!("select count(*) from houston.messages where content = '{TASK_DONE}'");
    settled(server, &reports, "1").await;
    if server.case.action == Action::Pause {
        wake(server, &faulty, since).await;
    }
    for (what, count) in [
        ("houston.agentables where parent_id is not null", "1"),
        ("houston.messages where metadata ->> 'type' = 'task_ended'", "1"),
        // At most once: not at all when the end of the task was read together with its creation.
        ("(select from houston.messages where content = 'Begun.' offset 1) as again", "0"),
        ("houston.knowledge_items where title = 'Look'", "1"),
        ("houston.run_locks where open_tasks <> 0", "0"),
    ] {
        assert_eq!(server.environment.sql(&format!("select count(*) from {what}")), count, "{what}");
    }
}

/// An API server fails while it starts a feed; the client repeats the request at another server.
async fn feed(server: &mut CrashServer, client: &Client, goal: &str) {
    let note = json!({"title": question(&server.case.name()), "content": "It happened."});
    client.post(&format!("/v1/goals/{goal}/notes"), "the note", &note).await;
    server.work(false);
    let (faulty, first) = server.serve(true);
    let user =
        client.get(&format!("/v1/goals/{goal}")).await.unwrap()["user_id"].as_str().unwrap().to_owned();
    let path = format!("/v1/users/{user}/feed/generate");
    let mut trying = Box::pin(first.post_once(&path, "the feed", &Value::Null));
    let tried = tokio::time::timeout(server.case.times().delay * 2, &mut trying).await;
    server.wait_for_fault(&faulty);
    let since = Instant::now();
    if tried.ok().flatten().is_none() {
        client.post(&path, "the feed", &Value::Null).await;
    }
    settled(server, "select count(*) from houston.knowledge_items where kind = 'feed_item'", "1").await;
    if server.case.action == Action::Pause {
        wake(server, &faulty, since).await;
        let _ = tokio::time::timeout(PATIENCE, trying).await;
        settled(server, "select count(*) from houston.knowledge_items where kind = 'feed_item'", "1").await;
    }
    assert_eq!(
        server.environment.sql("select count(*) from houston.runs where mode = 'feed_generation'"),
        "1"
    );
}
