//! The knowledge resources over HTTP: the same five operations for each.

use serde_json::{Value, json};

use crate::test_api::{TestApi, make_tenant};

/// A resource: path of its collection, prefix of its items' paths, bodies of a POST and a PATCH, longest content in
/// bytes.
struct Resource {
    list: String,
    items: &'static str,
    new: Value,
    change: Value,
    longest: usize,
}

fn resources(api: &TestApi) -> Vec<Resource> {
    let of_user = |what: &str| format!("/v1/users/{}/{what}", api.user);
    let sentence = |list: String, items| Resource {
        list,
        items,
        new: json!({"content": "likes trains"}),
        change: json!({"content": "likes ships"}),
        longest: 2_000,
    };
    let document = |list: String, items| Resource {
        list,
        items,
        new: json!({"title": "Milk", "content": "likes trains"}),
        change: json!({"content": "likes ships"}),
        longest: 64 * 1024,
    };
    vec![
        document(api.path("/notes"), "/v1/notes/"),
        sentence(api.path("/learnings"), "/v1/learnings/"),
        sentence(of_user("memories"), "/v1/memories/"),
        sentence(of_user("custom-instructions"), "/v1/custom-instructions/"),
        document(of_user("feed"), "/v1/feed-items/"),
    ]
}

#[tokio::test]
async fn every_resource_supports_all_five_operations() {
    let api = TestApi::start().await;
    for resource in resources(&api) {
        let key = [("idempotency-key", resource.list.as_str())];
        let made = api.post_with(&resource.list, &key, resource.new.clone()).await;
        assert_eq!(made.status, 201, "{}: {}", resource.list, made.text());
        let again = api.post_with(&resource.list, &key, resource.new.clone()).await;
        assert_eq!((again.header("idempotent-replayed"), &again.body), ("true", &made.body));
        let first = made.json();
        let path = made.header("location").to_owned();
        assert_eq!(path, format!("{}{}", resource.items, first["id"].as_str().unwrap()));
        assert_eq!(api.get(&path).await.ok(), first);

        let second = api.post(&resource.list, resource.new.clone()).await.ok();
        let page = api.get(&format!("{}?limit=1", resource.list)).await.ok();
        assert_eq!((&page["data"], &page["has_more"]), (&json!([second]), &json!(true)), "newest first");
        let cursor = page["next_cursor"].as_str().unwrap();
        let page = api.get(&format!("{}?cursor={cursor}", resource.list)).await.ok();
        assert_eq!((&page["data"], &page["has_more"]), (&json!([first]), &json!(false)));
        api.get(&format!("{}?cursor=m1", resource.list)).await.refused(422, "invalid_cursor");

        let changed = api.send("PATCH", &path, resource.change.clone()).await.ok();
        assert_eq!(changed["content"], "likes ships");
        assert!(changed["updated_at"].as_str() >= changed["created_at"].as_str());
        assert_eq!(changed["title"], first["title"], "fields that are not given stay unchanged");
        assert_eq!(api.get(&path).await.ok(), changed);

        assert_eq!(api.send("DELETE", &path, json!({})).await.status, 204);
        for (method, body) in [("GET", json!({})), ("PATCH", resource.change.clone()), ("DELETE", json!({}))]
        {
            api.send(method, &path, body).await.refused(404, "not_found");
        }
    }
}

#[tokio::test]
async fn resources_of_another_tenant_are_not_found() {
    let api = TestApi::start().await;
    let stranger = "hou_other_0123456789abcdef";
    make_tenant(&api.store, &api.state.ids, "other", stranger).await;
    for resource in resources(&api) {
        let item = api.post(&resource.list, resource.new.clone()).await.header("location").to_owned();
        for (method, path, body) in [
            ("GET", &resource.list, json!({})),
            ("POST", &resource.list, resource.new.clone()),
            ("GET", &item, json!({})),
            ("PATCH", &item, resource.change.clone()),
            ("DELETE", &item, json!({})),
        ] {
            let answer = api.send_as(stranger, method, path, body).await;
            assert_eq!(answer.status, 404, "{method} {path}: {}", answer.text());
        }
        assert_eq!(api.get(&item).await.status, 200, "the item is unchanged");
    }
    let profile = format!("/v1/users/{}/profile", api.user);
    for method in ["GET", "PATCH", "DELETE"] {
        let answer = api.send_as(stranger, method, &profile, json!({"facts": ["x"]})).await;
        answer.refused(404, "not_found");
    }
    let hex = &api.goal["goal_".len()..];
    let other_kind = format!("/v1/tasks/task_{hex}/notes");
    api.post(&other_kind, json!({"title": "x", "content": "y"})).await.refused(404, "not_found");
    let unknown = "/v1/users/user_00000000000000000000000000000000/memories";
    api.post(unknown, json!({"content": "x"})).await.refused(404, "not_found");
}

#[tokio::test]
async fn invalid_fields_are_refused_with_their_pointer() {
    let api = TestApi::start().await;
    for resource in resources(&api) {
        let item = api.post(&resource.list, resource.new.clone()).await.header("location").to_owned();
        let with = |field: &str, value: Value| {
            let mut body = resource.new.clone();
            body[field] = value;
            body
        };
        let mut cases = vec![
            (with("content", json!(" ")), "/content"),
            (with("content", json!("a\u{0}b")), "/content"),
            (with("content", json!("x".repeat(resource.longest + 1))), "/content"),
            (with("extra", json!(1)), "/extra"),
        ];
        if resource.new["title"].is_string() {
            cases.push((with("title", json!("x".repeat(201))), "/title"));
            cases.push((with("title", json!("a\nb")), "/title"));
        }
        for (body, pointer) in cases {
            for (method, path) in [("POST", &resource.list), ("PATCH", &item)] {
                let problem = api.send(method, path, body.clone()).await.refused(422, "invalid_request");
                assert_eq!(problem["errors"][0]["pointer"], pointer, "{method} {path} {problem}");
            }
        }
        api.send("PATCH", &item, json!({})).await.refused(422, "invalid_request");
        let longest = with("content", json!("x".repeat(resource.longest)));
        assert_eq!(api.post(&resource.list, longest).await.status, 201, "{}", resource.list);
    }
}

#[tokio::test]
async fn full_collection_accepts_items_after_a_deletion() {
    let api = TestApi::start().await;
    let list = format!("/v1/users/{}/custom-instructions", api.user);
    let mut last = String::new();
    for nth in 0..50 {
        let made = api.post(&list, json!({"content": format!("rule {nth}")})).await;
        assert_eq!(made.status, 201);
        last = made.header("location").to_owned();
    }
    let problem = api.post(&list, json!({"content": "one more"})).await.refused(409, "full");
    assert_eq!(problem["limit"], 50);
    assert!(problem["detail"].as_str().unwrap().contains("custom instructions of a user"), "{problem}");
    assert_eq!(api.send("DELETE", &last, json!({})).await.status, 204);
    assert_eq!(api.post(&list, json!({"content": "one more"})).await.status, 201);
}

#[tokio::test]
async fn profile_always_exists_and_changes_list_by_list() {
    let api = TestApi::start().await;
    let path = format!("/v1/users/{}/profile", api.user);
    let empty = api.get(&path).await.ok();
    assert_eq!((&empty["facts"], &empty["updated_at"]), (&json!([]), &json!(null)));
    let facts = json!({"facts": ["lives in Graz"], "communication_style": ["short answers"]});
    api.send("PATCH", &path, facts).await.ok();
    let changed = api.send("PATCH", &path, json!({"aims": ["sail"], "facts": ["lives in Linz"]})).await.ok();
    assert_eq!(changed["facts"], json!(["lives in Linz"]));
    assert_eq!(
        changed["communication_style"],
        json!(["short answers"]),
        "fields that are not given stay unchanged"
    );
    assert_eq!(changed["aims"], json!(["sail"]));
    assert_eq!(api.get(&path).await.ok(), changed);
    let many: Vec<String> = (0..51).map(|nth| nth.to_string()).collect();
    for (body, pointer) in [
        (json!({}), ""),
        (json!({"hobbies": []}), "/hobbies"),
        (json!({"facts": ["a", ""]}), "/facts/1"),
        (json!({"facts": ["a", 1]}), "/facts/1"),
        (json!({"facts": ["x".repeat(501)]}), "/facts/0"),
        (json!({"interests": many}), "/interests"),
    ] {
        let problem = api.send("PATCH", &path, body).await.refused(422, "invalid_request");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
    assert_eq!(api.send("DELETE", &path, json!({})).await.status, 204);
    assert_eq!(api.get(&path).await.ok(), empty);
}

#[tokio::test]
async fn read_at_is_set_by_the_first_read() {
    let api = TestApi::start().await;
    let list = format!("/v1/users/{}/feed", api.user);
    let made = api.post(&list, json!({"title": "News", "content": "It rains."})).await;
    let (item, path) = (made.json(), made.header("location").to_owned());
    assert_eq!((&item["read_at"], &item["run_id"]), (&json!(null), &json!(null)));
    let read = api.send("PATCH", &path, json!({"read": true})).await.ok();
    assert!(read["read_at"].is_string());
    assert_eq!(read["updated_at"], item["updated_at"], "reading does not change updated_at");
    assert_eq!(api.send("PATCH", &path, json!({"read": true})).await.ok(), read, "the first read counts");
    assert_eq!(api.send("PATCH", &path, json!({"read": false})).await.ok()["read_at"], json!(null));
}
