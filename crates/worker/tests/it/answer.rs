use houston_domain::event::Event;
use houston_domain::message::MessageStatus;
use houston_domain::run::RunStatus;

use houston_llm::Timeouts;
use houston_testkit::model_server::script::in_turn;
use houston_testkit::model_server::{ModelServer, Reply};
use serde_json::json;

use crate::failure::{patient, says};
use crate::rig::{Rig, assert_status, eventually};
use crate::workers::{config, simulated};

#[tokio::test(flavor = "multi_thread")]
async fn a_note_is_created_and_told_of() {
    let rig = Rig::start().await;
    let worker = rig.worker();
    let posted = rig.post(rig.goal, "Please create a note: buy milk").await;
    let run = rig.ended(posted.run).await;
    assert_status(&run, RunStatus::MessageSent);
    assert_eq!(run.iterations, 2);
    let said = rig.said(rig.goal).await;
    assert_eq!(said.len(), 1);
    assert!(said[0].contains("note_"), "{said:?}");
    assert_eq!(rig.message(posted.id).await.status, Some(MessageStatus::Answered));

    let events = rig.events(rig.goal).await;
    let kinds: Vec<String> = events
        .iter()
        .map(|e| serde_json::to_value(&e.event).unwrap()["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        kinds,
        [
            "run_queued",
            "message_posted",
            "attempt_started",
            "tool_called",
            "tool_returned",
            "step_finished",
            "message_sent",
            "run_finished"
        ]
        .map(str::to_owned)
    );
    let history = rig.history(rig.goal).await;
    assert_eq!(history.len(), 5, "user, call, result, send_message, result");
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_hint_costs_a_sweep_and_nothing_else() {
    let rig = Rig::start().await;
    let worker = rig.worker();
    let posted = rig.post_silently(rig.goal, "hello").await;
    assert_status(&rig.ended(posted.run).await, RunStatus::MessageSent);
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_typed_while_it_works_enters_the_running_loop() {
    let rig = Rig::start().await;
    let worker = rig.worker();
    let first = rig.post(rig.goal, "/sim hold_ms=300 tool=list_notes args={}").await;
    eventually("the run starts", || async {
        (rig.store.run(rig.tenant, first.run).await.ok()?.status == RunStatus::Running).then_some(())
    })
    .await;
    let second = rig.post(rig.goal, "and hello").await;
    assert_eq!(second.run, first.run, "the open run takes it");
    rig.ended(first.run).await;
    assert_eq!(rig.message(second.id).await.status, Some(MessageStatus::Answered));
    rig.history(rig.goal).await;
    rig.events(rig.goal).await;
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_stop_rule_ends_with_a_status_and_words_of_its_own() {
    let rig = Rig::start().await;
    let worker = rig.worker();
    let posted = rig.post(rig.goal, "/sim loop=list_notes").await;
    assert_status(&rig.ended(posted.run).await, RunStatus::SameTool);
    assert!(rig.said(rig.goal).await[0].contains("same tool"));

    let failing = rig.new_goal().await;
    let posted = rig.post(failing, "/sim fail=authentication_error").await;
    let run = rig.ended(posted.run).await;
    assert_status(&run, RunStatus::Failed);
    assert_eq!(run.error_code.as_deref(), Some("AUTHENTICATION_ERROR"));
    assert_eq!(rig.message(posted.id).await.status, Some(MessageStatus::Failed));
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_limit_is_tried_again_later_and_then_given_up_visibly() {
    let rig = Rig::start().await;
    let worker = rig.worker();
    let posted = rig.post(rig.goal, "/sim fail=rate_limited").await;
    let run = rig.ended(posted.run).await;
    assert_status(&run, RunStatus::Failed);
    assert_eq!(run.attempt, 6, "one attempt and five retries");
    let retries = rig
        .events(rig.goal)
        .await
        .into_iter()
        .filter(|event| matches!(event.event, Event::RetryScheduled { .. }))
        .count();
    assert_eq!(retries, 5);
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_run_ends_and_the_next_message_is_answered() {
    let rig = Rig::start().await;
    let worker = rig.worker();
    let posted = rig.post(rig.goal, "/sim hold_ms=600000").await;
    eventually("the run starts", || async {
        (rig.store.run(rig.tenant, posted.run).await.ok()?.status == RunStatus::Running).then_some(())
    })
    .await;
    rig.store.cancel_run(rig.tenant, posted.run).await.unwrap();
    assert_status(&rig.ended(posted.run).await, RunStatus::Cancelled);
    assert_eq!(rig.message(posted.id).await.status, Some(MessageStatus::Failed));
    let next = rig.post(rig.goal, "hello again").await;
    assert_ne!(next.run, posted.run);
    assert_status(&rig.ended(next.run).await, RunStatus::MessageSent);
    rig.history(rig.goal).await;
    rig.events(rig.goal).await;
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_cancelled_before_any_worker_saw_it_takes_its_message_along() {
    let rig = Rig::start().await;
    let posted = rig.post(rig.goal, "hello").await;
    rig.store.cancel_run(rig.tenant, posted.run).await.unwrap();
    let worker = rig.worker();
    assert_status(&rig.ended(posted.run).await, RunStatus::Cancelled);
    assert_eq!(rig.message(posted.id).await.status, Some(MessageStatus::Failed));
    assert!(rig.said(rig.goal).await.is_empty());
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_too_many_calls_of_one_turn_the_first_are_carried_out_and_the_model_is_told() {
    let rig = Rig::start().await;
    let mut config = config();
    config.context.max_tool_calls = 2;
    let worker = rig.worker_of(config, simulated(), vec![]);
    let calls: String =
        (1..=3).map(|n| format!(r#" tool=create_note args={{"title":"n{n}","content":"c"}}"#)).collect();
    let posted = rig.post(rig.goal, &format!("/sim{calls}")).await;
    assert_status(&rig.ended(posted.run).await, RunStatus::MessageSent);
    let titles = "select string_agg(title, ' ' order by title) from houston.notes";
    assert_eq!(rig.servers.sql(titles).unwrap(), "n1 n2");
    let refused: Vec<bool> = rig
        .events(rig.goal)
        .await
        .iter()
        .filter_map(|event| match &event.event {
            Event::ToolReturned { content, is_error, .. } => {
                assert_eq!(*is_error, content.contains("a turn may have 2 calls"), "{content}");
                Some(*is_error)
            }
            _ => None,
        })
        .collect();
    assert_eq!(refused, [false, false, true]);
    rig.history(rig.goal).await;
    worker.drain().await;
}

/// Postgres keeps no U+0000, and models write one now and then.
#[tokio::test(flavor = "multi_thread")]
async fn what_no_database_keeps_is_replaced_in_all_that_a_model_writes() {
    let rig = Rig::start().await;
    let note = Reply::tool("create_note", json!({"title": "a\0b", "content": "c\0d", "\0": 1}));
    let server = ModelServer::start(in_turn([note.then_text("hm\0"), says("It is\0 done.")])).await.unwrap();
    let worker = rig.worker_with(patient(&server, Timeouts::default()), vec![]);
    let posted = rig.post(rig.goal, "hello").await;
    let run = rig.ended(posted.run).await;
    assert_status(&run, RunStatus::MessageSent);
    assert_eq!((run.attempt, rig.said(rig.goal).await), (1, vec!["It is\u{fffd} done.".to_owned()]));
    let history = serde_json::to_string(&rig.history(rig.goal).await).unwrap();
    assert!(history.contains("a\u{fffd}b"), "{history}");
    worker.drain().await;
}
