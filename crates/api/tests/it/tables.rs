//! Todos and custom tables over HTTP.

use serde_json::{Value, json};

use crate::test_api::{TestApi, make_tenant};

const STRANGER: &str = "hou_other_0123456789abcdef";

/// The values of `key` in a page.
fn all(page: &Value, key: &str) -> Vec<Value> {
    page["data"].as_array().unwrap().iter().map(|item| item[key].clone()).collect()
}

#[tokio::test]
async fn todos_are_made_listed_changed_and_deleted() {
    let api = TestApi::start().await;
    let todos = format!("/v1/users/{}/todos", api.user);
    let new =
        json!({"title": "Buy milk", "due": "2026-12-01", "time_zone": "Europe/Berlin", "list": "errands"});
    let made = api.post_with(&todos, &[("idempotency-key", "1")], new.clone()).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let again = api.post_with(&todos, &[("idempotency-key", "1")], new).await;
    assert_eq!(again.body, made.body);
    let (first, path) = (made.json(), made.header("location").to_owned());
    assert_eq!(
        (&first["due_at"], &first["priority"]),
        (&json!("2026-12-01T23:00:00.000Z"), &json!("normal"))
    );
    assert_eq!(api.get(&path).await.ok(), first);
    let second = api.post(&todos, json!({"title": "Call Ann"})).await.ok();
    let second_path = format!("/v1/todos/{}", second["id"].as_str().unwrap());

    let page = api.get(&format!("{todos}?limit=1")).await.ok();
    assert_eq!(all(&page, "title"), [json!("Buy milk")]);
    let cursor = page["next_cursor"].as_str().unwrap();
    assert_eq!(all(&api.get(&format!("{todos}?cursor={cursor}")).await.ok(), "title"), [json!("Call Ann")]);
    api.send("PATCH", &second_path, json!({"before": first["id"]})).await.ok();
    assert_eq!(all(&api.get(&todos).await.ok(), "title"), [json!("Call Ann"), json!("Buy milk")]);
    let done = api.send("PATCH", &path, json!({"done": true, "due": null})).await.ok();
    assert!(done["done_at"].is_string() && done["due_at"].is_null(), "{done}");
    assert_eq!(all(&api.get(&format!("{todos}?status=done")).await.ok(), "title"), [json!("Buy milk")]);
    assert_eq!(all(&api.get(&format!("{todos}?due_by=2027-01-01")).await.ok(), "title"), Vec::<Value>::new());

    for (body, pointer) in [
        (json!({"title": " "}), "/title"),
        (json!({"title": "a\nb"}), "/title"),
        (json!({"title": "a", "due": "soon"}), "/due"),
        (json!({"title": "a", "due": "2026-12-01", "time_zone": "Mars"}), "/time_zone"),
        (json!({"title": "a", "priority": "urgent"}), "/priority"),
        (json!({"title": "a", "details": "x".repeat(4001)}), "/details"),
    ] {
        let problem = api.post(&todos, body.clone()).await.refused(422, "invalid_request");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{body}: {problem}");
    }
    api.send("PATCH", &path, json!({})).await.refused(422, "invalid_request");
    api.get(&format!("{todos}?status=late")).await.refused(422, "invalid_request");
    assert_eq!(api.send("DELETE", &path, json!({})).await.status, 204);
    api.get(&path).await.refused(404, "not_found");

    make_tenant(&api.store, &api.state.ids, "other", STRANGER).await;
    for (method, path, body) in [
        ("GET", &todos, json!({})),
        ("GET", &second_path, json!({})),
        ("PATCH", &second_path, json!({"done": true})),
        ("DELETE", &second_path, json!({})),
        ("POST", &todos, json!({"title": "x"})),
    ] {
        assert_eq!(api.send_as(STRANGER, method, path, body).await.status, 404, "{method} {path}");
    }
}

#[tokio::test]
async fn records_of_a_table_are_checked_found_and_summed() {
    let api = TestApi::start().await;
    let tables = format!("/v1/users/{}/tables", api.user);
    let fields = json!([{"name": "what", "type": "text", "required": true}, {"name": "price", "type": "number"},
                        {"name": "at", "type": "datetime"}]);
    let new = json!({"name": "cars", "fields": fields});
    let made = api.post(&tables, new.clone()).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let path = made.header("location").to_owned();
    let table = api.get(&path).await.ok();
    assert_eq!(table["schema"]["required"], json!(["what"]));
    api.post(&tables, new).await.refused(409, "already_exists");
    let wrong = json!({"name": "Cars", "fields": fields});
    assert_eq!(
        api.post(&tables, wrong).await.refused(422, "invalid_request")["errors"][0]["pointer"],
        "/name"
    );
    let problem = api.post(&tables, json!({"preset": "boats"})).await.refused(422, "invalid_request");
    assert!(problem["errors"][0]["detail"].as_str().unwrap().contains("no preset `boats`"), "{problem}");

    let records = format!("{path}/records");
    let new = json!({"records": [{"what": "red", "price": 10.5}, {"what": "blue", "price": 2},
                                 {"what": "grey", "at": "2026-11-25T09:30:00+01:00"}]});
    let added = api.post(&records, new).await.ok();
    assert_eq!(added["data"][2]["values"]["at"], "2026-11-25T08:30:00Z");
    let listed = api.get(&format!("{records}?order=-price&limit=2")).await.ok();
    assert_eq!(listed["data"][0]["values"], json!({"what": "red", "price": 10.5}));
    let cursor = listed["next_cursor"].as_str().unwrap();
    let next = api.get(&format!("{records}?order=-price&limit=2&cursor={cursor}")).await.ok();
    assert_eq!((&next["data"][0]["values"]["what"], &next["has_more"]), (&json!("grey"), &json!(false)));
    let found = api.get(&format!("{records}?where=%7B%22price%22%3A%7B%22lt%22%3A5%7D%7D")).await.ok();
    assert_eq!(found["data"][0]["values"]["what"], "blue");
    for query in ["where=x", "where=%7B%22size%22%3A1%7D", "order=size", "cursor=m1", "limit=0"] {
        let answer = api.get(&format!("{records}?{query}")).await;
        assert_eq!(answer.status, 422, "{query}: {}", answer.text());
    }
    let sum = api.get(&format!("{path}/aggregate?function=sum&field=price")).await.ok();
    assert_eq!(sum, json!({"data": [{"group": null, "value": "12.5"}], "has_more": false}));
    let problem = api.post(&records, json!({"records": [{"what": "x"}, {"price": "2"}]})).await;
    let problem = problem.refused(422, "invalid_request");
    let at: Vec<&str> =
        problem["errors"].as_array().unwrap().iter().map(|one| one["pointer"].as_str().unwrap()).collect();
    assert_eq!(at, ["/records/1/price", "/records/1/what"]);

    let record = format!("/v1/records/{}", added["data"][1]["id"].as_str().unwrap());
    let changed = api.send("PATCH", &record, json!({"values": {"price": null, "what": "green"}})).await.ok();
    assert_eq!(changed["values"], json!({"what": "green"}));
    assert_eq!(api.get(&record).await.ok(), changed);
    api.send("PATCH", &record, json!({"values": {"what": null}})).await.refused(422, "invalid_request");

    strangers_find_nothing(&api, [&tables, &path, &records, &record]).await;
    assert_eq!(api.send("DELETE", &record, json!({})).await.status, 204);
    assert_eq!(api.get(&path).await.ok()["records"], 2);
    assert_eq!(api.send("DELETE", &path, json!({})).await.status, 204);
    api.get(&records).await.refused(404, "not_found");
}

async fn strangers_find_nothing(api: &TestApi, [tables, path, records, record]: [&str; 4]) {
    make_tenant(&api.store, &api.state.ids, "other", STRANGER).await;
    for (method, path, body) in [
        ("GET", tables, json!({})),
        ("GET", path, json!({})),
        ("GET", records, json!({})),
        ("POST", records, json!({"records": [{"what": "x"}]})),
        ("PATCH", record, json!({"values": {"what": "x"}})),
        ("DELETE", record, json!({})),
        ("DELETE", path, json!({})),
    ] {
        assert_eq!(api.send_as(STRANGER, method, path, body).await.status, 404, "{method} {path}");
    }
}
