//! Skills over HTTP: of the tenant and of users.

use serde_json::{Value, json};

use crate::test_api::{TestApi, make_tenant};

const OTHER: &str = "hou_other_0123456789abcdef";
const TEA: &str = "---\nname: tea\ndescription: Makes tea. Hot.\nlicense: MIT\ntriggers: {keywords: [tea]}\n---\nBoil water.";

#[tokio::test]
async fn skills_of_tenants_and_users_are_kept_apart() {
    let api = TestApi::start().await;
    make_tenant(&api.store, &api.state.ids, "other", OTHER).await;
    let user = api.get(&api.path("")).await.ok()["user_id"].clone();
    for path in ["/v1/skills".to_owned(), format!("/v1/users/{}/skills", user.as_str().unwrap())] {
        assert_eq!(api.get(&path).await.ok()["data"], json!([]), "{path}");
        let one = format!("{path}/tea");
        assert_eq!(api.get(&one).await.status, 404, "{path}");
        let body = json!({"text": TEA, "files": {"references/leaves.md": "green"}});
        let put = api.send("PUT", &one, body).await.ok();
        assert_eq!((&put["brief"], &put["license"]), (&json!("Makes tea."), &json!("MIT")), "{put}");
        assert_eq!((&put["enabled"], &put["warnings"]), (&json!(true), &json!([])), "{put}");
        assert_eq!(api.get(&one).await.ok(), put, "{path}");
        let listed = api.get(&path).await.ok();
        assert_eq!(
            (&listed["data"][0]["name"], &listed["data"][0]["files"]),
            (&json!("tea"), &json!(1)),
            "{listed}"
        );
        // What replaces it has its files only.
        let put = api.send("PUT", &one, json!({"text": TEA, "enabled": false})).await.ok();
        assert_eq!((&put["enabled"], &put["files"]), (&json!(false), &json!({})), "{put}");
        for (method, body) in [("GET", Value::Null), ("DELETE", Value::Null)] {
            assert_eq!(api.send_as(OTHER, method, &one, body).await.status, 404, "{method} {path}");
        }
        if path != "/v1/skills" {
            assert_eq!(api.send_as(OTHER, "PUT", &one, json!({"text": TEA})).await.status, 404, "{path}");
        }
        assert_eq!(api.send("DELETE", &one, Value::Null).await.status, 204, "{path}");
        assert_eq!(api.send("DELETE", &one, Value::Null).await.status, 404, "{path}");
    }
    assert_eq!(api.send_as(OTHER, "GET", "/v1/skills", Value::Null).await.ok()["data"], json!([]));
    // An id that is not UTF-8 is nobody's; it does not name the tenant.
    assert_eq!(api.get("/v1/users/%FF/skills").await.status, 404);
    assert_eq!(api.get("/v1/users/%FF/mcp-servers").await.status, 404);
}

#[tokio::test]
async fn what_is_no_skill_is_refused_with_the_place() {
    let api = TestApi::start().await;
    for (name, body, words) in [
        ("Tea", json!({"text": TEA}), "lower-case"),
        ("tea", json!({"text": "Boil."}), "/text"),
        ("tea", json!({"text": "---\nname: tea\n---\n"}), "no description"),
        ("tea", json!({"text": TEA, "files": {"../x": ""}}), "/files"),
        ("tea", json!({"text": TEA, "files": {"scripts/x.js": "\u{0}"}}), "U+0000"),
        ("tea", json!({"text": TEA, "file": {}}), "file"),
    ] {
        let refused = api.send("PUT", &format!("/v1/skills/{name}"), body).await;
        assert!(refused.status == 422 && refused.text().contains(words), "{words}: {}", refused.text());
    }
    assert_eq!(api.get("/v1/skills").await.ok()["data"], json!([]));
}
