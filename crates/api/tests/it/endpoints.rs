//! Endpoints of a tenant's own over HTTP: written, read without their secrets, deleted.

use houston_api::{State, serve};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

use crate::http::request;
use crate::test_api::{KEY, TestApi, bearer, make_tenant};

const OTHER: &str = "hou_other_0123456789abcdef";
const CRM: &str = "/v1/endpoints/crm";
const SECRET: &str = "s3cret-of-acme";

fn toml(name: &str) -> String {
    format!(
        "base = \"https://crm.example.com\"\nauth = {{ secret = \"crm\" }}\n[[endpoint]]\nname = \"{name}\"\n\
         description = \"Orders.\"\nmethod = \"GET\"\npath = \"/orders\"\n"
    )
}

#[tokio::test]
async fn endpoints_are_written_and_read_without_their_secrets() {
    let api = TestApi::start().await;
    make_tenant(&api.store, &api.state.ids, "other", OTHER).await;
    let put = api.send("PUT", CRM, json!({"document": toml("list_orders"), "kinds": ["goal"]})).await.ok();
    assert_eq!((&put["tools"], &put["missing_secrets"]), (&json!(["list_orders"]), &json!(["crm"])), "{put}");
    let body = json!({"document": toml("list_orders"), "kinds": ["goal"], "secrets": {"crm": SECRET}});
    let with = api.send("PUT", CRM, body).await;
    assert!(!with.text().contains(SECRET), "{}", with.text());
    let with = with.ok();
    assert_eq!((&with["secrets"], &with["missing_secrets"]), (&json!(["crm"]), &json!([])), "{with}");
    // Without secrets, those that are stored stay.
    let changed = api.send("PUT", CRM, json!({"document": toml("all_orders")})).await.ok();
    assert_eq!(
        (&changed["secrets"], &changed["tools"]),
        (&json!(["crm"]), &json!(["all_orders"])),
        "{changed}"
    );
    assert_eq!(api.get(CRM).await.ok(), changed);
    assert_eq!(api.get("/v1/endpoints").await.ok(), json!({"data": [changed]}));
    let stored =
        api.servers.sql("select s::text || t::text from houston.tool_sources s, houston.tenants t").unwrap();
    assert!(stored.contains("all_orders") && !stored.contains(SECRET), "{stored}");
    // An agent may list its tools; those of another tenant may not.
    let agent = json!({"name": "seller", "kind": "goal", "tools": ["send_message", "all_orders"]});
    assert_eq!(api.post("/v1/agents", agent.clone()).await.ok()["tools"], agent["tools"]);
    let refused = api.send_as(OTHER, "POST", "/v1/agents", agent).await;
    assert!(refused.text().contains("no tool `all_orders`"), "{}", refused.text());
    assert_eq!(api.send_as(OTHER, "GET", "/v1/endpoints", Value::Null).await.ok(), json!({"data": []}));
    for method in ["GET", "DELETE"] {
        assert_eq!(api.send_as(OTHER, method, CRM, Value::Null).await.status, 404, "{method}");
    }
    assert_eq!(api.send("DELETE", CRM, Value::Null).await.status, 204);
    assert_eq!(api.get(CRM).await.status, 404);
    let summary = api.servers.sql("select count(*) from houston.tenants where tool_sources is not null");
    assert_eq!(summary.unwrap(), "0");
}

#[tokio::test]
async fn endpoints_that_cannot_work_are_refused_with_the_reason() {
    let api = TestApi::start().await;
    api.send("PUT", "/v1/endpoints/erp", json!({"document": toml("erp_orders")})).await.ok();
    let private = toml("x").replace("https://crm.example.com", "http://10.0.0.7");
    let many: serde_json::Map<String, Value> = (0..21).map(|nth| (nth.to_string(), json!("x"))).collect();
    for (body, words) in [
        (json!({"document": 7}), "/document"),
        (json!({"document": toml("x").replace("GET", "FETCH")}), "crm:6"),
        (json!({"document": "base = \"https://x.example.com\""}), "no endpoint"),
        (json!({"document": private}), "10.0.0.7"),
        (json!({"document": toml("create_note")}), "a tool of this installation"),
        (json!({"document": toml("erp_orders")}), "endpoints/erp"),
        (json!({"document": toml("x"), "kinds": ["gaol"]}), "/kinds/0"),
        (json!({"document": toml("x"), "secrets": {"crm": ""}}), "/secrets"),
        (json!({"document": toml("x"), "secrets": many}), "at most 20"),
        (json!({"document": "x".repeat(300_000)}), "/document"),
        (json!({"document": toml("x"), "moods": []}), "moods"),
    ] {
        let refused = api.send("PUT", CRM, body.clone()).await;
        assert_eq!(refused.status, 422, "{words}: {}", refused.text());
        assert!(refused.text().contains(words), "{words}: {}", refused.text());
    }
    assert_eq!(api.send("PUT", "/v1/endpoints/CRM", json!({"document": toml("x")})).await.status, 422);
    assert_eq!(api.get(CRM).await.status, 404, "nothing was stored");
}

#[tokio::test]
async fn secrets_are_refused_without_a_key() {
    let api = TestApi::start().await;
    let state = State { secret_keys: None, ..api.state.clone() };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    TaskTracker::new().spawn(serve(listener, state, api.stop.clone()));
    let body = json!({"document": toml("list_orders"), "secrets": {"crm": SECRET}}).to_string();
    let headers = [("authorization", &*bearer(KEY)), ("content-type", "application/json")];
    let refused = request(address, "PUT", CRM, &headers, &body).await;
    assert_eq!(refused.status, 422);
    assert!(refused.text().contains("HOUSTON_SECRETS_KEY") && !refused.text().contains(SECRET));
}
