//! How models are called: as the message says, else the kind; and what the pauses so far say.

use std::sync::Arc;
use std::time::Duration;

use houston_domain::client_offer::ClientOffer;
use houston_domain::history::{Block, Entry};
use houston_domain::model_policy::{CachePolicy, Latency, ModelPolicy};
use houston_domain::run::RunStatus;
use houston_domain::tool_call::EffectClass;
use houston_store::run_context::RunContext;

use super::DriveOutcome;
use crate::run::tests::fixture::{Behaviour, Process, ScriptedModel, TestTool, calls_tools, says};

async fn drive(process: &Process, context: RunContext) {
    let mut claimed = process.claimed.clone();
    claimed.context = Some(Box::new(context));
    let DriveOutcome::Ended(status) = process.drive_claim(claimed, 1).await.unwrap() else {
        panic!("the run has not ended");
    };
    assert_eq!(status, RunStatus::Completed);
}

fn context(policy: Option<ModelPolicy>) -> RunContext {
    let offer = |model_policy| Box::new(ClientOffer { model_policy, ..ClientOffer::default() });
    RunContext {
        run_entries: 1,
        history: vec![Entry::user(vec![Block::text("Go on.")])],
        client: policy.map(offer),
        ..RunContext::default()
    }
}

#[tokio::test(start_paused = true)]
async fn message_says_how_its_model_is_called() {
    let policy = ModelPolicy { cache: Some(CachePolicy::Long), latency: Some(Latency::Relaxed) };
    for (said, expected) in [
        (None, (CachePolicy::Auto, Latency::Interactive)),
        (Some(policy), (CachePolicy::Long, Latency::Relaxed)),
        (Some(ModelPolicy { cache: None, ..policy }), (CachePolicy::Auto, Latency::Relaxed)),
    ] {
        let model = ScriptedModel::new([says("Done.")]);
        let process = Process::new(Arc::clone(&model) as Arc<_>, Vec::new());
        drive(&process, context(said)).await;
        let asked = &model.requests.lock().unwrap()[0];
        assert_eq!((asked.cache, asked.latency), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn pauses_of_this_run_follow_those_before_it() {
    let model = ScriptedModel::new([calls_tools(&[("c1", "look")]), says("Done.")]);
    let tools = vec![TestTool::new("look", EffectClass::Read, Behaviour::Answers)];
    let process = Process::new(Arc::clone(&model) as Arc<_>, tools);
    let answered_at = Some(process.claimed.event.at - Duration::from_secs(600));
    drive(&process, RunContext { pauses: vec![3, 700], answered_at, ..context(None) }).await;
    let requests = model.requests.lock().unwrap();
    assert_eq!(requests[0].pauses, [3, 700, 600]);
    assert_eq!(requests[1].pauses, [3, 700, 600, 0], "the tool took no time");
}
