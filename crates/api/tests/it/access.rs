//! What keys may do: every route of the OpenAPI document with every scope, with the key of another tenant, and with the key of
//! another user. A new route is in the document, so it cannot be forgotten here.

use std::collections::BTreeMap;

use houston_domain::id::{ApiKeyId, UserId};
use houston_domain::scope::{Scope, Scopes};
use houston_store::api_key::NewApiKey;
use serde_json::{Value, json};

use crate::http::Answer;
use crate::operators::question;
use crate::plans;
use crate::run_list::failed;
use crate::shared_state::with_list;
use crate::test_api::{TestApi, make_tenant};
use crate::worker::Worker;

pub(crate) const DOCUMENT: &str = include_str!("../../openapi.json");

/// An operation that needs a key.
pub(crate) struct Operation {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) scope: Scope,
    pub(crate) is_stream: bool,
}

pub(crate) fn operations() -> Vec<Operation> {
    let document: Value = serde_json::from_str(DOCUMENT).unwrap();
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let scopes = operation["security"][0]["api_key"].as_array();
            let Some(scopes) = scopes else {
                assert_eq!(
                    operation["security"],
                    json!([{}]),
                    "{method} {path} has neither a scope nor none"
                );
                continue;
            };
            assert_eq!(scopes.len(), 1, "{method} {path}");
            let scope = scopes[0].as_str().unwrap().parse().unwrap();
            let is_stream = operation["responses"]["200"]["content"]["text/event-stream"].is_object();
            all.push(Operation { method: method.to_uppercase(), path: path.clone(), scope, is_stream });
        }
    }
    assert!(all.len() > 120, "only {} operations", all.len());
    all
}

pub(crate) async fn key_with(api: &TestApi, key: &str, scopes: Scopes, user: Option<&str>) -> ApiKeyId {
    let user = user.map(|user| user.parse::<UserId>().unwrap());
    let id = api.state.ids.next();
    let new = NewApiKey { id, name: "test", key, scopes, user, expires_at: None, issuer: None };
    api.store.operator().create_api_key(api.tenant, &new).await.unwrap();
    id
}

/// Sends an operation with a body that no endpoint accepts, so that an allowed one changes nothing.
async fn send(api: &TestApi, key: &str, operation: &Operation, path: &str) -> Answer {
    api.send_as(key, &operation.method, path, json!({"no_endpoint_has_this": 1})).await
}

/// The path with ids that nothing has.
pub(crate) fn path_of_nothing(operation: &Operation) -> String {
    let prefix = operation.path.split('/').nth(2).unwrap();
    let prefix = if prefix == "{kinds}" { "goal" } else { prefix.trim_end_matches('s') };
    let id = format!("{}_{}", prefix.replace('-', "_"), "0".repeat(32));
    filled(&operation.path, &id)
}

pub(crate) fn filled(path: &str, id: &str) -> String {
    path.replace("{kinds}", "goals")
        .replace("{id}", id)
        .replace("{target}", "goal")
        .replace("{entity}", "goal")
        .replace("{chat_id}", "nothing")
        .replace("{name}", "nothing")
        .replace("{path}", "nothing.md")
        .replace("{result_id}", "nothing")
        .replace("{delivery_id}", "nothing")
        .replace("{lane}", "interactive")
}

#[tokio::test]
async fn each_operation_needs_its_scope() {
    let api = TestApi::start().await;
    for scope in Scope::ALL {
        let key = format!("hou_{scope}_0123456789");
        // What belongs to the installation needs this besides, see `operators.rs`.
        key_with(&api, &key, [scope, Scope::Installation].into_iter().collect(), None).await;
    }
    for operation in operations() {
        // A stream from a position that exists would not end.
        let position = if operation.is_stream { "?after=nothing" } else { "" };
        let path = path_of_nothing(&operation) + position;
        for scope in Scope::ALL {
            let answer = send(&api, &format!("hou_{scope}_0123456789"), &operation, &path).await;
            let what =
                format!("{} {path} with {scope}: {} {}", operation.method, answer.status, answer.text());
            if scope == operation.scope || scope == Scope::Admin {
                assert!(![401, 403].contains(&answer.status) && answer.status < 500, "{what}");
            } else {
                assert_eq!(answer.status, 403, "{what}");
                let problem = answer.refused(403, "forbidden");
                assert!(problem["detail"].as_str().unwrap().contains(operation.scope.as_str()), "{what}");
                let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{}\"", operation.scope);
                assert_eq!(answer.header("www-authenticate"), challenge);
            }
        }
    }
}

fn trigger(api: &TestApi) -> Value {
    let then = json!({"type": "tell", "agentable_id": api.goal, "instructions": "look"});
    json!({"name": "t", "when": {"type": "event", "topics": ["task.ended"]}, "then": then})
}

/// One thing of each kind that paths name, of the user of `api`, by the beginning of the path.
pub(crate) async fn things(api: &TestApi) -> BTreeMap<&'static str, String> {
    let made =
        async |path: String, body: Value| api.post(&path, body).await.ok()["id"].as_str().unwrap().to_owned();
    let user = |rest: &str| format!("/v1/users/{}/{rest}", api.user);
    let posted = api.post_message("hello").await;
    let id = |field: &str| posted[field].as_str().unwrap().to_owned();
    let table = made(user("tables"), json!({"name": "t", "fields": [{"name": "a", "type": "text"}]})).await;
    let records =
        api.post(&format!("/v1/tables/{table}/records"), json!({"records": [{"a": "x"}]})).await.ok();
    let record = records["data"][0]["id"].as_str().unwrap().to_owned();
    let check_in = made(api.path("/check-ins"), json!({"in_minutes": 60, "reason": "look"})).await;
    let agentable = api.agentable().0;
    let by_sql = api.sql(&format!(
        "insert into houston.sessions (id, tenant_id, agentable_id, number, first_position, last_position, started_at,
                                       completed_at, completion_reason, summary)
         select gen_random_uuid(), a.tenant_id, a.id, 1, 0, 0, now(), now(), 'reset', 's'
           from houston.agentables a where a.id = '{agentable}';
         insert into houston.questions (id, tenant_id, user_id, agentable_id, run_id, kind, text)
         select gen_random_uuid(), a.tenant_id, a.user_id, a.id, gen_random_uuid(), 'input', 'Which?'
           from houston.agentables a where a.id = '{agentable}';
         insert into houston.grants (id, tenant_id, user_id, tool)
         select gen_random_uuid(), a.tenant_id, a.user_id, 'fetch_page' from houston.agentables a where a.id = '{agentable}';
         insert into houston.images (id, tenant_id, user_id, media_type, width, height, bytes, data)
         select gen_random_uuid(), a.tenant_id, a.user_id, 'image/png', 1, 1, 1, 'x' from houston.agentables a
          where a.id = '{agentable}';
         insert into houston.attachments (id, tenant_id, user_id, name, media_type, bytes)
         select gen_random_uuid(), a.tenant_id, a.user_id, 'a.txt', 'text/plain', 1 from houston.agentables a
          where a.id = '{agentable}';
         insert into houston.attachment_parts (attachment_id, nth, tenant_id, user_id, data)
         select f.id, 0, f.tenant_id, f.user_id, 'x' from houston.attachments f;
         select 'ids', replace((select id from houston.sessions)::text, '-', ''),
                replace((select id from houston.questions)::text, '-', ''),
                replace((select id from houston.grants)::text, '-', ''),
                replace((select id from houston.images)::text, '-', ''),
                replace((select id from houston.attachments)::text, '-', '')"
    ));
    let ids: Vec<&str> = by_sql.lines().find(|line| line.starts_with("ids")).unwrap().split('|').collect();
    BTreeMap::from([
        ("{kinds}", api.goal.clone()),
        ("users", api.user.clone()),
        ("messages", id("id")),
        ("runs", id("run_id")),
        ("notes", made(api.path("/notes"), json!({"title": "n", "content": "c"})).await),
        ("learnings", made(api.path("/learnings"), json!({"content": "c"})).await),
        ("custom-instructions", made(user("custom-instructions"), json!({"content": "c"})).await),
        ("memories", made(user("memories"), json!({"content": "c"})).await),
        ("feed-items", made(user("feed"), json!({"title": "f", "content": "c"})).await),
        ("todos", made(user("todos"), json!({"title": "t"})).await),
        ("triggers", made(user("triggers"), trigger(api)).await),
        ("tables", table),
        ("records", record),
        ("check-ins", check_in),
        ("sessions", format!("session_{}", ids[1])),
        ("questions", format!("question_{}", ids[2])),
        ("plans", plans::make(api).await),
        ("grants", format!("grant_{}", ids[3])),
        ("images", format!("image_{}", ids[4])),
        ("attachments", format!("att_{}", ids[5])),
    ])
}

/// Whether the operation reads one thing, which it then must find with the key of the user whose it is.
async fn reads_own(api: &TestApi, operation: &Operation, path: &str) -> bool {
    // A stream would stay open.
    if operation.method != "GET" || operation.path.ends_with("/events") {
        return false;
    }
    let answer = send(api, "hou_ada_0123456789abc", operation, path).await;
    let parts = ["{name}", "{path}", "{result_id}", "/aggregate"];
    let needs_more = parts.iter().any(|part| operation.path.contains(part));
    let is_found = (200..300).contains(&answer.status) || needs_more && answer.status != 403;
    assert!(is_found, "the own user: {path}: {} {}", answer.status, answer.text());
    true
}

/// What no user owns: keys of one user reach none of it.
pub(crate) const OF_TENANT: [&str; 20] = [
    "agents",
    "kinds",
    "teams",
    "skills",
    "endpoints",
    "mcp-servers",
    "guards",
    "erasures",
    "health",
    "keys",
    "client-tokens",
    "models",
    "webhooks",
    "inbound-hooks",
    "audit",
    "errors",
    "overview",
    "queues",
    "usage",
    "workers",
];

#[tokio::test]
async fn nothing_of_another_tenant_or_user_is_reached() {
    let api = TestApi::start_with_types(with_list).await;
    let things = things(&api).await;
    let read_and_post: Scopes = [Scope::Read, Scope::Post].into_iter().collect();
    make_tenant(&api.store, &api.state.ids, "other", "hou_tenant_0123456789").await;
    let bob = api.post("/v1/users", json!({"name": "Bob"})).await.ok()["id"].as_str().unwrap().to_owned();
    key_with(&api, "hou_bob_0123456789abc", read_and_post, Some(&bob)).await;
    key_with(&api, "hou_ada_0123456789abc", read_and_post, Some(&api.user)).await;
    let mut reached = 0;
    for operation in operations() {
        let resource = operation.path.split('/').nth(2).unwrap();
        let names_one = operation.path.contains("{id}");
        let thing = things.get(resource);
        let is_covered = thing.is_some() || OF_TENANT.contains(&resource) || !names_one;
        assert!(
            is_covered,
            "{}: add a thing of this kind to `things`, or the kind to `OF_TENANT`",
            operation.path
        );
        let path = thing.map_or_else(|| path_of_nothing(&operation), |id| filled(&operation.path, id));
        let of_tenant = OF_TENANT.contains(&resource) || operation.path == "/v1/users";
        let what = format!("{} {path}", operation.method);
        if names_one && thing.is_some() {
            let answer = send(&api, "hou_tenant_0123456789", &operation, &path).await;
            assert!(
                [404, 422].contains(&answer.status),
                "another tenant: {what}: {} {}",
                answer.status,
                answer.text()
            );
            let answer = send(&api, "hou_bob_0123456789abc", &operation, &path).await;
            assert!(
                [403, 404].contains(&answer.status),
                "another user: {what}: {} {}",
                answer.status,
                answer.text()
            );
        } else if of_tenant && resource != "client-tokens" {
            let answer = send(&api, "hou_bob_0123456789abc", &operation, &path).await;
            assert_eq!(answer.status, 403, "a key of one user: {what}: {}", answer.text());
        }
        if operation.scope == Scope::Read && !of_tenant && reads_own(&api, &operation, &path).await {
            reached += 1;
        }
    }
    assert!(reached > 30, "only {reached} operations were tried with the key of the user itself");
    assert_eq!(
        api.get(&api.path("/messages")).await.json()["data"][0]["content"],
        "hello",
        "nothing was changed"
    );
}

#[tokio::test]
async fn operators_without_read_see_no_contents() {
    const OPERATES: &str = "hou_operates_0123456789";
    const READS: &str = "hou_reads_0123456789";
    let api = TestApi::start().await;
    let operates = [Scope::Operate, Scope::Installation];
    key_with(&api, OPERATES, operates.into_iter().collect(), None).await;
    key_with(&api, READS, operates.into_iter().chain([Scope::Read]).collect(), None).await;
    let (goal, run) = failed(&api, "Pomegranate", ("AUTH", "no Pomegranate")).await;
    api.post_message("hello").await;
    Worker::start(&api).await.claim().await.ask(question(&api)).await;
    let mut seen = 0;
    for operation in operations().iter().filter(|of| of.method == "GET" && of.scope == Scope::Operate) {
        // Definitions of tools; those of this test are made up, and name the title.
        if operation.path == "/v1/{kinds}/{id}/tools" {
            continue;
        }
        for id in [&goal, &run, &api.goal] {
            let path = filled(&operation.path, id);
            let says = async |key: &str| {
                let text = api.send_as(key, "GET", &path, json!(null)).await.text();
                text.contains("Pomegranate") || text.contains("Which one?")
            };
            assert!(!says(OPERATES).await, "{path}");
            seen += usize::from(says(READS).await);
        }
    }
    assert!(seen >= 6, "only {seen} answers had contents for those who may read them");
    for (key, name) in [(OPERATES, ""), (READS, "Ada")] {
        let usage = api.send_as(key, "GET", "/v1/usage", json!(null)).await.ok();
        assert_eq!(
            (&usage["users"][0]["user_id"], &usage["users"][0]["name"]),
            (&json!(api.user), &json!(name))
        );
    }
    let webhook = json!({"url": "https://example.com/hook", "topics": ["*"]});
    api.send_as(OPERATES, "POST", "/v1/webhooks", webhook).await.refused(403, "forbidden");
}

#[tokio::test]
async fn lists_and_bodies_name_no_other_user() {
    let api = TestApi::start().await;
    let bob = api.post("/v1/users", json!({"name": "Bob"})).await.ok()["id"].as_str().unwrap().to_owned();
    let read_and_post: Scopes = [Scope::Read, Scope::Post].into_iter().collect();
    const BOB: &str = "hou_bob_0123456789abc";
    key_with(&api, BOB, read_and_post, Some(&bob)).await;
    let own = api.send_as(BOB, "POST", "/v1/goals", json!({"user_id": bob, "title": "Mine"})).await.ok();
    let listed = api.send_as(BOB, "GET", "/v1/goals", json!(null)).await.ok();
    assert_eq!(listed["data"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed["data"][0]["id"], own["id"]);
    for path in [format!("/v1/goals?user_id={}", api.user), format!("/v1/questions?user_id={}", api.user)] {
        api.send_as(BOB, "GET", &path, json!(null)).await.refused(404, "not_found");
    }
    let of_ada = json!({"user_id": api.user, "title": "Theirs"});
    api.send_as(BOB, "POST", "/v1/goals", of_ada).await.refused(404, "not_found");
    let new = json!({"user": {"name": "Eve"}, "title": "Theirs"});
    api.send_as(BOB, "POST", "/v1/goals", new).await.refused(403, "forbidden");
    let exported = api.get(&format!("/v1/goals/{}/export", own["id"].as_str().unwrap())).await.ok();
    let import = json!({"user_id": api.user, "conversation": exported});
    api.send_as(BOB, "POST", "/v1/goals/import", import).await.refused(404, "not_found");
    let renamed = json!({"external_id": "ada@example.com"});
    api.send_as(BOB, "PATCH", &format!("/v1/users/{bob}"), renamed).await.refused(403, "forbidden");
    api.send_as(BOB, "PATCH", &format!("/v1/users/{bob}"), json!({"name": "Bobby"})).await.ok();
}

#[tokio::test]
async fn mistyped_keys_are_refused_without_a_query() {
    let api = TestApi::start_with_own_postgres(|config| config.key_cache_s = 0).await;
    let key = houston_domain::api_key::SecretKind::Key.secret([7; 32]);
    let mut mistyped = key.clone().into_bytes();
    mistyped[20] = if mistyped[20] == b'0' { b'1' } else { b'0' };
    let mistyped = String::from_utf8(mistyped).unwrap();
    api.servers.kill_postgres().unwrap();
    // Until the last connection is closed, Postgres may still say that the key is unknown.
    while api.send_as(&key, "GET", &api.path(""), json!(null)).await.status != 503 {}
    api.send_as(&mistyped, "GET", &api.path(""), json!(null)).await.refused(401, "unauthorized");
}
