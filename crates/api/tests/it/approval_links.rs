//! Links with which people decide questions without an API key.

use houston_domain::question::NewQuestion;
use serde_json::{Value, json};

use crate::http::{Answer, request};
use crate::questions::{approval, question};
use crate::test_api::{TestApi, make_tenant};
use crate::worker::Worker;

const OTHER: &str = "hou_other_0123456789";

/// Opens a link as a browser does: without a key.
async fn open(api: &TestApi, path: &str) -> Answer {
    request(api.address, "GET", path, &[("accept", "text/html")], "").await
}

async fn send(api: &TestApi, path: &str, form: &str) -> Answer {
    let kind = ("content-type", "application/x-www-form-urlencoded");
    request(api.address, "POST", path, &[kind], form).await
}

/// A run that asks whether a mail may be sent. Returns the worker and the path of the question.
async fn asking(api: &TestApi) -> (Worker<'_>, String) {
    api.post_message("Send the report").await;
    let worker = Worker::start(api).await;
    let asked = hostile(api);
    let path = format!("/v1/questions/{}", asked.id);
    worker.claim().await.ask(asked).await;
    (worker, path)
}

/// A question with text that would be obeyed if it were not escaped.
fn hostile(api: &TestApi) -> NewQuestion {
    let mut asked = approval(api, "it sends something out");
    asked.text = "Send mail? <script>alert(1)</script>".to_owned();
    if let Some(call) = &mut asked.approval {
        call.input = json!({"to": "<img src=x onerror=alert(1)>", "subject": "\u{202e}fdp.exe"});
    }
    asked
}

async fn link(api: &TestApi, question: &str, body: Value) -> String {
    let made = api.post(&format!("{question}/links"), body).await;
    assert_eq!(made.status, 201, "{}", made.text());
    made.json()["path"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn link_is_shown_by_get_and_decides_by_post() {
    let api = TestApi::start().await;
    let (worker, question) = asking(&api).await;
    let path = link(&api, &question, json!({"answered_by": "Ann"})).await;
    let other = link(&api, &question, json!({})).await;
    assert_ne!(path, other);

    for method in ["GET", "HEAD", "GET"] {
        let page = request(api.address, method, &path, &[], "").await;
        assert_eq!(page.status, 200, "{method}: {}", page.text());
        let policy = page.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; style-src 'nonce-"), "{policy}");
        assert_eq!(
            (page.header("cache-control"), page.header("referrer-policy")),
            ("no-store", "no-referrer")
        );
    }
    let text = open(&api, &path).await.text();
    assert!(text.contains("send_mail") && text.contains("&lt;img src=x onerror=alert(1)&gt;"), "{text}");
    assert!(
        !text.contains("<script") && !text.contains("<img") && text.contains("\\u{202e}fdp.exe"),
        "{text}"
    );
    let state = async || api.get(&question).await.ok()["state"].as_str().unwrap().to_owned();
    assert_eq!(state().await, "open", "opening a link decides nothing");

    for form in ["", "decision=maybe", "decision", "{\"decision\": \"approve\"}"] {
        assert_eq!(send(&api, &path, form).await.status, 422, "{form}");
    }
    assert_eq!(state().await, "open");
    let decided = send(&api, &path, "decision=approve").await;
    assert!(
        decided.status == 200 && decided.text().contains("Decided by Ann: approve."),
        "{}",
        decided.text()
    );
    let answered = api.get(&question).await.ok();
    assert_eq!(
        (&answered["answer"], &answered["answered_by"]),
        (&json!({"decision": "approve"}), &json!("Ann"))
    );
    worker.claim().await.answer("Sent.").await;

    for path in [&path, &other] {
        let late = send(&api, path, "decision=reject&message=no").await;
        assert!(late.status == 409 && late.text().contains("Decided by Ann: approve."), "{}", late.text());
        let page = open(&api, path).await;
        assert_eq!(page.status, 200);
        assert!(!page.text().contains("onerror") && !page.text().contains("<form"), "{}", page.text());
    }
    api.post(&format!("{question}/links"), json!({})).await.refused(409, "question_closed");
}

#[tokio::test]
async fn rejection_has_the_reason_that_was_typed() {
    let api = TestApi::start().await;
    let (_worker, question) = asking(&api).await;
    let path = link(&api, &question, json!({})).await;
    let long = format!("decision=reject&message={}", "x".repeat(4001));
    assert_eq!(send(&api, &path, &long).await.status, 422, "it is not cut silently");
    assert_eq!(send(&api, &path, "decision=reject&message=+not%00today+").await.status, 200);
    let answered = api.get(&question).await.ok();
    assert_eq!(answered["answer"], json!({"decision": "reject", "message": "not\u{fffd}today"}));
    assert_eq!(answered["answered_by"], "an approval link");
    let audit = api.get("/v1/audit?operation=answer_question").await.ok();
    let [decided] = audit["data"].as_array().unwrap().as_slice() else { panic!("{audit}") };
    assert_eq!(
        (&decided["actor"], &decided["target"]),
        (&json!("link (an approval link)"), &json!(question.trim_start_matches("/v1/questions/")))
    );
}

#[tokio::test]
async fn of_several_deciders_at_once_one_wins() {
    let api = TestApi::start().await;
    let (_worker, question) = asking(&api).await;
    let mut forms = Vec::new();
    for nth in 0..8 {
        let path = link(&api, &question, json!({"answered_by": format!("decider {nth}")})).await;
        forms.push((path, if nth % 2 == 0 { "decision=approve" } else { "decision=reject" }));
    }
    let sent = forms.iter().map(|(path, form)| send(&api, path, form));
    let statuses: Vec<u16> =
        futures_util::future::join_all(sent).await.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    assert!(statuses.iter().all(|status| [200, 409].contains(status)), "{statuses:?}");
}

#[tokio::test]
async fn link_opens_its_question_only() {
    let api = TestApi::start().await;
    make_tenant(&api.store, &api.state.ids, "other", OTHER).await;
    let (worker, first) = asking(&api).await;
    let path = link(&api, &first, json!({})).await;
    let denied = api.send_as(OTHER, "POST", &format!("{first}/links"), json!({})).await;
    assert_eq!(denied.status, 404);
    let long = json!({"answered_by": "x".repeat(201)});
    api.post(&format!("{first}/links"), long).await.refused(422, "invalid_request");
    for _ in 1..20 {
        link(&api, &first, json!({})).await;
    }
    api.post(&format!("{first}/links"), json!({})).await.refused(409, "full");

    let (prefix, token) = path.rsplit_once('/').unwrap();
    let elsewhere = question(&api).id;
    let wrong = [
        format!("{prefix}/{}", "0".repeat(64)),
        format!("{prefix}/{}", &token[1..]),
        format!("/approve/{elsewhere}/{token}"),
        format!("/approve/nothing/{token}"),
        format!("{prefix}/%00%ff"),
    ];
    for wrong in &wrong {
        for answer in [open(&api, wrong).await, send(&api, wrong, "decision=approve").await] {
            assert_eq!(answer.status, 404, "{wrong}: {}", answer.text());
            assert!(!answer.text().contains(token), "{}", answer.text());
        }
    }
    let problem = request(api.address, "DELETE", &path, &[], "").await.refused(405, "method_not_allowed");
    assert_eq!(problem["instance"], "/approve/", "the token is not repeated");
    assert_eq!(
        api.sql(&format!(
            "select count(*) from houston.approval_links where encode(token_sha256, 'hex') = '{token}'"
        )),
        "0"
    );

    send(&api, &path, "decision=approve").await;
    let run = worker.claim().await;
    let input = question(&api);
    let path = format!("/v1/questions/{}/links", input.id);
    run.ask(input).await;
    let refused = api.post(&path, json!({})).await.refused(422, "invalid_request");
    let answer = path.replace("/links", "/answer");
    assert_eq!(
        refused["errors"][0]["detail"],
        format!("needs another answer than yes or no; POST {answer} answers it")
    );
}
