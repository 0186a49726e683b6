//! Todos and custom tables over HTTP.

use serde_json::{Value, json};

use crate::http::Answer;
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

#[tokio::test]
async fn records_go_out_as_csv_and_come_back_unchanged() {
    let api = TestApi::start().await;
    let tables = format!("/v1/users/{}/tables", api.user);
    let fields = json!([{"name": "what", "type": "text", "required": true}, {"name": "price", "type": "number"},
                        {"name": "tags", "type": "list"}]);
    let path = |made: Answer| made.header("location").to_owned();
    let first = path(api.post(&tables, json!({"name": "first", "fields": fields})).await);
    let second = path(api.post(&tables, json!({"name": "second", "fields": fields})).await);
    let records: Vec<Value> = (0..450)
        .map(|nth| match nth {
            0 => json!({"what": "=HYPERLINK(\"http://evil\")", "tags": ["=1", "b;c"]}),
            nth => json!({"what": format!("thing, {nth}"), "price": nth}),
        })
        .collect();
    for some in records.chunks(100) {
        api.post(&format!("{first}/records"), json!({"records": some})).await.ok();
    }
    let csv = api.get(&format!("{first}/records.csv")).await;
    assert!(csv.header("content-type").starts_with("text/csv"));
    assert_eq!(csv.header("content-disposition"), "attachment; filename=\"first.csv\"");
    let text = csv.text();
    assert!(text.starts_with("what,price,tags\n\"'=HYPERLINK(\"\"http://evil\"\")\",,"), "{}", &text[..80]);
    assert_eq!(text.lines().count(), 451);
    let import = format!("{second}/import");
    let key = [("content-type", "text/csv"), ("idempotency-key", "1")];
    for _ in 0..2 {
        let done = api.post_text(&import, &key, &text).await;
        assert_eq!((done.status, done.json()), (201, json!({"records": 450})), "{}", done.text());
    }
    assert_eq!(api.get(&format!("{second}/records.csv")).await.text(), text);

    let csv = [("content-type", "text/csv")];
    let wrong =
        api.post_text(&import, &csv, "what,price\nx,1\n,2\ny,cheap\n").await.refused(422, "invalid_request");
    let details: Vec<&str> =
        wrong["errors"].as_array().unwrap().iter().map(|error| error["detail"].as_str().unwrap()).collect();
    assert!(details[0].starts_with("line 3, column `what`: is required"), "{details:?}");
    assert!(details[1].starts_with("line 4, column `price`: must be a number"), "{details:?}");
    assert_eq!(api.get(&second).await.ok()["records"], 450, "all or none");
    let json = [("content-type", "application/json")];
    let refused = api.post_text(&import, &json, "{}").await.refused(415, "unsupported_media_type");
    assert!(refused["detail"].as_str().unwrap().ends_with("`Content-Type: text/csv`"), "{refused}");
    let long = format!("what\n{}", "x".repeat(5 << 20));
    api.post_text(&import, &csv, &long).await.refused(413, "body_too_large");
    make_tenant(&api.store, &api.state.ids, "other", STRANGER).await;
    for (method, path) in
        [("GET", format!("{first}/records.csv")), ("POST", import), ("POST", format!("{first}/fields"))]
    {
        let body = json!({"fields": [{"name": "x", "type": "text"}]});
        assert_eq!(api.send_as(STRANGER, method, &path, body).await.status, 404, "{method} {path}");
    }
}

#[tokio::test]
async fn fields_are_added_to_a_table_with_records() {
    let api = TestApi::start().await;
    let tables = format!("/v1/users/{}/tables", api.user);
    let new = json!({"name": "cars", "fields": [{"name": "what", "type": "text", "required": true}]});
    let path = api.post(&tables, new).await.header("location").to_owned();
    let added = api.post(&format!("{path}/records"), json!({"records": [{"what": "red"}]})).await.ok();
    let fields = format!("{path}/fields");
    let grown = api.post(&fields, json!({"fields": [{"name": "price", "type": "number"}]})).await.ok();
    assert_eq!(grown["schema"]["properties"]["price"]["type"], "number");
    let record = format!("/v1/records/{}", added["data"][0]["id"].as_str().unwrap());
    let changed = api.send("PATCH", &record, json!({"values": {"price": 3}})).await.ok();
    assert_eq!(changed["values"], json!({"what": "red", "price": 3}));
    for (field, part) in [
        (json!({"name": "price", "type": "text"}), "is there twice"),
        (json!({"name": "owner", "type": "text", "required": true}), "cannot be required: 1 records"),
    ] {
        let problem = api.post(&fields, json!({"fields": [field]})).await.refused(422, "invalid_request");
        assert!(problem["errors"][0]["detail"].as_str().unwrap().contains(part), "{problem}");
    }
}
