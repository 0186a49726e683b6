use houston_domain::event::Event;
use houston_domain::message::MessageStatus;
use houston_domain::run::RunStatus;

use houston_llm::Timeouts;
use houston_testkit::model_server::script::in_turn;
use houston_testkit::model_server::{ModelServer, Reply};
use serde_json::json;

use crate::cluster::{TestCluster, assert_status, eventually};
use crate::failure::{patient, says};
use crate::workers::{config, simulated};

#[tokio::test(flavor = "multi_thread")]
async fn note_is_created_and_reported() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker();
    let posted = cluster.post(cluster.goal, "Please create a note: buy milk").await;
    let run = cluster.wait_for_end(posted.run).await;
    assert_status(&run, RunStatus::MessageSent);
    assert_eq!(run.iterations, 2);
    let said = cluster.agent_messages(cluster.goal).await;
    assert_eq!(said.len(), 1);
    assert!(said[0].contains("note_"), "{said:?}");
    assert_eq!(cluster.message(posted.id).await.status, Some(MessageStatus::Answered));

    let events = cluster.events(cluster.goal).await;
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
    let history = cluster.history(cluster.goal).await;
    assert_eq!(history.len(), 5, "user, call, result, send_message, result");
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sweep_finds_a_run_whose_hint_was_lost() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker();
    let posted = cluster.post_silently(cluster.goal, "hello").await;
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn message_during_a_run_is_read_by_its_next_step() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker();
    let first = cluster.post(cluster.goal, "/sim hold_ms=4000 tool=list_notes args={}").await;
    eventually("the run starts", || async {
        (cluster.requests().run(first.run).await.ok()?.status == RunStatus::Running).then_some(())
    })
    .await;
    let second = cluster.post(cluster.goal, "and hello").await;
    assert_eq!(second.run, first.run, "the open run takes it");
    cluster.wait_for_end(first.run).await;
    assert_eq!(cluster.message(second.id).await.status, Some(MessageStatus::Answered));
    cluster.history(cluster.goal).await;
    cluster.events(cluster.goal).await;
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_limit_ends_the_run_with_its_status_and_notice() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker();
    let posted = cluster.post(cluster.goal, "/sim loop=list_notes").await;
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::SameTool);
    assert!(cluster.agent_messages(cluster.goal).await[0].contains("same tool"));

    let failing = cluster.new_goal().await;
    let posted = cluster.post(failing, "/sim fail=authentication_error").await;
    let run = cluster.wait_for_end(posted.run).await;
    assert_status(&run, RunStatus::Failed);
    assert_eq!(run.error_code(), Some("AUTHENTICATION_ERROR"));
    assert_eq!(cluster.message(posted.id).await.status, Some(MessageStatus::Failed));
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rate_limit_is_retried_and_then_given_up_with_a_message() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker();
    let posted = cluster.post(cluster.goal, "/sim fail=rate_limited").await;
    let run = cluster.wait_for_end(posted.run).await;
    assert_status(&run, RunStatus::Failed);
    assert_eq!(run.attempt, 6, "one attempt and five retries");
    let retries = cluster
        .events(cluster.goal)
        .await
        .into_iter()
        .filter(|event| matches!(event.event, Event::RetryScheduled { .. }))
        .count();
    assert_eq!(retries, 5);
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_run_ends_and_the_next_message_is_answered() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker();
    let posted = cluster.post(cluster.goal, "/sim hold_ms=600000").await;
    eventually("the run starts", || async {
        (cluster.requests().run(posted.run).await.ok()?.status == RunStatus::Running).then_some(())
    })
    .await;
    cluster.requests().cancel_run(posted.run).await.unwrap();
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::Cancelled);
    assert_eq!(cluster.message(posted.id).await.status, Some(MessageStatus::Failed));
    let next = cluster.post(cluster.goal, "hello again").await;
    assert_ne!(next.run, posted.run);
    assert_status(&cluster.wait_for_end(next.run).await, RunStatus::MessageSent);
    cluster.history(cluster.goal).await;
    cluster.events(cluster.goal).await;
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn run_cancelled_before_its_claim_consumes_its_message() {
    let cluster = TestCluster::start().await;
    let posted = cluster.post(cluster.goal, "hello").await;
    cluster.requests().cancel_run(posted.run).await.unwrap();
    let worker = cluster.worker();
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::Cancelled);
    assert_eq!(cluster.message(posted.id).await.status, Some(MessageStatus::Failed));
    assert!(cluster.agent_messages(cluster.goal).await.is_empty());
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_beyond_max_tool_calls_are_refused() {
    let cluster = TestCluster::start().await;
    let mut config = config();
    config.context.max_tool_calls = 2;
    let worker = cluster.worker_of(config, simulated(), vec![]);
    let calls: String =
        (1..=3).map(|n| format!(r#" tool=create_note args={{"title":"n{n}","content":"c"}}"#)).collect();
    let posted = cluster.post(cluster.goal, &format!("/sim{calls}")).await;
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
    let titles =
        "select string_agg(title, ' ' order by title) from houston.knowledge_items where kind = 'note'";
    assert_eq!(cluster.servers.sql(titles).unwrap(), "n1 n2");
    let refused: Vec<bool> = cluster
        .events(cluster.goal)
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
    cluster.history(cluster.goal).await;
    worker.drain().await;
}

/// Postgres cannot store U+0000, and models sometimes write it.
#[tokio::test(flavor = "multi_thread")]
async fn characters_postgres_cannot_store_are_replaced() {
    let cluster = TestCluster::start().await;
    let note = Reply::tool("create_note", json!({"title": "a\0b", "content": "c\0d", "\0": 1}));
    let server = ModelServer::start(in_turn([note.then_text("hm\0"), says("It is\0 done.")])).await.unwrap();
    let worker = cluster.worker_with(patient(&server, Timeouts::default()), vec![]);
    let posted = cluster.post(cluster.goal, "hello").await;
    let run = cluster.wait_for_end(posted.run).await;
    assert_status(&run, RunStatus::MessageSent);
    assert_eq!(
        (run.attempt, cluster.agent_messages(cluster.goal).await),
        (1, vec!["It is\u{fffd} done.".to_owned()])
    );
    let history = serde_json::to_string(&cluster.history(cluster.goal).await).unwrap();
    assert!(history.contains("a\u{fffd}b"), "{history}");
    worker.drain().await;
}
