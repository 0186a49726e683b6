//! Double texting, and cancelling model calls and tools.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use houston_domain::agentable::DoubleTexting::{Interrupt, Rollback};
use houston_domain::event::Event;
use houston_domain::knowledge::PromptLimits;
use houston_domain::message::MessageStatus;
use houston_domain::run::RunStatus;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use houston_store::message::Posted;
use houston_tools::{CallContext, InvalidInput, Plan, Tool};
use serde_json::{Value, json};

use crate::cluster::{TestCluster, assert_status, eventually};
use crate::workers::simulated;

/// A tool that never ends by itself. When stopped, it may take a moment to end.
pub(crate) struct Endless {
    definition: ToolDefinition,
    patience: Duration,
    /// Number of running calls.
    pub(crate) at_work: Arc<AtomicUsize>,
}

impl Endless {
    pub(crate) fn new(patience: Duration) -> Self {
        let definition = ToolDefinition {
            name: "endless".into(),
            description: "never ends".into(),
            input_schema: json!({"type": "object"}).into(),
            effect: EffectClass::Effect,
            timeout: Duration::from_secs(600),
        };
        Self { definition, patience, at_work: Arc::default() }
    }
}

/// Counts a running call until it is dropped.
struct AtWork(Arc<AtomicUsize>);

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Tool for Endless {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn plan(&self, _input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let (count, stop) = (Arc::clone(&self.at_work), context.stop.clone());
        Ok(Plan::Execute(Box::pin(async move {
            count.fetch_add(1, Ordering::SeqCst);
            let _at_work = AtWork(count);
            stop.cancelled().await;
            // A tool without `stop_within` is dropped at once.
            tokio::task::yield_now().await;
            ToolResponse::success("stopped after 3 of 7")
        })))
    }

    fn stop_within(&self) -> Duration {
        self.patience
    }
}

async fn running(cluster: &TestCluster, posted: &Posted) {
    eventually("the run starts", || async {
        (cluster.requests().run(posted.run).await.ok()?.status == RunStatus::Running).then_some(())
    })
    .await;
}

async fn status(cluster: &TestCluster, posted: &Posted) -> MessageStatus {
    eventually("the message is done with", || async {
        let status = cluster.message(posted.id).await.status;
        status.filter(|status| matches!(status, MessageStatus::Answered | MessageStatus::Failed))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupt_ends_the_streaming_run_and_opens_the_next() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker();
    let first = cluster.post(cluster.goal, "/sim chunks=1000 delay_ms=100").await;
    running(&cluster, &first).await;
    let second = cluster.post_as(cluster.goal, "hello", Interrupt).await;
    let run = cluster.wait_for_end(first.run).await;
    assert_status(&run, RunStatus::Cancelled);
    assert_eq!(run.cancelled_by.as_deref(), Some("interrupt"));
    assert_eq!(status(&cluster, &second).await, MessageStatus::Answered);
    assert_eq!(status(&cluster, &first).await, MessageStatus::Failed);
    let next = cluster.message(second.id).await.run_id.unwrap();
    assert_ne!(next, first.run);
    let events = cluster.events(cluster.goal).await;
    let ends: Vec<_> = events
        .iter()
        .filter(|event| matches!(event.event, Event::RunFinished { .. } | Event::RunQueued {}))
        .map(|event| (event.run_id, matches!(event.event, Event::RunQueued {})))
        .collect();
    assert_eq!(ends, [(first.run, true), (first.run, false), (next, true), (next, false)]);
    assert_eq!(cluster.history(cluster.goal).await.len(), 4, "one, hello, send_message, its result");
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_request_arrives_through_postgres_alone() {
    let mut cluster = TestCluster::start().await;
    // Only the notification can reach the worker: the store sends no hint, and the worker does not sweep.
    cluster.reap_every_ms = 3_600_000;
    let worker = cluster.worker();
    let posted = cluster.post(cluster.goal, "/sim hold_ms=600000").await;
    running(&cluster, &posted).await;
    cluster.requests().cancel_run(posted.run).await.unwrap();
    let run = cluster.wait_for_end(posted.run).await;
    assert_status(&run, RunStatus::Cancelled);
    assert_eq!(run.cancelled_by.as_deref(), Some("user"));
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_tool_leaves_a_result_and_a_failed_cell() {
    let cluster = TestCluster::start().await;
    let tool = Endless::new(Duration::ZERO);
    let at_work = Arc::clone(&tool.at_work);
    let worker = cluster.worker_with(simulated(), vec![Arc::new(tool)]);
    let first = cluster.post(cluster.goal, "/sim tool=endless tool=endless").await;
    eventually("both calls are at work", || async { (at_work.load(Ordering::SeqCst) == 2).then_some(()) })
        .await;
    let second = cluster.post_as(cluster.goal, "hello", Interrupt).await;
    assert_status(&cluster.wait_for_end(first.run).await, RunStatus::Cancelled);
    assert_eq!(at_work.load(Ordering::SeqCst), 0, "the tools were dropped before the run had ended");
    assert_eq!(status(&cluster, &second).await, MessageStatus::Answered);
    let events = cluster.events(cluster.goal).await;
    let results: Vec<&str> = events
        .iter()
        .filter_map(|event| match &event.event {
            Event::ToolReturned { content, is_error: true, .. } => Some(content.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(results.len(), 2);
    assert!(results.iter().all(|result| result.starts_with("cancelled")), "{results:?}");
    let thread = cluster.requests().messages(cluster.goal, None, 100).await.unwrap();
    let cells = thread.iter().filter(|one| one.metadata["tool"] == "endless");
    assert!(cells.clone().all(|cell| cell.metadata["status"] == "failed"), "{cells:?}");
    cluster.history(cluster.goal).await;
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_that_handles_stop_reports_its_progress() {
    let cluster = TestCluster::start().await;
    let tool = Endless::new(Duration::from_secs(20));
    let at_work = Arc::clone(&tool.at_work);
    let worker = cluster.worker_with(simulated(), vec![Arc::new(tool)]);
    let first = cluster.post(cluster.goal, "/sim tool=endless").await;
    eventually("the call is at work", || async { (at_work.load(Ordering::SeqCst) == 1).then_some(()) }).await;
    cluster.requests().cancel_run(first.run).await.unwrap();
    assert_status(&cluster.wait_for_end(first.run).await, RunStatus::Cancelled);
    let history = cluster.history(cluster.goal).await;
    let last = serde_json::to_value(&history.last().unwrap().content).unwrap();
    assert_eq!(last[0]["content"], "stopped after 3 of 7");
    let thread = cluster.requests().messages(cluster.goal, None, 100).await.unwrap();
    assert!(thread.iter().any(|cell| cell.metadata["status"] == "done"), "{thread:?}");
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_takeover_keeps_earlier_tool_responses() {
    let cluster = TestCluster::start().await;
    let tool = Endless::new(Duration::ZERO);
    let at_work = Arc::clone(&tool.at_work);
    let doomed = cluster.worker_with(simulated(), vec![Arc::new(tool)]);
    let first = cluster
        .post(cluster.goal, "/sim tool=endless tool=create_note args={\"title\":\"kept\",\"content\":\"x\"}")
        .await;
    eventually("the call is at work", || async { (at_work.load(Ordering::SeqCst) == 1).then_some(()) }).await;
    doomed.kill.cancel();
    let _ = doomed.running.ended().await;
    cluster.requests().cancel_run(first.run).await.unwrap();
    let worker = cluster.worker_with(simulated(), vec![Arc::new(Endless::new(Duration::ZERO))]);
    assert_status(&cluster.wait_for_end(first.run).await, RunStatus::Cancelled);
    let history = cluster.history(cluster.goal).await;
    let results = serde_json::to_string(&history.last().unwrap().content).unwrap();
    assert!(results.contains("cancelled while") && results.contains("Created note_"), "{results}");
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rollback_removes_a_tool_turn_but_keeps_its_note() {
    let cluster = TestCluster::start().await;
    let tool = Endless::new(Duration::ZERO);
    let at_work = Arc::clone(&tool.at_work);
    let worker = cluster.worker_with(simulated(), vec![Arc::new(tool)]);
    cluster.wait_for_end(cluster.post(cluster.goal, "hello").await.run).await;
    let before = cluster.history(cluster.goal).await;
    let order = "/sim tool=create_note args={\"title\":\"milk\",\"content\":\"buy it\"} tool=endless";
    let first = cluster.post(cluster.goal, order).await;
    eventually("the call is at work", || async { (at_work.load(Ordering::SeqCst) == 1).then_some(()) }).await;
    let said = cluster.post(cluster.goal, "and bread").await;
    assert_eq!(said.run, first.run);
    let second = cluster.post_as(cluster.goal, "hello again", Rollback).await;
    assert_status(&cluster.wait_for_end(first.run).await, RunStatus::Cancelled);
    assert_eq!(status(&cluster, &second).await, MessageStatus::Answered);
    let after = cluster.history(cluster.goal).await;
    assert_eq!(after[..before.len()], before);
    assert_eq!(after[before.len()].text(), "hello again", "the model knows of nothing between");
    assert_eq!(
        cluster
            .runs()
            .run_context(cluster.goal, first.run, 10, &PromptLimits::default())
            .await
            .unwrap()
            .notes
            .len(),
        1
    );
    for posted in [&first, &said] {
        let message = cluster.message(posted.id).await;
        assert_eq!(
            (message.status, &message.metadata["rolled_back"]),
            (Some(MessageStatus::Failed), &json!(true))
        );
    }
    cluster.events(cluster.goal).await;
    worker.drain().await;
}
