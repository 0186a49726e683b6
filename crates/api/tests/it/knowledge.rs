//! What agents know, over HTTP: the same five verbs for each sort of it.

use serde_json::{Value, json};

use crate::app::{App, make_tenant};

/// One sort: where it is listed, where its items are, a body that makes one, a change, what is changed by it.
struct Noun {
    list: String,
    items: &'static str,
    new: Value,
    change: Value,
    longest: usize,
}

fn nouns(app: &App) -> Vec<Noun> {
    let of_user = |what: &str| format!("/v1/users/{}/{what}", app.user);
    let sentence = |list: String, items| Noun {
        list,
        items,
        new: json!({"content": "likes trains"}),
        change: json!({"content": "likes ships"}),
        longest: 2_000,
    };
    let document = |list: String, items| Noun {
        list,
        items,
        new: json!({"title": "Milk", "content": "likes trains"}),
        change: json!({"content": "likes ships"}),
        longest: 64 * 1024,
    };
    vec![
        document(app.path("/notes"), "/v1/notes/"),
        sentence(app.path("/learnings"), "/v1/learnings/"),
        sentence(of_user("memories"), "/v1/memories/"),
        sentence(of_user("custom-instructions"), "/v1/custom-instructions/"),
        document(of_user("feed"), "/v1/feed-items/"),
    ]
}

#[tokio::test]
async fn every_sort_is_made_once_listed_by_pages_read_changed_and_deleted() {
    let app = App::start().await;
    for noun in nouns(&app) {
        let key = [("idempotency-key", noun.list.as_str())];
        let made = app.post_with(&noun.list, &key, noun.new.clone()).await;
        assert_eq!(made.status, 201, "{}: {}", noun.list, made.text());
        let again = app.post_with(&noun.list, &key, noun.new.clone()).await;
        assert_eq!((again.header("idempotent-replayed"), &again.body), ("true", &made.body));
        let first = made.json();
        let path = made.header("location").to_owned();
        assert_eq!(path, format!("{}{}", noun.items, first["id"].as_str().unwrap()));
        assert_eq!(app.get(&path).await.ok(), first);

        let second = app.post(&noun.list, noun.new.clone()).await.ok();
        let page = app.get(&format!("{}?limit=1", noun.list)).await.ok();
        assert_eq!((&page["data"], &page["has_more"]), (&json!([second]), &json!(true)), "newest first");
        let cursor = page["next_cursor"].as_str().unwrap();
        let page = app.get(&format!("{}?cursor={cursor}", noun.list)).await.ok();
        assert_eq!((&page["data"], &page["has_more"]), (&json!([first]), &json!(false)));
        app.get(&format!("{}?cursor=m1", noun.list)).await.refused(422, "invalid_cursor");

        let changed = app.send("PATCH", &path, noun.change.clone()).await.ok();
        assert_eq!(changed["content"], "likes ships");
        assert!(changed["updated_at"].as_str() >= changed["created_at"].as_str());
        assert_eq!(changed["title"], first["title"], "what is not given stays");
        assert_eq!(app.get(&path).await.ok(), changed);

        assert_eq!(app.send("DELETE", &path, json!({})).await.status, 204);
        for (method, body) in [("GET", json!({})), ("PATCH", noun.change.clone()), ("DELETE", json!({}))] {
            app.send(method, &path, body).await.refused(404, "not_found");
        }
    }
}

#[tokio::test]
async fn what_belongs_to_another_tenant_does_not_exist() {
    let app = App::start().await;
    let stranger = "hou_other_0123456789abcdef";
    make_tenant(&app.state, "other", stranger).await;
    for noun in nouns(&app) {
        let item = app.post(&noun.list, noun.new.clone()).await.header("location").to_owned();
        for (method, path, body) in [
            ("GET", &noun.list, json!({})),
            ("POST", &noun.list, noun.new.clone()),
            ("GET", &item, json!({})),
            ("PATCH", &item, noun.change.clone()),
            ("DELETE", &item, json!({})),
        ] {
            let answer = app.send_as(stranger, method, path, body).await;
            assert_eq!(answer.status, 404, "{method} {path}: {}", answer.text());
        }
        assert_eq!(app.get(&item).await.status, 200, "nothing happened to it");
    }
    let profile = format!("/v1/users/{}/profile", app.user);
    for method in ["GET", "PATCH", "DELETE"] {
        let answer = app.send_as(stranger, method, &profile, json!({"facts": ["x"]})).await;
        answer.refused(404, "not_found");
    }
    let hex = &app.goal["goal_".len()..];
    let other_kind = format!("/v1/tasks/task_{hex}/notes");
    app.post(&other_kind, json!({"title": "x", "content": "y"})).await.refused(404, "not_found");
    let nobody = "/v1/users/user_00000000000000000000000000000000/memories";
    app.post(nobody, json!({"content": "x"})).await.refused(404, "not_found");
}

#[tokio::test]
async fn what_does_not_fit_is_refused_where_it_is_wrong() {
    let app = App::start().await;
    for noun in nouns(&app) {
        let item = app.post(&noun.list, noun.new.clone()).await.header("location").to_owned();
        let with = |field: &str, value: Value| {
            let mut body = noun.new.clone();
            body[field] = value;
            body
        };
        let mut cases = vec![
            (with("content", json!(" ")), "/content"),
            (with("content", json!("a\u{0}b")), "/content"),
            (with("content", json!("x".repeat(noun.longest + 1))), "/content"),
            (with("extra", json!(1)), "/extra"),
        ];
        if noun.new["title"].is_string() {
            cases.push((with("title", json!("x".repeat(201))), "/title"));
            cases.push((with("title", json!("a\nb")), "/title"));
        }
        for (body, pointer) in cases {
            for (method, path) in [("POST", &noun.list), ("PATCH", &item)] {
                let problem = app.send(method, path, body.clone()).await.refused(422, "invalid_request");
                assert_eq!(problem["errors"][0]["pointer"], pointer, "{method} {path} {problem}");
            }
        }
        app.send("PATCH", &item, json!({})).await.refused(422, "invalid_request");
        let longest = with("content", json!("x".repeat(noun.longest)));
        assert_eq!(app.post(&noun.list, longest).await.status, 201, "{}", noun.list);
    }
}

#[tokio::test]
async fn there_may_be_so_many_and_room_can_be_made() {
    let app = App::start().await;
    let list = format!("/v1/users/{}/custom-instructions", app.user);
    let mut last = String::new();
    for nth in 0..50 {
        let made = app.post(&list, json!({"content": format!("rule {nth}")})).await;
        assert_eq!(made.status, 201);
        last = made.header("location").to_owned();
    }
    let problem = app.post(&list, json!({"content": "one more"})).await.refused(409, "full");
    assert_eq!(problem["limit"], 50);
    assert!(problem["detail"].as_str().unwrap().contains("custom instructions of a user"), "{problem}");
    assert_eq!(app.send("DELETE", &last, json!({})).await.status, 204);
    assert_eq!(app.post(&list, json!({"content": "one more"})).await.status, 201);
}

#[tokio::test]
async fn a_profile_is_there_from_the_beginning_and_changes_list_by_list() {
    let app = App::start().await;
    let path = format!("/v1/users/{}/profile", app.user);
    let empty = app.get(&path).await.ok();
    assert_eq!((&empty["facts"], &empty["updated_at"]), (&json!([]), &json!(null)));
    let facts = json!({"facts": ["lives in Graz"], "communication_style": ["short answers"]});
    app.send("PATCH", &path, facts).await.ok();
    let changed = app.send("PATCH", &path, json!({"aims": ["sail"], "facts": ["lives in Linz"]})).await.ok();
    assert_eq!(changed["facts"], json!(["lives in Linz"]));
    assert_eq!(changed["communication_style"], json!(["short answers"]), "what is not given stays");
    assert_eq!(changed["aims"], json!(["sail"]));
    assert_eq!(app.get(&path).await.ok(), changed);
    let many: Vec<String> = (0..51).map(|nth| nth.to_string()).collect();
    for (body, pointer) in [
        (json!({}), ""),
        (json!({"hobbies": []}), "/hobbies"),
        (json!({"facts": ["a", ""]}), "/facts/1"),
        (json!({"facts": ["a", 1]}), "/facts/1"),
        (json!({"facts": ["x".repeat(501)]}), "/facts/0"),
        (json!({"interests": many}), "/interests"),
    ] {
        let problem = app.send("PATCH", &path, body).await.refused(422, "invalid_request");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
    assert_eq!(app.send("DELETE", &path, json!({})).await.status, 204);
    assert_eq!(app.get(&path).await.ok(), empty);
}

#[tokio::test]
async fn a_feed_item_is_read_once() {
    let app = App::start().await;
    let list = format!("/v1/users/{}/feed", app.user);
    let made = app.post(&list, json!({"title": "News", "content": "It rains."})).await;
    let (item, path) = (made.json(), made.header("location").to_owned());
    assert_eq!((&item["read_at"], &item["run_id"]), (&json!(null), &json!(null)));
    let read = app.send("PATCH", &path, json!({"read": true})).await.ok();
    assert!(read["read_at"].is_string());
    assert_eq!(read["updated_at"], item["updated_at"], "to read it changes nothing");
    assert_eq!(app.send("PATCH", &path, json!({"read": true})).await.ok(), read, "the first time counts");
    assert_eq!(app.send("PATCH", &path, json!({"read": false})).await.ok()["read_at"], json!(null));
}
