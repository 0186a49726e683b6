//! MCP servers of tenants and users as rows: who sees them, what is kept, and that their headers stay secret.

use serde_json::{Value, json};

use crate::test_api::{TestApi, make_tenant};

const OTHER: &str = "hou_other_0123456789abcdef";
const CRM: &str = "/v1/mcp-servers/crm";
const SECRET: &str = "s3cret-of-acme";
const URL: &str = "https://mcp.acme.com/mcp";

#[tokio::test]
async fn servers_belong_to_one_owner_and_show_no_headers() {
    let api = TestApi::start().await;
    make_tenant(&api.store, &api.state.ids, "other", OTHER).await;
    let with_key = json!({"url": URL, "kinds": ["goal"], "headers": {"X-Key": SECRET}});
    let put = api.send("PUT", CRM, with_key.clone()).await;
    assert!(!put.text().contains(SECRET), "{}", put.text());
    assert_eq!(put.ok()["headers"], json!(["X-Key"]));
    // Without headers those that are stored stay, and an empty object deletes them.
    let changed = api.send("PUT", CRM, json!({"url": URL, "only": ["search"]})).await.ok();
    assert_eq!((&changed["headers"], &changed["only"]), (&json!(["X-Key"]), &json!(["search"])), "{changed}");
    assert_eq!(api.get(CRM).await.ok(), changed);
    assert_eq!(api.get("/v1/mcp-servers").await.ok(), json!({"data": [changed]}));
    let stored = api.sql("select s::text from houston.mcp_servers s");
    assert!(stored.contains("X-Key") && !stored.contains(SECRET), "{stored}");
    let failed = api.get(&format!("{CRM}/tools")).await;
    assert_eq!(
        (failed.status, &failed.json()["code"]),
        (502, &json!("mcp_server_failed")),
        "{}",
        failed.text()
    );
    let of_user = format!("/v1/users/{}/mcp-servers", api.user);
    let taken = api.send("PUT", &format!("{of_user}/crm"), with_key.clone()).await;
    assert!(taken.status == 422 && taken.text().contains("of the tenant"), "{}", taken.text());
    api.send("PUT", &format!("{of_user}/mine"), with_key.clone()).await.ok();
    assert_eq!(api.get(&of_user).await.ok()["data"][0]["name"], "mine");
    assert_eq!(api.get("/v1/mcp-servers/mine").await.status, 404);
    for path in [CRM.to_owned(), format!("{of_user}/mine"), format!("{CRM}/tools"), of_user.clone()] {
        assert_eq!(api.send_as(OTHER, "GET", &path, Value::Null).await.status, 404, "{path}");
    }
    assert_eq!(api.send_as(OTHER, "PUT", &format!("{of_user}/mine"), with_key).await.status, 404);
    assert_eq!(api.send_as(OTHER, "GET", "/v1/mcp-servers", Value::Null).await.ok(), json!({"data": []}));
    assert_eq!(api.send("PUT", CRM, json!({"url": URL, "headers": {}})).await.ok()["headers"], json!([]));
    for path in [CRM.to_owned(), format!("{of_user}/mine")] {
        assert_eq!(api.send_as(OTHER, "DELETE", &path, Value::Null).await.status, 404, "{path}");
        assert_eq!(api.send("DELETE", &path, Value::Null).await.status, 204, "{path}");
        assert_eq!(api.get(&path).await.status, 404, "{path}");
    }
    let sources = "select (select count(tool_sources) from houston.tenants) + (select count(tool_sources) from houston.users)";
    assert_eq!(api.sql(sources), "0", "a run reads nothing of them");
}

#[tokio::test]
async fn no_owner_has_more_than_twenty_servers() {
    let api = TestApi::start().await;
    for nth in 0..20 {
        api.send("PUT", &format!("/v1/mcp-servers/s{nth}"), json!({"url": URL})).await.ok();
    }
    let full = api.send("PUT", CRM, json!({"url": URL})).await;
    assert_eq!((full.status, &full.json()["code"]), (409, &json!("full")), "{}", full.text());
    api.send("PUT", "/v1/mcp-servers/s3", json!({"url": URL, "timeout_s": 5})).await.ok();
    let path = format!("/v1/users/{}/mcp-servers/mine", api.user);
    api.send("PUT", &path, json!({"url": URL})).await.ok();
}
