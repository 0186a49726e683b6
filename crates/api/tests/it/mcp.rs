//! Houston as an MCP server: what each key sees and reaches, and both generations of the protocol. What the tools return is
//! tested with clients of the protocol (`crates/cli/tests/clients`).

use houston_domain::id::{ApiKeyId, UserId};
use houston_domain::scope::{Scope, Scopes};
use houston_store::api_key::NewApiKey;
use serde_json::{Value, json};

use crate::http::{Answer, End, Stream, request};
use crate::questions::question;
use crate::test_api::{KEY, TestApi, bearer, make_tenant};
use crate::worker::Worker;

const READ: [&str; 4] = ["list_threads", "read_thread", "wait_for_run", "list_questions"];
const POST: [&str; 4] = ["start_thread", "post_message", "answer_question", "cancel_run"];

async fn rpc(api: &TestApi, key: &str, method: &str, params: Value) -> Answer {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    api.send_as(key, "POST", "/mcp", body).await
}

/// The result of a tool: the structured one, or the text of an error.
async fn call(api: &TestApi, key: &str, tool: &str, arguments: Value) -> Result<Value, String> {
    let answer = rpc(api, key, "tools/call", json!({"name": tool, "arguments": arguments})).await.ok();
    let result = &answer["result"];
    assert!(result.is_object(), "{answer}");
    if result["isError"] == true {
        return Err(result["content"][0]["text"].as_str().unwrap().to_owned());
    }
    Ok(result["structuredContent"].clone())
}

async fn tools(api: &TestApi, key: &str) -> Vec<String> {
    let listed = rpc(api, key, "tools/list", json!({})).await.ok();
    let tools = listed["result"]["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

async fn key_with(api: &TestApi, key: &str, scopes: &[Scope], user: Option<&str>) {
    let user = user.map(|user| user.parse::<UserId>().unwrap());
    let scopes: Scopes = scopes.iter().copied().collect();
    let id: ApiKeyId = api.state.ids.next();
    let new = NewApiKey { id, name: "test", key, scopes, user, expires_at: None, issuer: None };
    api.store.operator().create_api_key(api.tenant, &new).await.unwrap();
}

#[tokio::test]
async fn keys_see_and_call_the_tools_of_their_scopes() {
    let api = TestApi::start().await;
    for scope in Scope::ALL {
        let key = format!("hou_{scope}_0123456789");
        key_with(&api, &key, &[scope], None).await;
        let seen = tools(&api, &key).await;
        let expected = [(Scope::Read, READ.as_slice()), (Scope::Post, POST.as_slice())];
        for (needed, names) in expected {
            for name in names {
                let may = scope == needed || scope == Scope::Admin;
                assert_eq!(seen.contains(&(*name).to_owned()), may, "{name} with {scope}");
                let called =
                    rpc(&api, &key, "tools/call", json!({"name": name, "arguments": {"x": 1}})).await.ok();
                assert_eq!(called["error"]["code"] == -32602, !may, "{name} with {scope}: {called}");
            }
        }
    }
    let refused = rpc(&api, "hou_wrong_0123456789", "tools/list", json!({})).await;
    refused.refused(401, "unauthorized");
    assert_eq!(refused.header("www-authenticate"), "Bearer");
}

#[tokio::test]
async fn tools_reach_no_other_tenant_or_user() {
    let api = TestApi::start().await;
    let posted = api.post_message("secret plan").await;
    let run = posted["run_id"].clone();
    make_tenant(&api.store, &api.state.ids, "other", "hou_tenant_0123456789").await;
    let bob = api.post("/v1/users", json!({"name": "Bob"})).await.ok()["id"].as_str().unwrap().to_owned();
    key_with(&api, "hou_bob_0123456789abc", &[Scope::Read, Scope::Post], Some(&bob)).await;
    let token = api.post("/v1/client-tokens", json!({"user_id": bob, "scopes": ["read", "post"]})).await.ok();
    let worker = Worker::start(&api).await;
    let asked = question(&api);
    let id = asked.id.to_string();
    worker.claim().await.ask(asked).await;
    let calls = [
        ("read_thread", json!({"thread_id": api.goal})),
        ("post_message", json!({"thread_id": api.goal, "message": "x"})),
        ("wait_for_run", json!({"run_id": run, "seconds": 0})),
        ("cancel_run", json!({"run_id": run})),
        ("answer_question", json!({"question_id": id, "answer": {"yes": true}})),
        ("list_questions", json!({"user_id": api.user})),
        ("list_threads", json!({"user_id": api.user})),
        ("start_thread", json!({"user_id": api.user, "message": "x"})),
    ];
    for key in ["hou_tenant_0123456789", "hou_bob_0123456789abc", token["token"].as_str().unwrap()] {
        for (tool, arguments) in &calls {
            match call(&api, key, tool, arguments.clone()).await {
                Err(refused) => assert!(refused.starts_with("not_found: "), "{tool}: {refused}"),
                Ok(found) => assert_eq!(found["questions"], json!([]), "{tool}: {found}"),
            }
        }
        let threads = call(&api, key, "list_threads", json!({})).await.unwrap();
        assert_eq!(threads["threads"], json!([]));
    }
    let own = call(&api, "hou_bob_0123456789abc", "start_thread", json!({"message": "mine"})).await.unwrap();
    let read =
        call(&api, "hou_bob_0123456789abc", "read_thread", json!({"thread_id": own["thread_id"]})).await;
    assert_eq!(read.unwrap()["messages"][0]["content"], "mine");
    let waiting = call(&api, KEY, "wait_for_run", json!({"run_id": run})).await.unwrap();
    assert_eq!((&waiting["is_over"], &waiting["questions"][0]["question_id"]), (&json!(false), &json!(id)));
}

#[tokio::test]
async fn wait_ends_with_the_run() {
    let api = TestApi::start().await;
    let run = api.post_message("hello").await["run_id"].clone();
    let worker = Worker::start(&api).await;
    let claimed = worker.claim().await;
    let waiting = call(&api, KEY, "wait_for_run", json!({"run_id": run, "seconds": 50}));
    let (waited, _) = tokio::join!(waiting, async { claimed.answer("Hi <b>").await });
    let waited = waited.unwrap();
    assert_eq!((&waited["is_over"], &waited["answers"][0]["content"]), (&json!(true), &json!("Hi <b>")));
    let refused = call(&api, KEY, "wait_for_run", json!({"run_id": run, "seconds": 51})).await.unwrap_err();
    assert!(refused.contains("/seconds: must be a whole number from 0 to 50"), "{refused}");
    for arguments in [json!({"thread_id": "goal_1?x=/../"}), json!({"thread_id": ""}), json!({})] {
        let refused = call(&api, KEY, "read_thread", arguments).await.unwrap_err();
        assert!(refused.contains("/thread_id") || refused.contains("not_found"), "{refused}");
    }
}

#[tokio::test]
async fn call_that_waits_reports_its_progress_if_asked_to() {
    let api = TestApi::start().await;
    let run = api.post_message("hello").await["run_id"].clone();
    let worker = Worker::start(&api).await;
    let claimed = worker.claim().await;
    let key = bearer(KEY);
    let json = ("content-type", "application/json");
    let headers = [("authorization", key.as_str()), json, ("accept", "application/json, text/event-stream")];
    let params = json!({"name": "wait_for_run", "arguments": {"run_id": run, "seconds": 50},
                        "_meta": {"progressToken": "p1"}});
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
    let mut stream = Stream::send(api.address, "POST", "/mcp", &headers, &body.to_string()).await.unwrap();
    for _ in 0..2 {
        let notified = stream.next().await.unwrap().data;
        assert_eq!(
            (&notified["method"], &notified["params"]["progressToken"]),
            (&json!("notifications/progress"), &json!("p1"))
        );
        assert!(notified["params"]["progress"].is_number() && notified.get("id").is_none(), "{notified}");
    }
    claimed.answer("Hi").await;
    let (frames, end) = stream.rest().await;
    let last = &frames.last().unwrap().data;
    assert_eq!((end, &last["id"]), (End::Clean, &json!(7)));
    assert_eq!(last["result"]["structuredContent"]["answers"][0]["content"], "Hi", "{last}");
    // A client that reads no streams gets its answer alone.
    let plain = [("authorization", key.as_str()), json, ("accept", "application/json")];
    let answer = request(api.address, "POST", "/mcp", &plain, &body.to_string()).await;
    assert_eq!(answer.ok()["result"]["structuredContent"]["is_over"], true);
}

#[tokio::test]
async fn both_generations_of_the_protocol_are_served() {
    let api = TestApi::start().await;
    for (asked, offered) in [("2025-06-18", "2025-06-18"), ("2031-01-01", "2025-11-25")] {
        let begun = rpc(&api, KEY, "initialize", json!({"protocolVersion": asked})).await.ok();
        assert_eq!(begun["result"]["protocolVersion"], offered);
        assert_eq!(begun["result"]["capabilities"], json!({"tools": {"listChanged": false}}));
    }
    let post = async |headers: &[(&str, &str)], body: Value| api.post_with("/mcp", headers, body).await;
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let accepted = post(&[], notification).await;
    assert_eq!((accepted.status, accepted.text().as_str()), (202, ""));

    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let list = json!({"jsonrpc": "2.0", "id": "a", "method": "tools/list", "params": {"_meta": meta}});
    let version = ("mcp-protocol-version", "2026-07-28");
    let listed = post(&[version, ("mcp-method", "tools/list")], list.clone()).await.ok();
    assert_eq!(
        (&listed["result"]["resultType"], &listed["result"]["cacheScope"]),
        (&json!("complete"), &json!("private"))
    );
    for (headers, code) in [
        (vec![version, ("mcp-method", "tools/call")], -32020),
        (vec![("mcp-protocol-version", "2031-01-01")], -32022),
    ] {
        let refused = post(&headers, list.clone()).await;
        assert_eq!((refused.status, &refused.json()["error"]["code"]), (400, &json!(code)));
    }
}

#[tokio::test]
async fn what_is_no_request_is_refused() {
    let api = TestApi::start().await;
    let text = api.post_text("/mcp", &[("content-type", "application/json")], "{").await;
    assert_eq!((text.status, &text.json()["error"]["code"]), (400, &json!(-32700)));
    let batch = api.post("/mcp", json!([{"jsonrpc": "2.0", "id": 1, "method": "ping"}])).await;
    assert_eq!((batch.status, &batch.json()["error"]["code"]), (400, &json!(-32600)));
    let unknown = rpc(&api, KEY, "resources/list", json!({})).await.ok();
    assert_eq!(unknown["error"]["code"], -32601);
    api.get("/mcp").await.refused(405, "method_not_allowed");
    let anonymous = request(api.address, "POST", "/mcp", &[("content-type", "application/json")], "{}").await;
    anonymous.refused(401, "unauthorized");
    let wrong = [("authorization", bearer(KEY)), ("content-type", "text/plain".to_owned())];
    let wrong: Vec<(&str, &str)> = wrong.iter().map(|(name, value)| (*name, value.as_str())).collect();
    request(api.address, "POST", "/mcp", &wrong, "{}").await.refused(415, "unsupported_media_type");
}
