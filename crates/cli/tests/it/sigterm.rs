//! SIGTERM: the worker claims nothing new, hands over what may be repeated, and waits for what may not. Streams break
//! without a clean end. A second signal ends the process at once.

use std::time::{Duration, Instant};

use houston_testkit::model_server::Gate;
use houston_testkit::process::Process;
use serde_json::Value;

use crate::faults::model_held_by;
use crate::test_houston::{PATIENCE, TestHouston};

/// A worker with this setting waits as long for a bell as a busy machine needs to stop it.
const DRAINS_LONG: (&str, &str) = ("HOUSTON_ORCHESTRATOR__WORKER__DRAIN_S", "100");

/// Checks that no lock is held and none counts a crash.
async fn assert_no_crash_counted(houston: &TestHouston) {
    let counted =
        houston.sql("select count(*) from houston.run_locks where crash_count <> 0 or died_with <> '{}' or holder is not null");
    assert_eq!(counted, "0", "locks with a crash or a holder");
}

async fn until_rung(houston: &TestHouston, worker: &Process) {
    let deadline = Instant::now() + PATIENCE;
    while houston.rings() == 0 {
        assert!(Instant::now() < deadline, "ring_bell was never called: {}", worker.log());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn run_of(message: &Value) -> String {
    format!("/v1/runs/{}", message["run_id"].as_str().unwrap())
}

fn wait(process: &mut Process) -> std::process::ExitStatus {
    tokio::task::block_in_place(|| process.wait(PATIENCE)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn long_model_call_is_handed_over_without_counting_a_crash() {
    let houston = TestHouston::start();
    let goal = houston.goal("model").await;
    let mut leaving = houston.worker();
    let message = houston.post(&goal, "1", "/sim chunks=100000 delay_ms=50").await;
    let run = run_of(&message);
    houston.wait_until(&run, "running", |run| run["status"] == "running").await;
    // It does not look for work by itself: only what the first one tells it when it lets go makes it begin.
    let _staying = houston.worker_with(&[("HOUSTON_ORCHESTRATOR__SWEEP__EVERY_MS", "3600000")]);
    leaving.terminate().unwrap();
    houston
        .wait_until(&run, "a second attempt", |run| run["attempt"] == 2 && run["status"] == "running")
        .await;
    assert!(wait(&mut leaving).success(), "{}", leaving.log());
    let handed_over = "select count(*) from houston.events where data ->> 'type' = 'handed_over'";
    assert_eq!(houston.sql(handed_over), "1");
    let crashes = houston
        .sql("select max(crash_count) <= 1 and max(cardinality(died_with)) = 0 from houston.run_locks");
    assert_eq!(crashes, "t", "the claim at hand at most, and none for the hand-over");
    houston.cancel(message["run_id"].as_str().unwrap()).await;
    houston.wait_until(&run, "cancelled", |run| run["status"] == "cancelled").await;
    assert_no_crash_counted(&houston).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn drain_waits_for_a_tool_that_must_not_be_repeated() {
    let houston = TestHouston::start();
    let goal = houston.goal("tool").await;
    let mut leaving = houston.worker_with(&[DRAINS_LONG]);
    let message = houston.post(&goal, "1", "/sim tool=ring_bell args={\"seconds\":55}").await;
    until_rung(&houston, &leaving).await;
    let _staying = houston.worker();
    leaving.terminate().unwrap();
    leaving.wait_for_line(PATIENCE, |line| line.starts_with("stopping")).unwrap();
    houston.stop_bell();
    assert!(wait(&mut leaving).success(), "{}", leaving.log());
    assert_eq!(houston.wait_until_answered(&message).await["status"], "answered");
    assert_eq!(houston.get(&run_of(&message)).await["attempt"], 2, "the next model call is another worker's");
    assert_eq!(houston.rings(), 1);
    let history = houston.get(&format!("/v1/goals/{goal}/history?limit=100")).await.to_string();
    assert!(history.contains("The bell was rung."), "its outcome is known: {history}");
    assert_no_crash_counted(&houston).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_longer_than_the_drain_has_an_unknown_outcome() {
    let houston = TestHouston::start();
    let goal = houston.goal("long tool").await;
    let mut leaving = houston.worker_with(&[("HOUSTON_ORCHESTRATOR__WORKER__DRAIN_S", "2")]);
    let message = houston.post(&goal, "1", "/sim tool=ring_bell args={\"seconds\":55}").await;
    until_rung(&houston, &leaving).await;
    let _staying = houston.worker();
    leaving.terminate().unwrap();
    assert!(wait(&mut leaving).success(), "{}", leaving.log());
    assert_eq!(houston.wait_until_answered(&message).await["status"], "answered");
    assert_eq!(houston.rings(), 1);
    let history = houston.get(&format!("/v1/goals/{goal}/history?limit=100")).await.to_string();
    assert!(history.contains("outcome unknown"), "the model reads it: {history}");
    assert_no_crash_counted(&houston).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn draining_worker_claims_no_new_run() {
    let houston = TestHouston::start();
    let (busy, other) = (houston.goal("busy").await, houston.goal("other").await);
    let mut leaving = houston.worker_with(&[DRAINS_LONG]);
    let first = houston.post(&busy, "1", "/sim tool=ring_bell args={\"seconds\":55}").await;
    until_rung(&houston, &leaving).await;
    leaving.terminate().unwrap();
    leaving.wait_for_line(PATIENCE, |line| line.starts_with("stopping")).unwrap();
    let second = houston.post(&other, "2", "hello").await;
    houston.stop_bell();
    assert!(wait(&mut leaving).success(), "{}", leaving.log());
    let run = houston.get(&run_of(&second)).await;
    assert_eq!((&run["status"], &run["attempt"]), (&"queued".into(), &0.into()), "{run}");
    let _next = houston.worker();
    assert_eq!(houston.wait_until_answered(&first).await["status"], "answered");
    assert_eq!(houston.wait_until_answered(&second).await["status"], "answered");
    assert_no_crash_counted(&houston).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn second_signal_ends_a_worker_at_once() {
    let houston = TestHouston::start();
    let goal = houston.goal("impatient").await;
    let mut leaving = houston.worker_with(&[DRAINS_LONG]);
    houston.post(&goal, "1", "/sim tool=ring_bell args={\"seconds\":55}").await;
    until_rung(&houston, &leaving).await;
    leaving.terminate().unwrap();
    leaving.wait_for_line(PATIENCE, |line| line.starts_with("stopping")).unwrap();
    assert!(leaving.ended().unwrap().is_none(), "the first signal waits for the bell");
    leaving.terminate().unwrap();
    // A worker whose drain has ended exits with 0.
    assert_eq!(wait(&mut leaving).code(), Some(130), "{}", leaving.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_breaks_on_shutdown_and_resumes_on_another_server() {
    let houston = TestHouston::start();
    let goal = houston.goal("stream").await;
    let gate = Gate::new();
    let model = model_held_by(&gate).await;
    let _worker = houston.worker_of(&model);
    let (address, mut leaving) = houston.serve();
    let message = houston.post(&goal, "1", "hello").await;
    let path = format!("/v1/goals/{goal}/events");
    let mut response = houston.open(&format!("http://{address}{path}")).await;
    let mut read = String::new();
    while !read.contains("TEXT_MESSAGE_CONTENT") {
        let chunk = response.chunk().await.unwrap().expect("the stream goes on");
        read.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    leaving.terminate().unwrap();
    let broken = loop {
        match response.chunk().await {
            Ok(Some(_)) => {}
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    assert!(broken.is_some(), "a clean end would pass for the end of the text");
    assert!(wait(&mut leaving).success(), "{}", leaving.log());
    gate.open();
    let received = houston.watch(&path).await;
    assert_eq!(houston.wait_until_answered(&message).await["status"], "answered");
    let said = houston.agent_texts(&goal).await;
    let seen: Vec<&str> = received.texts.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(seen, [said[0].as_str()], "what the client ends with is the thread");
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_waiting_for_postgres_can_be_stopped() {
    let houston = TestHouston::start();
    let lock = "begin; lock table houston.workers; select pg_sleep(120)";
    let _locked = Process::spawn(&mut houston.psql(lock)).unwrap();
    let is_locked = "select count(*) from pg_locks
                      where database = (select oid from pg_database where datname = current_database())
                        and relation = 'houston.workers'::regclass and mode = 'AccessExclusiveLock' and granted";
    let deadline = Instant::now() + PATIENCE;
    while houston.sql(is_locked) != "1" {
        assert!(Instant::now() < deadline, "the table was never locked");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut waiting = houston.spawn_worker();
    waiting.wait_for_line(PATIENCE, |line| line.contains("could not register the worker")).unwrap();
    waiting.terminate().unwrap();
    assert!(wait(&mut waiting).success(), "{}", waiting.log());
    assert!(waiting.log().contains("stopping"), "{}", waiting.log());
}
