//! Code that calls tools, and the death of the worker that runs it: no effect happens twice, and the code goes on.

use serde_json::{Value, json};

use crate::test_houston::{PATIENCE, TestHouston};

/// The title of the note follows from the clock and from a random number: a replay that saw others would be stopped.
const CODE: &str = "const title = `${Date.now()} ${Math.random()}`; await tools.create_note({title, content: 'x'}); \
                    const heard = []; for (const strokes of [1, 2]) { try { heard.push(await tools.ring_bell({strokes})) } \
                    catch (error) { heard.push('thrown: ' + error.message) } } return heard.join('|')";

/// An installation whose goals are in code mode, with this autonomy.
fn in_code_mode(autonomy: &str) -> TestHouston {
    let houston = TestHouston::start();
    let path = houston.folder.path().join("agents/goal.toml");
    let goal = std::fs::read_to_string(&path).unwrap();
    let changed = goal.replace("archives = true", "archives = true\ncode_mode = true");
    std::fs::write(path, changed.replace("autonomy = \"medium\"", &format!("autonomy = \"{autonomy}\"")))
        .unwrap();
    houston
}

/// Runs [`CODE`] on a worker that is killed at a crash point, and then on another one. Returns what the agent said.
async fn killed_at(houston: &TestHouston, point: &str, goal: &str) -> String {
    let fault = format!("{point}=1*return(kill)");
    let mut victim = houston.worker_with(&[("FAILPOINTS", fault.as_str())]);
    let message = houston.post(goal, "1", &format!("Run this code: ```\n{CODE}\n```")).await;
    approve(houston).await;
    tokio::task::block_in_place(|| victim.wait(PATIENCE)).unwrap();
    assert!(victim.log().contains(&format!("fault injected: {point} ")), "{}", victim.log());
    let _successor = houston.worker();
    assert_eq!(houston.wait_until_answered(&message).await["status"], "answered");
    houston.agent_texts(goal).await.pop().unwrap()
}

/// Allows the code to run: running code always needs a yes.
async fn approve(houston: &TestHouston) {
    let open = |found: &Value| found["data"].as_array().is_some_and(|questions| !questions.is_empty());
    let questions = houston.wait_until("/v1/questions?kind=approval", "a question", open).await;
    let url = houston.url(&format!("/v1/questions/{}/answer", questions["data"][0]["id"].as_str().unwrap()));
    houston.post_to(&url, &json!({"answer": {"decision": "approve"}})).await;
}

async fn notes(houston: &TestHouston, goal: &str) -> usize {
    houston.get(&format!("/v1/goals/{goal}/notes")).await["data"].as_array().unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn code_killed_between_two_effects_goes_on() {
    let houston = in_code_mode("full");
    let goal = houston.goal("between").await;
    // C11: the response to the first effect is committed, the code has not read it.
    let said = killed_at(&houston, "C11", &goal).await;
    assert!(said.contains("|stroke 1") && !said.contains("thrown"), "{said}");
    assert_eq!(houston.rings(), 2, "each effect once");
    assert_eq!(notes(&houston, &goal).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn code_killed_during_an_effect_reads_an_error() {
    let houston = in_code_mode("full");
    let goal = houston.goal("during").await;
    // C10: the first effect has happened, its response is not committed.
    let said = killed_at(&houston, "C10", &goal).await;
    assert!(
        said.contains("thrown: ") && said.contains("outcome unknown") && said.contains("|stroke 1"),
        "{said}"
    );
    assert_eq!(houston.rings(), 2, "each effect once");
    assert_eq!(notes(&houston, &goal).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn code_of_the_recipe_makes_two_notes_after_a_yes() {
    let houston = in_code_mode("medium");
    let _worker = houston.worker();
    let goal = houston.goal("recipe").await;
    let code = "const made = await Promise.all([\"a\", \"b\"].map((title) => tools.create_note({title, content: \"x\"}))); \
                return made.length";
    let message = houston.post(&goal, "1", &format!("Run this code: {code}")).await;
    approve(&houston).await;
    assert_eq!(houston.wait_until_answered(&message).await["status"], "answered");
    let said = houston.agent_texts(&goal).await.pop().unwrap();
    assert!(said.contains('2'), "{said}");
    assert_eq!(notes(&houston, &goal).await, 2);
}
