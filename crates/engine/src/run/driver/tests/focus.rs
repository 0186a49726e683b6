//! Runs whose message is about something.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use houston_domain::client_offer::ClientOffer;
use houston_domain::event::Event;
use houston_domain::focus::{ContextProvider, Focus, Tier};
use houston_domain::frame::FrameMark;
use houston_domain::history::{Block, Entry, Role};
use houston_domain::run::RunStatus;
use houston_domain::tool_call::{EffectClass, ToolErrorCode};
use houston_store::run_context::RunContext;
use tokio::time::Instant;

use crate::run::driver::DriveOutcome;
use crate::run::tests::fixture::{Behaviour, Process, ScriptedModel, TestTool, says};

fn order(id: &str) -> Option<Focus> {
    Some(Focus { kind: "order".to_owned(), id: id.to_owned(), data: None })
}

fn client(last: Option<Focus>, now: Option<Focus>) -> ClientOffer {
    ClientOffer { focus: now, last_focus: last, ..ClientOffer::default() }
}

fn process(model: &Arc<ScriptedModel>, tool: TestTool, tier: Tier) -> Process {
    let provider = ContextProvider { tool: "get_order".to_owned(), argument: "order_id".to_owned(), tier };
    Process::changed(Arc::clone(model), vec![tool], |kind| {
        kind.context_providers = HashMap::from([("order".to_owned(), provider)]).into_iter().collect();
    })
}

fn provider(effect: EffectClass, behaviour: Behaviour) -> TestTool {
    TestTool::new("get_order", effect, behaviour)
}

/// Drives a run of the process whose client offers this.
async fn drive(process: &Process, client: Option<ClientOffer>, history: Vec<Entry>) {
    let mut claimed = process.claimed.clone();
    claimed.context = Some(Box::new(RunContext {
        mark: FrameMark::new("1234"),
        run_entries: history.len(),
        history,
        client: client.map(Box::new),
        ..RunContext::default()
    }));
    let outcome = process.drive_claim(claimed, 1).await.unwrap();
    assert_eq!(outcome, DriveOutcome::Ended(RunStatus::Completed));
}

fn hello() -> Vec<Entry> {
    vec![Entry::user(vec![Block::text("Hello")])]
}

fn shifts(process: &Process) -> usize {
    let steps = process.storage.committed();
    steps
        .iter()
        .flat_map(|step| &step.events)
        .filter(|event| matches!(event, Event::ContextShifted { .. }))
        .count()
}

#[tokio::test(start_paused = true)]
async fn shift_is_said_after_the_history_and_once() {
    let plain = ScriptedModel::new([says("Hi.")]);
    drive(&process(&plain, provider(EffectClass::Read, Behaviour::Answers), Tier::Brief), None, hello())
        .await;
    let model = ScriptedModel::new([says("Hi.")]);
    let shifted = process(&model, provider(EffectClass::Read, Behaviour::Answers), Tier::Brief);
    drive(&shifted, Some(client(order("17"), order("18"))), hello()).await;
    let steps = shifted.storage.committed();
    for step in steps.iter().filter(|step| !step.messages.is_empty()) {
        let message = &step.messages[0];
        assert_eq!(
            step.events[message.event],
            Event::MessageSent { message_id: message.id },
            "{:?}",
            step.events
        );
    }
    assert!(steps.iter().any(|step| step.messages.len() == 1), "the answer");
    let (before, after) = (plain.requests.lock().unwrap(), model.requests.lock().unwrap());
    assert_eq!(before[0].system, after[0].system, "the prefix stays byte for byte");
    assert_eq!(before[0].entries, after[0].entries, "and so does the history");
    assert!(!before[0].context.contains("<focus>"), "{}", before[0].context);
    let context = &after[0].context;
    let shift = "<context_shift from=\"order 17\" to=\"order 18\">\nWhat was said last was about order 17; this message is \
                 about order 18.\n</context_shift>\n";
    assert!(context.contains(shift), "{context}");
    assert!(context.contains("<focus>\nThe message is about order 18.\n"), "{context}");
    assert!(context.contains("Done."), "{context}");
    assert_eq!(shifts(&shifted), 1);
}

#[tokio::test(start_paused = true)]
async fn first_focus_and_the_same_again_are_no_shift() {
    for (last, now) in [(None, order("18")), (order("18"), order("18"))] {
        let model = ScriptedModel::new([says("Hi.")]);
        let same = process(&model, provider(EffectClass::Read, Behaviour::Answers), Tier::Brief);
        drive(&same, Some(client(last, now)), hello()).await;
        assert_eq!(shifts(&same), 0);
        assert!(!model.requests.lock().unwrap()[0].context.contains("<context_shift"));
    }
}

#[tokio::test(start_paused = true)]
async fn attempt_that_has_an_answer_reports_no_shift_again() {
    let model = ScriptedModel::new([says("Hi.")]);
    let process = process(&model, provider(EffectClass::Read, Behaviour::Answers), Tier::Brief);
    let mut history = hello();
    history.push(Entry { role: Role::Assistant, content: vec![Block::text("I begin.")] });
    history.extend(hello());
    drive(&process, Some(client(order("17"), order("18"))), history).await;
    assert_eq!(shifts(&process), 0);
    assert!(model.requests.lock().unwrap()[0].context.contains("<context_shift"), "the model still reads it");
}

#[tokio::test(start_paused = true)]
async fn provider_that_hangs_is_waited_for_half_a_second() {
    let model = ScriptedModel::new([says("Hi.")]);
    let process = process(&model, provider(EffectClass::Read, Behaviour::Hangs), Tier::Brief);
    let began = Instant::now();
    drive(&process, Some(client(None, order("17"))), hello()).await;
    assert!(began.elapsed() < Duration::from_millis(600), "{:?}", began.elapsed());
    let context = model.requests.lock().unwrap()[0].context.clone();
    assert!(context.contains("get_order has not answered in time"), "{context}");
    assert!(context.contains("More of it: get_order with order_id = 17."), "{context}");
}

#[tokio::test(start_paused = true)]
async fn run_goes_on_without_a_provider_that_fails() {
    for behaviour in [Behaviour::Panics, Behaviour::Fails(ToolErrorCode::IoError)] {
        let model = ScriptedModel::new([says("Hi.")]);
        let tool = provider(EffectClass::Read, behaviour);
        let (executed, inputs) = (Arc::clone(&tool.executed), Arc::clone(&tool.inputs));
        drive(&process(&model, tool, Tier::Detail), Some(client(None, order("17"))), hello()).await;
        assert_eq!(executed.load(Ordering::Relaxed), 1);
        assert_eq!(inputs.lock().unwrap()[0]["order_id"], "17");
        let context = model.requests.lock().unwrap()[0].context.clone();
        assert!(context.contains("get_order cannot say more about it now."), "{context}");
    }
}

#[tokio::test(start_paused = true)]
async fn agent_without_the_tool_reads_only_the_id() {
    let model = ScriptedModel::new([says("Hi.")]);
    let tool = TestTool::new("find_order", EffectClass::Read, Behaviour::Answers);
    drive(&process(&model, tool, Tier::Brief), Some(client(None, order("17"))), hello()).await;
    let context = model.requests.lock().unwrap()[0].context.clone();
    assert!(context.contains("<focus>\nThe message is about order 17.\n</focus>"), "{context}");
}
