//! Runs that pause because they get nowhere, or because their budget is reached.

use houston_domain::budget::{BUDGET_EXCEEDED, Budget, Spent, WhenReached};
use houston_domain::error_message::FAILED_PERMANENTLY;
use houston_domain::history::Block;
use houston_domain::overseer::{OVERSEER_KILLED, OVERSEER_STOPPED, Settings, Unattended};
use houston_domain::question::QuestionState;
use houston_domain::run::RunStatus;
use houston_domain::step::RunTransition;
use houston_domain::tool_call::EffectClass;
use rust_decimal::Decimal;
use serde_json::{Value, json};

use crate::run::driver::DriveOutcome;
use crate::run::tests::fixture::{
    Behaviour, KIND, Process, Script, ScriptedModel, TestTool, calls_tools, calls_with, says,
};
use crate::run::tests::memory_storage::Fault;

const ENDED: DriveOutcome = DriveOutcome::Ended(RunStatus::Completed);
const FAILED: DriveOutcome = DriveOutcome::Ended(RunStatus::Failed);

/// The settings that Houston comes with.
fn shipped() -> Settings {
    toml::from_str(include_str!("../../../../../../jobs/overseer.toml")).unwrap()
}

/// The same call, so many times, and then `Done.`
fn repeating(times: usize) -> Vec<Script> {
    (0..times).map(|_| calls_tools(&[("", "fetch")])).chain([says("Done.")]).collect()
}

fn process(scripts: Vec<Script>, guards: &str) -> Process {
    let fetch = TestTool::new("fetch", EffectClass::Read, Behaviour::Answers);
    let mut process = Process::guarded(ScriptedModel::new(scripts), vec![fetch], guards);
    process.services.config.overseer = shipped();
    process
}

async fn waits(process: &Process, attempt: i32) -> bool {
    let outcome = drive(process, attempt).await;
    matches!(outcome, DriveOutcome::Waiting { after: None, .. }) && process.storage.is_released()
}

/// Drives the run as a claim after a wait does.
async fn drive(process: &Process, attempt: i32) -> DriveOutcome {
    process.resumed(attempt).await.unwrap()
}

fn answer(process: &Process, decision: &str) {
    process.storage.close_question(QuestionState::Answered, Some(json!({"decision": decision})));
}

fn raise(process: &Process, amount: Value) {
    let answer = json!({"decision": "raise", "amount": amount});
    process.storage.close_question(QuestionState::Answered, Some(answer));
}

/// The error code that the run ended with.
fn code(process: &Process) -> Option<String> {
    match process.storage.committed().pop()?.transition {
        RunTransition::Terminate { ending, .. } => ending.error_code,
        _ => None,
    }
}

fn results(process: &Process) -> Vec<String> {
    let history = process.storage.history();
    let result = |block: &Block| match block {
        Block::ToolResult { content, .. } => Some(content.clone()),
        _ => None,
    };
    history.iter().flat_map(|entry| &entry.content).filter_map(result).collect()
}

#[tokio::test(start_paused = true)]
async fn repeated_call_is_warned_and_then_waits_for_a_person() {
    let process = process(repeating(4), "");
    assert!(waits(&process, 1).await);
    let asked = process.storage.questions().pop().unwrap().asked;
    assert_eq!(asked.subject.as_deref(), Some("houston:overseer:repeats:4"));
    assert!(asked.text.contains("4 times in a row") && asked.text.contains("`fetch`"), "{}", asked.text);
    assert!(asked.expires_at.is_some());
    let warned: Vec<bool> = results(&process).iter().map(|result| result.contains("[Houston: ")).collect();
    assert_eq!(warned, [false, false, true, false], "the model is warned once");
    assert!(waits(&process, 2).await, "it is claimed for no reason, and waits again");
    assert_eq!(process.storage.questions().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn yes_lets_the_run_go_on_and_counts_anew() {
    let mut process = process(repeating(5), "");
    process.services.config.overseer.nothing_new.pause = 0;
    assert!(waits(&process, 1).await);
    answer(&process, "continue");
    // max_same_tool is 5.
    assert_eq!(drive(&process, 2).await, ENDED);
    assert_eq!(process.storage.questions().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn count_starts_anew_after_a_yes_for_a_later_worker_too() {
    let mut process = process(repeating(9), "");
    process.services.config.overseer.nothing_new.pause = 0;
    assert!(waits(&process, 1).await);
    answer(&process, "continue");
    // What it reads, and two commits for each of two turns; the answer of the seventh is lost with its worker.
    process.storage.fail_after(5, Fault::TakenOver);
    process.resumed(2).await.unwrap_err();
    assert!(waits(&process, 3).await);
    let subjects: Vec<_> =
        process.storage.questions().into_iter().filter_map(|of| of.asked.subject).collect();
    assert_eq!(subjects, ["houston:overseer:repeats:4", "houston:overseer:repeats:8"]);
}

#[tokio::test(start_paused = true)]
async fn yes_holds_after_a_crash_during_a_tool() {
    let mut process = process(repeating(6), "");
    process.services.config.overseer.nothing_new.pause = 0;
    assert!(waits(&process, 1).await);
    answer(&process, "continue");
    // The fifth turn and the intent of its call are committed, its result is not.
    process.storage.fail_after(2, Fault::TakenOver);
    process.resumed(2).await.unwrap_err();
    assert_eq!(process.drive(3).await.unwrap(), ENDED);
    assert_eq!(results(&process).len(), 6);
}

#[tokio::test(start_paused = true)]
async fn no_and_no_answer_end_a_paused_run() {
    for state in [QuestionState::Answered, QuestionState::Expired] {
        let process = process(repeating(4), "");
        assert!(waits(&process, 1).await);
        match state {
            QuestionState::Answered => answer(&process, "stop"),
            state => process.storage.close_question(state, None),
        }
        assert_eq!(drive(&process, 2).await, FAILED);
        assert_eq!(code(&process).as_deref(), Some(OVERSEER_STOPPED));
        let notice = process.storage.committed().pop().unwrap().messages.pop().unwrap();
        assert!(notice.content.starts_with(FAILED_PERMANENTLY), "{}", notice.content);
    }
}

#[tokio::test(start_paused = true)]
async fn message_supersedes_a_pause() {
    let process = process(repeating(4), "");
    assert!(waits(&process, 1).await);
    process.storage.post("Try something else");
    assert_eq!(drive(&process, 2).await, ENDED);
    assert_eq!(process.storage.questions()[0].state, QuestionState::Superseded);
}

#[tokio::test(start_paused = true)]
async fn message_before_the_expiry_of_a_pause_lets_the_run_go_on() {
    for has_crashed in [false, true] {
        let scripts = repeating(4).into_iter().chain([says("Done.")]).collect();
        let process = process(scripts, "");
        assert!(waits(&process, 1).await);
        process.storage.post("Try something else");
        process.storage.close_question(QuestionState::Expired, None);
        if has_crashed {
            // The message is read; the answer to it is lost with its worker.
            process.storage.fail_after(1, Fault::TakenOver);
            process.resumed(2).await.unwrap_err();
        }
        assert_eq!(drive(&process, 3).await, ENDED);
    }
}

#[tokio::test(start_paused = true)]
async fn stop_that_comes_during_a_message_is_not_lost() {
    let process = process(repeating(4), "");
    assert!(waits(&process, 1).await);
    process.storage.post("Try something else");
    process.storage.answer_after_commits(1, json!({"decision": "stop"}));
    assert_eq!(drive(&process, 2).await, FAILED);
    assert_eq!(code(&process).as_deref(), Some(OVERSEER_STOPPED));
}

#[tokio::test(start_paused = true)]
async fn cancelled_run_that_pauses_ends() {
    let process = process(repeating(4), "");
    assert!(waits(&process, 1).await);
    let mut claimed = process.claimed.clone();
    claimed.cancel_seq = Some(3);
    let process = Process { claimed, ..process };
    assert_eq!(drive(&process, 2).await, DriveOutcome::Ended(RunStatus::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn run_that_is_refused_again_and_again_is_killed() {
    let call = |nth: usize| calls_with([("", "fetch", json!({"nth": nth}))]);
    let mut process = process((0..6).map(call).collect(), "denied = [\"fetch\"]");
    process.services.setups.set_policy(KIND, |policy| policy.limits.max_same_tool = 100);
    process.services.config.overseer.failures.pause = 0;
    assert!(waits(&process, 1).await);
    answer(&process, "continue");
    // Three more reach the pause and the kill at once.
    assert_eq!(drive(&process, 2).await, FAILED);
    assert_eq!(code(&process).as_deref(), Some(OVERSEER_KILLED));
    assert_eq!(results(&process).len(), 6);
    assert_eq!(houston_domain::history::validate(&process.storage.history()), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn unattended_run_stops_instead_of_waiting_unless_it_may_ask() {
    for unattended in [Unattended::Stop, Unattended::Ask] {
        let mut process = process(repeating(4), "");
        process.services.config.overseer.unattended = unattended;
        process.services.setups.set_policy(KIND, |policy| policy.conversational = false);
        let outcome = drive(&process, 1).await;
        match unattended {
            Unattended::Stop => {
                assert_eq!((outcome, code(&process).as_deref()), (FAILED, Some(OVERSEER_STOPPED)))
            }
            Unattended::Ask => assert!(matches!(outcome, DriveOutcome::Waiting { .. }), "{outcome:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn run_without_signals_reads_no_questions() {
    let mut process = process(repeating(2), "");
    process.services.config.budget = dollar_per_run(WhenReached::Ask);
    assert_eq!(process.drive(1).await.unwrap(), ENDED);
    assert_eq!(process.storage.question_reads(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn model_is_warned_once_of_a_budget_that_is_nearly_spent() {
    for (cents, warned) in [(799, [false; 3]), (800, [true, false, false])] {
        let mut process = process(repeating(4), "");
        process.services.config.overseer.repeats.warn = 0;
        process.services.config.budget = Budget { per_run: Some(Decimal::TEN), ..Budget::default() };
        process.storage.set_spent(Spent { run: Some(Decimal::new(cents, 2)), ..Spent::default() });
        // Two commits for each of two turns; the third answer is lost with its worker.
        process.storage.fail_after(4, Fault::TakenOver);
        process.drive(1).await.unwrap_err();
        assert_eq!(process.drive(2).await.unwrap(), ENDED);
        let results = results(&process);
        let has_note = |result: &String| result.contains("More than 80 % of the budget for this run ($10)");
        assert_eq!(results.iter().map(has_note).collect::<Vec<_>>(), warned, "{results:?}");
        assert_eq!(process.storage.question_reads(), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn model_is_warned_of_tokens_before_the_run_pauses() {
    let mut process = process(repeating(2), "");
    process.services.config.overseer.tokens.warn = 1;
    assert_eq!(process.drive(1).await.unwrap(), ENDED);
    let noted: Vec<bool> =
        results(&process).iter().map(|result| result.contains("used more than 1 tokens")).collect();
    assert_eq!(noted, [false, true], "once it has used some");
}

fn dollar_per_run(when_reached: WhenReached) -> Budget {
    Budget { per_run: Some(Decimal::ONE), when_reached, ..Budget::default() }
}

/// A run that has spent so much of its budget of one dollar.
fn spending(cents: i64, when_reached: WhenReached) -> Process {
    let mut process = process(vec![says("Done.")], "");
    process.services.config.budget = dollar_per_run(when_reached);
    let spent = Some(Decimal::new(cents, 2));
    process.storage.set_spent(Spent { run: spent, agentable: spent, user_today: spent });
    process
}

#[tokio::test(start_paused = true)]
async fn reached_budget_fails_by_default_and_reads_no_questions() {
    let process = spending(100, WhenReached::Fail);
    assert_eq!(drive(&process, 1).await, FAILED);
    assert_eq!(code(&process).as_deref(), Some(BUDGET_EXCEEDED));
    assert_eq!(process.storage.question_reads(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn reached_budget_waits_and_a_raise_lets_the_run_go_on() {
    let process = spending(100, WhenReached::Ask);
    assert!(waits(&process, 1).await);
    let asked = process.storage.questions().pop().unwrap().asked;
    assert_eq!((asked.kind.as_str(), asked.subject.as_deref()), ("budget", Some("houston:budget:run")));
    assert!(asked.text.contains("is $1; $1 of it is spent"), "{}", asked.text);
    raise(&process, json!(0.5));
    assert_eq!(drive(&process, 2).await, ENDED);
    assert_eq!(process.storage.questions().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn raise_that_is_too_small_is_asked_about_again() {
    let process = spending(200, WhenReached::Ask);
    assert!(waits(&process, 1).await);
    raise(&process, json!(0.5));
    assert!(waits(&process, 2).await);
    assert_eq!(process.storage.questions().len(), 2);
    assert!(process.storage.questions()[1].asked.text.contains("is $1.5"), "both are counted");
    raise(&process, json!(1));
    assert_eq!(drive(&process, 3).await, ENDED);
}

#[tokio::test(start_paused = true)]
async fn stopped_or_expired_budget_question_ends_the_run_as_before() {
    for state in [QuestionState::Answered, QuestionState::Expired] {
        let process = spending(100, WhenReached::Ask);
        assert!(waits(&process, 1).await);
        match state {
            QuestionState::Answered => answer(&process, "stop"),
            state => process.storage.close_question(state, None),
        }
        assert_eq!(drive(&process, 2).await, FAILED);
        assert_eq!(code(&process).as_deref(), Some(BUDGET_EXCEEDED));
    }
}

#[tokio::test(start_paused = true)]
async fn message_at_a_reached_budget_is_read_and_asks_again() {
    let process = spending(100, WhenReached::Ask);
    assert!(waits(&process, 1).await);
    process.storage.post("Hurry up");
    assert!(waits(&process, 2).await);
    let states: Vec<QuestionState> = process.storage.questions().iter().map(|of| of.state).collect();
    assert_eq!(states, [QuestionState::Superseded, QuestionState::Open]);
    assert!(waits(&process, 3).await, "it is claimed for no reason, and waits again");
    assert_eq!(process.storage.questions().len(), 2);
    raise(&process, json!(1));
    assert_eq!(drive(&process, 4).await, ENDED);
}
