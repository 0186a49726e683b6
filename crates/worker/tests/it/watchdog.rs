//! The watchdog ends calls that do not end by themselves.

use std::sync::Arc;
use std::time::Duration;

use houston_domain::event::Event;
use houston_domain::run::RunStatus;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use houston_engine::Config;
use houston_engine::config::WatchdogConfig;
use houston_llm::Timeouts;
use houston_testkit::model_server::script::{always, in_turn};
use houston_testkit::model_server::{Gate, ModelServer, Reply};
use houston_tools::{CallContext, InvalidInput, Plan, SharedTool, Tool};
use serde_json::{Value, json};

use crate::cluster::{TestCluster, assert_status};
use crate::failure::{patient, says};
use crate::workers::{config, simulated};

/// A tool that never answers.
struct Hang(ToolDefinition);

impl Tool for Hang {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn plan(&self, _: &Value, _: &CallContext) -> Result<Plan, InvalidInput> {
        Ok(Plan::Execute(Box::pin(std::future::pending::<ToolResponse>())))
    }
}

pub(crate) fn hang(timeout: Duration) -> Vec<SharedTool> {
    vec![Arc::new(Hang(ToolDefinition {
        name: "hang".to_owned(),
        description: "Never answers.".to_owned(),
        input_schema: json!({"type": "object"}).into(),
        effect: EffectClass::Effect,
        timeout,
    }))]
}

/// A run may take this many seconds, plus one of grace.
fn short(max_duration_s: u64) -> Config {
    let mut config = config();
    config.limits.max_duration_s = max_duration_s;
    config.watchdog = WatchdogConfig { grace_s: 1 };
    config
}

#[tokio::test(flavor = "multi_thread")]
async fn watchdog_cuts_off_a_silent_model() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker_of(short(1), simulated(), vec![]);
    let posted = cluster.post(cluster.goal, "/sim hold_ms=600000").await;
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MaxDuration);
    assert!(cluster.agent_messages(cluster.goal).await[0].contains("longer than one run may take"));
    cluster.history(cluster.goal).await;
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn watchdog_cuts_off_a_silent_tool_and_closes_its_call() {
    let cluster = TestCluster::start().await;
    // Long enough for the tool to be called on a busy machine.
    let worker = cluster.worker_of(short(15), simulated(), hang(Duration::from_secs(600)));
    let posted = cluster.post(cluster.goal, "/sim tool=hang args={}").await;
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MaxDuration);
    let history = serde_json::to_string(&cluster.history(cluster.goal).await).unwrap();
    assert!(history.contains("outcome unknown"), "{history}");
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_time_out_fails_the_call_and_the_run_continues() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker_with(simulated(), hang(Duration::from_millis(200)));
    let posted = cluster.post(cluster.goal, "/sim tool=hang args={}").await;
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
    let told = cluster.events(cluster.goal).await.into_iter().find_map(|event| match event.event {
        Event::ToolReturned { content, is_error: true, .. } => Some(content),
        _ => None,
    });
    assert!(told.unwrap().contains("hang did not answer within"));
    cluster.history(cluster.goal).await;
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn model_that_stops_in_mid_answer_is_called_again() {
    let cluster = TestCluster::start().await;
    let never = Gate::new();
    let whole = says("Hello, dear reader!").in_pieces(6);
    let server = ModelServer::start(in_turn([whole.clone().held_after(4, &never), whole])).await.unwrap();
    let timeouts = Timeouts { idle: Duration::from_secs(6), ..Timeouts::default() };
    let worker = cluster.worker_with(patient(&server, timeouts), vec![]);
    let posted = cluster.post(cluster.goal, "hello").await;
    let run = cluster.wait_for_end(posted.run).await;
    assert_status(&run, RunStatus::MessageSent);
    assert_eq!((run.attempt, server.journal().calls()), (2, 2));
    let events = cluster.events(cluster.goal).await;
    let told = events.iter().find_map(|event| match &event.event {
        Event::RetryScheduled { code, message, .. } => Some((code.as_str(), message.as_str())),
        _ => None,
    });
    let (code, message) = told.unwrap();
    assert_eq!(code, "TIMEOUT");
    assert!(message.contains("no data in the middle of the answer"), "{message}");
    assert_eq!(cluster.agent_messages(cluster.goal).await, ["Hello, dear reader!"]);
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_answer_is_cut_off_at_max_answer_bytes() {
    let cluster = TestCluster::start().await;
    let mut config = config();
    config.context.max_answer_bytes = 1000;
    let server = ModelServer::start(always(Reply::text("word ".repeat(400)).in_pieces(100))).await.unwrap();
    let worker = cluster.worker_of(config, patient(&server, Timeouts::default()), vec![]);
    let posted = cluster.post(cluster.goal, "hello").await;
    let run = cluster.wait_for_end(posted.run).await;
    assert_eq!((run.status, run.attempt), (RunStatus::Failed, 3));
    assert_eq!(run.error_code(), Some("INVALID_RESPONSE"));
    assert!(run.error_message().unwrap().contains("longer than 1000 bytes"), "{run:?}");
    assert!(cluster.agent_messages(cluster.goal).await.is_empty(), "none of it is kept");
    worker.drain().await;
}
