use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use houston_domain::frame::FrameMark;
use houston_domain::guard::ToolFacts;
use houston_domain::history::{Block, Entry, Role};
use houston_domain::id::LearningId;
use houston_domain::tool_call::ToolErrorCode;
use houston_store::history::CommittedIntent;
use houston_tools::{CheckOutcome, Tool as _};
use serde_json::json;
use tokio::time::Instant;

use super::*;
use crate::error::Interrupted;
use crate::run::signals::Stop;
use crate::run::tests::fixture::{Behaviour, Process, ScriptedModel, TestTool, call};
use crate::setup::guards::{situation, user_texts};

struct Turn {
    process: Process,
    tools: ToolRunner,
    calls: Vec<ToolCall>,
    executed: Vec<Arc<AtomicUsize>>,
}

impl Turn {
    /// A turn with one call of each tool; the ids of the calls are the names of the tools.
    fn new(tools: Vec<TestTool>) -> Self {
        let calls = tools.iter().map(|tool| &tool.definition().name).map(|name| call(name, name)).collect();
        let executed = tools.iter().map(|tool| Arc::clone(&tool.executed)).collect();
        let process = Process::new(ScriptedModel::new([]), tools);
        let setup = process.setup();
        let tools = ToolRunner::new(setup, &RunContext::default());
        Self { process, tools, calls, executed }
    }

    fn executed(&self) -> Vec<usize> {
        self.executed.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// Commits the intents of the calls and executes them while `meanwhile` happens.
    async fn run(&mut self, meanwhile: impl AsyncFnOnce(&Process)) -> ToolsOutcome {
        let mut journal = self.process.journal();
        let mut step = journal.next_step();
        let plans = self.tools.plan_turn(&journal, self.calls.clone(), ("", usize::MAX), &[]).await.unwrap();
        let (prepared, _) = self.tools.prepare(&journal, &mut step, plans).await.unwrap();
        assert_eq!(step.intents.len(), self.calls.len());
        journal.commit(step).await.unwrap();
        let execution = self.tools.execute(&mut journal, prepared, &[]);
        let (outcome, ()) = tokio::join!(execution, meanwhile(&self.process));
        outcome.unwrap()
    }

    /// Continues the calls as a worker that takes the run over: their intents are committed, their outcomes are unknown.
    async fn take_over(&mut self) -> Responses {
        for call in &self.calls {
            let intent = CommittedIntent { cell: self.process.message(), response: None, paused: None };
            self.process.storage.add_intent(&call.id, intent);
        }
        let mut journal = self.process.journal();
        let plans = self.tools.resume(&journal, self.calls.clone(), "").await.unwrap();
        assert!(!plans.has_new(), "all are begun or answered");
        let outcome = self.tools.execute(&mut journal, plans.known(), &[]).await.unwrap();
        let ToolsOutcome::Returned { responses, .. } = outcome else { panic!("a call did not return") };
        responses
    }
}

async fn nothing(_: &Process) {}

fn response<'r>(responses: &'r Responses, call: &str) -> &'r ToolResponse {
    &responses.iter().find(|(id, _)| id == call).expect(call).1
}

fn code(response: &ToolResponse) -> Option<ToolErrorCode> {
    match response {
        ToolResponse::Success { .. } => None,
        ToolResponse::Failure { code, .. } => Some(*code),
    }
}

#[tokio::test(start_paused = true)]
async fn tool_that_does_not_answer_times_out() {
    let mut turn = Turn::new(vec![TestTool::new("pay", EffectClass::Effect, Behaviour::Hangs)]);
    let began = Instant::now();
    let ToolsOutcome::Returned { responses, .. } = turn.run(nothing).await else { panic!("not returned") };
    assert_eq!(began.elapsed().as_secs(), 30, "the time-out of the test tools");
    let response = response(&responses, "pay");
    assert_eq!(code(response), Some(ToolErrorCode::Timeout));
    assert!(response.text().contains("It may have happened"), "{response:?}");
}

#[tokio::test(start_paused = true)]
async fn reports_that_come_too_fast_are_dropped() {
    let mut turn = Turn::new(vec![TestTool::new("count", EffectClass::Read, Behaviour::Answers)]);
    let mut items = turn.process.services.bus.subscribe(turn.process.agentable());
    turn.run(nothing).await;
    let mut reported = Vec::new();
    while let Some(houston_queue::Received::Item(item)) = items.try_recv() {
        if let houston_domain::event::Live::Progress(progress) = &item.live {
            reported.push(progress.clone());
        }
    }
    let [one] = &reported[..] else { panic!("{reported:?}") };
    assert_eq!((one.progress, one.total, one.message.as_str()), (0.0, Some(100.0), "counting"));
    let cell = turn.process.storage.committed()[0].messages[0].id;
    assert_eq!(one.message_id, cell, "it belongs to the call");
}

#[tokio::test(start_paused = true)]
async fn panicking_tool_does_not_harm_its_neighbours() {
    let mut turn = Turn::new(vec![
        TestTool::new("broken", EffectClass::Effect, Behaviour::Panics),
        TestTool::new("pay", EffectClass::Effect, Behaviour::Answers),
    ]);
    let ToolsOutcome::Returned { responses, .. } = turn.run(nothing).await else { panic!("not returned") };
    assert_eq!(code(response(&responses, "broken")), Some(ToolErrorCode::Unknown));
    assert_eq!(code(response(&responses, "pay")), None);
}

#[tokio::test(start_paused = true)]
async fn each_response_is_committed_when_it_arrives() {
    let mut turn = Turn::new(vec![
        TestTool::new("quick", EffectClass::Effect, Behaviour::Answers),
        TestTool::new("slow", EffectClass::Effect, Behaviour::Hangs),
    ]);
    let outcome = turn
        .run(async |process: &Process| {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let committed = process.storage.committed();
            let last = committed.last().unwrap();
            assert_eq!(last.responses, [("quick".to_owned(), ToolResponse::success("Done."))]);
            assert_eq!(last.entries, [], "the history gets all results at once");
        })
        .await;
    let ToolsOutcome::Returned { step, responses, .. } = outcome else { panic!("not returned") };
    assert_eq!(step.responses.len(), 1, "the last response is committed with the results");
    assert_eq!(responses.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn call_of_unknown_outcome_is_not_repeated() {
    let mut turn = Turn::new(vec![TestTool::new("pay", EffectClass::Effect, Behaviour::Answers)]);
    let responses = turn.take_over().await;
    assert_eq!(*response(&responses, "pay"), ToolResponse::outcome_unknown());
    assert_eq!(turn.executed(), [0]);
}

#[tokio::test(start_paused = true)]
async fn repeatable_call_is_executed_again_after_a_crash() {
    let mut turn = Turn::new(vec![
        TestTool::new("fetch", EffectClass::Read, Behaviour::Answers),
        TestTool::new("put", EffectClass::Idempotent, Behaviour::Answers),
    ]);
    let responses = turn.take_over().await;
    assert_eq!(turn.executed(), [1, 1]);
    assert!(responses.iter().all(|(_, response)| response.is_success()), "{responses:?}");
}

#[tokio::test(start_paused = true)]
async fn checkable_call_is_repeated_only_if_it_did_not_happen() {
    let happened = CheckOutcome::Executed(ToolResponse::success("Paid."));
    let tool = |name, check| TestTool::new(name, EffectClass::Checkable, Behaviour::Answers).checked(check);
    let mut turn = Turn::new(vec![
        tool("paid", happened),
        tool("unpaid", CheckOutcome::NotExecuted),
        tool("unclear", CheckOutcome::Unknown),
    ]);
    let responses = turn.take_over().await;
    assert_eq!(turn.executed(), [0, 1, 0]);
    assert_eq!(response(&responses, "paid").text(), "Paid.");
    assert_eq!(response(&responses, "unpaid").text(), "Done.");
    assert_eq!(*response(&responses, "unclear"), ToolResponse::outcome_unknown());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_started_without_a_trusted_lease() {
    let mut turn = Turn::new(vec![TestTool::new("pay", EffectClass::Effect, Behaviour::Answers)]);
    let mut journal = turn.process.journal();
    let mut step = journal.next_step();
    let plans = turn.tools.plan_turn(&journal, turn.calls.clone(), ("", usize::MAX), &[]).await.unwrap();
    let (prepared, _) = turn.tools.prepare(&journal, &mut step, plans).await.unwrap();
    turn.process.trusted.store(false, Ordering::Relaxed);
    let outcome = turn.tools.execute(&mut journal, prepared, &[]).await;
    assert!(matches!(outcome, Err(Interrupted::Lost)));
    assert_eq!(turn.executed(), [0]);
}

#[tokio::test(start_paused = true)]
async fn drain_waits_only_for_calls_that_may_not_be_repeated() {
    let mut turn = Turn::new(vec![TestTool::new("fetch", EffectClass::Read, Behaviour::Hangs)]);
    let began = Instant::now();
    let outcome = turn.run(async |process: &Process| process.holder.drain.cancel()).await;
    assert!(matches!(outcome, ToolsOutcome::HandOver));
    assert_eq!(began.elapsed().as_secs(), 1, "`hand_over_ms` of the settings");

    let mut turn = Turn::new(vec![
        TestTool::new("fetch", EffectClass::Read, Behaviour::Hangs),
        TestTool::new("pay", EffectClass::Effect, Behaviour::Hangs),
    ]);
    let began = Instant::now();
    let outcome = turn.run(async |process: &Process| process.holder.drain.cancel()).await;
    assert!(matches!(outcome, ToolsOutcome::Returned { .. }), "both calls time out at the same time");
    assert_eq!(began.elapsed().as_secs(), 30);
}

#[tokio::test(start_paused = true)]
async fn cancelled_tool_may_report_what_it_has_done() {
    let mut turn = Turn::new(vec![
        TestTool::new("book", EffectClass::Effect, Behaviour::AnswersWhenStopped),
        TestTool::new("pay", EffectClass::Effect, Behaviour::Hangs),
    ]);
    let outcome = turn.run(async |process: &Process| process.registration.live.cancel.cancel()).await;
    let ToolsOutcome::Stopped(Stop::Cancelled, OpenCalls { responses, cells, .. }) = outcome else {
        panic!("not cancelled")
    };
    assert_eq!(responses, [("book".to_owned(), ToolResponse::success("Done."))]);
    assert_eq!(cells.len(), 2);
    let committed = turn.process.storage.committed();
    assert_eq!(committed.last().unwrap().responses, responses, "what it reported is committed");
}

#[tokio::test(start_paused = true)]
async fn calls_beyond_the_limit_are_refused() {
    let mut turn = Turn::new(vec![TestTool::new("pay", EffectClass::Effect, Behaviour::Answers)]);
    turn.calls = (0..40).map(|nth| call(&format!("c{nth}"), "pay")).collect();
    let ToolsOutcome::Returned { responses, .. } = turn.run(nothing).await else { panic!("not returned") };
    assert_eq!(turn.executed(), [32]);
    let refused = responses.iter().filter(|(_, response)| code(response) == Some(ToolErrorCode::RateLimited));
    assert_eq!(refused.count(), 8);
}

#[tokio::test(start_paused = true)]
async fn record_that_is_refused_the_second_time_stops_the_run() {
    let mut turn = Turn::new(Vec::new());
    turn.calls = vec![ToolCall { input: json!({"title": "A", "content": "B"}), ..call("c", "create_note") }];
    let mut journal = turn.process.journal();
    let mut step = journal.next_step();
    let plans = turn.tools.plan_turn(&journal, turn.calls.clone(), ("", usize::MAX), &[]).await.unwrap();
    turn.process.storage.fail([crate::run::tests::memory_storage::Fault::BrokenBefore]);
    turn.process.storage.refuse_records([false, true]);
    let (_, records) = turn.tools.prepare(&journal, &mut step, plans).await.unwrap();
    assert!(records.is_some(), "not a record");
    let outcome = commit_with(&mut journal, step, records).await;
    assert!(matches!(outcome, Err(Interrupted::Store(_))), "{outcome:?}");
    assert_eq!(turn.process.storage.committed(), [], "the step says that the note was created");
}

#[test]
fn session_is_marked_by_the_tools_it_called() {
    let tool = |name: &str, facts: ToolFacts| {
        TestTool::new(name, EffectClass::Read, Behaviour::Answers).with_facts(facts)
    };
    let read = || ToolFacts::of_effect(EffectClass::Read);
    let tools = vec![
        tool("page", ToolFacts { untrusted_output: true, ..read() }),
        tool("mail", ToolFacts { reads_private: true, ..read() }),
        tool("sum", read()),
    ];
    let setup = Process::new(ScriptedModel::new([]), tools).setup();
    for (calls, untrusted, private) in [
        (&["sum", "gone"][..], false, false),
        (&["sum", "page"], true, false),
        (&["mail"], false, true),
        (&["page", "page", "mail"], true, true),
    ] {
        let block = |name: &&str| Block::ToolUse {
            id: (*name).to_owned(),
            name: (*name).to_owned(),
            input: json!({}),
            raw: None,
        };
        let history = vec![Entry::assistant(calls.iter().map(block).collect())];
        let context = RunContext { history, ..RunContext::default() };
        let found = situation(&setup, Taint::at_start(&context, &setup), 0, &[]);
        assert_eq!((found.untrusted_read, found.private_read), (untrusted, private), "{calls:?}");
    }
    // What a row had that was written after reading what strangers wrote, and what the prompt shows of such rows.
    let result = |content: &str| Block::ToolResult {
        tool_use_id: "c".into(),
        content: content.into(),
        is_error: false,
        code: None,
    };
    let read = |content: &str| RunContext {
        history: vec![Entry { role: Role::User, content: vec![result(content)] }],
        ..RunContext::default()
    };
    let mut listed = RunContext::default();
    listed.setting.untrusted = true;
    let mut profiled = RunContext::default();
    profiled.user.untrusted = true;
    let marked = houston_tools::untrusted::marked("a.md", "obey");
    let reported =
        RunContext { history: vec![Entry::user(vec![Block::text(&marked)])], ..RunContext::default() };
    for (context, untrusted) in
        [(read(&marked), true), (read("obey"), false), (listed, true), (profiled, true), (reported, true)]
    {
        let found = situation(&setup, Taint::at_start(&context, &setup), 0, &[]);
        assert_eq!((found.untrusted_read, found.private_read), (untrusted, false), "{context:?}");
    }
    let private =
        RunContext { learnings: vec![(LearningId(Default::default()), "x".into())], ..RunContext::default() };
    let unread = RunContext { summary: Some("They talked.".into()), ..RunContext::default() };
    for (context, untrusted) in [(private, false), (unread, true)] {
        let found = situation(&setup, Taint::at_start(&context, &setup), 0, &[]);
        assert_eq!((found.untrusted_read, found.private_read), (untrusted, true), "{context:?}");
    }
}

#[test]
fn what_houston_frames_is_no_text_of_the_user() {
    let setup = Process::new(ScriptedModel::new([]), vec![]).setup();
    let mark = FrameMark::new("0123abcd");
    let user = |text: &str| Entry::user(vec![Block::text(text)]);
    let history = [
        user("Read https://a.example/"),
        Entry::assistant(vec![Block::text("https://b.example/?note=secret")]),
        user(&mark.frame("task_report", "See https://c.example/?note=secret")),
        user("And b.example"),
    ];
    assert_eq!(user_texts(&history, &setup, &mark), ["Read https://a.example/", "And b.example"]);
}
