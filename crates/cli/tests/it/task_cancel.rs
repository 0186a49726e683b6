//! Cancelling or archiving an agentable cancels all tasks below it, once.

use houston_testkit::model_server::{Call, Gate, ModelServer, Reply};
use reqwest::Method;
use serde_json::{Value, json};

use crate::tasks::{is_task, says, system_messages, tasks, tools_answered, worker};
use crate::test_houston::TestHouston;

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_a_goal_cancels_its_tasks_once() {
    let houston = TestHouston::start();
    let gate = Gate::new();
    let held = gate.clone();
    let server = ModelServer::start(move |call: &Call| {
        let new = |title: &str| json!({"title": title, "instructions": "Do it."});
        match (is_task(call), tools_answered(call)) {
            (true, _) => Reply::text("never").held_by(&held),
            (false, false) if call.last_user_text() == "go" => {
                Reply::tool("create_task", new("one")).then_tool("create_task", new("two"))
            }
            (false, _) => says("ok"),
        }
    })
    .await
    .unwrap();
    let _worker = worker(&houston, &server, &[]);
    let goal = houston.goal("cancel").await;
    let path = format!("/v1/goals/{goal}");
    let message = houston.post(&goal, "1", "go").await;
    houston.wait_until_answered(&message).await;
    assert_eq!(tasks(&houston, &goal).await.len(), 2);
    let (status, first) = houston.ask(Method::POST, &format!("{path}/cancel")).await;
    assert_eq!((status, first["data"].as_array().unwrap().len()), (202, 2), "{first}");
    houston.ask(Method::POST, &format!("{path}/cancel")).await;
    let are_cancelled =
        |page: &Value| page["data"].as_array().unwrap().iter().all(|task| task["status"] == "cancelled");
    houston.wait_until(&format!("{path}/tasks"), "cancelled", are_cancelled).await;
    assert_eq!(houston.sql("select max(open_tasks) from houston.run_locks"), "0");
    assert!(system_messages(&houston, &path).await.is_empty(), "no agent is woken");
    assert_eq!(houston.get(&path).await["run_id"], message["run_id"], "no run was opened");

    // The goal reads the system message in its next run.
    let next = houston.post(&goal, "2", "and now?").await;
    houston.wait_until_answered(&next).await;
    let history = houston.get(&format!("{path}/history?limit=100")).await.to_string();
    assert_eq!(history.matches("<tasks_cancelled>").count(), 1, "{history}");
    assert!(history.contains("<item>one</item>") && history.contains("<item>two</item>"), "{history}");

    // A task that is cancelled alone is reported to its goal.
    houston.wait_until_answered(&houston.post(&goal, "3", "go").await).await;
    let one = tasks(&houston, &goal).await[0]["id"].as_str().unwrap().to_owned();
    let (status, _) = houston.ask(Method::POST, &format!("/v1/tasks/{one}/cancel")).await;
    assert_eq!(status, 202);
    houston
        .wait_until(&format!("{path}/messages?limit=100"), "the report", |page| {
            page["data"]
                .as_array()
                .unwrap()
                .iter()
                .any(|message| message["metadata"]["status"] == "cancelled")
        })
        .await;

    // Archiving cancels, too.
    let (status, archived) = houston.ask(Method::POST, &format!("{path}/archive")).await;
    assert_eq!((status, &archived["status"]), (200, &json!("archived")), "{archived}");
    houston.wait_until(&format!("{path}/tasks"), "cancelled", are_cancelled).await;
    let (_, back) = houston.ask(Method::POST, &format!("{path}/unarchive")).await;
    assert_ne!(back["status"], "archived");
    let (status, refused) = houston.ask(Method::POST, &format!("/v1/tasks/{one}/archive")).await;
    assert_eq!((status, &refused["code"]), (409, &json!("not_archivable")));
    gate.open();
}
