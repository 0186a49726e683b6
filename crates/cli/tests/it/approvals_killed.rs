//! Approvals and the death of workers: a decision is never lost, and what it allows is carried out once at most. Code that
//! waits for an approval is in `code_mode`.

use serde_json::{Value, json};

use crate::test_houston::{PATIENCE, TestHouston};

/// An installation in which the tool that acts outside needs a yes.
fn asking() -> TestHouston {
    let houston = TestHouston::start();
    let path = houston.folder.path().join("agents/goal.toml");
    let goal = std::fs::read_to_string(&path).unwrap();
    let rule = "\n[[guards.rule]]\ntool = \"ring_bell\"\ndecide = \"ask\"\nwhy = \"it is loud\"\n";
    std::fs::write(path, goal + rule).unwrap();
    houston
}

/// Waits for the question, once no worker holds the run; returns its id.
async fn asked(houston: &TestHouston, run: &str) -> String {
    let waits = |run: &Value| run["status"] == "waiting";
    houston.wait_until(&format!("/v1/runs/{run}"), "waiting", waits).await;
    let questions = houston.get("/v1/questions?kind=approval").await;
    questions["data"][0]["id"].as_str().unwrap_or_else(|| panic!("{questions}")).to_owned()
}

async fn approve(houston: &TestHouston, question: &str) {
    let url = houston.url(&format!("/v1/questions/{question}/answer"));
    houston.post_to(&url, &json!({"answer": {"decision": "approve"}})).await;
}

async fn open_questions(houston: &TestHouston) -> Value {
    houston.get("/v1/questions?kind=approval").await["data"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn decision_without_worker_and_hint_is_carried_out_once() {
    let houston = asking();
    let goal = houston.goal("held").await;
    let mut victim = houston.worker();
    let message = houston.post(&goal, "1", "/sim tool=ring_bell").await;
    let question = asked(&houston, message["run_id"].as_str().unwrap()).await;
    victim.kill().unwrap();
    assert_eq!(houston.rings(), 0, "nothing happens before the yes");
    // The decision is committed, and its hint is lost.
    houston.servers.lock().unwrap().kill_redis().unwrap();
    approve(&houston, &question).await;
    houston.servers.lock().unwrap().restart_redis().unwrap();
    let _successor = houston.worker();
    assert_eq!(houston.wait_until_answered(&message).await["status"], "answered");
    assert_eq!((houston.rings(), open_questions(&houston).await), (1, json!([])));
}

#[tokio::test(flavor = "multi_thread")]
async fn call_is_not_repeated_when_its_worker_dies_after_the_yes() {
    let houston = asking();
    // C9: the intent is committed, nothing has happened yet. C10: it has happened, its result is not committed.
    for (point, rings) in [("C9", 0), ("C10", 1)] {
        let goal = houston.goal(point).await;
        let before = houston.rings();
        let fault = format!("{point}=1*return(kill)");
        let mut victim = houston.worker_with(&[("FAILPOINTS", fault.as_str())]);
        let message = houston.post(&goal, point, "/sim tool=ring_bell").await;
        let question = asked(&houston, message["run_id"].as_str().unwrap()).await;
        approve(&houston, &question).await;
        tokio::task::block_in_place(|| victim.wait(PATIENCE)).unwrap();
        assert!(victim.log().contains(&format!("fault injected: {point} ")), "{}", victim.log());
        let mut successor = houston.worker();
        assert_eq!(houston.wait_until_answered(&message).await["status"], "answered");
        assert_eq!((houston.rings() - before, open_questions(&houston).await), (rings, json!([])), "{point}");
        let history = houston.get(&format!("/v1/goals/{goal}/history?limit=100")).await;
        assert!(history.to_string().contains("outcome unknown"), "the model reads it: {history}");
        successor.kill().unwrap();
    }
}
