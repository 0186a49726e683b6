//! Files that users post, as models are sent them.

use houston_domain::image::to_base64;
use houston_testkit::model_server::Reply;
use houston_testkit::pdf;
use serde_json::{Value, json};

use crate::scripted::Scripted;

const TEXT: &str = "name,amount\ntea,3\n```\n";

/// A PNG image of 3 x 2 pixels, as far as its header says.
fn png() -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x03\0\0\0\x02".to_vec();
    bytes.extend(b"\x08\x02\0\0\0crc!\0\0\0\0IENDcrc!");
    bytes
}

/// Posts an image, a PDF and a text with one message, and returns the goal and the request that the model had.
async fn asked_with_files(test: &Scripted) -> (String, String) {
    let goal = test.goal(json!({})).await;
    let user = test.houston.get(&format!("/v1/goals/{goal}")).await["user_id"].as_str().unwrap().to_owned();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut ids = Vec::new();
    for (name, kind, bytes) in [
        ("cat.png", "image/png", png()),
        ("bill.pdf", "application/pdf", pdf::of_lines(&["Invoice 4711", "Total 12 EUR"])),
        ("list.csv", "text/csv", TEXT.as_bytes().to_vec()),
    ] {
        let url = test.houston.url(&format!("/v1/users/{user}/attachments?name={name}"));
        let request = client.post(url).bearer_auth(&test.houston.key).header("Content-Type", kind);
        let response = request.body(bytes).send().await.unwrap();
        assert_eq!(response.status(), 201, "{name}");
        let file: Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
        ids.push(file["id"].clone());
    }
    let body = json!({"content": "What is this?", "attachments": ids});
    let posted = test.ok("POST", &format!("/v1/goals/{goal}/messages"), body).await;
    assert_eq!(test.houston.wait_until_answered(&posted).await["status"], "answered");
    let calls = test.model.journal().exchanges();
    let bodies: Vec<String> =
        calls.iter().map(|call| String::from_utf8_lossy(&call.body).into_owned()).collect();
    (goal, bodies.into_iter().find(|body| body.contains("What is this?")).unwrap())
}

/// The CSV between fences that it does not contain, as JSON has it.
fn is_fenced(body: &str) -> bool {
    body.contains(r"\n````\nname,amount\ntea,3\n```\n````")
}

#[tokio::test(flavor = "multi_thread")]
async fn model_that_takes_files_is_sent_them() {
    let test = Scripted::start(|_| Reply::tool("send_message", json!({"content": "Done."}))).await;
    let _worker = test.houston.worker_with(&[
        ("HOUSTON_MODEL", "anthropic/claude-sonnet-4-5"),
        ("ANTHROPIC_BASE_URL", &test.model.url()),
        ("ANTHROPIC_API_KEY", "sk-ant-test"),
    ]);
    let (_, body) = asked_with_files(&test).await;
    let pdf = pdf::of_lines(&["Invoice 4711", "Total 12 EUR"]);
    for part in [
        format!(
            r#""type":"image","source":{{"type":"base64","media_type":"image/png","data":"{}""#,
            to_base64(&png())
        ),
        format!(
            r#""type":"document","source":{{"type":"base64","media_type":"application/pdf","data":"{}"}},"title":"bill.pdf""#,
            to_base64(&pdf)
        ),
    ] {
        assert!(body.contains(&part), "{part} in {body}");
    }
    assert!(is_fenced(&body), "{body}");
    assert!(!body.contains("Invoice 4711"), "its text is not needed: {body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn model_that_takes_no_files_reads_what_they_say() {
    let test = Scripted::start(|_| Reply::tool("send_message", json!({"content": "Done."}))).await;
    let _worker = test.worker("local/small");
    let (goal, body) = asked_with_files(&test).await;
    assert!(body.contains("a file: cat.png (PNG image, ") && body.contains("You cannot see it."), "{body}");
    assert!(body.contains("Invoice 4711") && body.contains("Total 12 EUR"), "{body}");
    assert!(body.contains("The text of the file bill.pdf (att_") && is_fenced(&body), "{body}");
    assert!(!body.contains(&to_base64(&png())) && !body.contains("JVBERi0"), "{body}");
    let kept = "select count(*) from houston.attachments where pdf_text like '%Invoice 4711%'";
    assert_eq!(test.houston.sql_of(&goal, kept).trim(), "1", "the text is read once");
}
