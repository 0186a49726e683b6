//! Files that are posted for messages.

use std::net::SocketAddr;
use std::time::Duration;

use houston_domain::attachment::MAX_ATTACHMENT_BYTES;
use houston_domain::id::UserId;
use houston_objects::Objects;
use houston_store::erasure::sweep::Swept;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::http::{Answer, request};
use crate::test_api::{KEY, TestApi, bearer, make_tenant, serve_also};

const PDF: &str = "%PDF-1.4\n1 0 obj\n";
const ENCRYPTED: &str = "%PDF-1.4\n1 0 obj\ntrailer << /Root 1 0 R /Encrypt 5 0 R >>\n";

async fn upload(api: &TestApi, query: &str, kind: &str, file: &str) -> Answer {
    let path = format!("/v1/users/{}/attachments{query}", api.user);
    let key = bearer(KEY);
    let headers = [("authorization", key.as_str()), ("content-type", kind)];
    request(api.address, "POST", &path, &headers, file).await
}

fn counts(api: &TestApi) -> String {
    let sql =
        "select (select count(*) from houston.attachments), (select count(*) from houston.attachment_parts),
                      (select count(*) from houston.attachment_objects)";
    api.sql(sql).trim().to_owned()
}

#[tokio::test]
async fn file_is_stored_once_named_by_messages_and_served_safely() {
    let api = TestApi::start().await;
    let posted = upload(&api, "?name=..%2FQ3%20%22report%22%0A.pdf", "application/pdf", PDF).await;
    let file = posted.ok();
    assert_eq!(
        (posted.status, &file["name"], &file["bytes"]),
        (201, &json!("Q3 report.pdf"), &json!(PDF.len()))
    );
    let id = file["id"].as_str().unwrap().to_owned();
    assert_eq!(posted.header("location"), format!("/v1/attachments/{id}"));
    let again = upload(&api, "?name=b.pdf", "application/octet-stream", PDF).await.ok();
    assert_eq!((&again["id"], &again["name"]), (&file["id"], &json!("b.pdf")));
    assert_eq!(counts(&api), "1|1|0");

    let body = json!({"content": "What is this?", "attachments": [id]});
    let answer = api.post_with(&api.path("/messages"), &[("idempotency-key", "k")], body.clone()).await;
    let message = answer.ok();
    assert_eq!(message["content"], format!("What is this?\n\n[b.pdf](/v1/attachments/{id})"));
    let read = api.get(file["url"].as_str().unwrap()).await;
    assert_eq!((read.status, read.text()), (200, PDF.to_owned()));
    for (name, expected) in [
        ("content-type", "application/pdf"),
        ("content-length", "17"),
        ("content-disposition", "attachment; filename=\"b.pdf\"; filename*=UTF-8''b.pdf"),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "default-src 'none'; sandbox"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        assert_eq!(read.header(name), expected, "{name}");
    }
    assert_eq!(api.send("DELETE", file["url"].as_str().unwrap(), Value::Null).await.status, 204);
    api.get(file["url"].as_str().unwrap()).await.refused(404, "not_found");
    let replay = api.post_with(&api.path("/messages"), &[("idempotency-key", "k")], body.clone()).await;
    assert_eq!((replay.header("idempotent-replayed"), replay.json()), ("true", message));
    let gone = api.post(&api.path("/messages"), body).await.refused(422, "invalid_request");
    assert_eq!(gone["errors"][0]["pointer"], "/attachments/0", "{gone}");
    assert_eq!(counts(&api), "0|0|0");
}

#[tokio::test]
async fn page_of_a_stranger_is_a_text() {
    let api = TestApi::start().await;
    let page = "<script>alert(1)</script>";
    let file = upload(&api, "?name=ü.html", "text/html", page).await.ok();
    let read = api.get(file["url"].as_str().unwrap()).await;
    assert_eq!((read.header("content-type"), read.text()), ("text/plain; charset=utf-8", page.to_owned()));
    let saved = "attachment; filename=\"_.html\"; filename*=UTF-8''%C3%BC.html";
    assert_eq!(read.header("content-disposition"), saved);
}

#[tokio::test]
async fn files_that_are_not_accepted_say_why() {
    let api = TestApi::start_with(|config| config.attachments.max_bytes_of_user = 1_000_000).await;
    for (kind, file, words) in [
        ("image/png", PDF, "`Content-Type` says `image/png`, and the bytes are `application/pdf`"),
        ("application/pdf", "GIF89a.........", "the bytes are `image/gif`"),
        ("application/zip", "PK..", "`application/zip` is not accepted"),
        ("image/svg+xml", "<svg/>", "`image/svg+xml` is not accepted"),
        ("text/plain", "a\0b", "no text in UTF-8"),
        ("application/pdf", ENCRYPTED, "it is a PDF with a password"),
        ("text/plain", "", "the file is empty"),
    ] {
        let problem = upload(&api, "", kind, file).await.refused(422, "invalid_request");
        assert!(problem["errors"][0]["detail"].as_str().unwrap().contains(words), "{problem}");
    }
    let full = upload(&api, "", "text/plain", &"x".repeat(1_000_001)).await.refused(409, "full");
    assert!(full["detail"].as_str().unwrap().contains("1000000 bytes of files of a user"), "{full}");
    upload(&api, "?name=%0A", "text/plain", "x").await.refused(422, "invalid_request");
    upload(&api, "?nmae=x", "text/plain", "x").await.refused(422, "invalid_request");
    let body = json!({"content": "Look", "attachments": vec![format!("att_{}", "0".repeat(32)); 9]});
    let many = api.post(&api.path("/messages"), body).await.refused(422, "invalid_request");
    assert!(many.to_string().contains("at most 8 are allowed"), "{many}");
    assert_eq!(counts(&api), "0|0|0");
}

#[tokio::test]
async fn twenty_megabytes_are_stored_and_one_byte_more_refused() {
    let api = TestApi::start().await;
    let largest = "x".repeat(MAX_ATTACHMENT_BYTES);
    let file = upload(&api, "", "text/plain", &largest).await.ok();
    assert_eq!(api.get(file["url"].as_str().unwrap()).await.body.len(), MAX_ATTACHMENT_BYTES);
    let problem = upload(&api, "", "text/plain", &(largest + "x")).await.refused(413, "body_too_large");
    assert!(problem["detail"].as_str().unwrap().contains("at most 20000000 bytes"), "{problem}");
    assert_eq!(counts(&api), "1|10|0");
}

#[tokio::test]
async fn files_of_others_cannot_be_named_or_read() {
    let api = TestApi::start().await;
    let file = upload(&api, "", "text/plain", "secret").await.ok();
    let (id, url) = (&file["id"], file["url"].as_str().unwrap());
    let bob = api.post("/v1/users", json!({"name": "Bob"})).await.ok();
    let goal = api.post("/v1/goals", json!({"user_id": bob["id"], "title": "Mine"})).await.ok();
    let path = format!("/v1/goals/{}/messages", goal["id"].as_str().unwrap());
    let body = json!({"content": "Look", "attachments": [id]});
    let problem = api.post(&path, body).await.refused(422, "invalid_request");
    assert_eq!(problem["errors"][0]["pointer"], "/attachments/0", "{problem}");
    let key = "hou_other_0123456789";
    make_tenant(&api.store, &api.state.ids, "other", key).await;
    for method in ["GET", "DELETE"] {
        api.send_as(key, method, url, Value::Null).await.refused(404, "not_found");
    }
    let into = format!("/v1/users/{}/attachments", api.user);
    api.send_as(key, "POST", &into, json!({})).await.refused(404, "not_found");
}

/// Sends the head of an upload and the beginning of its body, and breaks the connection.
async fn broken(address: SocketAddr, user: &str) {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /v1/users/{user}/attachments HTTP/1.1\r\nhost: h\r\nauthorization: {}\r\ncontent-length: 9000000\r\n\r\n",
        bearer(KEY)
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    socket.write_all(&[b'x'; 100_000]).await.unwrap();
    socket.shutdown().await.unwrap();
    let _ = socket.read(&mut [0; 1000]).await;
}

#[tokio::test]
async fn broken_upload_leaves_nothing_and_frees_its_memory() {
    // Room for one of them at a time.
    let api = TestApi::start_with(|config| config.attachments.max_bytes_at_once = 10_000_000).await;
    for _ in 0..5 {
        broken(api.address, &api.user).await;
    }
    assert_eq!(counts(&api), "0|0|0");
    upload(&api, "", "text/plain", &"x".repeat(4_000_000)).await.ok();
}

/// The bytes of a user's files in a folder are deleted with the user, however often the worker fails in between.
#[tokio::test]
async fn objects_are_stored_read_and_erased_with_their_user() {
    let api = TestApi::start().await;
    let folder = tempfile::tempdir().unwrap();
    let objects = Objects::open(&format!("file://{}", folder.path().display())).unwrap();
    let mut with_objects = api.state.clone();
    let store = api.store.clone().with(|own| own.objects = Some(objects));
    with_objects.store = store.api();
    let address = serve_also(&api, with_objects).await;
    let key = bearer(KEY);
    let path = format!("/v1/users/{}/attachments", api.user);
    let headers = [("authorization", key.as_str()), ("content-type", "text/plain")];
    let text = "x".repeat(3_000_000);
    let file = request(address, "POST", &path, &headers, &text).await.ok();
    assert_eq!(counts(&api), "1|0|1");
    let url = file["url"].as_str().unwrap();
    assert_eq!(request(address, "GET", url, &headers, "").await.text(), text);
    // A process that has no object store says so.
    api.get(url).await.refused(503, "unavailable");

    // The folder is away: the upload is refused, and so is reading; the message that names the file is stored.
    let away = folder.path().with_extension("away");
    std::fs::rename(folder.path(), &away).unwrap();
    let refused = request(address, "GET", url, &headers, "").await;
    assert!([503, 500].contains(&refused.status), "{}", refused.text());
    let body = json!({"content": "Look", "attachments": [file["id"]]});
    assert_eq!(api.post(&api.path("/messages"), body).await.status, 202);
    std::fs::rename(&away, folder.path()).unwrap();

    assert_eq!(api.send("DELETE", &format!("/v1/users/{}", api.user), Value::Null).await.status, 202);
    let mut waited = false;
    loop {
        match store.runs().erase_some(100).await.unwrap() {
            Swept::Nothing => break,
            Swept::Waits => {
                waited = true;
                assert_eq!(store.runs().drop_objects(10).await.unwrap().deleted, 1);
            }
            Swept::More | Swept::Done(_) => {}
        }
    }
    assert!(waited, "the user was not gone before the object");
    assert_eq!(counts(&api), "0|0|0");
    assert_eq!(walk(folder.path()), 0, "no object is left");
}

/// How many files are below a folder.
fn walk(folder: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { walk(&path) } else { 1 }).sum()
}

#[tokio::test]
async fn object_whose_upload_has_not_ended_is_deleted() {
    let api = TestApi::start().await;
    let folder = tempfile::tempdir().unwrap();
    let objects = Objects::open(&format!("file://{}", folder.path().display())).unwrap();
    let store = api.store.clone().with(|own| own.objects = Some(objects.clone()));
    let (tenant, user) = (api.tenant.0, api.user.parse::<UserId>().unwrap().0);
    api.sql(&format!(
        "insert into houston.attachment_objects (id, tenant_id, user_id, drop_at)
         values ('{tenant}', '{tenant}', '{user}', now() + interval '1 hour')"
    ));
    objects.put(&format!("{tenant}/{tenant}"), vec!["half".into()]).await.unwrap();
    assert_eq!(store.runs().drop_objects(10).await.unwrap().deleted, 0, "it may still be kept");
    api.sql("update houston.attachment_objects set drop_at = now()");
    assert_eq!(store.runs().drop_objects(10).await.unwrap().deleted, 1);
    assert_eq!((counts(&api).as_str(), walk(folder.path())), ("0|0|0", 0));
    tokio::time::timeout(Duration::from_secs(9), store.runs().drop_objects(10)).await.unwrap().unwrap();
}
