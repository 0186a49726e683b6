//! What becomes of a run when another message comes, and of its model call and its tools when it is cancelled.

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

use crate::rig::{Rig, assert_status, eventually};
use crate::workers::simulated;

/// A tool that never ends of itself. Told to stop, it may take a moment to do so in order.
pub(crate) struct Endless {
    definition: ToolDefinition,
    patience: Duration,
    /// How many calls are at work.
    pub(crate) at_work: Arc<AtomicUsize>,
}

impl Endless {
    pub(crate) fn new(patience: Duration) -> Self {
        let definition = ToolDefinition {
            name: "endless".into(),
            description: "never ends".into(),
            input_schema: json!({"type": "object"}),
            effect: EffectClass::Effect,
            timeout: Duration::from_secs(600),
        };
        Self { definition, patience, at_work: Arc::default() }
    }
}

/// Counts a call for as long as it is not dropped.
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
            // A tool without patience of its own is not asked again.
            tokio::task::yield_now().await;
            ToolResponse::success("stopped after 3 of 7")
        })))
    }

    fn stop_within(&self) -> Duration {
        self.patience
    }
}

async fn running(rig: &Rig, posted: &Posted) {
    eventually("the run starts", || async {
        (rig.store.run(rig.tenant, posted.run).await.ok()?.status == RunStatus::Running).then_some(())
    })
    .await;
}

async fn status(rig: &Rig, posted: &Posted) -> MessageStatus {
    eventually("the message is done with", || async {
        let status = rig.message(posted.id).await.status;
        status.filter(|status| matches!(status, MessageStatus::Answered | MessageStatus::Failed))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_ends_the_run_that_streams_and_is_answered_by_the_next() {
    let rig = Rig::start().await;
    let worker = rig.worker();
    let first = rig.post(rig.goal, "/sim chunks=1000 delay_ms=100").await;
    running(&rig, &first).await;
    let second = rig.post_as(rig.goal, "hello", Interrupt).await;
    let run = rig.ended(first.run).await;
    assert_status(&run, RunStatus::Cancelled);
    assert_eq!(run.cancelled_by.as_deref(), Some("interrupt"));
    assert_eq!(status(&rig, &second).await, MessageStatus::Answered);
    assert_eq!(status(&rig, &first).await, MessageStatus::Failed);
    let next = rig.message(second.id).await.message.run_id.unwrap();
    assert_ne!(next, first.run);
    let events = rig.events(rig.goal).await;
    let ends: Vec<_> = events
        .iter()
        .filter(|event| matches!(event.event, Event::RunFinished { .. } | Event::RunQueued {}))
        .map(|event| (event.run_id, matches!(event.event, Event::RunQueued {})))
        .collect();
    assert_eq!(ends, [(first.run, true), (first.run, false), (next, true), (next, false)]);
    assert_eq!(rig.history(rig.goal).await.len(), 4, "one, hello, send_message, its result");
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_is_heard_from_postgres_alone() {
    let mut rig = Rig::start().await;
    // Nothing but the notification can tell the worker: the store rings nobody, and the worker does not look.
    rig.reap_every_ms = 3_600_000;
    let worker = rig.worker();
    let posted = rig.post(rig.goal, "/sim hold_ms=600000").await;
    running(&rig, &posted).await;
    rig.store.cancel_run(rig.tenant, posted.run).await.unwrap();
    let run = rig.ended(posted.run).await;
    assert_status(&run, RunStatus::Cancelled);
    assert_eq!(run.cancelled_by.as_deref(), Some("user"));
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_is_cut_off_leaves_a_result_and_a_cell_that_say_so() {
    let rig = Rig::start().await;
    let tool = Endless::new(Duration::ZERO);
    let at_work = Arc::clone(&tool.at_work);
    let worker = rig.worker_with(simulated(), vec![Arc::new(tool)]);
    let first = rig.post(rig.goal, "/sim tool=endless tool=endless").await;
    eventually("both calls are at work", || async { (at_work.load(Ordering::SeqCst) == 2).then_some(()) })
        .await;
    let second = rig.post_as(rig.goal, "hello", Interrupt).await;
    assert_status(&rig.ended(first.run).await, RunStatus::Cancelled);
    assert_eq!(at_work.load(Ordering::SeqCst), 0, "the tools were dropped before the run had ended");
    assert_eq!(status(&rig, &second).await, MessageStatus::Answered);
    let events = rig.events(rig.goal).await;
    let results: Vec<&str> = events
        .iter()
        .filter_map(|event| match &event.event {
            Event::ToolReturned { content, is_error: true, .. } => Some(content.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(results.len(), 2);
    assert!(results.iter().all(|result| result.starts_with("cancelled")), "{results:?}");
    let thread = rig.store.messages(rig.tenant, rig.goal, None, 100).await.unwrap();
    let cells = thread.iter().filter(|one| one.message.metadata["tool"] == "endless");
    assert!(cells.clone().all(|cell| cell.message.metadata["status"] == "failed"), "{cells:?}");
    rig.history(rig.goal).await;
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_with_a_stop_of_its_own_says_how_far_it_came() {
    let rig = Rig::start().await;
    let tool = Endless::new(Duration::from_secs(20));
    let at_work = Arc::clone(&tool.at_work);
    let worker = rig.worker_with(simulated(), vec![Arc::new(tool)]);
    let first = rig.post(rig.goal, "/sim tool=endless").await;
    eventually("the call is at work", || async { (at_work.load(Ordering::SeqCst) == 1).then_some(()) }).await;
    rig.store.cancel_run(rig.tenant, first.run).await.unwrap();
    assert_status(&rig.ended(first.run).await, RunStatus::Cancelled);
    let history = rig.history(rig.goal).await;
    let last = serde_json::to_value(&history.last().unwrap().content).unwrap();
    assert_eq!(last[0]["content"], "stopped after 3 of 7");
    let thread = rig.store.messages(rig.tenant, rig.goal, None, 100).await.unwrap();
    assert!(thread.iter().any(|cell| cell.message.metadata["status"] == "done"), "{thread:?}");
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_taken_over_and_cancelled_keeps_what_its_tools_had_answered() {
    let rig = Rig::start().await;
    let tool = Endless::new(Duration::ZERO);
    let at_work = Arc::clone(&tool.at_work);
    let doomed = rig.worker_with(simulated(), vec![Arc::new(tool)]);
    let first = rig
        .post(rig.goal, "/sim tool=endless tool=create_note args={\"title\":\"kept\",\"content\":\"x\"}")
        .await;
    eventually("the call is at work", || async { (at_work.load(Ordering::SeqCst) == 1).then_some(()) }).await;
    doomed.kill.cancel();
    let _ = doomed.running.ended().await;
    rig.store.cancel_run(rig.tenant, first.run).await.unwrap();
    let worker = rig.worker_with(simulated(), vec![Arc::new(Endless::new(Duration::ZERO))]);
    assert_status(&rig.ended(first.run).await, RunStatus::Cancelled);
    let history = rig.history(rig.goal).await;
    let results = serde_json::to_string(&history.last().unwrap().content).unwrap();
    assert!(results.contains("cancelled while") && results.contains("Created note_"), "{results}");
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_takes_a_tool_turn_out_of_the_history_and_leaves_its_note() {
    let rig = Rig::start().await;
    let tool = Endless::new(Duration::ZERO);
    let at_work = Arc::clone(&tool.at_work);
    let worker = rig.worker_with(simulated(), vec![Arc::new(tool)]);
    rig.ended(rig.post(rig.goal, "hello").await.run).await;
    let before = rig.history(rig.goal).await;
    let order = "/sim tool=create_note args={\"title\":\"milk\",\"content\":\"buy it\"} tool=endless";
    let first = rig.post(rig.goal, order).await;
    eventually("the call is at work", || async { (at_work.load(Ordering::SeqCst) == 1).then_some(()) }).await;
    let said = rig.post(rig.goal, "and bread").await;
    assert_eq!(said.run, first.run);
    let second = rig.post_as(rig.goal, "hello again", Rollback).await;
    assert_status(&rig.ended(first.run).await, RunStatus::Cancelled);
    assert_eq!(status(&rig, &second).await, MessageStatus::Answered);
    let after = rig.history(rig.goal).await;
    assert_eq!(after[..before.len()], before);
    assert_eq!(after[before.len()].text(), "hello again", "the model knows of nothing between");
    assert_eq!(
        rig.store.run_context(rig.goal, first.run, 10, &PromptLimits::default()).await.unwrap().notes.len(),
        1
    );
    for posted in [&first, &said] {
        let message = rig.message(posted.id).await;
        assert_eq!(
            (message.status, &message.message.metadata["rolled_back"]),
            (Some(MessageStatus::Failed), &json!(true))
        );
    }
    rig.events(rig.goal).await;
    worker.drain().await;
}
