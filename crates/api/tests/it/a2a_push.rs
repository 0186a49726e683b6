//! Push notifications of A2A: which configurations are stored, and who sees them. That they are sent is tested with workers
//! (`crates/worker/tests/it/task_push.rs`).

use serde_json::{Value, json};

use crate::http::Answer;
use crate::test_api::{KEY, TestApi, make_tenant};
use crate::worker::Worker;

const HOOK: &str = "https://hooks.acme.com/a2a";

async fn rpc(api: &TestApi, key: &str, method: &str, params: Value) -> Value {
    let body = json!({"jsonrpc": "2.0", "id": "1", "method": method, "params": params});
    api.send_as(key, "POST", "/a2a/goal", body).await.ok()
}

fn message(api: &TestApi, id: &str, push: &Value) -> Value {
    json!({
        "message": {"messageId": id, "role": "ROLE_USER", "contextId": api.goal, "parts": [{"text": "hello"}]},
        "configuration": {"returnImmediately": true, "taskPushNotificationConfig": push},
    })
}

/// A task whose client gets its updates.
async fn followed(api: &TestApi, push: Value) -> Value {
    rpc(api, KEY, "SendMessage", message(api, "1", &push)).await["result"]["task"]["id"].clone()
}

async fn ids(api: &TestApi, task: &Value) -> Vec<String> {
    let listed = rpc(api, KEY, "ListTaskPushNotificationConfigs", json!({"taskId": task})).await;
    let configs = listed["result"]["configs"].as_array().cloned().unwrap_or_default();
    configs.iter().map(|config| config["id"].as_str().unwrap().to_owned()).collect()
}

/// The paths of a task's configurations, and of one of them.
fn path(task: &Value, id: &str) -> String {
    format!("/a2a/goal/tasks/{}/pushNotificationConfigs{id}", task.as_str().unwrap())
}

async fn at(api: &TestApi, method: &str, path: &str, body: Value) -> Answer {
    api.send_as(KEY, method, path, body).await
}

#[tokio::test]
async fn configs_of_a_task_are_stored_listed_and_deleted() {
    let api = TestApi::start().await;
    let task = followed(&api, json!({"url": HOOK, "token": "t0ken"})).await;
    let first = ids(&api, &task).await;
    assert_eq!(first.len(), 1);
    let again = followed(&api, json!({"url": HOOK, "token": "t0ken"})).await;
    assert_eq!((&again, ids(&api, &task).await), (&task, first.clone()), "the same message has one");

    let authentication = json!({"scheme": "Bearer", "credentials": "secret"});
    let new = json!({"id": "mine", "url": HOOK, "authentication": authentication});
    let made = at(&api, "POST", &path(&task, ""), new).await.ok();
    assert_eq!((&made["id"], &made["taskId"], &made["url"]), (&json!("mine"), &task, &json!(HOOK)));
    let got = at(&api, "GET", &path(&task, "/mine"), Value::Null).await.ok();
    assert_eq!((&got["id"], got.get("authentication"), got.get("token")), (&json!("mine"), None, None));
    assert_eq!(ids(&api, &task).await, ["mine".to_owned(), first[0].clone()]);
    let stored = api.sql("select encode(sealed, 'escape') from houston.webhooks");
    assert!(!stored.contains("secret") && !stored.contains("t0ken"), "{stored}");
    assert_eq!(api.get("/v1/webhooks").await.ok()["data"], json!([]), "no webhook of the tenant");

    assert_eq!(at(&api, "DELETE", &path(&task, "/mine"), Value::Null).await.ok(), json!({}));
    assert_eq!(at(&api, "GET", &path(&task, "/mine"), Value::Null).await.status, 404);
    assert_eq!(ids(&api, &task).await, first);
}

#[tokio::test]
async fn addresses_and_secrets_that_cannot_be_used_are_refused() {
    let api = TestApi::start().await;
    let task = followed(&api, json!({"url": HOOK})).await;
    for (wrong, field) in [
        (json!({"url": "https://127.0.0.1/x"}), "/url"),
        (json!({"url": "https://169.254.169.254/latest"}), "/url"),
        (json!({"url": "http://hooks.acme.com/"}), "/url"),
        (json!({"url": HOOK, "token": "a\nb"}), "/token"),
        (
            json!({"url": HOOK, "authentication": {"scheme": "Bearer", "credentials": "a\r\nb: c"}}),
            "/authentication",
        ),
        (json!({"url": HOOK, "id": "x".repeat(201)}), "/id"),
    ] {
        let mut params = wrong.clone();
        params["taskId"] = task.clone();
        let refused = rpc(&api, KEY, "CreateTaskPushNotificationConfig", params).await["error"].clone();
        assert_eq!(refused["code"], -32602, "{wrong}: {refused}");
        assert!(refused.to_string().contains(&format!("\"{field}\"")), "{refused}");
        let refused = rpc(&api, KEY, "SendMessage", message(&api, "2", &wrong)).await["error"].clone();
        assert!(refused.to_string().contains(&format!("taskPushNotificationConfig{field}")), "{refused}");
    }
    assert_eq!(api.get(&api.path("/messages")).await.ok()["data"].as_array().unwrap().len(), 1, "not posted");
    for nth in 0..9 {
        let new = json!({"taskId": task, "id": format!("{nth}"), "url": HOOK});
        let made = rpc(&api, KEY, "CreateTaskPushNotificationConfig", new).await;
        assert!(made["result"].is_object(), "{made}");
    }
    let more = json!({"taskId": task, "id": "more", "url": HOOK});
    let full = rpc(&api, KEY, "CreateTaskPushNotificationConfig", more).await;
    assert!(full["error"]["message"].as_str().unwrap().contains("at most 10"), "{full}");
}

#[tokio::test]
async fn configs_of_other_tenants_are_not_found() {
    let api = TestApi::start().await;
    let task = followed(&api, json!({"id": "mine", "url": HOOK})).await;
    let other = "hou_tenant_0123456789";
    make_tenant(&api.store, &api.state.ids, "other", other).await;
    for method in ["Create", "Get", "Delete"] {
        let params = json!({"taskId": task, "id": "mine", "url": HOOK});
        let refused = rpc(&api, other, &format!("{method}TaskPushNotificationConfig"), params).await;
        assert_eq!(refused["error"]["code"], -32001, "{method}: {refused}");
    }
    let refused = rpc(&api, other, "ListTaskPushNotificationConfigs", json!({"taskId": task})).await;
    assert_eq!(refused["error"]["code"], -32001, "{refused}");
    assert_eq!(ids(&api, &task).await, ["mine"]);
}

#[tokio::test]
async fn ended_tasks_get_no_new_configs() {
    let api = TestApi::start().await;
    let task = followed(&api, json!({"url": HOOK})).await;
    let worker = Worker::start(&api).await;
    worker.claim().await.answer("Good morning").await;
    let late = json!({"taskId": task, "id": "late", "url": HOOK});
    let refused = rpc(&api, KEY, "CreateTaskPushNotificationConfig", late).await;
    assert_eq!(refused["error"]["code"], -32004, "{refused}");
    let card = api.get("/a2a/goal/.well-known/agent-card.json").await.ok();
    assert_eq!(card["capabilities"]["pushNotifications"], true);
}
