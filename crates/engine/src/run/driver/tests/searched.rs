//! Runs whose tools are searched: what is called through another tool is judged, executed once, and named like any call.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use houston_domain::event::Event;
use houston_domain::guard::{Risk, ToolFacts};
use houston_domain::history::Block;
use houston_domain::inner_call::USE_TOOL;
use houston_domain::question::QuestionState;
use houston_domain::run::RunStatus;
use houston_domain::tool_call::EffectClass;
use serde_json::{Value, json};

use crate::run::driver::DriveOutcome;
use crate::run::tests::fixture::{Behaviour, Process, Script, ScriptedModel, TestTool, calls_with, says};

const ENDED: DriveOutcome = DriveOutcome::Ended(RunStatus::Completed);

/// A turn that calls `name` through the tool that calls others.
fn uses(name: &str, arguments: Value) -> Script {
    calls_with([("c1", USE_TOOL, json!({"tool_name": name, "arguments": arguments}))])
}

fn searched(first: Script, tools: Vec<TestTool>) -> Process {
    let model = ScriptedModel::new([first, says("Done.")]);
    Process::changed(model, tools, |agent_type| agent_type.direct_tokens = Some(0))
}

fn pay(behaviour: Behaviour) -> TestTool {
    TestTool::new("pay", EffectClass::Effect, behaviour)
}

/// The results of the tool calls in the history.
fn results(process: &Process) -> Vec<(String, String)> {
    let history = process.storage.history();
    let blocks = history.iter().flat_map(|entry| entry.content.clone());
    blocks
        .filter_map(|block| match block {
            Block::ToolResult { tool_use_id, content, .. } => Some((tool_use_id, content)),
            _ => None,
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn events_and_intents_name_the_inner_call() {
    let tool = pay(Behaviour::Answers);
    let (executed, inputs) = (Arc::clone(&tool.executed), Arc::clone(&tool.inputs));
    let process = searched(uses("pay", json!({"sum": 3})), vec![tool]);
    assert_eq!(process.drive(1).await.unwrap(), ENDED);
    assert_eq!(executed.load(Ordering::Relaxed), 1);
    assert_eq!(*inputs.lock().unwrap(), [json!({"sum": 3})]);
    let first = &process.storage.committed()[0];
    assert_eq!((first.intents[0].name.as_str(), first.intents[0].effect), ("pay", EffectClass::Effect));
    assert_eq!(
        (first.messages[0].content.as_str(), &first.messages[0].metadata["tool"]),
        ("Pay", &json!("pay"))
    );
    let called = first.events.iter().find_map(|event| match event {
        Event::ToolCalled { name, input, decided_by, .. } => {
            Some((name.clone(), input.clone(), decided_by.is_some()))
        }
        _ => None,
    });
    assert_eq!(called, Some(("pay".to_owned(), json!({"sum": 3}), true)));
    let history = process.storage.history();
    let Block::ToolUse { id, name, .. } = &history[1].content[0] else { panic!("{history:?}") };
    assert_eq!(
        (id.as_str(), name.as_str()),
        ("c1", USE_TOOL),
        "the history has the call as the model wrote it"
    );
    assert_eq!(results(&process), [("c1".to_owned(), "Done.".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn inner_call_with_an_effect_is_not_repeated() {
    let tool = pay(Behaviour::Hangs);
    let executed = Arc::clone(&tool.executed);
    let process = searched(uses("pay", json!({})), vec![tool]);
    let died = tokio::time::timeout(Duration::from_secs(5), process.drive(1)).await;
    assert!(died.is_err(), "the worker dies while the tool runs");
    assert_eq!(process.drive(2).await.unwrap(), ENDED);
    assert_eq!(executed.load(Ordering::Relaxed), 1);
    assert!(results(&process)[0].1.starts_with("outcome unknown"), "{:?}", results(&process));
}

#[tokio::test(start_paused = true)]
async fn person_is_asked_about_the_inner_call() {
    let facts = ToolFacts { risk: Risk::Destructive, ..ToolFacts::of_effect(EffectClass::Effect) };
    let wipe = TestTool::new("wipe", EffectClass::Effect, Behaviour::Answers).with_facts(facts);
    let executed = Arc::clone(&wipe.executed);
    let process = searched(uses("wipe", json!({"disk": "a"})), vec![wipe]);
    let outcome = process.drive(1).await.unwrap();
    assert!(matches!(outcome, DriveOutcome::Waiting { .. }) && executed.load(Ordering::Relaxed) == 0);
    let approval = process.storage.questions().pop().unwrap().asked.approval.unwrap();
    assert_eq!((approval.tool.as_str(), &approval.input), ("wipe", &json!({"disk": "a"})));
    process.storage.close_question(QuestionState::Answered, Some(json!({"decision": "approve"})));
    assert_eq!(process.drive(2).await.unwrap(), ENDED);
    assert_eq!(executed.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn tool_that_does_not_exist_is_answered_with_the_nearest() {
    let process = searched(
        uses("wipee", json!({})),
        vec![TestTool::new("wipe", EffectClass::Read, Behaviour::Answers)],
    );
    assert_eq!(process.drive(1).await.unwrap(), ENDED);
    let answer = results(&process).pop().unwrap().1;
    assert!(answer.starts_with("there is no tool `wipee`; the nearest are wipe"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn definitions_sent_do_not_change_within_a_session() {
    let process = searched(says("Hello"), vec![pay(Behaviour::Answers)]);
    let setup = process.setup();
    assert!(setup.offer.is_searched());
    assert_eq!(
        setup.offer.definitions(),
        setup.offer_with_results.definitions(),
        "large results change nothing"
    );
    let tokens = houston_llm::tokens::of_tools(setup.offer.definitions());
    assert!((200..=1_050).contains(&tokens), "{tokens}");
    let other = Process::new(ScriptedModel::new([]), vec![]).setup();
    assert!(!other.offer.is_searched(), "the tools of a goal are few");
}
