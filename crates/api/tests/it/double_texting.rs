use houston_domain::agentable::DoubleTexting;
use houston_domain::event::{Live, Part};
use houston_domain::run::RunStatus;
use houston_queue::Received;
use serde_json::{Value, json};

use crate::http::{Answer, End, Frame};
use crate::test_api::TestApi;
use crate::worker::Worker;

async fn post(api: &TestApi, content: &str, policy: &str) -> Answer {
    api.post(&api.path("/messages"), json!({"content": content, "double_texting": policy})).await
}

async fn status(api: &TestApi, message: &Value) -> Value {
    api.get(&format!("/v1/messages/{}", message["id"].as_str().unwrap())).await.ok()["status"].clone()
}

fn of_kind<'f>(frames: &'f [Frame], kind: &str) -> Vec<&'f Value> {
    frames.iter().filter(|frame| frame.kind() == kind).map(|frame| &frame.data).collect()
}

#[tokio::test]
async fn interrupt_reaches_the_worker_and_the_stream_continues() {
    let api = TestApi::start().await;
    let first = api.post_message("one").await;
    let worker = Worker::start(&api).await;
    let run = worker.claim().await;
    let mut control = api.state.bus.subscribe_control();
    let mut stream = api.stream("?after=0", None).await;
    stream.until("STEP_STARTED").await;
    let answer = post(&api, "two", "interrupt").await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    let second = answer.json();
    assert_eq!(second["status"], "pending");
    assert_ne!(second["run_id"], first["run_id"], "that one is being cancelled");
    loop {
        let Received::Item(item) = control.recv().await else { panic!("lagged") };
        // The stream requests the text written so far.
        if item.live != Live::TranscriptWanted {
            assert_eq!((item.agentable, &item.live), (api.agentable(), &Live::CancelRequested(run.run())));
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
    let run = api.get(&format!("/v1/runs/{}", first["run_id"].as_str().unwrap())).await.ok();
    assert_eq!((&run["status"], &run["cancelled_by"]), (&json!("cancelled"), &json!("interrupt")));
    assert_eq!(status(&api, &first).await, "failed");
    assert_eq!(status(&api, &second).await, "answered");
    let answered = api.get(&format!("/v1/messages/{}", second["id"].as_str().unwrap())).await.ok();
    assert_eq!(answered["run_id"], ends[1]["runId"], "the run that answered it");
    assert_eq!(second["run_id"], ends[1]["runId"], "as its 202 has said");
}

#[tokio::test]
async fn accepted_message_names_the_run_that_answers_it() {
    let api = TestApi::start().await;
    let worker = Worker::start(&api).await;
    let path = |run: &Value| format!("/v1/runs/{}", run.as_str().unwrap());
    for (policy, then) in [("interrupt", "enqueue"), ("rollback", "interrupt"), ("enqueue", "enqueue")] {
        let first = api.post_message("one").await["run_id"].clone();
        let run = worker.claim().await;
        let second = post(&api, "two", policy).await.json()["run_id"].clone();
        let third = post(&api, "three", then).await.json()["run_id"].clone();
        assert_eq!(third, second, "{policy}, {then}");
        if policy == "enqueue" {
            assert_eq!(second, first, "it is read at the next step");
            continue;
        }
        assert_ne!(second, first, "{policy}");
        let queued = api.get(&path(&second)).await.ok();
        assert_eq!((&queued["id"], &queued["status"]), (&second, &json!("queued")));
        let until_answered = format!("{}?wait=20", path(&second));
        let waiting = api.get(&until_answered);
        let work = async {
            run.end(RunStatus::Cancelled, None).await;
            worker.claim().await.answer("hi").await;
        };
        let (waited, ()) = tokio::join!(waiting, work);
        assert_eq!(waited.ok()["status"], "message_sent", "{policy}");
    }
    let unknown = api.get("/v1/runs/run_01900000000070008000000000000000").await;
    unknown.refused(404, "not_found");
}

#[tokio::test]
async fn rejected_message_names_the_open_run_and_the_policies() {
    let api = TestApi::start().await;
    let first = api.post_message("one").await;
    let key = [("idempotency-key", "k")];
    let body = json!({"content": "two", "double_texting": "reject"});
    let problem =
        api.post_with(&api.path("/messages"), &key, body.clone()).await.refused(409, "run_in_progress");
    assert_eq!(problem["run_id"], first["run_id"]);
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains(first["run_id"].as_str().unwrap()) && detail.contains("`interrupt`"), "{detail}");
    let worker = Worker::start(&api).await;
    worker.claim().await.answer("1").await;
    assert_eq!(api.post_with(&api.path("/messages"), &key, body.clone()).await.status, 202);
    // The policy is part of the request that the key identifies.
    let other = json!({"content": "two", "double_texting": "enqueue"});
    api.post_with(&api.path("/messages"), &key, other).await.refused(422, "idempotency_key_reused");
    assert_eq!(api.post_with(&api.path("/messages"), &key, body).await.status, 202);
    assert_eq!(api.get(&api.path("/messages")).await.ok()["data"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn unknown_policy_lists_the_four_policies() {
    let api = TestApi::start().await;
    let problem = post(&api, "x", "merge").await.refused(422, "invalid_request");
    assert_eq!(problem["errors"][0]["pointer"], "/double_texting");
    let detail = problem["errors"][0]["detail"].as_str().unwrap();
    assert_eq!(detail, "`merge` is not allowed; allowed: `enqueue`, `interrupt`, `reject`, `rollback`");
}

#[tokio::test]
async fn agent_type_sets_the_default_policy() {
    let api = TestApi::start_with_types(|kind| kind.double_texting = DoubleTexting::Reject).await;
    api.post_message("one").await;
    let body = json!({"content": "two"});
    api.post(&api.path("/messages"), body).await.refused(409, "run_in_progress");
    assert_eq!(post(&api, "two", "enqueue").await.status, 202, "the request wins");
}

#[tokio::test]
async fn rollback_marks_the_thread_and_removes_the_history() {
    let api = TestApi::start().await;
    let first = api.post_message("one").await;
    let worker = Worker::start(&api).await;
    let mut run = worker.claim().await;
    run.use_tool("hm").await;
    assert_eq!(post(&api, "two", "rollback").await.status, 202);
    run.end(RunStatus::Cancelled, None).await;
    let run = worker.claim().await;
    let mut stream = api.stream("?after=0", None).await;
    stream.until("RUN_FINISHED").await;
    stream.until("STEP_STARTED").await;
    run.write(Part::Message, 0, 0, "Gr");
    stream.until("TEXT_MESSAGE_CONTENT").await;
    // Removing the text of a broken attempt sends a snapshot of the thread.
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

    let history = api.get(&api.path("/history")).await.ok();
    let said: Vec<&Value> = history["data"].as_array().unwrap().iter().collect();
    assert_eq!(said.len(), 2, "{history}");
    assert_eq!(said[0]["content"][0]["text"], "two");
    let thread = api.get(&api.path("/messages")).await.ok();
    let marked: Vec<(&str, bool)> = thread["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["content"].as_str().unwrap(), one["metadata"]["rolled_back"] == true))
        .collect();
    assert_eq!(marked, [("hi", false), ("two", false), ("create_note", true), ("one", true)]);
    assert_eq!(status(&api, &first).await, "failed");
}
