use std::sync::Mutex;

use chrono::TimeDelta;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use houston_domain::history::Role;
use houston_domain::message::MessageType;
use houston_domain::question::{QuestionKind, QuestionState};
use houston_domain::tool_call::EffectClass;
use serde_json::json;

use super::*;
use crate::driver::Drivers;
use crate::error::Interrupted;
use crate::run::tests::fixture::{Behaviour, KIND, Process, ScriptedModel, TestTool, says};
use crate::run::tests::memory_storage::Fault;
use crate::setup::kinds::driver_of;

/// A driver that decides as the test says.
struct Scripted<F>(F);

impl<F: Fn(DrivenRun<'_>) -> Decision + Send + Sync> Driver for Scripted<F> {
    fn next<'a>(&'a self, run: DrivenRun<'a>) -> BoxFuture<'a, Decision> {
        std::future::ready((self.0)(run)).boxed()
    }
}

fn driven(driver: impl Fn(DrivenRun<'_>) -> Decision + Send + Sync + 'static) -> Process {
    driven_with(driver, Vec::new(), Vec::new())
}

fn driven_with(
    driver: impl Fn(DrivenRun<'_>) -> Decision + Send + Sync + 'static,
    scripts: Vec<crate::run::tests::fixture::Script>,
    tools: Vec<TestTool>,
) -> Process {
    Process::driven_by(ScriptedModel::new(scripts), tools, std::sync::Arc::new(Scripted(driver)))
}

/// Drives the run once; `attempt` is the number of the attempt.
async fn drive(process: &Process, attempt: i32) -> Result<DriveOutcome, Interrupted> {
    process.drive(attempt).await
}

/// Asks once, waits for the answer, waits an hour, says the answer, and finishes.
fn asks_and_waits(run: DrivenRun<'_>) -> Decision {
    let Some(question) = run.questions.first() else {
        let asks = run.question(QuestionKind::Input, "Which city?");
        return Decision::ask(asks).then(Then::Wait { until: None });
    };
    let Some(city) = question.outcome() else {
        return match question.state {
            QuestionState::Open => Decision::from(Then::Wait { until: None }),
            _ => Decision::say("No answer.").then(Then::Finish),
        };
    };
    match run.state.and_then(|state| state["since"].as_i64()) {
        None => {
            let until = Some(run.now + TimeDelta::hours(1));
            Decision::from(Then::Wait { until }).remember(json!({"since": run.now.timestamp()}))
        }
        Some(since) if run.now.timestamp() < since + 3600 => {
            let until = chrono::DateTime::from_timestamp(since + 3600, 0);
            Decision::from(Then::Wait { until })
        }
        Some(_) => Decision::say(format!("{} it is.", city.as_str().unwrap_or_default())).then(Then::Finish),
    }
}

fn is_waiting(outcome: &Result<DriveOutcome, Interrupted>) -> bool {
    matches!(outcome, Ok(DriveOutcome::Waiting { .. }))
}

/// The messages of the agent, without tool cells.
fn said(process: &Process) -> Vec<String> {
    let steps = process.storage.committed();
    let messages = steps.iter().flat_map(|step| &step.messages);
    let texts = messages.filter(|said| said.message_type == MessageType::Text);
    texts.map(|said| said.content.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn run_without_a_model_asks_waits_and_finishes() {
    let process = driven(asks_and_waits);
    assert!(is_waiting(&drive(&process, 1).await));
    assert!(process.storage.is_released(), "it holds no lock while it waits");
    assert_eq!(process.storage.committed().len(), 1, "asking and waiting is one step");
    process.storage.close_question(QuestionState::Answered, Some(json!("Rome")));
    let outcome = drive(&process, 2).await;
    let Ok(DriveOutcome::Waiting { after: Some(after), .. }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(after.as_secs(), 3600);
    tokio::time::advance(after).await;
    let mut claimed = process.claimed.clone();
    claimed.event.at += TimeDelta::hours(1);
    let late = Process { claimed, ..process };
    assert_eq!(drive(&late, 3).await.unwrap(), DriveOutcome::Ended(RunStatus::Completed));
    assert_eq!(said(&late), ["Rome it is."]);
    assert_eq!(late.storage.ended(), Some(RunStatus::Completed));
}

#[tokio::test(start_paused = true)]
async fn answer_that_comes_before_the_wait_is_seen() {
    // Asks in one step and waits in the next; the answer comes between them.
    let process = driven(|run| match run.questions {
        [] => Decision::ask(run.question(QuestionKind::Approval, "May I?")),
        [question] if question.state == QuestionState::Open => Decision::from(Then::Wait { until: None }),
        _ => Decision::say("Done.").then(Then::Finish),
    });
    process.storage.answer_next_question(json!(true));
    assert_eq!(drive(&process, 1).await.unwrap(), DriveOutcome::Ended(RunStatus::Completed));
    assert_eq!(said(&process), ["Done."]);
}

#[tokio::test(start_paused = true)]
async fn message_during_the_wait_is_read_before_the_driver_is_asked() {
    let process = driven(|run| match (run.questions, run.own_entries) {
        ([], _) => {
            Decision::ask(run.question(QuestionKind::Input, "Which city?")).then(Then::Wait { until: None })
        }
        ([question], entries) if entries > 1 => Decision {
            superseded: vec![question.asked.id],
            ..Decision::say("Never mind the city.").then(Then::Finish)
        },
        _ => Decision::from(Then::Wait { until: None }),
    });
    assert!(is_waiting(&drive(&process, 1).await));
    process.storage.post("Forget it");
    assert_eq!(drive(&process, 2).await.unwrap(), DriveOutcome::Ended(RunStatus::Completed));
    let history = process.storage.history();
    assert_eq!(history.last().map(|entry| entry.role), Some(Role::User));
    let last = process.storage.committed().pop().unwrap();
    assert_eq!(
        (last.questions.unwrap().superseded.len(), said(&process)),
        (1, vec!["Never mind the city.".to_owned()])
    );
}

#[tokio::test(start_paused = true)]
async fn message_keeps_a_driven_run_from_finishing() {
    let process = driven(|run| Decision::say(format!("{} messages.", run.own_entries)).then(Then::Finish));
    process.storage.post("One more");
    assert_eq!(drive(&process, 1).await.unwrap(), DriveOutcome::Ended(RunStatus::Completed));
    assert_eq!(said(&process), ["1 messages.", "2 messages."], "the driver is asked again");
}

#[tokio::test(start_paused = true)]
async fn waiting_run_that_is_cancelled_ends_without_its_driver() {
    let process = driven(asks_and_waits);
    assert!(is_waiting(&drive(&process, 1).await));
    let mut claimed = process.claimed.clone();
    claimed.cancel_seq = Some(3);
    let cancelled = Process { claimed, ..process };
    assert_eq!(drive(&cancelled, 2).await.unwrap(), DriveOutcome::Ended(RunStatus::Cancelled));
    assert_eq!(said(&cancelled), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_lost_when_the_worker_dies_between_steps() {
    let asked = std::sync::Arc::new(Mutex::new(0));
    let count = std::sync::Arc::clone(&asked);
    let process = driven(move |run| {
        *count.lock().unwrap() += 1;
        match run.state.and_then(serde_json::Value::as_i64).unwrap_or(0) {
            3 => Decision::from(Then::Finish),
            done => Decision::say(format!("Part {}.", done + 1)).remember(json!(done + 1)),
        }
    });
    // The second step is committed, but its response is lost; then another worker takes the run.
    process.storage.fail_after(1, Fault::BrokenAfter);
    assert_eq!(drive(&process, 1).await.unwrap(), DriveOutcome::Ended(RunStatus::Completed));
    assert_eq!(said(&process), ["Part 1.", "Part 2.", "Part 3."], "each part once, in order");
    let again = driven(|run| match run.state {
        None => Decision::say("Part 1.").remember(json!(1)),
        Some(_) => Decision::say("Part 2.").then(Then::Finish),
    });
    again.storage.fail_after(1, Fault::TakenOver);
    assert!(matches!(drive(&again, 1).await, Err(Interrupted::Lost)));
    assert_eq!(drive(&again, 2).await.unwrap(), DriveOutcome::Ended(RunStatus::Completed));
    assert_eq!(said(&again), ["Part 1.", "Part 2."]);
}

#[tokio::test(start_paused = true)]
async fn driver_calls_tools_and_lets_the_model_go_on() {
    let tool = TestTool::new("pay", EffectClass::Effect, Behaviour::Answers);
    let executed = std::sync::Arc::clone(&tool.executed);
    let driver = |run: DrivenRun<'_>| match run.own_entries {
        1 => Decision::from(Then::CallTools(vec![("pay".to_owned(), json!({}))])),
        _ if *run.agent == Next::CallModel => Decision::from(Then::Agent),
        _ => Decision::say("The model is done.").then(Then::Finish),
    };
    let process = driven_with(driver, vec![says("Paid.")], vec![tool]);
    assert_eq!(drive(&process, 1).await.unwrap(), DriveOutcome::Ended(RunStatus::Completed));
    assert_eq!(executed.load(std::sync::atomic::Ordering::Relaxed), 1);
    let roles: Vec<Role> = process.storage.history().iter().map(|entry| entry.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::User, Role::Assistant]);
    assert_eq!(said(&process), ["Paid.", "The model is done."]);
}

#[tokio::test(start_paused = true)]
async fn driver_that_fails_ends_the_run_with_its_code() {
    let process = driven(|_| {
        Decision::from(Then::Fail { code: "NO_SEATS_LEFT".into(), message: "the train is full".into() })
    });
    assert_eq!(drive(&process, 1).await.unwrap(), DriveOutcome::Ended(RunStatus::Failed));
    let last = process.storage.committed().pop().unwrap();
    let ending = last.transition.final_ending().unwrap();
    assert_eq!(ending.error_code.as_deref(), Some("NO_SEATS_LEFT"));
}

#[tokio::test(start_paused = true)]
async fn driver_that_takes_long_is_dropped_when_the_process_stops() {
    struct Thinks;
    impl Driver for Thinks {
        fn next<'a>(&'a self, _: DrivenRun<'a>) -> BoxFuture<'a, Decision> {
            std::future::pending().boxed()
        }
    }
    let process = Process::driven_by(ScriptedModel::new([]), Vec::new(), std::sync::Arc::new(Thinks));
    let stopping = async {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        process.holder.drain.cancel();
    };
    let (outcome, ()) = tokio::join!(drive(&process, 1), stopping);
    assert_eq!(outcome.unwrap(), DriveOutcome::HandedOver);
}

#[test]
fn unknown_driver_is_refused_with_those_that_exist() {
    let mut drivers = Drivers::default();
    let script = Scripted(|_: DrivenRun<'_>| Decision::from(Then::Finish));
    drivers.insert("script".into(), std::sync::Arc::new(script));
    let mut kind: houston_domain::agentable::AgentType =
        toml::from_str(include_str!("../../../../../../jobs/agents/goal.toml")).unwrap();
    assert!(driver_of(&kind, &drivers).unwrap().is_none());
    kind.driver = Some("script".into());
    assert!(driver_of(&kind, &drivers).unwrap().is_some());
    kind.driver = Some("scrapt".into());
    let error = driver_of(&kind, &drivers).err().unwrap();
    assert_eq!(
        error.to_string(),
        format!("jobs/agents/{KIND}.toml: there is no driver `scrapt`; there are: script")
    );
}
