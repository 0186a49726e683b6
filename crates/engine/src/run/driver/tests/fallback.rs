//! Runs whose tools fail and have fallbacks: each of the two calls is made once, whatever happens to the worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use houston_domain::code_call;
use houston_domain::event::Event;
use houston_domain::guard::{Risk, ToolFacts};
use houston_domain::history::Block;
use houston_domain::run::RunStatus;
use houston_domain::tool_call::{EffectClass, ToolErrorCode};
use serde_json::{Value, json};

use crate::error::Interrupted;
use crate::run::driver::DriveOutcome;
use crate::run::tests::fixture::{Behaviour, Process, ScriptedModel, TestTool, calls_with, says};
use crate::run::tests::memory_storage::Fault;

const ENDED: DriveOutcome = DriveOutcome::Ended(RunStatus::Completed);
const BUSY: Behaviour = Behaviour::Fails(ToolErrorCode::RateLimited);
const FALLBACK: &str = "[first]\nfallback = { tool = 'second', input = { amount = '/n', kind = 'x' } }";

/// A run whose model calls `first`, and then says `Done.`
struct Falling {
    process: Process,
    first: Arc<AtomicUsize>,
    second: Arc<AtomicUsize>,
    inputs: Arc<std::sync::Mutex<Vec<Value>>>,
}

impl Falling {
    fn new(first: TestTool, second: TestTool, fallbacks: &str, guards: &str) -> Self {
        let code =
            TestTool::new("code", EffectClass::Idempotent, Behaviour::Calls(&[&["first"], &["first"]]));
        Self::calling("first", vec![first, second, code], fallbacks, guards)
    }

    fn calling(called: &str, tools: Vec<TestTool>, fallbacks: &str, guards: &str) -> Self {
        let counts = [0, 1].map(|nth| Arc::clone(&tools[nth].executed));
        let inputs = Arc::clone(&tools[1].inputs);
        let answers = [calls_with([("c1", called, json!({"n": 7}))])];
        let answers = answers.into_iter().chain((0..9).map(|_| says("Done.")));
        let mut process = Process::guarded(ScriptedModel::new(answers), tools, guards);
        process.services.fallbacks = toml::from_str(fallbacks).unwrap();
        let [first, second] = counts;
        Self { process, first, second, inputs }
    }

    fn paying(first: Behaviour, second: Behaviour) -> Self {
        Self::new(effect("first", first), effect("second", second), FALLBACK, "")
    }

    fn made(&self) -> [usize; 2] {
        [&self.first, &self.second].map(|count| count.load(Ordering::Relaxed))
    }

    async fn waits(&self, attempt: i32) -> bool {
        matches!(self.process.drive(attempt).await.unwrap(), DriveOutcome::Waiting { after: None, .. })
    }

    fn result(&self) -> String {
        let history = self.process.storage.history();
        let mut blocks = history.iter().flat_map(|entry| &entry.content);
        let result = blocks.find_map(|block| match block {
            Block::ToolResult { tool_use_id, content, .. } if tool_use_id == "c1" => Some(content.clone()),
            _ => None,
        });
        result.unwrap_or_default()
    }
}

fn effect(name: &str, behaviour: Behaviour) -> TestTool {
    TestTool::new(name, EffectClass::Effect, behaviour)
}

#[tokio::test(start_paused = true)]
async fn fallback_is_called_with_mapped_arguments_and_its_own_row() {
    let run = Falling::paying(BUSY, Behaviour::Answers);
    assert_eq!(run.process.drive(1).await.unwrap(), ENDED);
    assert_eq!(run.made(), [1, 1]);
    assert_eq!(*run.inputs.lock().unwrap(), [json!({"amount": 7, "kind": "x"})]);
    let result = run.result();
    assert_eq!(
        result,
        "[called: second x1]\n[first failed (It is down); second, answered in its place]\nDone."
    );
    let mut numbers: Vec<_> =
        run.process.storage.intents().iter().map(|id| code_call::number(id, "c1")).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [None, Some(0), Some(1)], "the call, its failure, the fallback");
    let steps = run.process.storage.committed();
    let judged = steps.iter().flat_map(|step| &step.events).filter(|event| match event {
        Event::ToolCalled { decided_by, .. } => decided_by.is_some(),
        _ => false,
    });
    assert_eq!(judged.count(), 2, "guards decide about both");
}

#[tokio::test(start_paused = true)]
async fn without_need_nothing_falls_back() {
    let other = Behaviour::Fails(ToolErrorCode::NotFound);
    let unsure = Behaviour::Fails(ToolErrorCode::IoError);
    for (first, why) in [
        (Behaviour::Answers, "it succeeded"),
        (other, "another code"),
        (unsure, "it may have happened"),
        (Behaviour::Hangs, "the same"),
        (Behaviour::Panics, "unknown"),
    ] {
        let run = Falling::paying(first, Behaviour::Answers);
        assert_eq!(run.process.drive(1).await.unwrap(), ENDED);
        assert_eq!(run.made(), [1, 0], "{why}");
        assert_eq!(run.process.storage.committed().len(), 3, "intent, result, answer: {why}");
    }
    let read = |name: &str, behaviour| TestTool::new(name, EffectClass::Read, behaviour);
    let run = Falling::new(read("first", Behaviour::Hangs), read("second", Behaviour::Answers), FALLBACK, "");
    assert_eq!(run.process.drive(1).await.unwrap(), ENDED);
    assert_eq!(run.made(), [1, 1], "what only reads falls back after a time-out");
}

#[tokio::test(start_paused = true)]
async fn fallback_that_fails_is_the_end() {
    let both = format!("{FALLBACK}\n[second]\nfallback = 'first'");
    let run = Falling::new(effect("first", BUSY), effect("second", BUSY), &both, "");
    assert_eq!(run.process.drive(1).await.unwrap(), ENDED);
    assert_eq!(run.made(), [1, 1], "the fallback of a fallback is not called");
    assert!(run.result().contains("second, its fallback, failed, too]\nIt is down."), "{}", run.result());
    let denied = Falling::new(
        effect("first", BUSY),
        effect("second", Behaviour::Answers),
        FALLBACK,
        "[[rule]]\ntool = 'second'\nwhen = { '/kind' = 'x' }\ndecide = 'deny'\nwhy = 'not this kind'",
    );
    assert_eq!(denied.process.drive(1).await.unwrap(), ENDED);
    assert_eq!(denied.made(), [1, 0], "guards decide about the fallback, too");
    assert!(denied.result().contains("not this kind"), "{}", denied.result());
    let answers = effect("second", Behaviour::Answers);
    let off = Falling::new(effect("first", BUSY), answers, FALLBACK, "denied = ['second']");
    assert_eq!(off.process.drive(1).await.unwrap(), ENDED);
    assert_eq!(
        (off.made(), off.result()),
        ([1, 0], "It is down.".to_owned()),
        "a tool that is off is no fallback"
    );
}

#[tokio::test(start_paused = true)]
async fn killed_at_any_commit_neither_call_is_repeated() {
    let mut crashes = 0;
    for commits in 1.. {
        let run = Falling::paying(BUSY, Behaviour::Answers);
        run.process.storage.fail_after(commits, Fault::TakenOver);
        match run.process.drive(1).await {
            Ok(outcome) => {
                assert_eq!(outcome, ENDED);
                break;
            }
            Err(interrupted) => assert!(matches!(interrupted, Interrupted::Lost), "{interrupted:?}"),
        }
        crashes += 1;
        assert_eq!(run.process.drive(2).await.unwrap(), ENDED, "after {commits} commits");
        let ([first, second], result) = (run.made(), run.result());
        assert!(first == 1 && second <= 1, "after {commits} commits: {first}, {second}");
        let is_known = result.contains("first failed (It is down); second");
        assert!(is_known || result.contains("outcome unknown"), "after {commits} commits: {result}");
        assert!(commits < 2 || is_known, "after {commits} commits: {result}");
    }
    assert!(crashes > 3, "{crashes} crashes");
}

#[tokio::test(start_paused = true)]
async fn fallback_that_needs_a_yes_waits_and_repeats_nothing() {
    let destructive = ToolFacts { risk: Risk::Destructive, ..ToolFacts::of_effect(EffectClass::Effect) };
    let waiting = |called: &str, fallbacks: &str| {
        let code = Behaviour::Calls(&[&["first"]]);
        let tools = vec![
            effect("first", BUSY),
            effect("second", Behaviour::Answers).with_facts(destructive.clone()),
            TestTool::new("code", EffectClass::Idempotent, code),
        ];
        Falling::calling(called, tools, fallbacks, "")
    };
    for called in ["first", "code"] {
        for commits in 0..4 {
            let run = waiting(called, FALLBACK);
            assert!(run.waits(1).await, "{called}");
            assert_eq!(run.made(), [1, 0], "{called}");
            assert!(run.waits(2).await, "{called} is still undecided");
            run.process.storage.close_question(
                houston_domain::question::QuestionState::Answered,
                Some(json!({"decision": "approve"})),
            );
            run.process.storage.fail_after(commits, Fault::TakenOver);
            let mut attempt = 3;
            while run.process.drive(attempt).await.is_err() {
                attempt += 1;
            }
            let [first, second] = run.made();
            assert!(first == 1 && second <= 1, "{called} after {commits} commits: {first}, {second}");
            assert!(run.result().contains("first failed (It is down)"), "{called}: {}", run.result());
        }
    }
    let run = waiting("first", FALLBACK);
    assert!(run.waits(1).await);
    let mut process = run.process;
    process.services.fallbacks = toml::from_str("").unwrap();
    assert_eq!(process.drive(2).await.unwrap(), ENDED);
    assert_eq!(run.first.load(Ordering::Relaxed), 1, "the settings have changed: the call is not repeated");
}

#[tokio::test(start_paused = true)]
async fn calls_of_code_fall_back_like_any_call() {
    let code = TestTool::new("code", EffectClass::Idempotent, Behaviour::Calls(&[&["first"], &["first"]]));
    let tools = vec![effect("first", BUSY), effect("second", Behaviour::Answers), code];
    let run = Falling::calling("code", tools, FALLBACK, "");
    assert_eq!(run.process.drive(1).await.unwrap(), ENDED);
    assert_eq!(run.made(), [2, 2]);
    assert_eq!(run.result().matches("second, answered in its place").count(), 2, "{}", run.result());
}
