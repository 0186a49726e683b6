//! Images that are posted with messages.

use std::time::Duration;

use houston_domain::image::to_base64;
use serde_json::{Value, json};

use crate::test_api::{TestApi, make_tenant};

/// A PNG image of this size, as far as its header says, with `more` bytes of data.
fn png(width: u32, height: u32, more: usize) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    bytes.extend(width.to_be_bytes());
    bytes.extend(height.to_be_bytes());
    bytes.extend(b"\x08\x02\0\0\0crc!");
    bytes.extend(u32::try_from(more).unwrap().to_be_bytes());
    bytes.extend(b"IDAT");
    bytes.resize(bytes.len() + more, 7);
    bytes.extend(b"crc!\0\0\0\0IENDcrc!");
    bytes
}

fn data(bytes: &[u8]) -> Value {
    json!({"data": to_base64(bytes)})
}

/// The path of the image that a message refers to last.
fn image_in(message: &Value) -> String {
    let content = message["content"].as_str().unwrap();
    content.rsplit_once("![image](").unwrap().1.trim_end_matches(')').to_owned()
}

#[tokio::test]
async fn posted_image_is_stored_once_and_served_safely() {
    let api = TestApi::start().await;
    let large = png(640, 480, 3_700_000);
    let body = json!({"content": "What is this?", "images": [data(&large), data(&png(3, 2, 0))]});
    let answer = api.post_with(&api.path("/messages"), &[("idempotency-key", "k")], body.clone()).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    let message = answer.json();
    let content = message["content"].as_str().unwrap();
    assert!(content.starts_with("What is this?\n\n![image](/v1/images/image_"), "{content}");
    assert_eq!(content.matches("![image](/v1/images/image_").count(), 2, "{content}");
    let posted = body.clone();
    let replay = api.post_with(&api.path("/messages"), &[("idempotency-key", "k")], body).await;
    assert_eq!((replay.header("idempotent-replayed"), replay.json()), ("true", message.clone()));

    // The same bytes in another conversation, and in a data URL: the same image.
    let other = api.make_goal("Other").await;
    let url = format!("data:image/gif;base64,{}", to_base64(&png(3, 2, 0)));
    let body = json!({"content": "", "images": [{"data": url}]});
    let again = api.post(&format!("/v1/goals/{other}/messages"), body).await.ok();
    assert_eq!(again["content"], format!("![image]({})", image_in(&message)));
    assert_eq!(api.sql("select count(*), count(distinct user_id) from houston.images").trim(), "2|1");

    let path = image_in(&message);
    let image = api.get(&path).await;
    assert_eq!((image.status, &image.body[..]), (200, &png(3, 2, 0)[..]));
    for (name, expected) in [
        ("content-type", "image/png"),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "default-src 'none'; sandbox"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        assert_eq!(image.header(name), expected, "{name}");
    }
    let key = "hou_other_0123456789";
    make_tenant(&api.store, &api.state.ids, "other", key).await;
    for method in ["GET", "DELETE"] {
        api.send_as(key, method, &path, Value::Null).await.refused(404, "not_found");
    }
    assert_eq!(api.send("DELETE", &path, Value::Null).await.status, 204);
    api.get(&path).await.refused(404, "not_found");
    let kept = api.get(&format!("/v1/messages/{}", message["id"].as_str().unwrap())).await.ok();
    assert_eq!(kept["content"], message["content"], "the message stays");
    let replay = api.post_with(&api.path("/messages"), &[("idempotency-key", "k")], posted).await;
    assert_eq!((replay.header("idempotent-replayed"), replay.json()), ("true", message));
    api.get(&path).await.refused(404, "not_found");
}

#[tokio::test]
async fn images_that_are_not_accepted_say_why() {
    let api = TestApi::start_with(|config| config.images.max_bytes_of_user = 1_000).await;
    let small = data(&png(3, 2, 0));
    let mut damaged = png(3, 2, 0);
    damaged.truncate(20);
    let mut cut_off = png(3, 2, 500);
    cut_off.truncate(300);
    for (images, pointer, words) in [
        (json!([small, small, small, small, small]), "/images", "has 5 images; at most 4 are allowed"),
        (json!([small, {"data": "<svg>"}]), "/images/1", "no Base64"),
        (json!([data(b"%PDF-1.7")]), "/images/0", "no PNG, JPEG, WebP or GIF"),
        (json!([data(&damaged)]), "/images/0", "PNG header is damaged"),
        (json!([data(&cut_off)]), "/images/0", "a PNG image that is cut off"),
        (json!([data(&png(9_000, 2, 0))]), "/images/0", "at most 8000 on a side"),
        (json!([data(&png(9, 2, 3_750_000))]), "/images/0", "at most 3750000 are allowed"),
        (json!([{}]), "/images/0", "either `data` (Base64) or `url`"),
        (json!([{"url": "http://127.0.0.1:1/a.png"}]), "/images/0", "cannot be fetched"),
        (json!([{"url": "file:///etc/passwd"}]), "/images/0", "cannot be fetched"),
    ] {
        let answer = api.post(&api.path("/messages"), json!({"content": "Look", "images": images})).await;
        let problem = answer.refused(422, "invalid_request");
        let error = &problem["errors"][0];
        assert_eq!(error["pointer"], pointer, "{problem}");
        assert!(error["detail"].as_str().unwrap().contains(words), "{problem}");
    }
    let body = json!({"content": "Look", "images": [data(&png(3, 2, 2_000))]});
    let full = api.post(&api.path("/messages"), body).await.refused(409, "full");
    assert!(full["detail"].as_str().unwrap().contains("1000 bytes of images of a user"), "{full}");
    api.post(&api.path("/messages"), json!({"content": "", "images": []}))
        .await
        .refused(422, "empty_message");
    let nothing = "select (select count(*) from houston.images), (select count(*) from houston.messages)";
    assert_eq!(api.sql(nothing).trim(), "0|0");
}

#[tokio::test]
async fn image_parts_of_ag_ui_clients_are_stored() {
    let api = TestApi::start().await;
    let part = |source: Value| json!({"type": "image", "source": source});
    let input = |source: Value| {
        let content = json!([{"type": "text", "text": "What is this?"}, part(source)]);
        json!({"threadId": "t", "runId": "r", "messages": [{"id": "m1", "role": "user", "content": content}]})
    };
    let wrong = input(json!({"type": "file", "value": "x"}));
    let problem = api.post(&api.path("/ag-ui"), wrong).await.refused(422, "invalid_request");
    assert_eq!(problem["errors"][0]["pointer"], "/messages/0/content");
    let image = to_base64(&png(3, 2, 0));
    let input = input(json!({"type": "data", "value": image, "mimeType": "image/png"}));
    // The stream goes on until the run ends; what counts is what was posted.
    let path = api.path("/ag-ui");
    let posting = api.post(&path, input);
    let posted = async {
        loop {
            let page = api.get(&api.path("/messages")).await.ok();
            if let Some(message) = page["data"].as_array().unwrap().first() {
                return message.clone();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        answer = posting => panic!("{}", answer.text()),
        message = posted => assert_eq!(api.get(&image_in(&message)).await.body[..], png(3, 2, 0)[..]),
    }
}
