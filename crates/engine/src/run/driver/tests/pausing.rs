//! Runs whose calls pause in their middle.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use houston_domain::history::Block;
use houston_domain::question::{QuestionKind, QuestionState};
use houston_domain::run::RunStatus;
use houston_domain::tool_call::EffectClass;
use serde_json::{Value, json};

use crate::run::driver::DriveOutcome;
use crate::run::tests::fixture::{Behaviour, Process, ScriptedModel, TestTool, calls_tools, says};
use crate::run::tests::memory_storage::Fault;
use crate::run::tests::pausing_tool::{KEPT, Pausing};

const ENDED: DriveOutcome = DriveOutcome::Ended(RunStatus::Completed);

/// A run whose model calls a tool that pauses, and then says `Done.`
struct Run {
    process: Process,
    begun: Arc<AtomicUsize>,
    went_on: Arc<Mutex<Vec<Value>>>,
}

impl Run {
    fn new(pausing: Pausing, calls: &[(&str, &str)]) -> Self {
        let tool = TestTool::new("book", EffectClass::Effect, Behaviour::Pauses(pausing));
        let code = TestTool::new("code", EffectClass::Idempotent, Behaviour::Calls(&[&["book"]]));
        let (begun, went_on) = (Arc::clone(&tool.executed), Arc::clone(&tool.went_on));
        let model = ScriptedModel::new([calls_tools(calls), says("Done."), says("Done.")]);
        Self { process: Process::new(model, vec![tool, code]), begun, went_on }
    }

    async fn drive(&self, attempt: i32) -> DriveOutcome {
        self.process.resumed(attempt).await.unwrap()
    }

    async fn waits(&self, attempt: i32, time: Option<Duration>) {
        let outcome = self.drive(attempt).await;
        assert!(matches!(outcome, DriveOutcome::Waiting { after, .. } if after == time), "{outcome:?}");
    }

    fn close(&self, state: QuestionState, answer: Option<Value>) {
        self.process.storage.close_question(state, answer);
    }

    fn begun(&self) -> usize {
        self.begun.load(Ordering::Relaxed)
    }

    fn went_on(&self) -> Vec<Value> {
        self.went_on.lock().unwrap().clone()
    }

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

fn accept() -> Value {
    json!({"action": "accept", "content": {"name": "Ada"}})
}

#[tokio::test(start_paused = true)]
async fn call_that_needs_a_person_waits_and_goes_on_once() {
    let run = Run::new(Pausing::Asks, &[("c1", "book")]);
    run.waits(1, None).await;
    assert!(run.process.storage.is_released());
    let asked = run.process.storage.questions().pop().unwrap().asked;
    assert_eq!((asked.kind, asked.subject.as_deref()), (QuestionKind::Input, Some("houston:input:c1")));
    assert!(asked.expires_at.is_some() && asked.check_answer(&accept()).is_ok());
    assert!(asked.message_id.is_some(), "clients show it at the call that asks");
    assert_eq!(
        asked.check_answer(&json!({"action": "accept", "content": {}})).unwrap_err().pointer,
        "/content/name"
    );
    run.close(QuestionState::Answered, Some(accept()));
    assert_eq!(run.drive(2).await, ENDED);
    assert_eq!(
        (run.begun(), run.went_on()),
        (1, vec![json!([KEPT, accept()])]),
        "what it kept comes back whole"
    );
    assert_eq!(run.results(), [format!("With {}.", accept())]);
}

#[tokio::test(start_paused = true)]
async fn declining_goes_on_and_no_answer_ends_the_call() {
    for (state, answer, went_on, words) in [
        (QuestionState::Answered, Some(json!({"action": "decline"})), 1, "decline"),
        (QuestionState::Answered, Some(json!({"action": "cancel"})), 1, "cancel"),
        (QuestionState::Answered, Some(json!("nonsense")), 0, "not asked for any more"),
        (QuestionState::Expired, None, 0, "no answer came in time"),
        (QuestionState::Superseded, None, 0, "a message instead"),
    ] {
        let run = Run::new(Pausing::Asks, &[("c1", "book")]);
        run.waits(1, None).await;
        run.close(state, answer);
        assert_eq!(run.drive(2).await, ENDED);
        assert_eq!(run.went_on().len(), went_on);
        assert!(run.results()[0].contains(words), "{:?}", run.results());
    }
}

#[tokio::test(start_paused = true)]
async fn message_in_place_of_an_answer_ends_the_call() {
    let run = Run::new(Pausing::Asks, &[("c1", "book")]);
    run.waits(1, None).await;
    run.process.storage.post("Never mind.");
    assert_eq!(run.drive(2).await, ENDED);
    assert!(run.results()[0].contains("a message instead"), "{:?}", run.results());
    assert_eq!(run.process.storage.questions()[0].state, QuestionState::Superseded);
    assert_eq!((run.begun(), run.went_on()), (1, Vec::new()));
}

/// The worker dies after it has committed that the call goes on.
#[tokio::test(start_paused = true)]
async fn call_of_class_effect_does_not_go_on_twice() {
    let run = Run::new(Pausing::Asks, &[("c1", "book")]);
    run.waits(1, None).await;
    run.close(QuestionState::Answered, Some(accept()));
    run.process.storage.fail_after(1, Fault::TakenOver);
    assert!(run.process.resumed(2).await.is_err(), "the response is not committed");
    assert_eq!(run.went_on().len(), 1);
    assert_eq!(run.drive(3).await, ENDED);
    assert_eq!(run.went_on().len(), 1);
    assert!(run.results()[0].contains("outcome unknown"), "{:?}", run.results());
}

#[tokio::test(start_paused = true)]
async fn task_is_committed_first_and_then_asked_for() {
    let run = Run::new(Pausing::Begins, &[("c1", "book")]);
    run.waits(1, Some(Duration::from_secs(30))).await;
    let pauses: Vec<_> = run.process.storage.committed().into_iter().flat_map(|step| step.pauses).collect();
    let states: Vec<_> = pauses.into_iter().map(|(_, paused)| paused.unwrap().state).collect();
    assert_eq!(states, [json!(2), json!(1)]);
    assert_eq!(run.drive(2).await, ENDED);
    assert_eq!((run.begun(), run.results()), (1, vec!["It has ended.".to_owned()]));
}

/// The worker dies when the task is committed.
#[tokio::test(start_paused = true)]
async fn task_is_asked_for_and_not_begun_again_after_a_crash() {
    let run = Run::new(Pausing::Begins, &[("c1", "book")]);
    run.process.storage.fail_after(2, Fault::TakenOver);
    assert!(run.process.resumed(1).await.is_err());
    run.waits(2, Some(Duration::from_secs(30))).await;
    assert_eq!(run.drive(3).await, ENDED);
    assert_eq!(run.begun(), 1);
}

#[tokio::test(start_paused = true)]
async fn message_does_not_wake_a_run_that_waits_for_a_task_twice() {
    let run = Run::new(Pausing::Begins, &[("c1", "book")]);
    run.process.storage.post("How far is it?");
    run.waits(1, Some(Duration::from_secs(30))).await;
    assert_eq!(run.went_on().len(), 1, "the message was there when it began to wait");
}

#[tokio::test(start_paused = true)]
async fn cancelled_run_gives_up_what_its_calls_have_begun() {
    let run = Run::new(Pausing::Begins, &[("c1", "book")]);
    run.waits(1, Some(Duration::from_secs(30))).await;
    run.process.registration.live.cancel.cancel();
    let mut claimed = run.process.claimed.clone();
    claimed.cancel_seq = Some(9);
    let outcome = run.process.drive_claim(claimed, 2).await.unwrap();
    assert_eq!(outcome, DriveOutcome::Ended(RunStatus::Cancelled));
    assert_eq!(run.went_on().last(), Some(&json!({"gave up": 1})));
    assert!(run.results()[0].contains("It may have happened"), "{:?}", run.results());
}

#[tokio::test(start_paused = true)]
async fn calls_of_code_pause_as_well() {
    let run = Run::new(Pausing::Asks, &[("c1", "code")]);
    run.waits(1, None).await;
    run.close(QuestionState::Answered, Some(accept()));
    assert_eq!(run.drive(2).await, ENDED);
    assert_eq!((run.begun(), run.went_on().len()), (1, 1));
    let run = Run::new(Pausing::Begins, &[("c1", "code")]);
    run.waits(1, Some(Duration::from_secs(30))).await;
    assert_eq!(run.drive(2).await, ENDED);
    assert_eq!((run.begun(), run.went_on().len()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn call_that_keeps_too_much_fails() {
    let run = Run::new(Pausing::KeepsTooMuch, &[("c1", "book")]);
    assert_eq!(run.drive(1).await, ENDED);
    assert!(run.results()[0].contains("at most 131072"), "{:?}", run.results());
}
