//! What one agent begins for another, and what begins by itself: a task is created once, and its end is told once; a
//! feed is begun once.

use std::time::Instant;

use houston_testkit::model_server::{Call, Reply};
use serde_json::{Value, json};

use crate::case::{Deed, Place};
use crate::client::Client;
use crate::house::{House, PATIENCE};
use crate::model::question;
use crate::promises;
use crate::scenario::{message, messages, wake};

/// What the goal says when its task has ended.
const TOLD: &str = "The task is done.";

/// What the model answers in these cases.
pub(crate) fn reply(call: &Call, said: &str) -> Option<Reply> {
    let tools_answered = call.json()["messages"].as_array()?.last()?["role"] == "tool";
    let says = |text: &str| Reply::tool("send_message", json!({"content": text}));
    if said.starts_with("<task_ended") {
        return Some(says(TOLD));
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

/// Plays a case and asks for its promises.
pub(crate) async fn play(house: &mut House, client: &Client, goal: &str) {
    if matches!(house.case.place, Place::C17 | Place::C18) {
        feed(house, client, goal).await;
    } else {
        task(house, client, goal).await;
    }
    assert_eq!(house.struck(), 1, "a case strikes once");
    promises::rows(house);
}

/// Waits until a count is what it should be, and nothing is at work.
async fn settled(house: &House, what: &str, wanted: &str) {
    let deadline = Instant::now() + PATIENCE;
    let found = || house.plot.sql(what);
    let quiet = || {
        house.plot.sql("select count(*) from houston.run_locks where run_open or holder is not null") == "0"
    };
    while found() != wanted || !quiet() {
        assert!(Instant::now() < deadline, "{what}: {}, not {wanted}", found());
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// A worker is struck while it creates a task.
async fn task(house: &mut House, client: &Client, goal: &str) {
    let doomed = house.work(true);
    client.post(&messages(goal), "the message", &message(house.case)).await;
    house.wait_for_strike(&doomed);
    let since = Instant::now();
    house.work(false);
    let told = format!("select count(*) from houston.messages where content = '{TOLD}'");
    settled(house, &told, "1").await;
    if house.case.deed == Deed::Pause {
        wake(house, &doomed, since).await;
    }
    for (what, count) in [
        ("houston.agentables where parent_id is not null", "1"),
        ("houston.messages where metadata ->> 'type' = 'task_ended'", "1"),
        // Never twice; and not at all, when the end of the task was read together with its beginning.
        ("(select from houston.messages where content = 'Begun.' offset 1) as again", "0"),
        ("houston.notes where title = 'Look'", "1"),
        ("houston.run_locks where open_tasks <> 0", "0"),
    ] {
        assert_eq!(house.plot.sql(&format!("select count(*) from {what}")), count, "{what}");
    }
}

/// An API is struck while it begins a feed; its client asks another one again.
async fn feed(house: &mut House, client: &Client, goal: &str) {
    let note = json!({"title": question(&house.case.name()), "content": "It happened."});
    client.post(&format!("/v1/goals/{goal}/notes"), "the note", &note).await;
    house.work(false);
    let (doomed, first) = house.serve(true);
    let user =
        client.get(&format!("/v1/goals/{goal}")).await.unwrap()["user_id"].as_str().unwrap().to_owned();
    let path = format!("/v1/users/{user}/feed/generate");
    let mut trying = Box::pin(first.post_once(&path, "the feed", &Value::Null));
    let tried = tokio::time::timeout(house.case.times().delay * 2, &mut trying).await;
    house.wait_for_strike(&doomed);
    let since = Instant::now();
    if tried.ok().flatten().is_none() {
        client.post(&path, "the feed", &Value::Null).await;
    }
    settled(house, "select count(*) from houston.feed_items", "1").await;
    if house.case.deed == Deed::Pause {
        wake(house, &doomed, since).await;
        let _ = tokio::time::timeout(PATIENCE, trying).await;
        settled(house, "select count(*) from houston.feed_items", "1").await;
    }
    assert_eq!(house.plot.sql("select count(*) from houston.runs where mode = 'feed_generation'"), "1");
}
