//! Runs whose calls need a person's approval.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use houston_domain::event::Event;
use houston_domain::guard::{Risk, ToolFacts};
use houston_domain::history::Block;
use houston_domain::question::QuestionState;
use houston_domain::run::RunStatus;
use houston_domain::tool_call::{EffectClass, ToolErrorCode};
use serde_json::{Value, json};

use crate::run::driver::DriveOutcome;
use crate::run::tests::fixture::{
    Behaviour, Process, Script, ScriptedModel, TestTool, calls_tools, calls_with, says,
};
use crate::run::tests::memory_storage::Fault;

/// A run whose model wipes something, and then says `Done.`
struct Wiping {
    process: Process,
    wipe: Arc<std::sync::atomic::AtomicUsize>,
    inputs: Arc<std::sync::Mutex<Vec<Value>>>,
    fetch: Arc<std::sync::atomic::AtomicUsize>,
}

fn wipe() -> TestTool {
    let facts = ToolFacts { risk: Risk::Destructive, ..ToolFacts::of_effect(EffectClass::Effect) };
    TestTool::new("wipe", EffectClass::Effect, Behaviour::Answers).with_facts(facts)
}

impl Wiping {
    fn new(first: Script) -> Self {
        Self::guarded(first, "")
    }

    fn guarded(first: Script, guards: &str) -> Self {
        let fetch = TestTool::new("fetch", EffectClass::Read, Behaviour::Answers);
        let wipe = wipe();
        let (executed, inputs, fetched) =
            (Arc::clone(&wipe.executed), Arc::clone(&wipe.inputs), Arc::clone(&fetch.executed));
        let model = ScriptedModel::new([first, says("Done."), says("Done.")]);
        let process = Process::guarded(model, vec![wipe, fetch], guards);
        Self { process, wipe: executed, inputs, fetch: fetched }
    }

    /// Whether the run waits after this attempt.
    async fn waits(&self, attempt: i32) -> bool {
        let outcome = self.process.drive(attempt).await.unwrap();
        matches!(outcome, DriveOutcome::Waiting { after: None, .. })
    }

    fn answer(&self, answer: Value) {
        self.process.storage.close_question(QuestionState::Answered, Some(answer));
    }

    fn executed(&self) -> usize {
        self.wipe.load(Ordering::Relaxed)
    }

    /// The results of the tool calls in the history.
    fn results(&self) -> Vec<String> {
        let history = self.process.storage.history();
        let blocks = history.iter().flat_map(|entry| &entry.content);
        blocks
            .filter_map(|block| match block {
                Block::ToolResult { content, .. } => Some(content.clone()),
                _ => None,
            })
            .collect()
    }
}

const ENDED: DriveOutcome = DriveOutcome::Ended(RunStatus::Completed);

#[tokio::test(start_paused = true)]
async fn destructive_call_waits_without_intent_lock_or_effect() {
    let run = Wiping::new(calls_tools(&[("c1", "wipe")]));
    assert!(run.waits(1).await);
    assert!(run.process.storage.is_released());
    assert_eq!((run.executed(), run.process.storage.intents()), (0, Vec::new()));
    let steps = run.process.storage.committed();
    assert_eq!(steps.len(), 1, "the turn, the question and the wait are one step");
    assert_eq!(steps[0].messages[0].metadata["status"], "waiting");
    let asked = run.process.storage.questions().pop().unwrap().asked;
    let approval = asked.approval.unwrap();
    assert_eq!((asked.subject.as_deref(), approval.tool.as_str()), (Some("c1"), "wipe"));
    assert_eq!(approval.message_id, Some(steps[0].messages[0].id));
    assert!(asked.expires_at.is_some());
    let called = steps[0].events.iter().find_map(|event| match event {
        Event::ToolCalled { decided_by, .. } => decided_by.clone(),
        _ => None,
    });
    assert_eq!(called.unwrap().rule, "profile: destructive");
}

#[tokio::test(start_paused = true)]
async fn approved_call_is_executed_once() {
    let run = Wiping::new(calls_tools(&[("c1", "wipe")]));
    assert!(run.waits(1).await);
    run.answer(json!({"decision": "approve"}));
    assert_eq!(run.process.drive(2).await.unwrap(), ENDED);
    assert_eq!((run.executed(), run.results()), (1, vec!["Done.".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn call_that_is_not_approved_has_a_result_that_says_why() {
    for (state, answer, expected) in [
        (
            QuestionState::Answered,
            json!({"decision": "reject", "message": "not today"}),
            "said no: not today",
        ),
        (QuestionState::Answered, json!({"decision": "respond", "message": "I did it"}), "I did it"),
        (QuestionState::Answered, json!("nonsense"), "said no"),
        (QuestionState::Expired, Value::Null, "no answer came in time"),
    ] {
        let run = Wiping::new(calls_tools(&[("c1", "wipe")]));
        assert!(run.waits(1).await);
        run.process.storage.close_question(state, Some(answer).filter(|answer| !answer.is_null()));
        assert_eq!(run.process.drive(2).await.unwrap(), ENDED);
        let results = run.results();
        assert!(results.len() == 1 && results[0].contains(expected), "{results:?}");
        assert_eq!(run.executed(), 0, "{expected}");
    }
}

#[tokio::test(start_paused = true)]
async fn edited_call_runs_with_the_new_arguments_and_says_so() {
    let run = Wiping::new(calls_with([("c1", "wipe", json!({"what": "all"}))]));
    assert!(run.waits(1).await);
    run.answer(json!({"decision": "edit", "input": {"what": "drafts"}}));
    assert_eq!(run.process.drive(2).await.unwrap(), ENDED);
    assert_eq!(*run.inputs.lock().unwrap(), [json!({"what": "drafts"})]);
    assert!(run.results()[0].starts_with("[your user changed the arguments"), "{:?}", run.results());
}

#[tokio::test(start_paused = true)]
async fn edited_call_is_judged_again() {
    let guards = r#"
        [[rule]]
        tool = "wipe"
        when = { "/what" = "disk" }
        decide = "deny"
        why = "disks are never wiped"
    "#;
    let run = Wiping::guarded(calls_with([("c1", "wipe", json!({"what": "all"}))]), guards);
    assert!(run.waits(1).await);
    run.answer(json!({"decision": "edit", "input": {"what": "disk"}}));
    assert_eq!(run.process.drive(2).await.unwrap(), ENDED);
    assert_eq!(
        (run.executed(), run.results()),
        (0, vec!["refused by a guard: disks are never wiped".to_owned()])
    );
}

#[tokio::test(start_paused = true)]
async fn guards_that_deny_meanwhile_prevail_over_a_yes() {
    let run = Wiping::new(calls_tools(&[("c1", "wipe")]));
    assert!(run.waits(1).await);
    run.answer(json!({"decision": "approve"}));
    let later = Wiping::guarded(says("Done."), "denied = [\"wipe\"]");
    let later = Wiping {
        process: Process {
            storage: run.process.storage.clone(),
            claimed: run.process.claimed.clone(),
            ..later.process
        },
        ..later
    };
    assert_eq!(later.process.drive(2).await.unwrap(), ENDED);
    assert_eq!((run.executed(), later.executed()), (0, 0));
    assert_eq!(later.results(), ["refused by a guard: wipe is switched off"]);
}

#[tokio::test(start_paused = true)]
async fn other_calls_of_the_turn_run_while_one_waits() {
    let run = Wiping::new(calls_tools(&[("c1", "wipe"), ("c2", "fetch"), ("c3", "unknown")]));
    assert!(run.waits(1).await);
    assert_eq!((run.executed(), run.fetch.load(Ordering::Relaxed)), (0, 1));
    assert!(run.results().is_empty(), "the history gets all results at once");
    assert!(run.waits(2).await, "it is claimed for no reason, and waits again");
    run.answer(json!({"decision": "approve"}));
    assert_eq!(run.process.drive(3).await.unwrap(), ENDED);
    assert_eq!((run.executed(), run.fetch.load(Ordering::Relaxed)), (1, 1), "nothing runs twice");
    assert_eq!(run.results().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn each_of_two_calls_waits_for_its_own_answer() {
    let run = Wiping::new(calls_tools(&[("c1", "wipe"), ("c2", "wipe")]));
    assert!(run.waits(1).await);
    run.answer(json!({"decision": "approve"}));
    assert!(run.waits(2).await, "the first call still waits");
    assert_eq!(run.executed(), 1);
    run.process.storage.close_first_question(QuestionState::Expired);
    assert_eq!(run.process.drive(3).await.unwrap(), ENDED);
    assert_eq!(run.executed(), 1);
}

#[tokio::test(start_paused = true)]
async fn message_takes_the_place_of_an_answer() {
    let run = Wiping::new(calls_tools(&[("c1", "wipe")]));
    assert!(run.waits(1).await);
    run.process.storage.post("Wait, what would that delete?");
    assert_eq!(run.process.drive(2).await.unwrap(), ENDED);
    assert_eq!(run.executed(), 0);
    assert!(run.results()[0].contains("your user wrote a message"), "{:?}", run.results());
    assert_eq!(run.process.storage.questions()[0].state, QuestionState::Superseded);
    let history = run.process.storage.history();
    let texts: Vec<String> = history.iter().flat_map(|entry| &entry.content).filter_map(text).collect();
    assert_eq!(texts, ["Hello", "Wait, what would that delete?", "Done."]);
}

fn text(block: &Block) -> Option<String> {
    match block {
        Block::Text { text, .. } => Some(text.clone()),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn approved_call_is_not_repeated_after_a_crash() {
    let run = Wiping::new(calls_tools(&[("c1", "wipe")]));
    assert!(run.waits(1).await);
    run.answer(json!({"decision": "approve"}));
    // The intent is committed; the worker dies before the result is.
    run.process.storage.fail_after(1, Fault::TakenOver);
    run.process.drive(2).await.unwrap_err();
    assert_eq!(run.executed(), 1);
    assert_eq!(run.process.drive(3).await.unwrap(), ENDED);
    assert_eq!(run.executed(), 1);
    assert!(run.results()[0].contains("outcome unknown"), "{:?}", run.results());
}

#[tokio::test(start_paused = true)]
async fn decision_survives_a_crash_before_its_intent() {
    let run = Wiping::new(calls_tools(&[("c1", "wipe")]));
    assert!(run.waits(1).await);
    run.answer(json!({"decision": "approve"}));
    run.process.storage.fail([Fault::TakenOver]);
    run.process.drive(2).await.unwrap_err();
    assert_eq!(run.executed(), 0);
    assert_eq!(run.process.drive(3).await.unwrap(), ENDED);
    assert_eq!(run.executed(), 1);
}

#[tokio::test(start_paused = true)]
async fn cancel_closes_a_call_that_waits() {
    let run = Wiping::new(calls_tools(&[("c1", "wipe")]));
    assert!(run.waits(1).await);
    let mut claimed = run.process.claimed.clone();
    claimed.cancel_seq = Some(3);
    let process = Process { claimed, ..run.process };
    assert_eq!(process.drive(2).await.unwrap(), DriveOutcome::Ended(RunStatus::Cancelled));
    let last = process.storage.committed().pop().unwrap();
    assert_eq!(last.cells.len(), 1, "its cell shows that it was not carried out");
    assert_eq!(last.cells[0].1, json!({"status": "failed", "code": "PERMISSION_DENIED"}));
    let Block::ToolResult { content, code, .. } = &last.entries[0].content[0] else { panic!("not a result") };
    assert_eq!(*code, Some(ToolErrorCode::PermissionDenied));
    assert!(content.contains("before a person had approved it"), "{content}");
}

#[tokio::test(start_paused = true)]
async fn cancel_in_a_later_turn_leaves_decided_calls_alone() {
    let model = ScriptedModel::new([calls_tools(&[("c1", "wipe")]), calls_tools(&[("c2", "wipe")])]);
    let process = Process::new(model, vec![wipe()]);
    process.drive(1).await.unwrap();
    process.storage.close_question(QuestionState::Answered, Some(json!({"decision": "reject"})));
    let outcome = process.drive(2).await.unwrap();
    assert!(matches!(outcome, DriveOutcome::Waiting { .. }), "{outcome:?}");
    let mut claimed = process.claimed.clone();
    claimed.cancel_seq = Some(3);
    let process = Process { claimed, ..process };
    assert_eq!(process.drive(3).await.unwrap(), DriveOutcome::Ended(RunStatus::Cancelled));
    let steps = process.storage.committed();
    let returned = steps.iter().flat_map(|step| &step.events).filter_map(|event| match event {
        Event::ToolReturned { call_id, .. } => Some(call_id.as_str()),
        _ => None,
    });
    assert_eq!(returned.collect::<Vec<_>>(), ["c1", "c2"], "each call has one result");
}

#[tokio::test(start_paused = true)]
async fn decision_that_comes_during_a_message_is_not_lost() {
    let run = Wiping::new(calls_tools(&[("c1", "wipe")]));
    assert!(run.waits(1).await);
    run.process.storage.post("Hello?");
    run.process.storage.answer_before_next_commit(json!({"decision": "approve"}));
    assert_eq!(run.process.drive(2).await.unwrap(), ENDED);
    assert_eq!((run.executed(), run.results()), (1, vec!["Done.".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn worker_without_the_kind_closes_a_call_that_waits() {
    let run = Wiping::new(calls_tools(&[("c1", "wipe")]));
    assert!(run.waits(1).await);
    run.answer(json!({"decision": "approve"}));
    let mut claimed = run.process.claimed.clone();
    claimed.kind = "gone".to_owned();
    let process = Process { claimed, ..run.process };
    assert_eq!(process.drive(2).await.unwrap(), DriveOutcome::Ended(RunStatus::Failed));
    assert_eq!(houston_domain::history::validate(&process.storage.history()), Ok(()));
    assert_eq!(process.storage.committed().pop().unwrap().cells[0].1["status"], "failed");
}

#[tokio::test(start_paused = true)]
async fn refused_call_is_answered_without_a_question() {
    let run = Wiping::guarded(calls_tools(&[("c1", "wipe")]), "denied = [\"wi*\"]");
    assert_eq!(run.process.drive(1).await.unwrap(), ENDED);
    assert_eq!(
        (run.executed(), run.results()),
        (0, vec!["refused by a guard: wipe is switched off".to_owned()])
    );
    assert!(run.process.storage.questions().is_empty());
}

#[tokio::test(start_paused = true)]
async fn arguments_above_a_limit_are_lowered() {
    let guards = "[tools.fetch.limits]\nlimit = 50";
    let run = Wiping::guarded(calls_with([("c1", "fetch", json!({"limit": 500}))]), guards);
    assert_eq!(run.process.drive(1).await.unwrap(), ENDED);
    let results = run.results();
    assert!(results[0].contains("50") && results[0].ends_with("Done."), "{results:?}");
}

/// Guards lower what the kind lets its agents do without asking, and never raise it.
#[tokio::test(start_paused = true)]
async fn guards_lower_the_autonomy_and_never_raise_it() {
    for (guards, tool, asks) in [
        ("", "fetch", false),
        ("autonomy = \"none\"", "fetch", true),
        ("autonomy = \"low\"", "fetch", false),
        ("", "wipe", true),
        ("autonomy = \"full\"", "wipe", true),
    ] {
        let run = Wiping::guarded(calls_tools(&[("c1", tool)]), guards);
        assert_eq!(run.waits(1).await, asks, "{guards} {tool}");
    }
}
