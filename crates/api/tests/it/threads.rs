//! Threads of clients: the same id always finds the same conversation, and no one finds another user's.

use std::collections::BTreeSet;

use houston_domain::scope::{Scope, Scopes};
use houston_store::api_key::NewApiKey;
use serde_json::{Value, json};

use crate::http::{Answer, Stream, request};
use crate::test_api::{KEY, TestApi, bearer, make_tenant};

const ADA: &str = "hou_ada_0123456789abc";
const BOB: &str = "hou_bob_0123456789abc";

fn input(thread: &str, content: &str) -> Value {
    let message = json!({"id": format!("m-{content}"), "role": "user", "content": content});
    json!({"threadId": thread, "runId": "r", "messages": [message], "tools": [], "context": [], "state": {}})
}

/// The conversation that a request to `/ag-ui/{target}` posts to, from `Location`.
async fn posted(api: &TestApi, key: &str, target: &str, user: Option<&str>, body: &Value) -> String {
    let (path, body, key) = (format!("/ag-ui/{target}"), body.to_string(), bearer(key));
    let mut headers = vec![("authorization", key.as_str()), ("content-type", "application/json")];
    headers.extend(user.map(|user| ("houston-user", user)));
    let stream = Stream::send(api.address, "POST", &path, &headers, &body).await.unwrap();
    assert_eq!(stream.status, 200, "{path} {body}");
    let location = stream.headers["location"].to_str().unwrap();
    location.split('/').nth(3).unwrap().to_owned()
}

/// A request that is refused.
async fn refused(api: &TestApi, key: &str, target: &str, user: Option<&str>, body: &Value) -> Answer {
    let (path, key) = (format!("/ag-ui/{target}"), bearer(key));
    let mut headers = vec![("authorization", key.as_str()), ("content-type", "application/json")];
    headers.extend(user.map(|user| ("houston-user", user)));
    request(api.address, "POST", &path, &headers, &body.to_string()).await
}

async fn key_of(api: &TestApi, key: &str, user: &str) {
    let scopes: Scopes = [Scope::Read, Scope::Post].into_iter().collect();
    let id = api.state.ids.next();
    let user = Some(user.parse().unwrap());
    let new = NewApiKey { id, name: "test", key, scopes, user, expires_at: None, issuer: None };
    api.store.operator().create_api_key(api.tenant, &new).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_thread_is_one_conversation_even_at_once() {
    let api = TestApi::start().await;
    let bodies: Vec<Value> = (0..8).map(|nth| input("chat 1", &format!("message {nth}"))).collect();
    let posts = bodies.iter().map(|body| posted(&api, KEY, "goal", Some("ada@example.com"), body));
    let found: BTreeSet<String> = futures_util::future::join_all(posts).await.into_iter().collect();
    assert_eq!(found.len(), 1, "{found:?}");
    let goal = found.first().unwrap();
    let users = api.get("/v1/users?external_id=ada@example.com").await.ok();
    assert_eq!(users["data"].as_array().unwrap().len(), 1);
    assert_eq!(api.get(&format!("/v1/goals/{goal}")).await.ok()["user_id"], users["data"][0]["id"]);
    let goals = api.sql("select count(*) from houston.agentables where kind = 'goal'");
    assert_eq!(goals.trim(), "2", "the goal of the test, and that of the thread");
    let messages = api.get(&format!("/v1/goals/{goal}/messages")).await.ok();
    assert_eq!(messages["data"].as_array().unwrap().len(), 8);

    let other = posted(&api, KEY, "goal", Some("ada@example.com"), &input("chat 2", "hi")).await;
    let of_other = posted(&api, KEY, "goal", Some("bob"), &input("chat 1", "hi")).await;
    let by_id = users["data"][0]["id"].as_str().unwrap();
    let same = posted(&api, KEY, "goal", Some(by_id), &input("chat 1", "again")).await;
    assert_eq!((&same, found.len()), (goal, 1));
    assert_eq!(BTreeSet::from([goal, &other, &of_other]).len(), 3, "other ids, other users");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_may_be_that_of_an_agent() {
    let api = TestApi::start().await;
    let agent =
        api.post("/v1/agents", json!({"name": "clerk", "kind": "goal", "role": "You are a clerk."})).await;
    let agent = agent.ok()["id"].as_str().unwrap().to_owned();
    let by_name = posted(&api, KEY, "clerk", Some(&api.user), &input("books", "hi")).await;
    let by_id = posted(&api, KEY, &agent, Some(&api.user), &input("books", "again")).await;
    let of_kind = posted(&api, KEY, "goal", Some(&api.user), &input("books", "hi")).await;
    assert_eq!(by_name, by_id);
    assert_ne!(by_name, of_kind);
    assert_eq!(api.get(&format!("/v1/goals/{by_name}")).await.ok()["agent_id"], agent);
    let own = posted(&api, KEY, "user_agent", Some(&api.user), &input("any", "hi")).await;
    assert_eq!(own, posted(&api, KEY, "user_agent", Some(&api.user), &input("other", "hi")).await);
    for (target, status) in
        [("task", 404), ("no-such-agent", 404), ("agent_00000000000000000000000000000000", 404)]
    {
        let answer = refused(&api, KEY, target, Some(&api.user), &input("x", "hi")).await;
        assert_eq!(answer.status, status, "{target}: {}", answer.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_reach_the_threads_of_their_user_only() {
    let api = TestApi::start().await;
    let bob = api.post("/v1/users", json!({"name": "Bob"})).await.ok()["id"].as_str().unwrap().to_owned();
    key_of(&api, ADA, &api.user).await;
    key_of(&api, BOB, &bob).await;
    make_tenant(&api.store, &api.state.ids, "other", "hou_tenant_0123456789").await;

    let of_ada = posted(&api, ADA, "goal", None, &input("mine", "hi")).await;
    assert_eq!(of_ada, posted(&api, KEY, "goal", Some(&api.user), &input("mine", "more")).await);
    assert_ne!(of_ada, posted(&api, BOB, "goal", None, &input("mine", "hi")).await);
    refused(&api, ADA, "goal", Some(&bob), &input("mine", "hi")).await.refused(404, "not_found");
    // By Houston's own id, which is used as it is.
    assert_eq!(api.goal, posted(&api, ADA, "goal", None, &input(&api.goal, "hi")).await);
    assert_eq!(api.goal, posted(&api, KEY, "goal", None, &input(&api.goal, "hello")).await);
    refused(&api, BOB, "goal", None, &input(&api.goal, "hi")).await.refused(404, "not_found");
    refused(&api, KEY, "goal", Some(&bob), &input(&api.goal, "hi")).await.refused(404, "not_found");
    refused(&api, "hou_tenant_0123456789", "goal", None, &input(&api.goal, "hi"))
        .await
        .refused(404, "not_found");

    let token = json!({"user_id": api.user, "agentables": [api.goal], "scopes": ["read", "post"]});
    let token = api.post("/v1/client-tokens", token).await.ok()["token"].as_str().unwrap().to_owned();
    assert_eq!(api.goal, posted(&api, &token, "goal", None, &input(&api.goal, "from a phone")).await);
    refused(&api, &token, "goal", None, &input("mine", "hi")).await.refused(404, "not_found");
    refused(&api, &token, "goal", None, &input("new", "hi")).await.refused(403, "forbidden");
}

#[tokio::test]
async fn a_request_that_names_no_thread_or_user_is_refused() {
    let api = TestApi::start().await;
    let problem =
        refused(&api, KEY, "goal", None, &input("chat", "hi")).await.refused(422, "invalid_request");
    assert_eq!(problem["errors"][0]["parameter"], "houston-user");
    let pointer = |answer: Answer| answer.refused(422, "invalid_request")["errors"][0]["pointer"].clone();
    let mut without = input("chat", "hi");
    without.as_object_mut().unwrap().remove("threadId");
    assert_eq!(pointer(refused(&api, KEY, "goal", Some("ada"), &without).await), "/threadId");
    for thread in ["", " ", "x\u{0}", &"x".repeat(201)] {
        assert_eq!(pointer(refused(&api, KEY, "goal", Some("ada"), &input(thread, "hi")).await), "/threadId");
    }
    let unknown = format!("user_{}", "0".repeat(32));
    refused(&api, KEY, "goal", Some(&unknown), &input("chat", "hi")).await.refused(404, "not_found");
    let task = format!("task_{}", "0".repeat(32));
    assert_eq!(pointer(refused(&api, KEY, "goal", None, &input(&task, "hi")).await), "/threadId");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_is_free_again_after_its_conversation_is_erased() {
    let api = TestApi::start().await;
    let first = posted(&api, KEY, "goal", Some(&api.user), &input("chat", "hi")).await;
    let erased = api.send("DELETE", &format!("/v1/goals/{first}"), Value::Null).await;
    assert_eq!(erased.status, 202, "{}", erased.text());
    let second = posted(&api, KEY, "goal", Some(&api.user), &input("chat", "hi again")).await;
    assert_ne!(first, second);
    assert_eq!(second, posted(&api, KEY, "goal", Some(&api.user), &input("chat", "more")).await);
}

#[tokio::test]
async fn wrong_tools_and_context_are_refused_with_their_place() {
    let api = TestApi::start().await;
    let offering = |tools: Value, context: Value| {
        let mut body = input(&api.goal, "hi");
        (body["tools"], body["context"]) = (tools, context);
        body
    };
    let schema = json!({"type": "object"});
    let cases = [
        (
            json!([{"name": "create_note", "description": "", "parameters": schema}]),
            json!([]),
            "/tools/0/name",
        ),
        (json!([{"name": "launch_rocket", "parameters": schema}]), json!([]), "/tools/0/name"),
        (json!([{"name": "show map", "parameters": schema}]), json!([]), "/tools/0/name"),
        (json!([{"name": "a", "parameters": schema}, {"name": "a"}]), json!([]), "/tools/1/name"),
        (json!([{"name": "a", "parameters": 7}]), json!([]), "/tools/0/parameters"),
        (json!([]), json!([{"description": "page", "value": "x".repeat(40_000)}]), "/context"),
    ];
    for (tools, context, pointer) in cases {
        let answer = refused(&api, KEY, "goal", None, &offering(tools, context)).await;
        assert_eq!(answer.refused(422, "invalid_request")["errors"][0]["pointer"], pointer);
    }
    let stored = api.sql("select count(*) from houston.messages");
    assert_eq!(stored.trim(), "0", "nothing was posted");
    let tools = json!([{"name": "show_map", "description": "Shows a place.", "parameters": schema}]);
    posted(&api, KEY, "goal", None, &offering(tools, json!([]))).await;
    let offered = api.sql("select offer -> 'tools' -> 0 ->> 'name' from houston.client_offers");
    assert_eq!(offered.trim(), "show_map");
    posted(&api, KEY, "goal", None, &input(&api.goal, "without tools")).await;
    assert_eq!(api.sql("select count(*) from houston.client_offers").trim(), "1");
}

#[tokio::test]
async fn item_of_the_context_may_be_what_the_message_is_about() {
    let api = TestApi::start().await;
    let focus = |value: Value| {
        let mut body = input(&api.goal, "Where is it?");
        body["context"] = json!([{"description": "the page", "value": "/orders"},
                                 {"description": "focus", "value": value.to_string()}]);
        body
    };
    posted(&api, KEY, "goal", None, &focus(json!({"type": "order", "id": "17"}))).await;
    let offer: Value = serde_json::from_str(&api.sql("select offer from houston.client_offers")).unwrap();
    assert_eq!(offer["focus"], json!({"type": "order", "id": "17"}));
    assert_eq!(offer["context"], json!([{"description": "the page", "value": "/orders"}]));
    let wrong = refused(&api, KEY, "goal", None, &focus(json!({"type": "an order", "id": "17"}))).await;
    assert_eq!(wrong.refused(422, "invalid_request")["errors"][0]["pointer"], "/context/type");
}
