//! Runs whose code calls tools: each call is made once, whatever happens to the worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use houston_domain::agent::SEND_MESSAGE;
use houston_domain::code_call;
use houston_domain::event::Event;
use houston_domain::guard::{Risk, ToolFacts};
use houston_domain::history::Block;
use houston_domain::question::QuestionState;
use houston_domain::run::RunStatus;
use houston_domain::tool_call::EffectClass;
use serde_json::{Value, json};

use crate::error::Interrupted;
use crate::run::driver::DriveOutcome;
use crate::run::tests::fixture::{Behaviour, Process, ScriptedModel, TestTool, calls_tools, says};
use crate::run::tests::memory_storage::Fault;
use crate::run::tests::scripted_code::NOTE;

const ENDED: DriveOutcome = DriveOutcome::Ended(RunStatus::Completed);

/// A run whose model runs code, and then says `Done.`
struct Coding {
    process: Process,
    /// How often the code was begun.
    code: Arc<AtomicUsize>,
    pay: Arc<AtomicUsize>,
    wipe: Arc<AtomicUsize>,
    fetch: Arc<AtomicUsize>,
}

impl Coding {
    fn new(rounds: &'static [&'static [&'static str]]) -> Self {
        Self::doing(Behaviour::Calls(rounds), "")
    }

    fn doing(behaviour: Behaviour, guards: &str) -> Self {
        let destructive = ToolFacts { risk: Risk::Destructive, ..ToolFacts::of_effect(EffectClass::Effect) };
        let strange = ToolFacts { untrusted_output: true, ..ToolFacts::of_effect(EffectClass::Read) };
        let tools = vec![
            TestTool::new("code", EffectClass::Idempotent, behaviour),
            TestTool::new("pay", EffectClass::Effect, Behaviour::Answers),
            TestTool::new("wipe", EffectClass::Effect, Behaviour::Answers).with_facts(destructive),
            TestTool::new("fetch", EffectClass::Read, Behaviour::Answers).with_facts(strange),
        ];
        let counts: Vec<Arc<AtomicUsize>> = tools.iter().map(|tool| Arc::clone(&tool.executed)).collect();
        let answers = [calls_tools(&[("c1", "code")])].into_iter().chain((0..9).map(|_| says("Done.")));
        let process = Process::guarded(ScriptedModel::new(answers), tools, guards);
        let [code, pay, wipe, fetch] = counts.try_into().unwrap();
        Self { process, code, pay, wipe, fetch }
    }

    fn made(&self) -> [usize; 4] {
        [&self.code, &self.pay, &self.wipe, &self.fetch].map(|count| count.load(Ordering::Relaxed))
    }

    async fn waits(&self, attempt: i32) -> bool {
        let outcome = self.process.drive(attempt).await.unwrap();
        matches!(outcome, DriveOutcome::Waiting { after: None, .. })
    }

    fn answer(&self, answer: Value) {
        self.process.storage.close_question(QuestionState::Answered, Some(answer));
    }

    /// The result of the code in the history.
    fn result(&self) -> String {
        let history = self.process.storage.history();
        let mut blocks = history.iter().flat_map(|entry| &entry.content);
        let result = blocks.find_map(|block| match block {
            Block::ToolResult { tool_use_id, content, .. } if tool_use_id == "c1" => Some(content.clone()),
            _ => None,
        });
        result.unwrap_or_default()
    }

    /// The statuses of all cells, as the last step that changed them left them.
    fn cells(&self) -> Vec<String> {
        let mut cells = Vec::new();
        for step in self.process.storage.committed() {
            for message in step.messages.iter().filter(|message| message.metadata["call_id"].is_string()) {
                cells.push((message.id, message.metadata["status"].clone()));
            }
            for (id, change) in &step.cells {
                let cell = cells.iter_mut().find(|(cell, _)| cell == id).unwrap();
                cell.1 = change["status"].clone();
            }
        }
        cells.into_iter().map(|(_, status)| status.as_str().unwrap().to_owned()).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn each_call_of_code_has_its_own_row_cell_and_event() {
    let run = Coding::new(&[&["pay", "fetch"], &["pay"]]);
    assert_eq!(run.process.drive(1).await.unwrap(), ENDED);
    assert_eq!(run.made(), [1, 2, 0, 1]);
    let mut intents = run.process.storage.intents();
    intents.sort_by_key(|id| code_call::number(id, "c1"));
    let numbers: Vec<_> = intents.iter().map(|id| code_call::number(id, "c1")).collect();
    assert_eq!(numbers, [None, Some(1), Some(2), Some(3)], "{intents:?}");
    assert_eq!(run.cells(), ["done"; 4]);
    let steps = run.process.storage.committed();
    let judged = steps.iter().flat_map(|step| &step.events).filter(|event| match event {
        Event::ToolCalled { decided_by, .. } => decided_by.is_some(),
        _ => false,
    });
    assert_eq!(judged.count(), 4, "guards decide about each");
    assert!(run.result().starts_with("<untrusted source=\"code\">\n[called: pay x2, fetch x1]\n"));
}

#[tokio::test(start_paused = true)]
async fn code_that_calls_nothing_costs_no_further_step() {
    let run = Coding::new(&[]);
    assert_eq!(run.process.drive(1).await.unwrap(), ENDED);
    assert_eq!(run.process.storage.committed().len(), 3, "intent, result, answer");
    assert!(!run.result().contains("[called"), "{}", run.result());
}

#[tokio::test(start_paused = true)]
async fn killed_at_any_commit_no_call_is_made_twice() {
    let rounds: &[&[&str]] = &[&["fetch"], &["pay", NOTE], &["pay"], &["fetch"]];
    let mut crashes = 0;
    // From the first on: without it, the model would be asked again, and its script go on.
    for commits in 1.. {
        let run = Coding::new(rounds);
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
        let [_, pay, ..] = run.made();
        assert!(pay <= 2, "after {commits} commits {pay} payments were made");
        assert!(run.result().contains("pay x2"), "after {commits} commits: {}", run.result());
        assert_eq!(run.process.storage.records().len(), 1, "after {commits} commits");
        assert_eq!(run.cells().iter().filter(|status| *status == "started").count(), 0);
    }
    assert!(crashes > 8, "{crashes} crashes");
}

#[tokio::test(start_paused = true)]
async fn lost_answers_of_postgres_repeat_no_call_of_code() {
    // The last commit ends the run: who gets no answer to that finds the run gone.
    for commits in 0..8 {
        let run = Coding::new(&[&["pay"], &[NOTE, "pay"], &["fetch"]]);
        run.process.storage.fail_after(commits, Fault::BrokenAfter);
        assert_eq!(run.process.drive(1).await.unwrap(), ENDED, "after {commits} commits");
        let [_, pay, _, fetch] = run.made();
        assert!(pay <= 2 && fetch <= 2, "after {commits} commits");
        assert!(run.process.storage.committed().len() > commits, "the fault came too late");
    }
}

#[tokio::test(start_paused = true)]
async fn replay_sees_the_same_time_and_the_same_answers() {
    let rounds: &[&[&str]] = &[&["fetch"], &["wipe"]];
    let run = Coding::new(rounds);
    assert!(run.waits(1).await);
    tokio::time::advance(std::time::Duration::from_secs(5000)).await;
    run.answer(json!({"decision": "approve"}));
    assert_eq!(run.process.drive(2).await.unwrap(), ENDED);
    assert_eq!(run.made(), [2, 0, 1, 1], "the code was run twice, its calls once");
    assert!(run.result().contains("\n0; Done.; Done."), "{}", run.result());
}

#[tokio::test(start_paused = true)]
async fn call_of_code_that_needs_a_yes_waits_and_holds_nothing() {
    let run = Coding::new(&[&["pay"], &["wipe", "fetch"]]);
    assert!(run.waits(1).await);
    assert!(run.process.storage.is_released());
    assert_eq!(run.made(), [1, 1, 0, 1], "what was called with it is made");
    let asked = run.process.storage.questions().pop().unwrap().asked;
    assert_eq!(asked.approval.unwrap().tool, "wipe");
    assert_eq!(code_call::number(asked.subject.as_deref().unwrap(), "c1"), Some(2));
    assert!(run.waits(2).await, "still undecided");
    run.answer(json!({"decision": "approve"}));
    assert_eq!(run.process.drive(3).await.unwrap(), ENDED);
    assert_eq!(run.made(), [3, 1, 1, 1]);
    assert_eq!(run.cells(), ["done"; 4]);
}

#[tokio::test(start_paused = true)]
async fn killed_around_the_yes_nothing_is_made_twice() {
    for (first, commits) in (1..4).map(|at| (true, at)).chain((0..6).map(|at| (false, at))) {
        let run = Coding::new(&[&["pay"], &["wipe"], &["pay"]]);
        let mut attempt = 1;
        if first {
            run.process.storage.fail_after(commits, Fault::TakenOver);
        }
        while !matches!(run.process.drive(attempt).await, Ok(DriveOutcome::Waiting { .. })) {
            attempt += 1;
        }
        run.answer(json!({"decision": "approve"}));
        if !first {
            run.process.storage.fail_after(commits, Fault::TakenOver);
        }
        loop {
            attempt += 1;
            if let Ok(outcome) = run.process.drive(attempt).await {
                assert_eq!(outcome, ENDED);
                break;
            }
        }
        let [_, pay, wipe, _] = run.made();
        assert!(pay <= 2 && wipe <= 1, "first: {first}, after {commits} commits: {pay}, {wipe}");
    }
}

#[tokio::test(start_paused = true)]
async fn call_of_code_that_is_refused_throws() {
    let run = Coding::new(&[&["wipe"], &["fetch"]]);
    assert!(run.waits(1).await);
    run.answer(json!({"decision": "reject", "message": "not today"}));
    assert_eq!(run.process.drive(2).await.unwrap(), ENDED);
    assert!(run.result().contains("error: ") && run.result().contains("not today"), "{}", run.result());
    assert_eq!(run.made(), [2, 0, 0, 1]);

    let run = Coding::doing(Behaviour::Calls(&[&["pay"]]), "denied = ['pay']");
    assert_eq!(run.process.drive(1).await.unwrap(), ENDED);
    assert!(run.result().contains("refused by a guard"), "{}", run.result());
    assert_eq!(run.made()[1], 0);
}

#[tokio::test(start_paused = true)]
async fn message_of_the_user_supersedes_a_call_of_code() {
    let run = Coding::new(&[&["wipe"], &["fetch"]]);
    assert!(run.waits(1).await);
    run.process.storage.post("Leave it.");
    assert_eq!(run.process.drive(2).await.unwrap(), ENDED);
    assert_eq!(run.made(), [2, 0, 0, 1]);
    assert_eq!(run.process.storage.questions()[0].state, QuestionState::Superseded);
}

#[tokio::test(start_paused = true)]
async fn replay_that_makes_other_calls_is_an_error() {
    let run = Coding::doing(Behaviour::CallsOtherwise(&[&["pay"], &["wipe"]]), "");
    assert!(run.waits(1).await);
    run.answer(json!({"decision": "approve"}));
    assert_eq!(run.process.drive(2).await.unwrap(), ENDED);
    assert_eq!(run.made(), [2, 1, 0, 0], "nothing more is made");
    assert!(run.result().contains("made other calls when it was run again"), "{}", run.result());
}

#[tokio::test(start_paused = true)]
async fn code_cannot_reply_or_call_what_there_is_not() {
    let run = Coding::new(&[&[SEND_MESSAGE, "nothing"]]);
    assert_eq!(run.process.drive(1).await.unwrap(), ENDED);
    let result = run.result();
    assert!(result.contains(&format!("{SEND_MESSAGE} cannot be called from code")), "{result}");
    assert!(result.contains("there is no tool `nothing`"), "{result}");
}

#[tokio::test(start_paused = true)]
async fn cancelled_run_closes_the_calls_of_its_code() {
    let run = Coding::new(&[&["pay"], &["wipe"]]);
    assert!(run.waits(1).await);
    run.process.registration.live.cancel.cancel();
    let mut claimed = run.process.claimed.clone();
    claimed.cancel_seq = Some(9);
    let outcome = run.process.drive_claim(claimed, 2).await.unwrap();
    assert_eq!(outcome, DriveOutcome::Ended(RunStatus::Cancelled));
    assert_eq!(run.cells(), ["failed", "done", "failed"]);
    assert_eq!(run.made()[2], 0);
}
