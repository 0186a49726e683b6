use houston_domain::agentable::DoubleTexting;
use houston_domain::event::{Live, Part};
use houston_domain::run::RunStatus;
use houston_queue::Received;
use serde_json::{Value, json};

use crate::app::App;
use crate::http::{Answer, End, Frame};
use crate::worker::Worker;

async fn post(app: &App, content: &str, policy: &str) -> Answer {
    app.post(&app.path("/messages"), json!({"content": content, "double_texting": policy})).await
}

async fn status(app: &App, message: &Value) -> Value {
    app.get(&format!("/v1/messages/{}", message["id"].as_str().unwrap())).await.ok()["status"].clone()
}

fn of_kind<'f>(frames: &'f [Frame], kind: &str) -> Vec<&'f Value> {
    frames.iter().filter(|frame| frame.kind() == kind).map(|frame| &frame.data).collect()
}

#[tokio::test]
async fn an_interrupt_reaches_the_worker_and_the_stream_goes_on_to_the_next_run() {
    let app = App::start().await;
    let first = app.say("one").await;
    let worker = Worker::start(&app).await;
    let run = worker.claim().await;
    let mut control = app.state.bus.subscribe_control();
    let mut stream = app.stream("?after=0", None).await;
    stream.until("STEP_STARTED").await;
    let answer = post(&app, "two", "interrupt").await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    let second = answer.json();
    assert_eq!((&second["run_id"], &second["status"]), (&first["run_id"], &json!("pending")));
    loop {
        let Received::Item(item) = control.recv().await else { panic!("lagged") };
        // The stream asks for the text so far.
        if item.live != Live::TranscriptWanted {
            assert_eq!((item.agentable, &item.live), (app.agentable(), &Live::CancelRequested(run.run())));
            break;
        }
    }
    run.end(RunStatus::Cancelled, None).await;
    worker.claim().await.answer("hi").await;
    let (frames, end) = stream.rest().await;
    assert_eq!(end, End::Clean);
    let ends = of_kind(&frames, "RUN_FINISHED");
    assert_eq!(
        (&ends[0]["outcome"]["type"], &ends[0]["result"]),
        (
            &json!("cancelled"),
            &json!({"status": "cancelled", "cost": "0.0015", "cancelled_by": "interrupt", "stop_reason": "interrupt"})
        )
    );
    assert_eq!(ends[1]["result"], json!({"status": "message_sent", "cost": "0.0015"}));
    assert_eq!(of_kind(&frames, "RUN_STARTED")[0]["runId"], ends[1]["runId"]);
    let shown = app.get(&format!("/v1/runs/{}", first["run_id"].as_str().unwrap())).await.ok();
    assert_eq!((&shown["status"], &shown["cancelled_by"]), (&json!("cancelled"), &json!("interrupt")));
    assert_eq!(status(&app, &first).await, "failed");
    assert_eq!(status(&app, &second).await, "answered");
    let answered = app.get(&format!("/v1/messages/{}", second["id"].as_str().unwrap())).await.ok();
    assert_eq!(answered["run_id"], ends[1]["runId"], "the run that answered it");
}

#[tokio::test]
async fn a_rejected_message_is_told_which_run_is_open_and_what_to_do() {
    let app = App::start().await;
    let first = app.say("one").await;
    let key = [("idempotency-key", "k")];
    let body = json!({"content": "two", "double_texting": "reject"});
    let problem =
        app.post_with(&app.path("/messages"), &key, body.clone()).await.refused(409, "run_in_progress");
    assert_eq!(problem["run_id"], first["run_id"]);
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains(first["run_id"].as_str().unwrap()) && detail.contains("`interrupt`"), "{detail}");
    let worker = Worker::start(&app).await;
    worker.claim().await.answer("1").await;
    assert_eq!(app.post_with(&app.path("/messages"), &key, body.clone()).await.status, 202);
    // The policy is part of what the key stands for.
    let other = json!({"content": "two", "double_texting": "enqueue"});
    app.post_with(&app.path("/messages"), &key, other).await.refused(422, "idempotency_key_reused");
    assert_eq!(app.post_with(&app.path("/messages"), &key, body).await.status, 202);
    assert_eq!(app.get(&app.path("/messages")).await.ok()["data"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn an_unknown_policy_is_told_the_four_there_are() {
    let app = App::start().await;
    let problem = post(&app, "x", "merge").await.refused(422, "invalid_request");
    assert_eq!(problem["errors"][0]["pointer"], "/double_texting");
    let detail = problem["errors"][0]["detail"].as_str().unwrap();
    assert_eq!(detail, "`merge` is not allowed; allowed: `enqueue`, `interrupt`, `reject`, `rollback`");
}

#[tokio::test]
async fn the_agent_type_says_what_a_request_leaves_open() {
    let app = App::start_for(|kind| kind.double_texting = DoubleTexting::Reject).await;
    app.say("one").await;
    let body = json!({"content": "two"});
    app.post(&app.path("/messages"), body).await.refused(409, "run_in_progress");
    assert_eq!(post(&app, "two", "enqueue").await.status, 202, "the request wins");
}

#[tokio::test]
async fn what_was_rolled_back_is_marked_in_the_thread_and_gone_from_the_history() {
    let app = App::start().await;
    let first = app.say("one").await;
    let worker = Worker::start(&app).await;
    let mut run = worker.claim().await;
    run.use_tool("hm").await;
    assert_eq!(post(&app, "two", "rollback").await.status, 202);
    run.end(RunStatus::Cancelled, None).await;
    let run = worker.claim().await;
    let mut stream = app.stream("?after=0", None).await;
    stream.until("RUN_FINISHED").await;
    stream.until("STEP_STARTED").await;
    run.write(Part::Message, 0, 0, "Gr");
    stream.until("TEXT_MESSAGE_CONTENT").await;
    // A text that is taken back brings a snapshot of the thread.
    run.hand_over().await;
    let snapshot = stream.until("MESSAGES_SNAPSHOT").await.pop().unwrap().data;
    let marked: Vec<(&str, bool)> = snapshot["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["role"].as_str().unwrap(), one["metadata"]["houston"]["rolled_back"] == true))
        .collect();
    assert_eq!(marked, [("user", true), ("assistant", true), ("tool", true), ("user", false)]);
    worker.claim().await.answer("hi").await;

    let history = app.get(&app.path("/history")).await.ok();
    let said: Vec<&Value> = history["data"].as_array().unwrap().iter().collect();
    assert_eq!(said.len(), 2, "{history}");
    assert_eq!(said[0]["content"][0]["text"], "two");
    let thread = app.get(&app.path("/messages")).await.ok();
    let marked: Vec<(&str, bool)> = thread["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["content"].as_str().unwrap(), one["metadata"]["rolled_back"] == true))
        .collect();
    assert_eq!(marked, [("hi", false), ("two", false), ("create_note", true), ("one", true)]);
    assert_eq!(status(&app, &first).await, "failed");
}
