//! Runs a case: a message is posted, a fault is injected, other processes go on.

use std::time::{Duration, Instant};

use houston_testkit::process::Signal;
use serde_json::{Value, json};

use crate::case::{Action, Case, CrashPoint};
use crate::client::{Client, PostResponse, Watched};
use crate::crash_server::{CrashServer, PATIENCE};
use crate::environment::CaseEnvironment;
use crate::guarantees;
use crate::model::{is_plain, question};
use crate::plans;
use crate::tasks_and_feeds;

/// The idempotency key of the message.
const KEY: &str = "the message";

/// The result of a case whose processes are idle.
pub(crate) struct Outcome {
    pub(crate) goal: String,
    pub(crate) posted: PostResponse,
    pub(crate) watched: Watched,
}

/// Runs a case and checks its guarantees; panics when one is violated.
pub(crate) async fn run(case: Case, environment: CaseEnvironment) {
    let mut server = CrashServer::new(case, environment);
    let (_, client) = server.serve(false);
    let goal = client.goal().await;
    if matches!(case.point, CrashPoint::C17 | CrashPoint::C18 | CrashPoint::C19 | CrashPoint::C20) {
        return tasks_and_feeds::run(&mut server, &client, &goal).await;
    }
    if plans::is_about_plans(case.point) {
        return plans::run(&mut server, &client, &goal).await;
    }
    let outcome = match case.point {
        CrashPoint::C1 | CrashPoint::C2 | CrashPoint::C3 | CrashPoint::C21 | CrashPoint::C22 => {
            fault_in_post(&mut server, &client, goal).await
        }
        CrashPoint::C4 => fault_before_fetch(&mut server, &client, goal).await,
        CrashPoint::C13 => fault_in_stream(&mut server, &client, goal).await,
        CrashPoint::C16 => fault_in_reaper(&mut server, &client, goal).await,
        _ => fault_in_worker(&mut server, &client, goal).await,
    };
    assert_eq!(server.faults(), 1, "a case injects one fault");
    let again = client.post(&messages(&outcome.goal), KEY, &message(case)).await;
    assert_eq!(again.id(), outcome.posted.id(), "a repeated post returns the same message");
    assert!(again.replayed, "a repeated post has Idempotent-Replayed");
    guarantees::check(&server, &client, &outcome).await;
}

pub(crate) fn messages(goal: &str) -> String {
    format!("/v1/goals/{goal}/messages")
}

pub(crate) fn message(case: Case) -> Value {
    json!({"content": question(&case.name())})
}

/// Follows the run of a message to its end.
async fn follow(client: &Client, goal: &str, posted: &PostResponse) -> Watched {
    let path = format!("/v1/goals/{goal}/events?after={}", posted.body["seq"].as_i64().unwrap() - 2);
    client.watch_to_the_end(&path, Watched::default()).await
}

/// Waits until the message is answered or failed.
async fn answered(client: &Client, posted: &PostResponse) {
    let path = format!("/v1/messages/{}", posted.id());
    client.until(&path, |found| found["status"] == "answered" || found["status"] == "failed").await;
}

/// Resumes a paused process after its lease has expired, and waits until it has noticed.
pub(crate) async fn wake(server: &mut CrashServer, name: &str, since: Instant) {
    let left = server.case.times().pause.saturating_sub(since.elapsed());
    tokio::time::sleep(left).await;
    server.process(name).signal(Signal::CONT).unwrap();
    if name.starts_with("work") && server.case.point != CrashPoint::C4 {
        server.wait_for_line(name, |line| line.contains("continuing under a new id"));
    }
}

/// The worker that drives the run fails; another one takes over.
async fn fault_in_worker(server: &mut CrashServer, client: &Client, goal: String) -> Outcome {
    let faulty = server.work(true);
    let posted = client.post(&messages(&goal), KEY, &message(server.case)).await;
    let rescue = async {
        server.wait_for_fault(&faulty);
        let since = Instant::now();
        server.work(false);
        answered(client, &posted).await;
        if server.case.action == Action::Pause {
            wake(server, &faulty, since).await;
        }
    };
    let (watched, ()) = tokio::join!(follow(client, &goal, &posted), rescue);
    Outcome { goal, posted, watched }
}

/// A worker fails at its start, before it fetches the hint.
async fn fault_before_fetch(server: &mut CrashServer, client: &Client, goal: String) -> Outcome {
    let posted = client.post(&messages(&goal), KEY, &message(server.case)).await;
    let rescue = async {
        let faulty = server.spawn_faulty_worker();
        server.wait_for_fault(&faulty);
        let since = Instant::now();
        server.work(false);
        answered(client, &posted).await;
        match server.case.action {
            Action::Pause => {
                wake(server, &faulty, since).await;
                server.wait_for_line(&faulty, |line| line == "working");
            }
            Action::Delay => server.wait_for_line(&faulty, |line| line == "working"),
            Action::Error => {
                let process = server.process(&faulty);
                let status = tokio::task::block_in_place(|| process.wait(PATIENCE)).unwrap();
                assert!(!status.success(), "a worker that cannot start exits with an error");
            }
            Action::Kill => {}
        }
    };
    let (watched, ()) = tokio::join!(follow(client, &goal, &posted), rescue);
    Outcome { goal, posted, watched }
}

/// The API server that reads the post fails; the client repeats the post, with its key, at another server.
async fn fault_in_post(server: &mut CrashServer, client: &Client, goal: String) -> Outcome {
    let (faulty, first) = server.serve(true);
    server.work(false);
    let (path, body) = (messages(&goal), message(server.case));
    let mut trying = Box::pin(first.post_once(&path, KEY, &body));
    let tried = tokio::time::timeout(server.case.times().delay * 2, &mut trying).await;
    server.wait_for_fault(&faulty);
    let since = Instant::now();
    let accepted = tried.as_ref().ok().and_then(Clone::clone);
    assert_eq!(accepted.is_none(), server.case.cuts_off(), "{accepted:?}");
    let posted = match accepted {
        Some(posted) => posted,
        None => client.post(&path, KEY, &body).await,
    };
    let was_stored = match server.case.point {
        CrashPoint::C1 | CrashPoint::C21 => false,
        // The same request finds its message when it is written by itself.
        CrashPoint::C22 => server.case.action != Action::Delay,
        _ => server.case.cuts_off(),
    };
    assert_eq!(posted.replayed, was_stored, "replayed exactly if it was stored before");
    let watched = follow(client, &goal, &posted).await;
    answered(client, &posted).await;
    if server.case.action == Action::Pause {
        wake(server, &faulty, since).await;
        // The first request may finish after the client has given up on it.
        let late = tokio::time::timeout(PATIENCE, trying).await.expect("an answer, or none");
        if let Some(late) = late {
            assert_eq!(late.id(), posted.id(), "the late response has the same message");
        }
        first.until("/readyz", |found| found["status"] == "ready").await;
    }
    Outcome { goal, posted, watched }
}

/// A client that has seen the tools resumes at a server that fails while it reads the later events.
async fn fault_in_stream(server: &mut CrashServer, client: &Client, goal: String) -> Outcome {
    let (faulty, faulty_api) = server.serve(true);
    server.work(false);
    let posted = client.post(&messages(&goal), KEY, &message(server.case)).await;
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
    let whole = faulty_api.watch(&path, &mut watched, |_| false).await;
    server.wait_for_fault(&faulty);
    let since = Instant::now();
    assert_eq!(whole, server.case.action == Action::Delay, "a broken stream is no clean end");
    let watched = client.watch_to_the_end(&path, watched).await;
    if server.case.action == Action::Pause {
        wake(server, &faulty, since).await;
        faulty_api.until("/readyz", |found| found["status"] == "ready").await;
    }
    Outcome { goal, posted, watched }
}

/// A worker is killed in the middle of a stream; the one that reaps it fails; a third one takes over.
async fn fault_in_reaper(server: &mut CrashServer, client: &Client, goal: String) -> Outcome {
    let victim = server.work(false);
    let posted = client.post(&messages(&goal), KEY, &message(server.case)).await;
    let run = format!("/v1/runs/{}", posted.body["run_id"].as_str().unwrap());
    let rescue = async {
        client.until(&run, |run| run["status"] == "running").await;
        let asked = question(&server.case.name());
        let deadline = Instant::now() + PATIENCE;
        while server.environment.model_calls(&asked) == 0 {
            assert!(Instant::now() < deadline, "the model was never asked");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let faulty = server.work(true);
        let process = server.process(&victim);
        tokio::task::block_in_place(|| process.kill()).unwrap();
        server.wait_for_fault(&faulty);
        let since = Instant::now();
        server.work(false);
        answered(client, &posted).await;
        if server.case.action == Action::Pause {
            wake(server, &faulty, since).await;
        }
    };
    let (watched, ()) = tokio::join!(follow(client, &goal, &posted), rescue);
    Outcome { goal, posted, watched }
}

/// How often the model is called in a case.
pub(crate) fn model_calls(case: Case) -> usize {
    let usual = if is_plain(case.point) { 1 } else { 2 };
    let repeated = match case.point {
        CrashPoint::C7 | CrashPoint::C8 | CrashPoint::C25 => case.cuts_off(),
        // Its worker is killed in every case.
        CrashPoint::C16 => true,
        _ => false,
    };
    usual + usize::from(repeated)
}
