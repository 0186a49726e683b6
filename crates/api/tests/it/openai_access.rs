//! What keys may do with OpenAI's endpoints, which are not in Houston's document: every operation with every scope, with the key
//! of another tenant, and with the key of another user.

use houston_domain::id::UserId;
use houston_domain::scope::{Scope, Scopes};
use houston_store::api_key::NewApiKey;
use serde_json::{Value, json};

use crate::openai::{BASE, ask, conversation, get, post, refused};
use crate::test_api::{TestApi, make_tenant};

/// Every operation, with the scope that it needs.
const OPERATIONS: [(&str, &str, Scope); 12] = [
    ("POST", "/responses", Scope::Post),
    ("GET", "/responses/{response}", Scope::Read),
    ("DELETE", "/responses/{response}", Scope::Post),
    ("POST", "/responses/{response}/cancel", Scope::Post),
    ("GET", "/responses/{response}/input_items", Scope::Read),
    ("POST", "/conversations", Scope::Post),
    ("GET", "/conversations/{conversation}", Scope::Read),
    ("DELETE", "/conversations/{conversation}", Scope::Post),
    ("GET", "/conversations/{conversation}/items", Scope::Read),
    ("POST", "/chat/completions", Scope::Post),
    ("GET", "/models", Scope::Read),
    ("GET", "/models/goal", Scope::Read),
];

async fn key_with(api: &TestApi, key: &str, scopes: Scopes, user: Option<&str>) {
    let user = user.map(|user| user.parse::<UserId>().unwrap());
    let id = api.state.ids.next();
    let new = NewApiKey { id, name: "test", key, scopes, user, expires_at: None, issuer: None };
    api.store.operator().create_api_key(api.tenant, &new).await.unwrap();
}

#[tokio::test]
async fn operations_need_their_scope_and_the_own_user() {
    let api = TestApi::start().await;
    let begun = post(&api, "/responses", ask(&api, json!({"background": true}))).await.ok();
    let filled = |path: &str, response: &str, conversation: &str| {
        let path = path.replace("{response}", response).replace("{conversation}", conversation);
        format!("{BASE}{path}")
    };
    let (nothing, zeros) = (format!("resp_{}", "0".repeat(32)), format!("conv_goal_{}", "0".repeat(32)));
    for scope in Scope::ALL {
        let key = format!("hou_{scope}_0123456789");
        key_with(&api, &key, [scope].into_iter().collect(), None).await;
        for (method, path, needed) in OPERATIONS {
            let path = filled(path, &nothing, &zeros);
            let answer = api.send_as(&key, method, &path, json!({"no_endpoint_has_this": 1})).await;
            let what = format!("{method} {path} with {scope}: {} {}", answer.status, answer.text());
            if scope == needed || scope == Scope::Admin {
                assert!(![401, 403].contains(&answer.status) && answer.status < 500, "{what}");
            } else {
                assert_eq!(answer.status, 403, "{what}");
                refused(&answer, 403, "forbidden");
            }
        }
    }
    make_tenant(&api.store, &api.state.ids, "other", "hou_tenant_0123456789").await;
    let bob = api.post("/v1/users", json!({"name": "Bob"})).await.ok()["id"].as_str().unwrap().to_owned();
    let both: Scopes = [Scope::Read, Scope::Post].into_iter().collect();
    key_with(&api, "hou_bob_0123456789abc", both, Some(&bob)).await;
    key_with(&api, "hou_ada_0123456789abc", both, Some(&api.user)).await;
    let (response, own) = (begun["id"].as_str().unwrap(), conversation(&api));
    for (method, path, needed) in OPERATIONS {
        let is_of_one = path.contains('{');
        let path = filled(path, response, &own);
        for key in ["hou_tenant_0123456789", "hou_bob_0123456789abc"] {
            if is_of_one {
                let answer = api.send_as(key, method, &path, Value::Null).await;
                assert_eq!(answer.status, 404, "{method} {path} with {key}: {}", answer.text());
            }
        }
        if needed == Scope::Read {
            let answer = api.send_as("hou_ada_0123456789abc", method, &path, Value::Null).await;
            assert_eq!(answer.status, 200, "{method} {path}: {}", answer.text());
        }
    }
    for named in [json!({"conversation": own}), json!({"previous_response_id": response})] {
        let mut body = json!({"model": "goal", "input": "hello"});
        body.as_object_mut().unwrap().extend(named.as_object().unwrap().clone());
        let answer = api.send_as("hou_bob_0123456789abc", "POST", &format!("{BASE}/responses"), body).await;
        assert!([400, 404].contains(&answer.status), "{named}: {} {}", answer.status, answer.text());
    }
    assert_eq!(get(&api, &format!("/responses/{response}")).await.ok(), begun, "nothing was changed");
}
