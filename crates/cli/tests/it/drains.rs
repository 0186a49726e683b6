//! Draining by request: what `houston workers drain` does to a process.

use std::time::Duration;

use serde_json::Value;

use crate::test_houston::TestHouston;

/// The time within which a worker must exit, whatever it does.
const EXIT: Duration = Duration::from_secs(25);

fn workers(houston: &TestHouston) -> Vec<Value> {
    let listed: Value = serde_json::from_str(&houston.run(&["workers", "--json"], &[])).unwrap();
    listed["data"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_that_is_asked_to_drain_hands_over_and_exits() {
    let houston = TestHouston::start();
    let goal = houston.goal("model").await;
    let mut leaving = houston.worker();
    let found = workers(&houston);
    let worker = found[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(
        (found[0]["pid"].as_i64(), &found[0]["status"]),
        (Some(leaving.pid().into()), &"alive".into())
    );
    assert!(found[0]["slots"].as_i64() > found[0]["background_slots"].as_i64(), "{found:?}");
    let message = houston.post(&goal, "1", "/sim chunks=600 delay_ms=50").await;
    let run = format!("/v1/runs/{}", message["run_id"].as_str().unwrap());
    houston.wait_until(&run, "running", |run| run["status"] == "running").await;
    let mut staying = houston.worker();
    houston.run(&["workers", "drain", &worker], &[]);
    houston
        .wait_until(&run, "a second attempt", |run| run["attempt"] == 2 && run["status"] == "running")
        .await;
    let status = tokio::task::block_in_place(|| leaving.wait(EXIT)).unwrap();
    assert!(status.success(), "{}", leaving.log());
    let left = workers(&houston);
    assert!(left.len() == 1 && left[0]["id"] != worker.as_str(), "{left:?}");
    let crashes = houston
        .sql("select max(crash_count) <= 1 and max(cardinality(died_with)) = 0 from houston.run_locks");
    assert_eq!(crashes, "t", "a hand-over counts no death");
    let drain = |timeout: &str| {
        let arguments = ["queues", "drain", "interactive", "--json", "--timeout", timeout];
        let done = houston.command().args(arguments).output().unwrap();
        let printed: Value = serde_json::from_slice(&done.stdout).unwrap();
        (
            done.status.code(),
            [&printed["drained"], &printed["running"], &printed["orphaned"]].map(Clone::clone),
        )
    };
    assert_eq!(drain("1"), (Some(1), [false.into(), 1.into(), 0.into()]), "its run is still at work");
    // A dead worker does no work, even while it holds the run.
    staying.kill().unwrap();
    houston.sql("update houston.workers set alive_until = now() - interval '1 second'");
    assert_eq!(drain("60"), (Some(0), [true.into(), 0.into(), 1.into()]));
    assert!(houston.run(&["queues"], &[]).contains("interactive (drained)"));
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_see_what_waits_why_and_who_changed_what() {
    let houston = TestHouston::start();
    let goal = houston.goal("waits").await;
    let message = houston.post(&goal, "1", "hello").await;
    let json = |arguments: &[&str]| -> Value { serde_json::from_str(&houston.run(arguments, &[])).unwrap() };
    let queues = json(&["queues", "--json"]);
    assert_eq!((&queues["data"][0]["lane"], &queues["data"][0]["depth"]), (&"interactive".into(), &1.into()));
    let (run, posted) = (message["run_id"].as_str().unwrap(), message["id"].as_str().unwrap());
    for id in [goal.as_str(), run, posted] {
        let why = json(&["why", id, "--json"]);
        assert_eq!((&why["id"], &why["reasons"][0]["cause"]), (&goal.as_str().into(), &"no_worker".into()));
    }
    assert!(houston.run(&["why", &goal], &[]).contains("houston work"), "what to do");
    for (prefix, words) in
        [("goal", "there is no goal_"), ("msg", "there is no msg_"), ("lamp", "is no agent id")]
    {
        let refused =
            houston.command().args(["why", &format!("{prefix}_{}", "0".repeat(32))]).output().unwrap();
        assert!(String::from_utf8_lossy(&refused.stderr).contains(words), "{refused:?}");
        assert!(!refused.status.success(), "{refused:?}");
    }
    houston.run(&["queues", "pause", "background"], &[]);
    houston.run(&["cancel", &goal], &[]);
    let records = json(&["audit", "--tenant", "test", "--json"]);
    let recorded: Vec<&str> =
        records["data"].as_array().unwrap().iter().map(|one| one["operation"].as_str().unwrap()).collect();
    assert_eq!(recorded[..2], ["cancel_agentable", "pause_queue"], "{recorded:?}");
    assert_eq!(records["data"][0]["target"], goal.as_str());
    // The tenant of `houston dev`, which no one has to name.
    houston.run(&["key", "create", "--tenant", "demo"], &[]);
    assert_eq!(json(&["audit", "--json"])["data"][0]["operation"], "create_key");
}
