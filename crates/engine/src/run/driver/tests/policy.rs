//! How models are called: as the message says, else the kind; and what the pauses so far say.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use houston_domain::agent::limits::LimitChanges;
use houston_domain::answering::{Output, Sampling};
use houston_domain::autonomy::Autonomy;
use houston_domain::client_offer::ClientOffer;
use houston_domain::guard::{Risk, ToolFacts};
use houston_domain::history::{Block, Entry};
use houston_domain::model_policy::{CachePolicy, Latency, ModelPolicy};
use houston_domain::question::QuestionState;
use houston_domain::run::RunStatus;
use houston_domain::tool_call::EffectClass;
use houston_store::run_context::RunContext;
use serde_json::json;

use crate::prompt::preview::settings;
use crate::run::driver::DriveOutcome;
use crate::run::tests::fixture::{
    Behaviour, Process, ScriptedModel, TestTool, calls_tools, gone, says, submitted,
};
use crate::setup::Setup;

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

/// A process whose kind lets its answers come later.
fn patient(model: &Arc<ScriptedModel>) -> Process {
    Process::changed(Arc::clone(model), Vec::new(), |agent_type| {
        agent_type.model_policy.latency = Some(Latency::Batch);
    })
}

fn asked(model: &ScriptedModel) -> Vec<(String, Latency)> {
    let requests = model.requests.lock().unwrap();
    requests.iter().map(|asked| (asked.submitting.clone(), asked.latency)).collect()
}

fn waits(outcome: DriveOutcome) {
    assert!(matches!(outcome, DriveOutcome::Waiting { after: Some(_), .. }), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn run_waits_for_an_answer_that_comes_later() {
    let model =
        ScriptedModel::new([submitted("b1"), submitted("b1"), says("Done."), submitted("b2"), says("More.")]);
    let process = patient(&model);
    waits(process.drive(1).await.unwrap());
    assert!(process.storage.is_released(), "no worker holds it");
    // The answer that is on its way does not know it.
    process.storage.post("And more?");
    waits(process.resumed(2).await.unwrap());
    // The message is read with the answer, and answered by a call of its own.
    waits(process.resumed(3).await.unwrap());
    assert_eq!(process.resumed(4).await.unwrap(), DriveOutcome::Ended(RunStatus::Completed));
    let texts: Vec<String> = process.storage.history().iter().map(Entry::text).collect();
    assert_eq!(texts.len(), 4, "{texts:?}");
    assert!(texts[1].contains("Done.") && texts[2].contains("And more?") && texts[3].contains("More."));
    let seen = asked(&model).into_iter().map(|(submitting, _)| submitting).collect::<Vec<_>>();
    assert_eq!(seen, ["allowed", "fetch b1", "fetch b1", "allowed", "fetch b2"]);
}

/// The answer was asked for with the offer of the first message. What was written meanwhile has one of its own: none.
#[tokio::test(start_paused = true)]
async fn answer_is_read_with_the_offer_that_it_was_asked_for_with() {
    let model = ScriptedModel::new([submitted("b1"), says("{\"n\": 1}"), says("More.")]);
    let process = Process::new(Arc::clone(&model) as Arc<_>, Vec::new());
    let policy = ModelPolicy { latency: Some(Latency::Batch), ..ModelPolicy::default() };
    let mut context = context(Some(policy));
    context.client.as_mut().unwrap().output = Some(Output::any_object());
    let mut claimed = process.claimed.clone();
    claimed.context = Some(Box::new(context));
    waits(process.drive_claim(claimed, 1).await.unwrap());
    process.storage.post("And more?");
    assert_eq!(process.resumed(2).await.unwrap(), DriveOutcome::Ended(RunStatus::Completed));
    let texts: Vec<String> = process.storage.history().iter().map(Entry::text).collect();
    assert!(texts[1] == "{\"n\": 1}" && texts[2].contains("And more?") && texts[3] == "More.", "{texts:?}");
    let expected = [("allowed", Latency::Batch), ("fetch b1", Latency::Batch), ("no", Latency::Interactive)];
    assert_eq!(asked(&model), expected.map(|(submitting, latency)| (submitting.to_owned(), latency)));
}

/// The calls of the answer wait for a person, and the next worker finds them open: the answer was given.
#[tokio::test(start_paused = true)]
async fn answer_that_was_fetched_is_not_fetched_again() {
    let model = ScriptedModel::new([submitted("b1"), calls_tools(&[("c1", "wipe")]), says("Done.")]);
    let facts = ToolFacts { risk: Risk::Destructive, ..ToolFacts::of_effect(EffectClass::Effect) };
    let wipe = TestTool::new("wipe", EffectClass::Effect, Behaviour::Answers).with_facts(facts);
    let wiped = Arc::clone(&wipe.executed);
    let process = Process::changed(Arc::clone(&model) as Arc<_>, vec![wipe], |agent_type| {
        agent_type.model_policy.latency = Some(Latency::Batch);
    });
    waits(process.drive(1).await.unwrap());
    let outcome = process.resumed(2).await.unwrap();
    assert!(matches!(outcome, DriveOutcome::Waiting { after: None, .. }), "{outcome:?}");
    process.storage.close_question(QuestionState::Answered, Some(json!({"decision": "approve"})));
    assert_eq!(process.resumed(3).await.unwrap(), DriveOutcome::Ended(RunStatus::Completed));
    assert_eq!(wiped.load(Ordering::Relaxed), 1);
    let seen = asked(&model).into_iter().map(|(submitting, _)| submitting).collect::<Vec<_>>();
    assert_eq!(seen, ["allowed", "fetch b1", "allowed"]);
}

#[tokio::test(start_paused = true)]
async fn call_without_an_answer_is_made_as_usual() {
    let model = ScriptedModel::new([submitted("b1"), gone(), says("Done.")]);
    let process = patient(&model);
    waits(process.drive(1).await.unwrap());
    assert_eq!(process.resumed(2).await.unwrap(), DriveOutcome::Ended(RunStatus::Completed));
    assert_eq!(asked(&model)[2], ("no".to_owned(), Latency::Interactive));
}

#[tokio::test(start_paused = true)]
async fn cancelled_run_withdraws_its_call_and_counts_it() {
    let model = ScriptedModel::new([submitted("b1"), gone()]);
    let process = patient(&model);
    waits(process.drive(1).await.unwrap());
    let mut claimed = process.claimed.clone();
    claimed.cancel_seq = Some(1);
    let outcome = process.drive_claim(claimed, 2).await.unwrap();
    assert_eq!(outcome, DriveOutcome::Ended(RunStatus::Cancelled));
    assert_eq!(asked(&model)[1].0, "withdraw b1");
    let last = process.storage.committed().pop().unwrap();
    let counted: Vec<_> = last.call.iter().chain(last.more_calls.iter().map(|(_, call)| call)).collect();
    assert!(matches!(&counted[..], [call] if call.estimated && call.usage.input_tokens > 0), "{counted:?}");
}

fn changed(setup: &Arc<Setup>, change: impl FnOnce(&mut Setup)) -> Setup {
    let mut setup = Setup::clone(setup);
    change(&mut setup);
    setup
}

/// Each layer says something, and one setting is said by two.
#[test]
fn each_setting_has_the_layer_that_has_said_it_last() {
    let process = Process::changed(ScriptedModel::new([]), Vec::new(), |kind| {
        kind.sampling.temperature = Some(0.5);
        kind.limits.max_output_tokens = Some(900);
        kind.limits.max_iterations = Some(7);
    });
    let kind = process.setup();
    let agent = changed(&kind, |setup| setup.agent_type.sampling.temperature = Some(0.7));
    let message = ClientOffer {
        sampling: Sampling { stop: vec!["END".into()], ..Sampling::default() },
        limits: LimitChanges { max_output_tokens: Some(100), ..LimitChanges::default() },
        model_policy: ModelPolicy { latency: Some(Latency::Relaxed), ..ModelPolicy::default() },
        ..ClientOffer::default()
    };
    let run = changed(&Arc::new(agent.clone()), |setup| {
        setup.agent_type.sampling.stop = vec!["END".into()];
        setup.policy.limits.max_output_tokens = 100;
        setup.agent_type.model_policy = message.model_policy;
        setup.agent_type.autonomy = Autonomy::Low;
        setup.wanted.output = Some(Output::any_object());
    });
    let context = RunContext { client: Some(Box::new(message)), ..RunContext::default() };
    let found = settings(&kind, &agent, &run, &context);
    let found: Vec<_> =
        found.iter().map(|setting| (setting.name.as_str(), setting.origin.as_str())).collect();
    assert_eq!(
        found,
        [
            ("temperature", "agent"),
            ("top_p", "provider"),
            ("effort", "provider"),
            ("stop", "message"),
            ("max_output_tokens", "message"),
            ("max_iterations", "kind"),
            ("cache", "installation"),
            ("latency", "message"),
            ("autonomy", "guards"),
            ("output", "kind"),
        ]
    );
}
