mod approval;
mod asking;
mod code;
mod fallback;
mod focus;
mod hook;
mod oversight;
mod pausing;
mod plain_text;
mod policy;
mod searched;
mod shown;
mod skills;
mod typed;

use std::sync::atomic::Ordering;

use houston_domain::agent::SEND_MESSAGE;
use houston_domain::budget::{Budget, Spent};
use houston_domain::event::Event;
use houston_domain::history::{Block, Entry, Role};
use houston_domain::id::AgentableId;
use houston_domain::model::{ModelError, ModelErrorCode};
use houston_domain::step::RunTransition;
use houston_domain::tool_call::{EffectClass, ToolCall, ToolResponse};
use houston_store::RunStore;

use super::*;
use crate::engine::Engine;
use crate::run::tests::fixture::{Behaviour, Process, Script, ScriptedModel, TestTool, calls_tools, says};
use crate::run::tests::memory_storage::{Fault, MemoryStorage};
use crate::run::tool_runner::Prepared;

fn process(scripts: Vec<Script>, tools: Vec<TestTool>) -> Process {
    Process::new(ScriptedModel::new(scripts), tools)
}

async fn drive(process: &Process) -> Result<DriveOutcome, Interrupted> {
    let Process { storage, services, holder, claimed, .. } = process;
    drive_claimed(storage, services, holder, claimed.clone(), Default::default()).await
}

/// The history as (role, text of the first block).
fn texts(history: &[Entry]) -> Vec<(Role, String)> {
    let text = |entry: &Entry| match &entry.content[0] {
        Block::Text { text, .. } => text.clone(),
        Block::ToolUse { name, .. } => name.clone(),
        Block::ToolResult { content, .. } => content.clone(),
        other => format!("{other:?}"),
    };
    history.iter().map(|entry| (entry.role, text(entry))).collect()
}

fn pay(behaviour: Behaviour) -> TestTool {
    TestTool::new("pay", EffectClass::Effect, behaviour)
}

/// Bytes of the future that `make` returns.
fn future_size<A, F: Future>(_: impl Fn(A) -> F) -> usize {
    size_of::<F>()
}

/// The futures that exist while a run waits for its model or its tools. What is larger is boxed and freed before the wait.
#[test]
fn waiting_run_holds_only_small_futures() {
    type Driver = RunDriver<'static, RunStore>;
    let outer =
        future_size(|(engine, agentable, holder): (&'static Engine, AgentableId, &'static Holder)| {
            engine.drive(agentable, holder)
        });
    let driven = future_size(|(engine, holder, claimed): (&'static Engine, &'static Holder, ClaimedRun)| {
        drive_claimed(&engine.store, &engine.services, holder, claimed, Default::default())
    });
    let tools = future_size(|(driver, prepared): (&'static mut Driver, Prepared)| driver.execute(prepared));
    let resumed =
        future_size(|(driver, calls): (&'static mut Driver, Vec<ToolCall>)| driver.resume_tools(calls));
    for (what, size) in [("outer", outer), ("driven", driven), ("tools", tools), ("resumed tools", resumed)] {
        assert!(size <= 4096, "{what}: {size} bytes");
    }
    // 4 KiB, when the model began to answer, which tool it must call, what was said of the message, its value, how long its prompt
    // is kept, whether its answer may come later (16 bytes of the request), whether it was sent, and its span.
    assert!(driven + outer <= 4304, "a run that waits for its model: {driven} + {outer} bytes");
}

#[tokio::test(start_paused = true)]
async fn run_goes_from_message_over_tool_to_answer() {
    let process = process(vec![calls_tools(&[("c1", "pay")]), says("Paid.")], vec![pay(Behaviour::Answers)]);
    assert_eq!(drive(&process).await.unwrap(), DriveOutcome::Ended(RunStatus::Completed));
    let history = process.storage.history();
    let expected =
        [(Role::User, "Hello"), (Role::Assistant, "pay"), (Role::User, "Done."), (Role::Assistant, "Paid.")];
    assert_eq!(texts(&history), expected.map(|(role, text)| (role, text.to_owned())));
    assert_eq!(process.storage.ended(), Some(RunStatus::Completed));
}

#[tokio::test(start_paused = true)]
async fn fenced_run_stops_and_writes_nothing() {
    let tool = pay(Behaviour::Answers);
    let executed = Arc::clone(&tool.executed);
    let process = process(vec![calls_tools(&[("c1", "pay")])], vec![tool]);
    process.storage.fail([Fault::TakenOver]);
    let outcome = drive(&process).await;
    assert!(matches!(outcome, Err(Interrupted::Lost)), "{outcome:?}");
    assert_eq!(process.storage.committed(), []);
    assert_eq!(executed.load(Ordering::Relaxed), 0, "no intent, no call");
}

#[tokio::test(start_paused = true)]
async fn call_is_not_executed_if_its_intent_has_no_response() {
    let tool = pay(Behaviour::Answers);
    let executed = Arc::clone(&tool.executed);
    let process = process(vec![calls_tools(&[("c1", "pay")]), says("Unclear.")], vec![tool]);
    process.storage.fail([Fault::BrokenAfter]);
    assert_eq!(drive(&process).await.unwrap(), DriveOutcome::Ended(RunStatus::Completed));
    assert_eq!(executed.load(Ordering::Relaxed), 0);
    let history = texts(&process.storage.history());
    assert_eq!(history[2], (Role::User, ToolResponse::outcome_unknown().text().to_owned()));
}

#[tokio::test(start_paused = true)]
async fn step_whose_response_is_lost_is_not_repeated() {
    let process = process(vec![calls_tools(&[("c1", "create_note")]), says("Noted.")], Vec::new());
    process.storage.fail([Fault::BrokenAfter, Fault::BrokenBefore, Fault::BrokenAfter]);
    let outcome = drive(&process).await;
    // The last step was committed, so the lock is released: whatever comes next is another worker's.
    assert_eq!(outcome.unwrap(), DriveOutcome::HandedOver);
    assert_eq!(process.storage.ended(), Some(RunStatus::Completed));
    assert_eq!(process.storage.committed().len(), 2);
    assert_eq!(process.storage.sent().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn history_says_that_a_cancelled_call_may_have_happened() {
    let process = process(vec![calls_tools(&[("c1", "pay")])], vec![pay(Behaviour::Hangs)]);
    let cancel = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        process.services.live.cancel(process.agentable(), process.claimed.run);
    };
    let (outcome, ()) = tokio::join!(drive(&process), cancel);
    assert_eq!(outcome.unwrap(), DriveOutcome::Ended(RunStatus::Cancelled));
    let history = texts(&process.storage.history());
    assert!(history[2].1.contains("It may have happened"), "{history:?}");
}

#[tokio::test(start_paused = true)]
async fn draining_worker_hands_its_run_over() {
    let process = process(vec![Script::Hangs(vec![])], Vec::new());
    let drain = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        process.holder.drain.cancel();
    };
    let (outcome, ()) = tokio::join!(drive(&process), drain);
    assert_eq!(outcome.unwrap(), DriveOutcome::HandedOver);
    assert_eq!(process.storage.ended(), None);
    assert_eq!(texts(&process.storage.history()), [(Role::User, "Hello".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn run_that_killed_its_workers_is_given_up() {
    let mut process = process(vec![], Vec::new());
    process.claimed.is_given_up = true;
    assert_eq!(drive(&process).await.unwrap(), DriveOutcome::Ended(RunStatus::DeadLettered));
    let committed = process.storage.committed();
    assert_eq!(committed[0].messages.len(), 1, "its thread says so");
    assert_ne!(SEND_MESSAGE, committed[0].messages[0].content);
}

#[tokio::test(start_paused = true)]
async fn failed_call_is_retried_later() {
    let process = process(vec![Script::Breaks("Hel")], Vec::new());
    let outcome = drive(&process).await.unwrap();
    assert!(matches!(outcome, DriveOutcome::Retrying { .. }), "{outcome:?}");
    let committed = process.storage.committed();
    assert!(matches!(committed[0].transition, RunTransition::Retry { counts: true, .. }));
    assert_eq!(committed[0].messages.len(), 1, "its thread counts down to the next attempt");
    assert_eq!(committed[0].entries, [], "nothing of the broken answer is kept");
}

#[tokio::test(start_paused = true)]
async fn reached_budget_ends_the_run_before_its_call() {
    let model = ScriptedModel::new([]);
    let mut process = Process::new(Arc::clone(&model), Vec::new());
    process.services.config.budget = Budget { per_run: Some(1.into()), ..Budget::default() };
    process.storage.set_spent(Spent { run: Some(1.into()), ..Spent::default() });
    assert_eq!(drive(&process).await.unwrap(), DriveOutcome::Ended(RunStatus::Failed));
    assert_eq!(model.calls.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn run_of_a_missing_kind_says_so() {
    let mut process = process(vec![], Vec::new());
    process.claimed.kind = "robot".to_owned();
    assert_eq!(drive(&process).await.unwrap(), DriveOutcome::Ended(RunStatus::Failed));
    let committed = process.storage.committed();
    let RunTransition::Terminate { ending, .. } = &committed[0].transition else { panic!("not ended") };
    assert_eq!(ending.error_code.as_deref(), Some("UNKNOWN_KIND"));
    assert_eq!(committed[0].messages.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn history_that_the_model_refuses_is_compressed_once() {
    let refused = || {
        let error = ModelError::new(ModelErrorCode::ContextLengthExceeded, "too long");
        Script::Events(vec![Err(error)])
    };
    let turns = (0..20).flat_map(|nth| {
        let text = |who: &str| vec![Block::text(format!("{who} {nth}: {}", "word ".repeat(200)))];
        [Entry::user(text("user")), Entry::assistant(text("agent"))]
    });
    let history: Vec<Entry> = turns.chain([Entry::user(vec![Block::text("Hello")])]).collect();
    for (scripts, ended) in [(vec![refused(), says("Hi.")], true), (vec![refused(), refused()], false)] {
        let model = ScriptedModel::new(scripts);
        let process = Process::new(Arc::clone(&model), Vec::new());
        let process = Process { storage: MemoryStorage::with_history(history.clone()), ..process };
        let outcome = drive(&process).await.unwrap();
        assert_eq!(matches!(outcome, DriveOutcome::Ended(RunStatus::Completed)), ended, "{outcome:?}");
        assert_eq!(model.calls.load(Ordering::Relaxed), 2);
        let compressed = |event: &Event| matches!(event, Event::ContextCompressed { .. });
        let steps = process.storage.committed();
        assert_eq!(steps.iter().flat_map(|step| &step.events).filter(|event| compressed(event)).count(), 1);
    }
}
