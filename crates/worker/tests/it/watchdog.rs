//! What ends a call that does not end by itself.

use std::sync::Arc;
use std::time::Duration;

use houston_domain::event::Event;
use houston_domain::run::RunStatus;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use houston_engine::Config;
use houston_engine::config::WatchdogConfig;
use houston_tools::{CallContext, InvalidInput, Plan, SharedTool, Tool};
use serde_json::{Value, json};

use crate::rig::{Rig, assert_status};
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
        input_schema: json!({"type": "object"}),
        effect: EffectClass::Effect,
        timeout,
    }))]
}

/// A run may take one second, and one more in the middle of a call.
fn short() -> Config {
    let mut config = config();
    config.limits.max_duration_s = 1;
    config.watchdog = WatchdogConfig { grace_s: 1 };
    config
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_never_answers_is_cut_off_by_the_wall_clock() {
    let rig = Rig::start().await;
    let worker = rig.worker_of(short(), simulated(), vec![]);
    let posted = rig.post(rig.goal, "/sim hold_ms=600000").await;
    assert_status(&rig.ended(posted.run).await, RunStatus::MaxDuration);
    assert!(rig.said(rig.goal).await[0].contains("longer than one run may take"));
    rig.history(rig.goal).await;
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_never_answers_is_cut_off_by_the_wall_clock_and_its_call_closed() {
    let rig = Rig::start().await;
    let worker = rig.worker_of(short(), simulated(), hang(Duration::from_secs(600)));
    let posted = rig.post(rig.goal, "/sim tool=hang args={}").await;
    assert_status(&rig.ended(posted.run).await, RunStatus::MaxDuration);
    let history = serde_json::to_string(&rig.history(rig.goal).await).unwrap();
    assert!(history.contains("outcome unknown"), "{history}");
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_outlives_its_own_time_out_fails_and_the_run_goes_on() {
    let rig = Rig::start().await;
    let worker = rig.worker_with(simulated(), hang(Duration::from_millis(200)));
    let posted = rig.post(rig.goal, "/sim tool=hang args={}").await;
    assert_status(&rig.ended(posted.run).await, RunStatus::MessageSent);
    let told = rig.events(rig.goal).await.into_iter().find_map(|event| match event.event {
        Event::ToolReturned { content, is_error: true, .. } => Some(content),
        _ => None,
    });
    assert!(told.unwrap().contains("hang did not answer within"));
    rig.history(rig.goal).await;
    worker.drain().await;
}
