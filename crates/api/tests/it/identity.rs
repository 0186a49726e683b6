//! Who calls, and for whom: every route, those of the document and those of other protocols, with the keys of strangers and with
//! names of other users, in each way in which a request names a user or a thread. What is another user's is answered as what
//! does not exist. A route that is in neither list fails here.

use std::collections::BTreeSet;

use houston_domain::id::QuestionId;
use houston_domain::scope::{Scope, Scopes};
use serde_json::{Value, json};

use crate::access::{OF_TENANT, Operation, filled, key_with, operations, path_of_nothing, things};
use crate::http::{Answer, request};
use crate::issuers::{FOREVER_S, KeyServer, Keys, NAME, claims, header, name_user, trust};
use crate::questions::question;
use crate::shared_state::with_list;
use crate::test_api::{KEY, TestApi, bearer, make_tenant};
use crate::worker::Worker;

const SECRET: &str = "Pomegranate";
const OTHER_TENANT: &str = "hou_tenant_0123456789";
const ADAS_KEY: &str = "hou_ada_0123456789abc";
const BOBS_KEY: &str = "hou_bob_0123456789abc";
const ZEROS: &str = "00000000000000000000000000000000";

/// A caller: a key or a token, and the user in the header `Houston-User`.
struct Caller {
    what: &'static str,
    key: String,
    named: Option<String>,
}

/// The user of `api` is Ada; Bob is another one of her tenant.
struct Setting {
    api: TestApi,
    bob: String,
    adas_token: String,
    adas_jwt: String,
    strangers: Vec<Caller>,
    _keys: KeyServer,
}

impl Setting {
    async fn new() -> Self {
        let api = TestApi::start_with_types(with_list).await;
        name_user(&api).await;
        let bob = api.post("/v1/users", json!({"name": "Bob", "external_id": "bob"})).await.ok();
        let bob = bob["id"].as_str().unwrap().to_owned();
        let token = async |user: &str| {
            let body = json!({"user_id": user, "scopes": ["read", "post"]});
            api.post("/v1/client-tokens", body).await.ok()["token"].as_str().unwrap().to_owned()
        };
        let (adas_token, bobs_token) = (token(&api.user).await, token(&bob).await);
        let both: Scopes = [Scope::Read, Scope::Post].into_iter().collect();
        key_with(&api, BOBS_KEY, both, Some(&bob)).await;
        key_with(&api, ADAS_KEY, both, Some(&api.user)).await;
        make_tenant(&api.store, &api.state.ids, "other", OTHER_TENANT).await;
        let keys = Keys::new();
        let server = KeyServer::start(&keys).await;
        trust(&api, api.tenant, NAME, &server.url).await;
        let jwt = |sub: &str| {
            let mut claims = claims(&api, FOREVER_S);
            claims["sub"] = json!(sub);
            keys.token(&header("EdDSA"), &claims)
        };
        let caller = |what, key: &str, named: Option<&str>| Caller {
            what,
            key: key.to_owned(),
            named: named.map(str::to_owned),
        };
        let strangers = vec![
            caller("a client token of another user", &bobs_token, None),
            caller("a JWT of another user", &jwt("bob"), None),
            caller("a key of another user", BOBS_KEY, None),
            caller("a key of another tenant", OTHER_TENANT, None),
            caller("the tenant's key for another user", KEY, Some(&bob)),
            caller("the tenant's key for another external id", KEY, Some("bob")),
            caller("the tenant's key for nobody", KEY, Some("nobody")),
        ];
        let adas_jwt = jwt("ada");
        Self { api, bob, adas_token, adas_jwt, strangers, _keys: server }
    }

    async fn send(&self, caller: &Caller, way: &Way) -> Answer {
        let key = bearer(&caller.key);
        let mut headers = vec![("authorization", key.as_str()), ("content-type", "application/json")];
        headers.extend(caller.named.as_deref().map(|user| ("houston-user", user)));
        let body = if way.body.is_null() { String::new() } else { way.body.to_string() };
        request(self.api.address, way.method, &way.path, &headers, &body).await
    }

    /// Ada herself, in each form of key, with what another user's name would be in a header.
    fn own(&self, named: Option<&str>) -> Vec<Caller> {
        let caller = |what, key: &str| Caller { what, key: key.to_owned(), named: named.map(str::to_owned) };
        vec![
            caller("the own client token", &self.adas_token),
            caller("the own JWT", &self.adas_jwt),
            caller("the own key", ADAS_KEY),
        ]
    }

    /// Names of users who are not Ada: by id, by external id, and one of nobody.
    fn others(&self) -> [&str; 3] {
        [&self.bob, "bob", "nobody"]
    }
}

/// Whether nothing was done or told: also JSON-RPC and MCP, whose errors may be 200.
fn is_refused(answer: &Answer) -> bool {
    let json: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    answer.status >= 400 || json["error"].is_object() || json["result"]["isError"] == true
}

/// What an answer says, without the ids of the request and of what it was about.
fn said(answer: &Answer, ids: &[&str]) -> (u16, Value) {
    let mut text = answer.text().replace(answer.header("x-request-id"), "-");
    for id in ids {
        let digits = id.rsplit('_').next().unwrap();
        text = text.replace(digits, "-");
    }
    // Errors of A2A say when they happened.
    while let Some((before, after)) = text.split_once("\"timestamp\":\"") {
        text = format!(
            "{before}\"at\":\"{}",
            after.split_once('"').map(|(_, rest)| format!("\"{rest}")).unwrap()
        );
    }
    // Their fields have no order.
    (answer.status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// One request.
#[derive(Clone)]
struct Way {
    method: &'static str,
    path: String,
    body: Value,
}

/// Ids that a request may name.
struct Ids {
    thread: String,
    run: String,
    question: String,
}

impl Ids {
    fn nothing() -> Self {
        let id = |kind: &str| format!("{kind}_{ZEROS}");
        Self { thread: id("goal"), run: id("run"), question: id("question") }
    }

    fn all(&self) -> [&str; 3] {
        [&self.thread, &self.run, &self.question]
    }

    fn response(&self) -> String {
        self.run.replace("run_", "resp_")
    }
}

/// Where requests of a protocol name the user.
#[derive(Clone, Copy)]
enum Field {
    /// A JSON Pointer; its last segment is added.
    Body(&'static str),
    Query(&'static str),
}

impl Way {
    fn naming(&self, field: Field, user: &str) -> Self {
        let mut way = self.clone();
        match field {
            Field::Body(pointer) => {
                let (parent, name) = pointer.rsplit_once('/').unwrap();
                if !parent.is_empty() && way.body.pointer(parent).is_none() {
                    way.body[&parent[1..]] = json!({});
                }
                way.body.pointer_mut(parent).unwrap()[name] = json!(user);
            }
            Field::Query(name) => {
                way.path += if way.path.contains('?') { "&" } else { "?" };
                way.path += &format!("{name}={user}");
            }
        }
        way
    }
}

/// A way of a request, whether it names a thread (or what one has), and where it names a user besides.
type Named = (bool, Way, &'static [Field]);

const OPENAI: &[Field] = &[Field::Body("/user"), Field::Body("/safety_identifier")];
const NEW: &[Field] =
    &[Field::Body("/user"), Field::Body("/safety_identifier"), Field::Body("/metadata/user")];
const RPC: &[Field] = &[Field::Body("/params/tenant")];
const SENT: &[Field] = &[Field::Body("/tenant"), Field::Query("tenant")];
const A2A: &[Field] = &[Field::Query("tenant")];

fn at(path: &str, method: &'static str, body: Value) -> Way {
    Way { method, path: path.to_owned(), body }
}

fn named(fields: &'static [Field], way: Way) -> Named {
    (true, way, fields)
}

fn unnamed(fields: &'static [Field], way: Way) -> Named {
    (false, way, fields)
}

/// The object with the fields of another one.
fn with(mut object: Value, more: &Value) -> Value {
    object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    object
}

/// The ways of a protocol's path.
fn ways(path: &str, ids: &Ids) -> Vec<Named> {
    match path.strip_prefix("/compat/openai/v1") {
        Some(rest) => openai_ways(path, rest, ids),
        None => a2a_ways(path, ids),
    }
}

fn unlisted(path: &str) -> ! {
    panic!("{path} is in no list of this test: add the ways in which its requests name users and threads")
}

fn openai_ways(path: &str, rest: &str, ids: &Ids) -> Vec<Named> {
    let Ids { thread, question, .. } = ids;
    let (response, digits) = (ids.response(), question.rsplit('_').next().unwrap());
    match rest {
        "/responses" => {
            let ask = |more: Value| {
                at(path, "POST", with(json!({"model": "goal", "input": "hi", "background": true}), &more))
            };
            let output =
                json!([{"type": "function_call_output", "call_id": format!("call_{digits}"), "output": "x"}]);
            let approval = json!([{"type": "mcp_approval_response", "approval_request_id": format!("mcpr_{digits}"),
                                   "approve": true}]);
            vec![
                named(OPENAI, ask(json!({"conversation": format!("conv_{thread}")}))),
                named(OPENAI, ask(json!({"conversation": thread}))),
                named(OPENAI, ask(json!({"conversation": {"id": format!("conv_{thread}")}}))),
                named(OPENAI, ask(json!({"previous_response_id": response}))),
                named(OPENAI, ask(json!({"input": output}))),
                named(OPENAI, ask(json!({"input": approval}))),
                unnamed(OPENAI, ask(json!({}))),
            ]
        }
        "/chat/completions" => {
            let ask = |metadata: Value, messages: Value| {
                at(path, "POST", json!({"model": "goal", "messages": messages, "metadata": metadata}))
            };
            let hi = json!([{"role": "user", "content": "hi"}]);
            let result = json!([{"role": "tool", "tool_call_id": format!("call_{digits}"), "content": "x"}]);
            vec![
                named(OPENAI, ask(json!({"conversation": format!("conv_{thread}")}), hi.clone())),
                named(OPENAI, ask(json!({"conversation": thread}), hi)),
                named(OPENAI, ask(json!({}), result)),
            ]
        }
        "/conversations" => vec![unnamed(NEW, at(path, "POST", json!({"model": "goal"})))],
        "/responses/{id}" => ["GET", "DELETE"]
            .map(|method| named(&[], at(&path.replace("{id}", &response), method, Value::Null)))
            .to_vec(),
        "/responses/{id}/cancel" => {
            vec![named(&[], at(&path.replace("{id}", &response), "POST", Value::Null))]
        }
        "/responses/{id}/input_items" => {
            vec![named(&[], at(&path.replace("{id}", &response), "GET", Value::Null))]
        }
        "/conversations/{id}" | "/conversations/{id}/items" | "/conversations/{id}/items/{item}" => {
            let item = format!("msg_{digits}");
            let path = path.replace("{id}", &format!("conv_{thread}")).replace("{item}", &item);
            let add = json!({"items": [{"role": "user", "content": "hi"}], "metadata": {"topic": "x"}});
            let change =
                if rest.ends_with("}") && rest.contains("item") { None } else { Some(("POST", add)) };
            let delete = (!rest.ends_with("/items")).then_some(("DELETE", Value::Null));
            let ways = [Some(("GET", Value::Null)), change, delete].into_iter().flatten();
            ways.map(|(method, body)| named(&[], at(&path, method, body))).collect()
        }
        "/models" => vec![unnamed(&[], at(path, "GET", Value::Null))],
        "/models/{*id}" => vec![unnamed(&[], at(&path.replace("{*id}", "goal"), "GET", Value::Null))],
        _ => unlisted(path),
    }
}

fn a2a_ways(path: &str, ids: &Ids) -> Vec<Named> {
    let Ids { thread, run, .. } = ids;
    let message = |more: Value| {
        let message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]});
        json!({"message": with(message, &more), "configuration": {"returnImmediately": true}})
    };
    match path {
        "/a2a/{target}" => {
            let rpc = |method: &str, params: Value| {
                at(
                    "/a2a/goal",
                    "POST",
                    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}),
                )
            };
            let push = json!({"taskId": run, "id": "p", "url": "https://example.com/push"});
            vec![
                named(RPC, rpc("SendMessage", message(json!({"contextId": thread})))),
                named(RPC, rpc("SendMessage", message(json!({"taskId": run})))),
                named(RPC, rpc("SendStreamingMessage", message(json!({"contextId": thread})))),
                named(RPC, rpc("GetTask", json!({"id": run}))),
                named(RPC, rpc("CancelTask", json!({"id": run}))),
                named(RPC, rpc("SubscribeToTask", json!({"id": run}))),
                unnamed(RPC, rpc("ListTasks", json!({}))),
                unnamed(RPC, rpc("GetExtendedAgentCard", json!({}))),
                named(RPC, rpc("CreateTaskPushNotificationConfig", push)),
                named(RPC, rpc("ListTaskPushNotificationConfigs", json!({"taskId": run}))),
                named(RPC, rpc("GetTaskPushNotificationConfig", json!({"taskId": run, "id": "p"}))),
                named(RPC, rpc("DeleteTaskPushNotificationConfig", json!({"taskId": run, "id": "p"}))),
            ]
        }
        "/a2a/{target}/message:send" | "/a2a/{target}/message:stream" => {
            let path = path.replace("{target}", "goal");
            vec![
                named(SENT, at(&path, "POST", message(json!({"contextId": thread})))),
                named(SENT, at(&path, "POST", message(json!({"taskId": run})))),
            ]
        }
        "/a2a/{target}/tasks" => vec![unnamed(A2A, at("/a2a/goal/tasks", "GET", Value::Null))],
        "/a2a/{target}/tasks/{id}" => {
            let task = format!("/a2a/goal/tasks/{run}");
            vec![
                named(A2A, at(&task, "GET", Value::Null)),
                named(A2A, at(&format!("{task}:subscribe"), "GET", Value::Null)),
                named(A2A, at(&format!("{task}:subscribe"), "POST", json!({}))),
                named(A2A, at(&format!("{task}:cancel"), "POST", json!({}))),
            ]
        }
        "/a2a/{target}/tasks/{id}/pushNotificationConfigs" => {
            let path = format!("/a2a/goal/tasks/{run}/pushNotificationConfigs");
            let push = json!({"id": "p", "url": "https://example.com/push", "taskId": run});
            vec![named(A2A, at(&path, "GET", Value::Null)), named(SENT, at(&path, "POST", push))]
        }
        "/a2a/{target}/tasks/{id}/pushNotificationConfigs/{config}" => {
            let path = format!("/a2a/goal/tasks/{run}/pushNotificationConfigs/p");
            ["GET", "DELETE"].map(|method| named(A2A, at(&path, method, Value::Null))).to_vec()
        }
        "/a2a/{target}/extendedAgentCard" => {
            vec![unnamed(A2A, at("/a2a/goal/extendedAgentCard", "GET", Value::Null))]
        }
        // That of a kind needs no key.
        "/a2a/{target}/.well-known/agent-card.json" => {
            vec![unnamed(&[], at("/a2a/no-agent/.well-known/agent-card.json", "GET", Value::Null))]
        }
        _ => unlisted(path),
    }
}

/// The ways of the documented routes whose bodies name what the path does not, and of the tools of the MCP server.
fn documented_ways(ids: &Ids, user: &str) -> Vec<(bool, Way, &'static [Field])> {
    let Ids { thread, run, question } = ids;
    let post = |path: &str, body: Value| Way { method: "POST", path: path.to_owned(), body };
    let input = json!({"threadId": thread, "runId": "r", "state": {}, "tools": [], "context": [],
                       "messages": [{"id": "m", "role": "user", "content": "hi"}]});
    let chat = json!({"id": thread, "trigger": "submit-message",
                      "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": "hi"}]}]});
    let tool = |name: &str, arguments: Value| {
        let params = json!({"name": name, "arguments": arguments});
        (
            true,
            post("/mcp", json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})),
            &[][..],
        )
    };
    let answer = json!({"question_id": question, "answer": {"yes": true}});
    let stream = format!("/compat/ai-sdk/goal/{thread}/stream");
    let heard = json!({"type": "event", "topics": ["task.ended"], "agentable_id": thread});
    let then = |to: &str| json!({"type": "tell", "agentable_id": to, "instructions": "look"});
    let triggers = format!("/v1/users/{user}/triggers");
    vec![
        (true, post("/ag-ui/goal", input), &[]),
        (true, post("/compat/ai-sdk/goal", chat), &[Field::Body("/user")]),
        (true, post(&format!("/compat/ai-sdk/goal/{thread}/cancel"), Value::Null), &[]),
        (true, Way { method: "GET", path: format!("{stream}?after=0"), body: Value::Null }, &[]),
        (true, post(&triggers, json!({"name": "t", "when": heard, "then": then(thread)})), &[]),
        tool("read_thread", json!({"thread_id": thread})),
        tool("post_message", json!({"thread_id": thread, "message": "hi"})),
        tool("wait_for_run", json!({"run_id": run, "seconds": 0})),
        tool("cancel_run", json!({"run_id": run})),
        tool("answer_question", answer),
    ]
}

/// Every way of every route of other protocols.
fn all_ways(ids: &Ids, user: &str) -> Vec<(bool, Way, &'static [Field])> {
    let paths = houston_api::undocumented_paths();
    assert!(paths.len() > 15, "only {paths:?}");
    let of_others = paths.iter().flat_map(|path| ways(path, ids));
    of_others.chain(documented_ways(ids, user)).collect()
}

/// A thread of Ada whose run waits for an answer.
async fn waiting(api: &TestApi) -> Ids {
    let posted = api.post_message(SECRET).await;
    let asked = question(api);
    let question: QuestionId = asked.id;
    Worker::start(api).await.claim().await.ask(asked).await;
    let run = posted["run_id"].as_str().unwrap().to_owned();
    Ids { thread: api.goal.clone(), run, question: question.to_string() }
}

/// What must not change.
fn state(api: &TestApi) -> String {
    api.sql(
        "select (select count(*) from houston.messages), (select count(*) from houston.questions where state <> 'open'),
                (select count(*) from houston.runs where cancel_seq is not null), (select count(*) from houston.erasures),
                (select count(*) from houston.triggers), (select count(*) from houston.webhooks),
                (select count(*) from houston.agentables), (select count(*) from houston.users)",
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn every_dialect_refuses_strangers_the_same_way() {
    let setting = Setting::new().await;
    let api = &setting.api;
    let (ids, nothing) = (waiting(api).await, Ids::nothing());
    let before = state(api);
    for stranger in &setting.strangers {
        let all = all_ways(&ids, &api.user).into_iter().zip(all_ways(&nothing, &setting.bob));
        for ((_, way, _), (_, none, _)) in all.filter(|((named, ..), _)| *named) {
            let answer = setting.send(stranger, &way).await;
            let what = format!("{} {} {} by {}", way.method, way.path, way.body, stranger.what);
            assert!(is_refused(&answer), "{what}: {} {}", answer.status, answer.text());
            assert!(answer.status < 500 && !answer.text().contains(SECRET), "{what}: {}", answer.text());
            if way.path.contains("/v1/users/") {
                continue;
            }
            let of_nothing = setting.send(stranger, &none).await;
            let named = stranger.named.as_deref().unwrap_or("-");
            assert_eq!(
                said(&answer, &[&ids.all()[..], &[named]].concat()),
                said(&of_nothing, &[&nothing.all()[..], &[named]].concat()),
                "{what}: it can be told from what does not exist"
            );
        }
    }
    assert_eq!(state(api), before, "nothing was changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_dialect_acts_for_a_user_who_is_not_the_callers() {
    let setting = Setting::new().await;
    let api = &setting.api;
    let ids = waiting(api).await;
    let before = state(api);
    let mut tried = 0;
    for (names_thread, way, fields) in all_ways(&ids, &api.user) {
        for user in setting.others() {
            // The tenant's key, for another user than the thread's.
            let tenant = Caller { what: "the tenant's key", key: KEY.to_owned(), named: None };
            let mut requests: Vec<(Way, Caller)> = Vec::new();
            for field in fields {
                let way = way.naming(*field, user);
                if names_thread {
                    requests.push((
                        way.clone(),
                        Caller { what: "the tenant's key", key: KEY.to_owned(), named: None },
                    ));
                    let both = Caller { named: Some(api.user.clone()), key: KEY.to_owned(), ..tenant };
                    requests.push((way.clone(), both));
                }
                requests.extend(setting.own(None).into_iter().map(|own| (way.clone(), own)));
            }
            requests.extend(setting.own(Some(user)).into_iter().map(|own| (way.clone(), own)));
            for (way, caller) in requests {
                tried += 1;
                let answer = setting.send(&caller, &way).await;
                let what = format!("{} {} {} by {} for {user}", way.method, way.path, way.body, caller.what);
                assert!(is_refused(&answer), "{what}: {} {}", answer.status, answer.text());
                assert!(answer.status < 500 && !answer.text().contains(SECRET), "{what}: {}", answer.text());
            }
        }
    }
    assert!(tried > 400, "only {tried}");
    assert_eq!(state(api), before, "nothing was changed");
    // The own name is none that is refused.
    for (_, way, fields) in all_ways(&ids, &api.user).into_iter().filter(|(_, way, _)| way.method == "GET") {
        for own in setting.own(None) {
            let usual = setting.send(&own, &way).await;
            let is_stream = |way: &Way| way.path.contains("subscribe") || way.path.contains("/stream");
            if is_stream(&way) || usual.status == 404 {
                continue;
            }
            for name in ["ada", &api.user] {
                let named = Caller { what: own.what, key: own.key.clone(), named: Some(name.to_owned()) };
                let answer = setting.send(&named, &way).await;
                assert_eq!(answer.status, usual.status, "{} as {name}: {}", way.path, answer.text());
                for field in fields {
                    let answer = setting.send(&named, &way.naming(*field, name)).await;
                    assert_eq!(answer.status, usual.status, "{} as {name}: {}", way.path, answer.text());
                }
            }
        }
    }
}

/// The operations of the document that are about something of a user.
fn of_users() -> impl Iterator<Item = Operation> {
    operations().into_iter().filter(|operation| {
        let resource = operation.path.split('/').nth(2).unwrap();
        let of_tenant = OF_TENANT.contains(&resource) || operation.path == "/v1/users";
        !of_tenant && ![Scope::Operate, Scope::ManageAgents, Scope::Admin].contains(&operation.scope)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn documented_routes_tell_nothing_of_other_users() {
    let setting = Setting::new().await;
    let api = &setting.api;
    let things = things(api).await;
    let way = |operation: &Operation, path: String| {
        let method = match operation.method.as_str() {
            "GET" => "GET",
            "POST" => "POST",
            "PUT" => "PUT",
            "PATCH" => "PATCH",
            _ => "DELETE",
        };
        Way { method, path, body: json!({"no_endpoint_has_this": 1}) }
    };
    let mut tried = 0;
    for operation in of_users() {
        let resource = operation.path.split('/').nth(2).unwrap();
        let thing = things.get(resource).filter(|_| operation.path.contains("{id}"));
        let path = thing.map_or_else(|| path_of_nothing(&operation), |id| filled(&operation.path, id));
        if let Some(id) = thing {
            for stranger in &setting.strangers {
                let answer = setting.send(stranger, &way(&operation, path.clone())).await;
                let none = path.replace(id.rsplit('_').next().unwrap(), ZEROS);
                let of_nothing = setting.send(stranger, &way(&operation, none)).await;
                let what = format!("{} {path} by {}", operation.method, stranger.what);
                assert!(
                    [403, 404, 422].contains(&answer.status),
                    "{what}: {} {}",
                    answer.status,
                    answer.text()
                );
                assert_eq!(said(&answer, &[id]), said(&of_nothing, &[ZEROS]), "{what}");
                tried += 1;
            }
        }
        for user in setting.others() {
            for own in setting.own(Some(user)) {
                let answer = setting.send(&own, &way(&operation, path.clone())).await;
                let what = format!("{} {path} by {} for {user}", operation.method, own.what);
                assert!([403, 404].contains(&answer.status), "{what}: {} {}", answer.status, answer.text());
                tried += 1;
            }
        }
    }
    assert!(tried > 500, "only {tried}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_models_read_is_not_for_browsers() {
    let setting = Setting::new().await;
    let api = &setting.api;
    let things = things(api).await;
    let document: Value = serde_json::from_str(crate::access::DOCUMENT).unwrap();
    let mut unshown = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let says =
                operation["description"].as_str().is_some_and(|text| text.contains("Never shown to users"));
            if says {
                unshown.insert((method.to_uppercase(), path.clone()));
            }
        }
    }
    let reads = |path: &str| unshown.contains(&("GET".to_owned(), path.to_owned()));
    for path in [
        "/v1/{kinds}/{id}/history",
        "/v1/{kinds}/{id}/export",
        "/v1/{kinds}/{id}/prompt",
        "/v1/{kinds}/{id}/compressions",
        "/v1/runs/{id}/trace",
        "/v1/runs/{id}/model_calls",
        "/v1/sessions/{id}/history",
    ] {
        assert!(reads(path), "{path} is not marked");
    }
    for (method, path) in unshown {
        let resource = path.split('/').nth(2).unwrap();
        let path = filled(&path, &things[resource]);
        let body = json!({"no_endpoint_has_this": 1});
        for browser in [&setting.adas_token, &setting.adas_jwt] {
            let refused = api.send_as(browser, &method, &path, body.clone()).await;
            refused.refused(403, "forbidden");
        }
        let backend = api.send_as(KEY, &method, &path, body.clone()).await;
        assert!(![401, 403].contains(&backend.status), "{method} {path}: {}", backend.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn idempotency_keys_are_those_of_one_user() {
    let setting = Setting::new().await;
    let api = &setting.api;
    let token = json!({"user_id": setting.bob, "scopes": ["read", "post"]});
    let bobs = api.post("/v1/client-tokens", token).await.ok()["token"].as_str().unwrap().to_owned();
    let post = async |key: &str, user: &str, title: &str| {
        let (key, body) = (bearer(key), json!({"user_id": user, "title": title}).to_string());
        let headers = [
            ("authorization", key.as_str()),
            ("content-type", "application/json"),
            ("idempotency-key", "one"),
        ];
        request(api.address, "POST", "/v1/goals", &headers, &body).await
    };
    let of_ada = post(&setting.adas_token, &api.user, "Tokyo").await.ok();
    let of_bob = post(&bobs, &setting.bob, "Rome").await;
    assert_eq!((of_bob.status, of_bob.header("idempotent-replayed")), (201, ""), "{}", of_bob.text());
    let again = post(&setting.adas_token, &api.user, "Tokyo").await;
    assert_eq!((again.header("idempotent-replayed"), again.json()), ("true", of_ada));
    post(&setting.adas_token, &api.user, "Oslo").await.refused(422, "idempotency_key_reused");
    // A backend that acts for users over another protocol.
    let ask = async |user: &str, input: &str| {
        let body = json!({"model": "goal", "input": input, "background": true, "user": user});
        api.post_with("/compat/openai/v1/responses", &[("idempotency-key", "two")], body).await
    };
    let (first, other) = (ask("ada", "hi").await.ok(), ask("bob", "hello").await.ok());
    assert_ne!(first["id"], other["id"]);
    assert_eq!(ask("ada", "hi").await.ok()["id"], first["id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn triggers_hear_and_tell_their_own_user_alone() {
    let setting = Setting::new().await;
    let api = &setting.api;
    let goal = json!({"user_id": setting.bob, "title": "Rome"});
    let of_bob = api.post("/v1/goals", goal).await.ok()["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/users/{}/triggers", api.user);
    let trigger = |heard: &str, told: &str| {
        let when = json!({"type": "event", "topics": ["task.ended"], "agentable_id": heard});
        json!({"name": "t", "when": when, "then": {"type": "tell", "agentable_id": told, "instructions": "look"}})
    };
    let none = format!("goal_{ZEROS}");
    let said_of = async |heard: &str, told: &str| {
        let answer = api.send_as(&setting.adas_token, "POST", &path, trigger(heard, told)).await;
        said(&answer, &[heard, told])
    };
    for (foreign, nothing) in
        [((&*of_bob, &*api.goal), (&*none, &*api.goal)), ((&api.goal, &of_bob), (&api.goal, &none))]
    {
        let (foreign, nothing) = (said_of(foreign.0, foreign.1).await, said_of(nothing.0, nothing.1).await);
        assert!([404, 422].contains(&foreign.0), "{foreign:?}");
        assert_eq!(foreign, nothing);
    }
    let made = api.post(&path, trigger(&api.goal, &api.goal)).await.ok();
    let one = format!("/v1/triggers/{}", made["id"].as_str().unwrap());
    let when = trigger(&of_bob, &api.goal)["when"].clone();
    api.send("PATCH", &one, json!({"when": when})).await.refused(422, "invalid_request");
}
