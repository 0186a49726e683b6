//! The code that agents keep for a user, over HTTP: people read and delete it.

use serde_json::json;

use crate::test_api::{TestApi, make_tenant};

fn write(api: &TestApi, name: &str, is_tool: bool) {
    let (schema, pin) = if is_tool { ("'{\"type\": \"object\"}'", "'p'") } else { ("null", "null") };
    api.sql(&format!(
        "insert into houston.snippets (user_id, name, tenant_id, language, description, code, untrusted, input_schema, pin,
                                       created_at, updated_at)
         select id, '{name}', tenant_id, 'javascript', 'What it does.', 'return 1', false, {schema}, {pin}, now(), now()
           from houston.users"
    ));
}

#[tokio::test]
async fn snippets_are_listed_by_name_read_and_deleted() {
    let api = TestApi::start().await;
    let snippets = format!("/v1/users/{}/snippets", api.user);
    assert_eq!(api.get(&snippets).await.ok()["data"], json!([]));
    write(&api, "b", true);
    write(&api, "a", false);
    let page = api.get(&format!("{snippets}?limit=1")).await.ok();
    assert_eq!((&page["data"][0]["name"], &page["data"][0]["tool"]), (&json!("a"), &json!(null)));
    let cursor = page["next_cursor"].as_str().unwrap();
    let next = api.get(&format!("{snippets}?cursor={cursor}")).await.ok();
    assert_eq!((&next["data"][0]["tool"], &next["has_more"]), (&json!("snippet__b"), &json!(false)));
    api.get(&format!("{snippets}?cursor=m1")).await.refused(422, "invalid_cursor");
    let found = api.get(&format!("{snippets}/b")).await.ok();
    assert_eq!((&found["code"], &found["input_schema"]), (&json!("return 1"), &json!({"type": "object"})));
    assert_eq!(api.send("DELETE", &format!("{snippets}/b"), json!({})).await.status, 204);
    for missing in ["b", "B", "no-name"] {
        api.get(&format!("{snippets}/{missing}")).await.refused(404, "not_found");
        api.send("DELETE", &format!("{snippets}/{missing}"), json!({})).await.refused(404, "not_found");
    }
}

#[tokio::test]
async fn snippets_of_another_tenant_are_not_found() {
    let api = TestApi::start().await;
    let stranger = "hou_other_0123456789abcdef";
    make_tenant(&api.store, &api.state.ids, "other", stranger).await;
    write(&api, "a", false);
    let snippets = format!("/v1/users/{}/snippets", api.user);
    for (method, path) in
        [("GET", snippets.clone()), ("GET", format!("{snippets}/a")), ("DELETE", format!("{snippets}/a"))]
    {
        let answer = api.send_as(stranger, method, &path, json!({})).await;
        assert_eq!(answer.status, 404, "{method} {path}: {}", answer.text());
    }
    assert_eq!(api.get(&format!("{snippets}/a")).await.status, 200);
}
