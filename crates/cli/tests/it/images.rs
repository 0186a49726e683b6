//! Images that users post, from the command line to a model.

use std::sync::atomic::{AtomicBool, Ordering};

use houston_domain::image::to_base64;
use houston_testkit::model_server::Reply;
use serde_json::json;

use crate::scripted::Scripted;
use crate::test_houston::{TestHouston, houston_command};

/// A PNG image of 3 x 2 pixels, as far as its header says.
fn png() -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x03\0\0\0\x02".to_vec();
    bytes.extend(b"\x08\x02\0\0\0crc!\0\0\0\0IENDcrc!");
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn image_of_a_file_is_seen_and_erased_with_its_user() {
    let houston = TestHouston::start();
    let _worker = houston.worker();
    let goal = houston.goal("plan").await;
    let folder = houston.folder.path().join("chat");
    let (plan, text) = (houston.folder.path().join("plan.png"), houston.folder.path().join("plan.txt"));
    std::fs::write(&plan, png()).unwrap();
    std::fs::write(&text, "no image").unwrap();
    let chat = |arguments: &[&str]| {
        let mut command = houston_command();
        command.args(["--folder", folder.to_str().unwrap(), "chat", "--url", &houston.url("")]);
        command.args(["--key", &houston.key, "--goal", &goal]).args(arguments);
        command.output().unwrap()
    };
    let refused = chat(&["--image", text.to_str().unwrap(), "What is this?"]);
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && why.contains("no PNG, JPEG, WebP or GIF image"), "{why}");
    let seen = chat(&["--image", plan.to_str().unwrap(), "What is this?"]);
    let said = String::from_utf8_lossy(&seen.stdout).into_owned();
    assert!(seen.status.success(), "{seen:?}");
    assert!(said.contains("You asked: What is this? I see an image: PNG, 3 x 2 pixels."), "{said}");
    assert!(!said.contains("![image]"), "the client's own message is not repeated: {said}");

    let images = "select (select count(*) from houston.images), (select count(*) from houston.image_uses)";
    assert_eq!(houston.sql_of(&goal, images).trim(), "1|1");

    // A copy of the conversation keeps the image when the original is erased.
    let user = houston.get(&format!("/v1/goals/{goal}")).await["user_id"].as_str().unwrap().to_owned();
    let document = houston.get(&format!("/v1/goals/{goal}/export")).await;
    assert!(!document.to_string().contains(&to_base64(&png())), "the reference, not the bytes");
    let body = json!({"user_id": user, "conversation": document});
    let copy = houston.post_to(&houston.url("/v1/goals/import"), &body).await;
    assert_eq!(houston.sql_of(&goal, images).trim(), "1|2", "{copy}");
    for (path, left) in [(format!("/v1/goals/{goal}"), "1|1"), (format!("/v1/users/{user}"), "0|0")] {
        let (status, erasure) = houston.ask(reqwest::Method::DELETE, &path).await;
        assert_eq!(status, 202, "{erasure}");
        let path = format!("/v1/erasures/{}", erasure["id"].as_str().unwrap());
        houston.wait_until(&path, "erased", |found| found["completed_at"].is_string()).await;
        assert_eq!(houston.sql_of(&goal, images).trim(), left);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn model_that_does_not_see_asks_one_that_does_by_the_id() {
    let houston = TestHouston::start();
    let file = houston.folder.path().join("agents/goal.toml");
    let goal = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, goal.replace("\"create_note\",", "\"create_note\", \"analyze_image\",")).unwrap();
    let looked = AtomicBool::new(false);
    let test = Scripted::over(houston, move |asked| {
        if asked.system.starts_with("You look at an image") {
            looked.store(true, Ordering::Relaxed);
            return Reply::text("A cat.");
        }
        let texts = asked.texts.join("\n");
        let line = texts.split("an image that you cannot see: ").nth(1);
        let id = line.map(|line| line.split(',').next().unwrap().to_owned());
        match id {
            Some(id) if !looked.load(Ordering::Relaxed) && !asked.tools.is_empty() => {
                Reply::tool("analyze_image", json!({"image_id": id, "question": "What is it?"}))
            }
            _ => Reply::tool("send_message", json!({"content": "Done."})),
        }
    })
    .await;
    // The address of a page would have to be one of these; a posted image has none.
    let _worker = test.houston.worker_with(&[
        ("HOUSTON_MODEL", "local/small"),
        ("HOUSTON_LOCAL_URL", &test.model.url()),
        ("HOUSTON_GUARDS__HOSTS", "[\"example.com\"]"),
    ]);
    let goal = test.goal(json!({})).await;
    // Private data besides: what sends something out would ask.
    test.ok("POST", &format!("/v1/goals/{goal}/learnings"), json!({"content": "likes cats"})).await;
    let body = json!({"content": "What is this?", "images": [{"data": to_base64(&png())}]});
    let posted = test.ok("POST", &format!("/v1/goals/{goal}/messages"), body).await;
    assert_eq!(test.houston.wait_until_answered(&posted).await["status"], "answered");
    let calls = test.model.journal().exchanges();
    let calls: Vec<String> =
        calls.iter().map(|call| String::from_utf8_lossy(&call.body).into_owned()).collect();
    let url = format!("data:image/png;base64,{}", to_base64(&png()));
    let with_image: Vec<&String> = calls.iter().filter(|body| body.contains(&url)).collect();
    assert_eq!(with_image.len(), 1, "the image was sent to the model that was asked about it, once");
    assert!(calls.last().unwrap().contains("A cat."), "{calls:?}");
}

/// Regression: an image that the provider refused stood in every request of its thread, each of which failed.
#[tokio::test(flavor = "multi_thread")]
async fn image_that_the_provider_refuses_is_left_out() {
    let test = Scripted::start(move |asked| {
        let is_told = asked.texts.iter().any(|text| text.contains("was left out: your provider refused it"));
        let says = |text: &str| Reply::tool("send_message", json!({"content": text}));
        match (asked.has_image, is_told) {
            (true, _) => Reply::status(400).body(
                json!({"type": "error", "error": {"type": "invalid_request_error",
                       "message": "messages.0.content.1.image.source.base64.data: Could not process image"}})
                .to_string(),
            ),
            (false, true) => says("I could not see it."),
            (false, false) => says("Hello."),
        }
    })
    .await;
    let _worker = test.houston.worker_with(&[
        ("HOUSTON_MODEL", "anthropic/claude-sonnet-4-5"),
        ("ANTHROPIC_BASE_URL", &test.model.url()),
        ("ANTHROPIC_API_KEY", "sk-ant-test"),
    ]);
    let goal = test.goal(json!({})).await;
    let body = json!({"content": "What is this?", "images": [{"data": to_base64(&png())}]});
    let posted = test.ok("POST", &format!("/v1/goals/{goal}/messages"), body).await;
    assert_eq!(test.houston.wait_until_answered(&posted).await["status"], "answered");
    assert_eq!(test.ask(&goal, "And now?").await, "I could not see it.");
    assert_eq!(test.asked().iter().filter(|asked| asked.has_image).count(), 1, "it is sent once");
    let thread = test.houston.get(&format!("/v1/goals/{goal}/messages")).await;
    let messages = thread["data"].as_array().unwrap();
    let told: Vec<_> =
        messages.iter().filter(|message| message["metadata"]["code"] == "FILE_REFUSED").collect();
    assert_eq!((told.len(), &told[0]["metadata"]["left_out"]), (1, &json!(1)), "{thread}");
    assert!(told[0]["content"].as_str().unwrap().contains("could not read a file"), "{thread}");
}
