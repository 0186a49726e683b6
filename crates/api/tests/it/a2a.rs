//! A2A: what each key reaches, errors of both bindings, and streams that end or break. The official clients are tested with the
//! whole service (`crates/cli/tests/clients`).

use houston_domain::event::Part;
use houston_domain::id::{AgentableId, ApiKeyId, UserId, parse_prefixed};
use houston_domain::run::RunStatus;
use houston_domain::scope::{Scope, Scopes};
use houston_store::api_key::NewApiKey;
use serde_json::{Value, json};

use crate::http::{Answer, End, Stream, request};
use crate::questions::question;
use crate::test_api::{KEY, TestApi, bearer, make_tenant};
use crate::worker::Worker;

const METHODS: [&str; 11] = [
    "SendMessage",
    "SendStreamingMessage",
    "GetTask",
    "ListTasks",
    "CancelTask",
    "SubscribeToTask",
    "GetExtendedAgentCard",
    "CreateTaskPushNotificationConfig",
    "GetTaskPushNotificationConfig",
    "ListTaskPushNotificationConfigs",
    "DeleteTaskPushNotificationConfig",
];

/// Those that need the scope `post`, too.
const NEED_POST: [&str; 5] = [
    "SendMessage",
    "SendStreamingMessage",
    "CancelTask",
    "CreateTaskPushNotificationConfig",
    "DeleteTaskPushNotificationConfig",
];

async fn rpc(api: &TestApi, key: &str, method: &str, params: Value) -> Answer {
    let body = json!({"jsonrpc": "2.0", "id": "1", "method": method, "params": params});
    api.send_as(key, "POST", "/a2a/goal", body).await
}

/// A message to the goal, to which the client does not wait for an answer.
fn message(api: &TestApi, id: &str, text: &str) -> Value {
    json!({
        "message": {"messageId": id, "role": "ROLE_USER", "contextId": api.goal, "parts": [{"text": text}]},
        "configuration": {"returnImmediately": true},
    })
}

async fn sent(api: &TestApi, id: &str, text: &str) -> Value {
    rpc(api, KEY, "SendMessage", message(api, id, text)).await.ok()["result"]["task"].clone()
}

async fn key_with(api: &TestApi, key: &str, scopes: &[Scope], user: Option<&str>) {
    let user = user.map(|user| user.parse::<UserId>().unwrap());
    let scopes: Scopes = scopes.iter().copied().collect();
    let id: ApiKeyId = api.state.ids.next();
    let new = NewApiKey { id, name: "test", key, scopes, user, expires_at: None, issuer: None };
    api.store.operator().create_api_key(api.tenant, &new).await.unwrap();
}

/// Opens the stream of a task.
async fn subscribe(api: &TestApi, task: &Value) -> Stream {
    let path = format!("/a2a/goal/tasks/{}:subscribe", task.as_str().unwrap());
    api.stream_at(&path, None).await.unwrap()
}

#[tokio::test]
async fn each_method_needs_its_scope() {
    let api = TestApi::start().await;
    for scope in Scope::ALL {
        key_with(&api, &format!("hou_{scope}_0123456789"), &[scope], None).await;
    }
    key_with(&api, "hou_both_0123456789ab", &[Scope::Read, Scope::Post], None).await;
    let nothing = format!("run_{}", "0".repeat(32));
    for method in METHODS {
        let params = json!({"id": nothing, "contextId": "none", "tenant": api.user, "taskId": nothing, "url": "https://x.acme.com",
                            "message": {"messageId": "1", "parts": [{"text": "x"}], "taskId": nothing}});
        for scope in Scope::ALL {
            let answer = rpc(&api, &format!("hou_{scope}_0123456789"), method, params.clone()).await;
            let may = match scope {
                Scope::Admin => true,
                Scope::Read => !NEED_POST.contains(&method),
                _ => false,
            };
            assert_eq!(
                answer.status == 403,
                !may,
                "{method} with {scope}: {} {}",
                answer.status,
                answer.text()
            );
            if !may {
                assert!(answer.header("www-authenticate").contains("insufficient_scope"), "{method}");
                assert_eq!(answer.json()["error"]["code"], -32000, "{method}");
            }
        }
        assert_ne!(rpc(&api, "hou_both_0123456789ab", method, params).await.status, 403, "{method}");
    }
    let anonymous = rpc(&api, "hou_wrong_0123456789", "GetTask", json!({"id": nothing})).await;
    assert_eq!((anonymous.status, anonymous.header("www-authenticate")), (401, "Bearer"));
}

#[tokio::test]
async fn tasks_of_other_tenants_and_users_are_not_found() {
    let api = TestApi::start().await;
    let task = sent(&api, "1", "secret plan").await["id"].clone();
    make_tenant(&api.store, &api.state.ids, "other", "hou_tenant_0123456789").await;
    let bob = api.post("/v1/users", json!({"name": "Bob"})).await.ok()["id"].as_str().unwrap().to_owned();
    key_with(&api, "hou_bob_0123456789abc", &[Scope::Read, Scope::Post], Some(&bob)).await;
    let other_goal = api.make_goal("Another").await;
    let some = json!({"user_id": api.user, "agentables": [other_goal], "scopes": ["read", "post"]});
    let token = api.post("/v1/client-tokens", some).await.ok()["token"].as_str().unwrap().to_owned();
    let to_task = json!({"message": {"messageId": "2", "taskId": task, "parts": [{"text": "x"}]}});
    for key in ["hou_tenant_0123456789", "hou_bob_0123456789abc", &token] {
        for (method, params) in [
            ("GetTask", json!({"id": task})),
            ("CancelTask", json!({"id": task})),
            ("SubscribeToTask", json!({"id": task})),
            ("SendMessage", to_task.clone()),
            ("SendStreamingMessage", to_task.clone()),
        ] {
            let refused = rpc(&api, key, method, params).await.ok();
            assert_eq!(refused["error"]["code"], -32001, "{method}: {refused}");
        }
        let path = format!("/a2a/goal/tasks/{}", task.as_str().unwrap());
        let refused = api.send_as(key, "GET", &path, json!(null)).await;
        assert_eq!((refused.status, &refused.json()["error"]["status"]), (404, &json!("NOT_FOUND")));
        for (method, params) in
            [("ListTasks", json!({"contextId": api.goal})), ("SendMessage", message(&api, "3", "x"))]
        {
            let refused = rpc(&api, key, method, params).await.ok();
            let is_empty = refused["result"]["tasks"] == json!([]);
            assert!(is_empty || refused["error"]["code"].is_i64(), "{method}: {refused}");
        }
    }
    assert_eq!(
        api.get(&api.path("/messages")).await.ok()["data"].as_array().unwrap().len(),
        1,
        "nothing was posted"
    );
}

#[tokio::test]
async fn errors_are_in_the_words_of_each_binding() {
    let api = TestApi::start().await;
    let code = async |method, params| rpc(&api, KEY, method, params).await.ok()["error"]["code"].clone();
    assert_eq!(code("message/send", json!({})).await, -32601);
    assert_eq!(code("GetTask", json!({})).await, -32602);
    assert_eq!(code("GetTask", json!({"id": "7"})).await, -32001);
    assert_eq!(code("CreateTaskPushNotificationConfig", json!({})).await, -32602);
    let pdf =
        json!({"message": {"messageId": "1", "parts": [{"raw": "aGk=", "mediaType": "application/pdf"}]}});
    assert_eq!(code("SendMessage", pdf.clone()).await, -32005);
    let no_user = json!({"message": {"messageId": "1", "parts": [{"text": "x"}]}});
    assert_eq!(code("SendMessage", no_user.clone()).await, -32602, "no user is named");
    let old = [("a2a-version", "0.3")];
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "7"}});
    assert_eq!(api.post_with("/a2a/goal", &old, body).await.ok()["error"]["code"], -32009);

    let refused = api.post_text("/a2a/goal", &[("content-type", "application/a2a+json")], "{").await;
    assert_eq!(refused.json()["error"]["code"], -32700);
    for (path, body, status, reason) in [
        ("/a2a/goal/message:send", pdf, 400, "CONTENT_TYPE_NOT_SUPPORTED"),
        ("/a2a/nothing/message:send", no_user.clone(), 404, "NOT_FOUND"),
        ("/a2a/goal/message:send", json!({"message": {}}), 422, "INVALID_REQUEST"),
        ("/a2a/goal/message:send", no_user, 422, "INVALID_REQUEST"),
        ("/a2a/goal/tasks/run_1:cancel", json!({}), 404, "TASK_NOT_FOUND"),
        ("/a2a/goal/tasks/run_1:stop", json!({}), 501, "METHOD_NOT_FOUND"),
        ("/a2a/goal/tasks/run_1/pushNotificationConfigs", json!({}), 422, "INVALID_REQUEST"),
    ] {
        let mut headers = vec![("houston-user", api.user.as_str())];
        headers.retain(|_| path.contains("nothing"));
        let answer = api.post_with(path, &headers, body).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        let error = answer.json()["error"].clone();
        let details = error["details"].as_array().unwrap();
        assert!(details.iter().any(|detail| detail["reason"] == reason), "{path}: {error}");
        assert_eq!(error["code"], status, "{path}");
    }
}

#[tokio::test]
async fn stream_has_the_task_and_what_the_agent_writes() {
    let api = TestApi::start().await;
    let task = sent(&api, "1", "hello").await;
    assert_eq!(
        (&task["status"]["state"], &task["contextId"]),
        (&json!("TASK_STATE_SUBMITTED"), &json!(api.goal))
    );
    let again = sent(&api, "1", "hello").await;
    assert_eq!(again["id"], task["id"], "the same message is posted once");
    let mut stream = subscribe(&api, &task["id"]).await;
    let first = stream.next().await.unwrap().data;
    assert_eq!(first["task"]["history"][0]["parts"][0]["text"], "hello");
    let worker = Worker::start(&api).await;
    let run = worker.claim().await;
    assert_eq!(stream.next().await.unwrap().data["statusUpdate"]["status"]["state"], "TASK_STATE_WORKING");
    run.write(Part::Message, 0, 0, "Good ");
    let piece = stream.next().await.unwrap().data["artifactUpdate"].clone();
    assert_eq!((&piece["append"], &piece["artifact"]["parts"][0]["text"]), (&json!(false), &json!("Good ")));
    run.answer("Good morning").await;
    let (frames, end) = stream.rest().await;
    assert_eq!(end, End::Clean);
    assert_eq!(frames[0].data["artifactUpdate"]["artifact"]["parts"][0]["text"], "morning");
    assert_eq!(frames[0].data["artifactUpdate"]["append"], true);
    assert_eq!(frames[1].data["artifactUpdate"]["lastChunk"], true);
    assert_eq!(frames[2].data["statusUpdate"]["status"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!(frames.len(), 3);
    let got =
        rpc(&api, KEY, "GetTask", json!({"id": task["id"], "historyLength": 0})).await.ok()["result"].clone();
    assert_eq!(got["artifacts"][0]["parts"][0]["text"], "Good morning");
    assert_eq!(got.get("history"), None);
    let ended = rpc(&api, KEY, "SubscribeToTask", json!({"id": task["id"]})).await.ok();
    assert_eq!(ended["error"]["code"], -32004);
    let ended = rpc(&api, KEY, "CancelTask", json!({"id": task["id"]})).await.ok();
    assert_eq!(ended["error"]["code"], -32002);
}

#[tokio::test]
async fn stream_of_a_task_at_work_is_aborted_not_ended() {
    let api = TestApi::start().await;
    let task = sent(&api, "1", "hello").await;
    let mut stream = subscribe(&api, &task["id"]).await;
    stream.next().await.unwrap();
    api.state.draining.cancel();
    let (_, end) = stream.rest().await;
    assert_eq!(end, End::Aborted);
}

#[tokio::test]
async fn answer_to_a_waiting_task_lets_it_go_on() {
    let api = TestApi::start().await;
    let task = sent(&api, "1", "Delete all notes").await["id"].clone();
    let worker = Worker::start(&api).await;
    let asked = question(&api);
    let id = asked.id.to_string();
    worker.claim().await.ask(asked).await;
    let got = rpc(&api, KEY, "GetTask", json!({"id": task})).await.ok()["result"]["status"].clone();
    assert_eq!(got["state"], "TASK_STATE_INPUT_REQUIRED");
    assert_eq!(got["message"]["parts"][0]["text"], "May I?");
    assert_eq!(got["message"]["parts"][1]["data"]["question"]["id"], id);
    let (frames, end) = subscribe(&api, &task).await.rest().await;
    assert_eq!((frames.len(), end), (1, End::Clean), "nothing follows before the answer");

    let to_task = |id: &str, part: Value| {
        let message = json!({"messageId": id, "taskId": task, "parts": [part]});
        json!({"message": message, "configuration": {"returnImmediately": true}})
    };
    let unknown = json!({"data": {"answers": {"question_1": {"yes": true}}}});
    let refused = rpc(&api, KEY, "SendMessage", to_task("2", unknown)).await.ok();
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let answered = rpc(&api, KEY, "SendMessage", to_task("3", json!({"data": {"yes": true}}))).await.ok();
    assert_eq!(answered["result"]["task"]["id"], task);
    let closed = api.get(&format!("/v1/questions/{id}")).await.ok();
    assert_eq!((&closed["state"], &closed["answer"]), (&json!("answered"), &json!({"yes": true})));
    worker.claim().await.answer("Done").await;
    let late = rpc(&api, KEY, "SendMessage", to_task("4", json!({"text": "and?"}))).await.ok();
    assert_eq!(late["error"]["code"], -32004, "{late}");
}

#[tokio::test]
async fn contexts_are_threads_of_one_user() {
    let api = TestApi::start().await;
    let send = async |user: &str, id: &str| {
        let body = json!({"message": {"messageId": id, "contextId": "trip", "parts": [{"text": "x"}]}, "tenant": user,
                          "configuration": {"returnImmediately": true}});
        rpc(&api, KEY, "SendMessage", body).await.ok()["result"]["task"].clone()
    };
    let (first, second, other) =
        (send(&api.user, "1").await, send(&api.user, "2").await, send("bob@example.com", "3").await);
    let thread = |task: &Value| task["metadata"]["houston"]["thread_id"].clone();
    assert_eq!(thread(&first), thread(&second));
    assert_ne!(thread(&first), thread(&other));
    assert_eq!(first["contextId"], "trip");
    let got = rpc(&api, KEY, "GetTask", json!({"id": first["id"]})).await.ok()["result"].clone();
    assert_eq!(got["contextId"], "trip", "the client's own id");
    let listed = rpc(&api, KEY, "ListTasks", json!({"contextId": "trip", "tenant": api.user})).await.ok();
    assert_eq!(listed["result"]["tasks"].as_array().unwrap().len(), 1);
    let state = json!({"contextId": "trip", "tenant": api.user, "status": "TASK_STATE_COMPLETED"});
    assert_eq!(rpc(&api, KEY, "ListTasks", state).await.ok()["result"]["tasks"], json!([]));
    let all =
        rpc(&api, KEY, "ListTasks", json!({"tenant": api.user, "pageSize": 1})).await.ok()["result"].clone();
    assert_eq!(
        (&all["tasks"][0]["id"], &all["nextPageToken"]),
        (&first["id"], &json!("")),
        "of one user only: {all}"
    );
    let agentable: AgentableId = parse_prefixed("goal", thread(&first).as_str().unwrap()).unwrap().into();
    let worker = Worker::start(&api).await;
    worker.claim_of(agentable).await.end(RunStatus::Failed, Some(("RATE_LIMITED", "slow down"))).await;
    let failed = rpc(&api, KEY, "GetTask", json!({"id": first["id"]})).await.ok()["result"]["status"].clone();
    assert_eq!(failed["state"], "TASK_STATE_FAILED");
    assert!(
        !failed["message"]["parts"][0]["text"].as_str().unwrap().contains("slow down"),
        "for end users: {failed}"
    );
}

#[tokio::test]
async fn cards_name_the_public_address_if_there_is_one() {
    let api =
        TestApi::start_with(|config| config.public_url = Some("https://agents.example.com/".to_owned()))
            .await;
    let proxied = [("x-forwarded-proto", "https"), ("x-forwarded-host", "evil.example")];
    for path in ["/.well-known/agent-card.json", "/a2a/goal/.well-known/agent-card.json"] {
        let card = request(api.address, "GET", path, &proxied, "").await.ok();
        assert_eq!(card["supportedInterfaces"][0]["url"], "https://agents.example.com/a2a/goal", "{path}");
    }
}

#[tokio::test]
async fn cards_name_the_address_of_the_request() {
    let api = TestApi::start().await;
    let card = request(api.address, "GET", "/.well-known/agent-card.json", &[], "").await.ok();
    assert_eq!(card["supportedInterfaces"][0]["url"], "http://houston.test/a2a/goal");
    assert_eq!(card["supportedInterfaces"][0]["protocolVersion"], "1.0");
    let proxied = [("x-forwarded-proto", "https")];
    let card = request(api.address, "GET", "/a2a/goal/.well-known/agent-card.json", &proxied, "").await.ok();
    assert_eq!(card["supportedInterfaces"][1]["url"], "https://houston.test/a2a/goal");
    let agents = api.get("/v1/agents").await.ok()["data"].clone();
    let agent = agents.as_array().unwrap().iter().find(|agent| agent["kind"] == "goal").unwrap();
    let path = format!("/a2a/{}/.well-known/agent-card.json", agent["id"].as_str().unwrap());
    request(api.address, "GET", &path, &[], "").await.refused(401, "unauthorized");
    let key = bearer(KEY);
    let own = request(api.address, "GET", &path, &[("authorization", &key)], "").await.ok();
    assert_eq!(own["name"], agent["name"]);
    let extended = rpc(&api, KEY, "GetExtendedAgentCard", json!({})).await.ok();
    assert_eq!(extended["result"]["name"], "goal");
}
