//! SIGTERM: nothing new is taken, what may be repeated is handed over, what may not is waited for, streams break
//! instead of ending, and a second signal ends the process at once.

use std::time::{Duration, Instant};

use houston_testkit::process::Process;
use serde_json::Value;

use crate::house::{House, PATIENCE};

/// A worker must be gone by then, whatever it does.
const EXIT: Duration = Duration::from_secs(25);

/// A lock that counts a crash, or is held, after everything is quiet.
async fn assert_no_crash_counted(house: &House) {
    let counted =
        house.sql("select count(*) from houston.run_locks where crash_count <> 0 or died_with <> '{}' or holder is not null");
    assert_eq!(counted, "0", "locks with a crash or a holder");
}

async fn until_rung(house: &House, worker: &Process) {
    let deadline = Instant::now() + PATIENCE;
    while house.rings() == 0 {
        assert!(Instant::now() < deadline, "the bell was never rung: {}", worker.log());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn run_of(message: &Value) -> String {
    format!("/v1/runs/{}", message["run_id"].as_str().unwrap())
}

fn wait(process: &mut Process, patience: Duration) -> std::process::ExitStatus {
    tokio::task::block_in_place(|| process.wait(patience)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_model_call_is_handed_over_at_once_and_counts_no_crash() {
    let house = House::start();
    let goal = house.goal("model").await;
    let mut leaving = house.worker();
    let message = house.post(&goal, "1", "/sim chunks=600 delay_ms=50").await;
    let run = run_of(&message);
    house.until(&run, "running", |run| run["status"] == "running").await;
    let _staying = house.worker();
    leaving.terminate().unwrap();
    house.until(&run, "a second attempt", |run| run["attempt"] == 2 && run["status"] == "running").await;
    assert!(wait(&mut leaving, EXIT).success(), "{}", leaving.log());
    // By the database's clock: the call would have gone on for half a minute.
    let gap = house.sql(
        "select extract(epoch from b.created_at - a.created_at) < 15 from houston.events a, houston.events b
          where a.data ->> 'type' = 'handed_over' and b.data ->> 'type' = 'attempt_started' and b.seq > a.seq",
    );
    assert_eq!(gap, "t", "the other one begins as soon as the first lets go");
    let crashes =
        house.sql("select max(crash_count) <= 1 and max(cardinality(died_with)) = 0 from houston.run_locks");
    assert_eq!(crashes, "t", "the claim at hand at most, and none for the hand-over");
    house.cancel(message["run_id"].as_str().unwrap()).await;
    house.until(&run, "cancelled", |run| run["status"] == "cancelled").await;
    assert_no_crash_counted(&house).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_may_not_be_repeated_is_waited_for() {
    let house = House::start();
    let goal = house.goal("tool").await;
    let mut leaving = house.worker();
    let message = house.post(&goal, "1", "/sim tool=ring_bell args={\"seconds\":4}").await;
    until_rung(&house, &leaving).await;
    let _staying = house.worker();
    leaving.terminate().unwrap();
    assert!(wait(&mut leaving, EXIT).success(), "{}", leaving.log());
    assert_eq!(house.answered(&message).await["status"], "answered");
    assert_eq!(house.get(&run_of(&message)).await["attempt"], 2, "the next model call is another worker's");
    assert_eq!(house.rings(), 1);
    let history = house.get(&format!("/v1/goals/{goal}/history?limit=100")).await.to_string();
    assert!(history.contains("The bell was rung."), "its outcome is known: {history}");
    assert_no_crash_counted(&house).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_outlasts_the_drain_time_is_left_with_an_unknown_outcome() {
    let house = House::start();
    let goal = house.goal("long tool").await;
    let mut leaving = house.worker_with(&[("HOUSTON_ORCHESTRATOR__WORKER__DRAIN_S", "2")]);
    let message = house.post(&goal, "1", "/sim tool=ring_bell args={\"seconds\":55}").await;
    until_rung(&house, &leaving).await;
    let _staying = house.worker();
    leaving.terminate().unwrap();
    assert!(wait(&mut leaving, EXIT).success(), "{}", leaving.log());
    assert_eq!(house.answered(&message).await["status"], "answered");
    assert_eq!(house.rings(), 1);
    let history = house.get(&format!("/v1/goals/{goal}/history?limit=100")).await.to_string();
    assert!(history.contains("outcome unknown"), "the model is told: {history}");
    assert_no_crash_counted(&house).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_leaves_takes_nothing_new() {
    let house = House::start();
    let (busy, other) = (house.goal("busy").await, house.goal("other").await);
    let mut leaving = house.worker();
    let first = house.post(&busy, "1", "/sim tool=ring_bell args={\"seconds\":5}").await;
    until_rung(&house, &leaving).await;
    leaving.terminate().unwrap();
    leaving.wait_for_line(EXIT, |line| line.starts_with("stopping")).unwrap();
    let second = house.post(&other, "2", "hello").await;
    assert!(wait(&mut leaving, EXIT).success(), "{}", leaving.log());
    let run = house.get(&run_of(&second)).await;
    assert_eq!((&run["status"], &run["attempt"]), (&"queued".into(), &0.into()), "{run}");
    let _next = house.worker();
    assert_eq!(house.answered(&first).await["status"], "answered");
    assert_eq!(house.answered(&second).await["status"], "answered");
    assert_no_crash_counted(&house).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_a_worker_at_once() {
    let house = House::start();
    let goal = house.goal("impatient").await;
    let mut leaving = house.worker();
    house.post(&goal, "1", "/sim tool=ring_bell args={\"seconds\":55}").await;
    until_rung(&house, &leaving).await;
    leaving.terminate().unwrap();
    leaving.wait_for_line(EXIT, |line| line.starts_with("stopping")).unwrap();
    assert!(leaving.ended().unwrap().is_none(), "the first signal waits for the bell");
    leaving.terminate().unwrap();
    // Below the drain time of 20 s, far above what an exit takes.
    assert_eq!(wait(&mut leaving, Duration::from_secs(15)).code(), Some(130), "{}", leaving.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_broken_off_when_its_server_leaves_and_goes_on_elsewhere() {
    let house = House::start();
    let goal = house.goal("stream").await;
    let _worker = house.worker();
    let (address, mut leaving) = house.serve();
    let message = house.post(&goal, "1", "/sim chunks=100 delay_ms=40").await;
    let path = format!("/v1/goals/{goal}/events");
    let mut response = house.open(&format!("http://{address}{path}")).await;
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
    assert!(wait(&mut leaving, EXIT).success(), "{}", leaving.log());
    let watched = house.watch(&path).await;
    assert_eq!(house.answered(&message).await["status"], "answered");
    let said = house.said(&goal).await;
    let seen: Vec<&str> = watched.texts.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(seen, [said[0].as_str()], "what the client ends with is the thread");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_waits_for_postgres_hears_that_it_should_stop() {
    let house = House::start();
    let lock = "begin; lock table houston.workers; select pg_sleep(120)";
    let _locked = Process::spawn(&mut house.psql(lock)).unwrap();
    let is_locked = "select count(*) from pg_locks
                      where database = (select oid from pg_database where datname = current_database())
                        and relation = 'houston.workers'::regclass and mode = 'AccessExclusiveLock' and granted";
    let deadline = Instant::now() + PATIENCE;
    while house.sql(is_locked) != "1" {
        assert!(Instant::now() < deadline, "the table was never locked");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut waiting = house.worker_at_once();
    waiting.wait_for_line(EXIT, |line| line.contains("could not register the worker")).unwrap();
    waiting.terminate().unwrap();
    assert!(wait(&mut waiting, EXIT).success(), "{}", waiting.log());
    assert!(waiting.log().contains("stopping"), "{}", waiting.log());
}
