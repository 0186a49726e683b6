//! What happens in a case: a message is posted, a fault strikes, others go on.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::begun;
use crate::case::{Case, Deed, Place};
use crate::client::{Client, Posted, Watched};
use crate::ground::Plot;
use crate::house::{House, PATIENCE};
use crate::model::{is_plain, question};
use crate::promises;

/// The key of the one message.
const KEY: &str = "the message";

/// A case that has come to its quiet end.
pub(crate) struct Outcome {
    pub(crate) goal: String,
    pub(crate) posted: Posted,
    pub(crate) watched: Watched,
}

/// Plays a case and asks for its promises; panics when one is broken.
pub(crate) async fn play(case: Case, plot: Plot) {
    let mut house = House::build(case, plot);
    let (_, client) = house.serve(false);
    let goal = client.goal().await;
    if matches!(case.place, Place::C17 | Place::C18 | Place::C19 | Place::C20) {
        return begun::play(&mut house, &client, &goal).await;
    }
    let outcome = match case.place {
        Place::C1 | Place::C2 | Place::C3 => strike_post(&mut house, &client, goal).await,
        Place::C4 => strike_before_fetch(&mut house, &client, goal).await,
        Place::C13 => strike_stream(&mut house, &client, goal).await,
        Place::C16 => strike_reaper(&mut house, &client, goal).await,
        _ => strike_worker(&mut house, &client, goal).await,
    };
    assert_eq!(house.struck(), 1, "a case strikes once");
    let again = client.post(&messages(&outcome.goal), KEY, &message(case)).await;
    assert_eq!(again.id(), outcome.posted.id(), "the same post is the same message");
    assert!(again.replayed, "a repeated post says so");
    promises::check(&house, &client, &outcome).await;
}

pub(crate) fn messages(goal: &str) -> String {
    format!("/v1/goals/{goal}/messages")
}

pub(crate) fn message(case: Case) -> Value {
    json!({"content": question(&case.name())})
}

/// Follows the run of a message to its end.
async fn follow(client: &Client, goal: &str, posted: &Posted) -> Watched {
    let path = format!("/v1/goals/{goal}/events?after={}", posted.body["seq"].as_i64().unwrap() - 2);
    client.watch_to_the_end(&path, Watched::default()).await
}

/// Waits until the message is answered, or visibly failed.
async fn answered(client: &Client, posted: &Posted) {
    let path = format!("/v1/messages/{}", posted.id());
    client.until(&path, |found| found["status"] == "answered" || found["status"] == "failed").await;
}

/// Wakes a process that was stopped, when it has slept past its lease, and waits until it has found out.
pub(crate) async fn wake(house: &mut House, name: &str, since: Instant) {
    let left = house.case.times().pause.saturating_sub(since.elapsed());
    tokio::time::sleep(left).await;
    house.process(name).resume().unwrap();
    if name.starts_with("work") && house.case.place != Place::C4 {
        house.wait_for_line(name, |line| line.contains("beginning anew"));
    }
}

/// A worker is struck while it drives the run; another one goes on.
async fn strike_worker(house: &mut House, client: &Client, goal: String) -> Outcome {
    let doomed = house.work(true);
    let posted = client.post(&messages(&goal), KEY, &message(house.case)).await;
    let rescue = async {
        house.wait_for_strike(&doomed);
        let since = Instant::now();
        house.work(false);
        answered(client, &posted).await;
        if house.case.deed == Deed::Pause {
            wake(house, &doomed, since).await;
        }
    };
    let (watched, ()) = tokio::join!(follow(client, &goal, &posted), rescue);
    Outcome { goal, posted, watched }
}

/// The hint lies in Redis; the worker that comes up for it is struck before it fetches.
async fn strike_before_fetch(house: &mut House, client: &Client, goal: String) -> Outcome {
    let posted = client.post(&messages(&goal), KEY, &message(house.case)).await;
    let rescue = async {
        let doomed = house.work_in_vain();
        house.wait_for_strike(&doomed);
        let since = Instant::now();
        house.work(false);
        answered(client, &posted).await;
        match house.case.deed {
            Deed::Pause => {
                wake(house, &doomed, since).await;
                house.wait_for_line(&doomed, |line| line == "working");
            }
            Deed::Delay => house.wait_for_line(&doomed, |line| line == "working"),
            Deed::Error => {
                let process = house.process(&doomed);
                let status = tokio::task::block_in_place(|| process.wait(PATIENCE)).unwrap();
                assert!(!status.success(), "a worker that cannot start says so");
            }
            Deed::Kill => {}
        }
    };
    let (watched, ()) = tokio::join!(follow(client, &goal, &posted), rescue);
    Outcome { goal, posted, watched }
}

/// The API that reads the post is struck; the client posts again, with its key, to another.
async fn strike_post(house: &mut House, client: &Client, goal: String) -> Outcome {
    let (doomed, first) = house.serve(true);
    house.work(false);
    let (path, body) = (messages(&goal), message(house.case));
    let mut trying = Box::pin(first.post_once(&path, KEY, &body));
    let tried = tokio::time::timeout(house.case.times().delay * 2, &mut trying).await;
    house.wait_for_strike(&doomed);
    let since = Instant::now();
    let accepted = tried.as_ref().ok().and_then(Clone::clone);
    assert_eq!(accepted.is_some(), house.case.deed == Deed::Delay, "{accepted:?}");
    let posted = match accepted {
        Some(posted) => posted,
        None => client.post(&path, KEY, &body).await,
    };
    let was_stored = house.case.cuts_off() && house.case.place != Place::C1;
    assert_eq!(posted.replayed, was_stored, "stored before, or not");
    let watched = follow(client, &goal, &posted).await;
    answered(client, &posted).await;
    if house.case.deed == Deed::Pause {
        wake(house, &doomed, since).await;
        // The client may have given up on it; the request has not.
        let late = tokio::time::timeout(PATIENCE, trying).await.expect("an answer, or none");
        if let Some(late) = late {
            assert_eq!(late.id(), posted.id(), "the late answer is about the same message");
        }
        first.until("/readyz", |found| found["status"] == "ready").await;
    }
    Outcome { goal, posted, watched }
}

/// A client that has seen the tools resumes at an API that is struck while it reads what came since.
async fn strike_stream(house: &mut House, client: &Client, goal: String) -> Outcome {
    let (doomed, struck) = house.serve(true);
    house.work(false);
    let posted = client.post(&messages(&goal), KEY, &message(house.case)).await;
    let path = format!("/v1/goals/{goal}/events?after={}", posted.body["seq"].as_i64().unwrap() - 2);
    let mut watched = Watched::default();
    let deadline = Instant::now() + PATIENCE;
    let has_tools = |watched: &Watched| watched.types.iter().any(|kind| kind == "TOOL_CALL_RESULT");
    while !has_tools(&watched) {
        client.watch(&path, &mut watched, has_tools).await;
        assert!(Instant::now() < deadline, "no tool was ever called: {watched:?}");
    }
    assert!(!watched.is_over(), "the client must leave in the middle");
    answered(client, &posted).await;
    let whole = struck.watch(&path, &mut watched, |_| false).await;
    house.wait_for_strike(&doomed);
    let since = Instant::now();
    assert_eq!(whole, house.case.deed == Deed::Delay, "what breaks is not taken for the end");
    let watched = client.watch_to_the_end(&path, watched).await;
    if house.case.deed == Deed::Pause {
        wake(house, &doomed, since).await;
        struck.until("/readyz", |found| found["status"] == "ready").await;
    }
    Outcome { goal, posted, watched }
}

/// A worker is killed in the middle of a stream; the one that reaps it is struck; a third one goes on.
async fn strike_reaper(house: &mut House, client: &Client, goal: String) -> Outcome {
    let victim = house.work(false);
    let posted = client.post(&messages(&goal), KEY, &message(house.case)).await;
    let run = format!("/v1/runs/{}", posted.body["run_id"].as_str().unwrap());
    let rescue = async {
        client.until(&run, |run| run["status"] == "running").await;
        let asked = question(&house.case.name());
        let deadline = Instant::now() + PATIENCE;
        while house.plot.model_calls(&asked) == 0 {
            assert!(Instant::now() < deadline, "the model was never asked");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let doomed = house.work(true);
        let process = house.process(&victim);
        tokio::task::block_in_place(|| process.kill()).unwrap();
        house.wait_for_strike(&doomed);
        let since = Instant::now();
        house.work(false);
        answered(client, &posted).await;
        if house.case.deed == Deed::Pause {
            wake(house, &doomed, since).await;
        }
    };
    let (watched, ()) = tokio::join!(follow(client, &goal, &posted), rescue);
    Outcome { goal, posted, watched }
}

/// How often the model is asked in a case: at most, and exactly unless something was cut off there.
pub(crate) fn model_calls(case: Case) -> usize {
    let usual = if is_plain(case.place) { 1 } else { 2 };
    let repeated = match case.place {
        Place::C7 | Place::C8 => case.cuts_off(),
        // Its worker is killed in every case.
        Place::C16 => true,
        _ => false,
    };
    usual + usize::from(repeated)
}
