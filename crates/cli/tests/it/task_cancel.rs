//! What is cancelled or put away goes with all tasks below it, once.

use houston_testkit::model_server::{Call, Gate, ModelServer, Reply};
use reqwest::Method;
use serde_json::{Value, json};

use crate::house::House;
use crate::tasks::{is_task, says, tasks, told, tools_answered, worker};

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_a_goal_cancels_all_below_it_once_and_wakes_nobody() {
    let house = House::start();
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
    let _worker = worker(&house, &server, &[]);
    let goal = house.goal("cancel").await;
    let path = format!("/v1/goals/{goal}");
    let message = house.post(&goal, "1", "go").await;
    house.answered(&message).await;
    assert_eq!(tasks(&house, &goal).await.len(), 2);
    let (status, first) = house.ask(Method::POST, &format!("{path}/cancel")).await;
    assert_eq!((status, first["data"].as_array().unwrap().len()), (202, 2), "{first}");
    house.ask(Method::POST, &format!("{path}/cancel")).await;
    let are_cancelled =
        |page: &Value| page["data"].as_array().unwrap().iter().all(|task| task["status"] == "cancelled");
    house.until(&format!("{path}/tasks"), "cancelled", are_cancelled).await;
    assert_eq!(house.sql("select max(open_tasks) from houston.run_locks"), "0");
    assert!(told(&house, &path).await.is_empty(), "nobody is woken");
    assert_eq!(house.get(&path).await["run_id"], message["run_id"], "no run was opened");

    // What it should know, it knows when it runs again.
    let next = house.post(&goal, "2", "and now?").await;
    house.answered(&next).await;
    let history = house.get(&format!("{path}/history?limit=100")).await.to_string();
    assert_eq!(history.matches("<tasks_cancelled>").count(), 1, "{history}");
    assert!(history.contains("<item>one</item>") && history.contains("<item>two</item>"), "{history}");

    // A task that is cancelled alone is told of.
    house.answered(&house.post(&goal, "3", "go").await).await;
    let one = tasks(&house, &goal).await[0]["id"].as_str().unwrap().to_owned();
    let (status, _) = house.ask(Method::POST, &format!("/v1/tasks/{one}/cancel")).await;
    assert_eq!(status, 202);
    house
        .until(&format!("{path}/messages?limit=100"), "told", |page| {
            page["data"]
                .as_array()
                .unwrap()
                .iter()
                .any(|message| message["metadata"]["status"] == "cancelled")
        })
        .await;

    // What is put away is cancelled too.
    let (status, archived) = house.ask(Method::POST, &format!("{path}/archive")).await;
    assert_eq!((status, &archived["status"]), (200, &json!("archived")), "{archived}");
    house.until(&format!("{path}/tasks"), "cancelled", are_cancelled).await;
    let (_, back) = house.ask(Method::POST, &format!("{path}/unarchive")).await;
    assert_ne!(back["status"], "archived");
    let (status, refused) = house.ask(Method::POST, &format!("/v1/tasks/{one}/archive")).await;
    assert_eq!((status, &refused["code"]), (409, &json!("not_archivable")));
    gate.open();
}
