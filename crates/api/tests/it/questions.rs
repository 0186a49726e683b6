//! Questions over HTTP: reading, answering, and what streams show.

use houston_domain::question::approval::{Approval, answer_schema};
use houston_domain::question::{NewQuestion, QuestionKind};
use houston_domain::run::RunStatus;
use serde_json::{Value, json};

use crate::http::kinds;
use crate::test_api::{TestApi, make_tenant};
use crate::worker::Worker;

const OTHER: &str = "hou_other_0123456789";

/// A question whose answer says yes or no.
pub(crate) fn question(api: &TestApi) -> NewQuestion {
    NewQuestion {
        id: api.state.ids.beside(api.agentable()),
        kind: QuestionKind::Approval,
        subject: Some("call_1".into()),
        text: "May I?".into(),
        schema: Some(
            json!({"type": "object", "required": ["yes"], "properties": {"yes": {"type": "boolean"}}}),
        ),
        default_value: None,
        expires_at: None,
        approval: None,
        message_id: None,
    }
}

/// A question whether a mail may be sent.
pub(crate) fn approval(api: &TestApi, why: &str) -> NewQuestion {
    NewQuestion {
        schema: Some(answer_schema(&json!({}), true)),
        approval: Some(Box::new(Approval {
            tool: "send_mail".into(),
            input: json!({"to": "ann@example.com"}),
            why: why.into(),
            message_id: Some(api.state.ids.beside(api.agentable())),
            preview: None,
            lasting: true,
            pin: None,
        })),
        ..question(api)
    }
}

#[tokio::test]
async fn question_is_listed_answered_once_and_shown_in_streams() {
    let api = TestApi::start().await;
    let posted = api.post_message("Delete all notes").await;
    let worker = Worker::start(&api).await;
    let run = worker.claim().await;
    let mut stream = api.stream("?after=0", None).await;
    stream.until("STEP_STARTED").await;
    let asked = question(&api);
    let path = format!("/v1/questions/{}", asked.id);
    run.ask(asked).await;
    let received = stream.until("houston.question.asked").await.pop().unwrap();
    assert_eq!(
        (&received.data["value"]["kind"], &received.data["value"]["subject"]),
        (&json!("approval"), &json!("call_1"))
    );

    let open = api.get("/v1/questions").await.ok();
    let [of] = open["data"].as_array().unwrap().as_slice() else { panic!("{open}") };
    assert_eq!(
        (&of["goal_id"], &of["run_id"], &of["state"]),
        (&json!(api.goal), &posted["run_id"], &json!("open"))
    );
    let of_user = format!("/v1/questions?user_id={}", of["user_id"].as_str().unwrap());
    assert_eq!(api.get(&of_user).await.ok()["data"], open["data"]);
    assert_eq!(&api.get(&path).await.ok(), of);
    let run = api.get(&format!("/v1/runs/{}", posted["run_id"].as_str().unwrap())).await.ok();
    assert_eq!((&run["status"], &run["waits_until"]), (&json!("waiting"), &Value::Null));
    let goal = api.get(&api.path("")).await.ok();
    assert_eq!(goal["status"], "working");

    let answer = format!("{path}/answer");
    let problem = api.post(&answer, json!({"answer": {"yes": 1}})).await.refused(422, "invalid_request");
    assert_eq!(problem["errors"][0]["pointer"], "/answer/yes");
    api.post(&answer, json!({"answer": "\u{0}"})).await.refused(422, "invalid_request");
    let yes = json!({"answer": {"yes": true}, "answered_by": "Ann"});
    let answered = api.post(&answer, yes.clone()).await.ok();
    assert_eq!((&answered["state"], &answered["answered_by"]), (&json!("answered"), &json!("Ann")));
    assert_eq!(api.post(&answer, yes).await.ok(), answered, "the same answer again changes nothing");
    let other = api.post(&answer, json!({"answer": {"yes": false}})).await.refused(409, "question_closed");
    assert!(other["detail"].as_str().unwrap().contains(r#"answered with {"yes":true}"#), "{other}");
    assert_eq!(api.get("/v1/questions").await.ok()["data"], json!([]));

    worker.claim().await.answer("Done.").await;
    let (frames, _) = stream.rest().await;
    let facts: Vec<&str> = kinds(&frames).into_iter().filter(|kind| kind.starts_with("houston.")).collect();
    assert_eq!(facts, ["houston.run.waiting", "houston.question.closed", "houston.attempt.started"]);
    let resumed = frames.iter().find(|of| of.kind() == "houston.attempt.started").unwrap();
    // The step that asked paid for a model call, which closed the first iteration.
    assert_eq!(resumed.data["value"], json!({"attempt": 2, "iteration": 2, "resumed": true}));
}

#[tokio::test]
async fn question_of_an_ended_run_or_another_tenant_is_not_answered() {
    let api = TestApi::start().await;
    api.post_message("Delete all notes").await;
    let worker = Worker::start(&api).await;
    let asked = question(&api);
    let path = format!("/v1/questions/{}", asked.id);
    worker.claim().await.ask(asked).await;
    make_tenant(&api.store, &api.state.ids, "other", OTHER).await;
    assert_eq!(api.send_as(OTHER, "GET", &path, Value::Null).await.status, 404);
    api.post_message("Never mind").await;
    worker.claim().await.end(RunStatus::Failed, None).await;
    let answer = json!({"answer": {"yes": true}});
    let problem = api.post(&format!("{path}/answer"), answer).await.refused(409, "question_closed");
    assert!(problem["detail"].as_str().unwrap().contains("is cancelled"), "{problem}");
}

#[tokio::test]
async fn export_and_copies_have_the_closed_questions() {
    let api = TestApi::start().await;
    api.post_message("Delete all notes").await;
    let worker = Worker::start(&api).await;
    let asked = question(&api);
    let path = format!("/v1/questions/{}/answer", asked.id);
    worker.claim().await.ask(asked).await;
    let open = api.get(&api.path("/export")).await.ok();
    assert_eq!(open["questions"], json!([]), "it belongs to a turn that is not complete");
    api.post(&path, json!({"answer": {"yes": true}, "answered_by": "Ann"})).await.ok();
    worker.claim().await.answer("Done.").await;

    let exported = api.get(&api.path("/export")).await.ok();
    let [of] = exported["questions"].as_array().unwrap().as_slice() else { panic!("{exported}") };
    assert_eq!(
        (&of["kind"], &of["subject"], &of["text"], &of["state"], &of["answer"], &of["answered_by"]),
        (
            &json!("approval"),
            &json!("call_1"),
            &json!("May I?"),
            &json!("answered"),
            &json!({"yes": true}),
            &json!("Ann")
        )
    );
    let fork = api.post(&api.path("/fork"), json!({})).await;
    let copy = fork.header("location").to_owned();
    assert_eq!(api.get(&format!("{copy}/export")).await.ok()["questions"], exported["questions"]);

    let mut document = exported;
    document["questions"][0]["state"] = json!("open");
    let body = json!({"user_id": api.user, "conversation": document});
    let problem = api.post("/v1/goals/import", body).await.refused(422, "invalid_request");
    assert_eq!(problem["errors"][0]["pointer"], "/conversation/questions/0/state", "{problem}");
}

#[tokio::test]
async fn lasting_yes_is_checked_listed_and_revoked() {
    let api = TestApi::start().await;
    make_tenant(&api.store, &api.state.ids, "other", OTHER).await;
    api.post_message("Send the report").await;
    let worker = Worker::start(&api).await;
    let run = worker.claim().await;
    let asked = approval(&api, "it sends something out");
    let path = format!("/v1/questions/{}", asked.id);
    run.ask(asked).await;
    assert_eq!(api.get(&path).await.ok()["approval"]["lasting"], true);
    let remember = |when: Value| json!({"answer": {"decision": "approve", "remember": {"scope": "user", "when": when}}, "answered_by": "Ann"});
    let wrong = api.post(&format!("{path}/answer"), remember(json!({"to": {"equals": 1}}))).await;
    assert!(wrong.status == 422 && wrong.text().contains("/answer/remember/when"), "{}", wrong.text());
    let when = json!({"/to": {"glob": "*@example.com"}});
    api.post(&format!("{path}/answer"), remember(when.clone())).await.ok();
    let user = api.get(&api.path("")).await.ok()["user_id"].as_str().unwrap().to_owned();
    let list = format!("/v1/users/{user}/grants");
    let grants = api.get(&list).await.ok();
    let [grant] = grants["data"].as_array().unwrap().as_slice() else { panic!("{grants}") };
    assert_eq!(
        (&grant["tool"], &grant["when"], &grant["agentable"], &grant["granted_by"]),
        (&json!("send_mail"), &when, &Value::Null, &json!("Ann"))
    );
    let grant = format!("/v1/grants/{}", grant["id"].as_str().unwrap());
    assert_eq!(api.send_as(OTHER, "DELETE", &grant, Value::Null).await.status, 404);
    assert_eq!(api.send("DELETE", &grant, Value::Null).await.status, 204);
    assert_eq!(api.get(&list).await.ok()["data"], json!([]));
}
