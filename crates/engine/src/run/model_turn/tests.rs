use std::sync::atomic::Ordering;
use std::time::Duration;

use houston_domain::budget::Raises;
use houston_domain::budget::{Budget, BudgetScope, OverBudget, Spent};
use houston_domain::history::Block;
use houston_domain::model::ModelErrorCode;
use houston_domain::overseer::RepeatedText;
use houston_llm::Event;

use super::*;
use crate::error::Interrupted;
use crate::run::tests::fixture::{Process, Script, ScriptedModel, USAGE, only_thinks, says, streamed};

struct Call {
    process: Process,
    model: Arc<ScriptedModel>,
    turn: ModelTurn,
    /// For each answer that was begun, whether what it used is an estimate.
    estimated: Vec<bool>,
}

impl Call {
    fn new(script: Script) -> Self {
        Self::of(ScriptedModel::new([script]))
    }

    fn of(model: Arc<ScriptedModel>) -> Self {
        let process = Process::new(Arc::clone(&model), Vec::new());
        let live = Arc::clone(&process.registration.live);
        let turn = ModelTurn::new(
            process.setup(),
            live,
            ("key".to_owned(), Vec::new()),
            Vec::new(),
            None,
            (ContextImages::default(), ContextAttachments::default()),
        );
        Self { process, model, turn, estimated: Vec::new() }
    }

    /// Calls the model while `meanwhile` happens. Returns the outcome and the text that streams received.
    async fn run(
        &mut self,
        meanwhile: impl AsyncFnOnce(&Process),
    ) -> (Result<ModelOutcome, Interrupted>, String) {
        let setup = self.process.setup();
        let mut stream = self.process.services.bus.subscribe(self.process.agentable());
        let mut journal = self.process.journal();
        let history = [Entry::user(vec![Block::text("Hello")])];
        let call = self.turn.call(&mut journal, &history, &setup.offer, 100);
        let (outcome, ()) = tokio::join!(call, meanwhile(&self.process));
        self.estimated = journal.settled_calls().iter().map(|call| call.estimated).collect();
        (outcome, streamed(&mut stream))
    }
}

async fn nothing(_: &Process) {}

#[tokio::test(start_paused = true)]
async fn answer_is_streamed_and_priced() {
    let mut call = Call::new(says("Hello, you."));
    let (outcome, text) = call.run(nothing).await;
    let Ok(ModelOutcome::Answered { answer, usage, streamed }) = outcome else { panic!("no answer") };
    assert_eq!(answer.content, [Block::text("Hello, you.")]);
    let committed = format!("{}{}", streamed.reasoning, streamed.message);
    assert_eq!(text, committed, "streams received what the turn is committed with");
    assert!(!text.is_empty());
    assert_eq!((usage.input_tokens, usage.output_tokens), (USAGE.input_tokens, USAGE.output_tokens));
    assert!(usage.cost.is_some(), "claude-sonnet-4-5 has a price");
    assert_eq!(call.estimated, [false]);
}

#[tokio::test(start_paused = true)]
async fn answer_used_up_by_thinking_is_asked_for_with_more_room() {
    let limits = |call: &Call| -> Vec<u32> {
        call.model.requests.lock().unwrap().iter().map(|asked| asked.max_output_tokens).collect()
    };
    let mut call = Call::of(ScriptedModel::new([only_thinks(), says("Hello.")]));
    let (outcome, text) = call.run(nothing).await;
    let Ok(ModelOutcome::Answered { answer, .. }) = outcome else { panic!("no answer") };
    assert_eq!((&*answer.content, &*text), (&[Block::text("Hello.")][..], "Hm.Hello."));
    let asked = limits(&call);
    assert_eq!((asked.len(), asked[1]), (2, asked[0] * 2));
    assert_eq!(call.estimated, [false, false], "both are paid for");

    let mut call = Call::of(ScriptedModel::new([only_thinks(), only_thinks()]));
    let (outcome, _) = call.run(nothing).await;
    let Ok(ModelOutcome::Failed { error, .. }) = outcome else { panic!("an answer") };
    assert_eq!(error.code, ModelErrorCode::OutputLimitReached);
    let limit = limits(&call)[1].to_string();
    assert!(error.message.contains(&limit) && error.message.contains("max_output_tokens"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn cancelled_call_is_closed_half_way() {
    let mut call = Call::new(Script::Hangs(vec!["Hel"]));
    let (outcome, text) = call
        .run(async |process: &Process| {
            tokio::time::sleep(Duration::from_secs(1)).await;
            process.registration.live.cancel.cancel();
        })
        .await;
    assert!(matches!(outcome, Ok(ModelOutcome::Stopped(Stop::Cancelled))));
    assert_eq!(text, "Hel");
    assert!(call.model.was_dropped.load(Ordering::Relaxed), "the connection to the provider is closed");
    assert_eq!(call.process.registration.live.end(), Streamed::default());
    assert_eq!(call.estimated, [true], "the provider is paid for it");
}

#[tokio::test(start_paused = true)]
async fn call_of_a_lost_lease_writes_nothing() {
    let mut call = Call::new(Script::Hangs(vec!["Hel"]));
    let (outcome, _) = call.run(async |process: &Process| process.holder.lost.cancel()).await;
    assert!(matches!(outcome, Err(Interrupted::Lost)));
    assert!(call.model.was_dropped.load(Ordering::Relaxed));
}

#[tokio::test(start_paused = true)]
async fn call_is_abandoned_some_time_after_the_drain() {
    let mut call = Call::new(Script::Hangs(vec![]));
    let began = tokio::time::Instant::now();
    let (outcome, _) = call.run(async |process: &Process| process.holder.drain.cancel()).await;
    assert!(matches!(outcome, Ok(ModelOutcome::Stopped(Stop::Drained))));
    assert_eq!(began.elapsed().as_secs(), 1, "`hand_over_ms` of the settings");
    assert_eq!(call.estimated, [true]);
}

#[tokio::test(start_paused = true)]
async fn call_ends_at_the_watchdog() {
    let mut call = Call::new(Script::Hangs(vec![]));
    let began = tokio::time::Instant::now();
    let (outcome, _) = call.run(nothing).await;
    assert!(matches!(outcome, Ok(ModelOutcome::Stopped(Stop::OutOfTime))));
    assert_eq!(began.elapsed().as_secs(), 630, "`max_duration_s` and `grace_s` of the settings");
    assert_eq!(call.estimated, [true]);
}

#[tokio::test(start_paused = true)]
async fn failed_call_says_whether_streams_received_text() {
    let broken = Err(ModelError::new(ModelErrorCode::NetworkError, "cut"));
    for (script, expected) in [(Script::Events(vec![broken]), false), (Script::Breaks("Let me"), true)] {
        let mut call = Call::new(script);
        let (outcome, _) = call.run(nothing).await;
        let Ok(ModelOutcome::Failed { error, streamed }) = outcome else { panic!("no failure") };
        assert_eq!((error.code, streamed), (ModelErrorCode::NetworkError, expected));
        assert_eq!(call.estimated.len(), usize::from(expected), "what was not begun is not paid for");
    }
}

#[tokio::test(start_paused = true)]
async fn endless_answer_is_cut_off() {
    let endless = (0..2_000).map(|_| Ok(Event::Text("word".to_owned()))).collect();
    let mut call = Call::new(Script::Events(endless));
    let (outcome, _) = call.run(nothing).await;
    let Ok(ModelOutcome::Failed { error, .. }) = outcome else { panic!("no failure") };
    assert_eq!(error.code, ModelErrorCode::InvalidResponse);
    assert!(error.message.contains("longer than 1000 bytes"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn answer_that_repeats_itself_is_cut_off() {
    for (times, is_cut) in [(10, true), (0, false)] {
        let again = (0..60).map(|_| Ok(Event::Text("once more ".to_owned()))).collect();
        let mut call = Call::new(Script::Events(again));
        call.process.services.config.overseer.repeated_text = RepeatedText { bytes: 50, times };
        let (outcome, _) = call.run(nothing).await;
        let Ok(ModelOutcome::Failed { error, .. }) = outcome else { panic!("no failure") };
        assert_eq!(error.code, ModelErrorCode::InvalidResponse);
        assert_eq!(error.message.contains("again and again"), is_cut, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn next_call_is_checked_against_the_budget() {
    let mut call = Call::new(says(""));
    call.process.services.config.budget = Budget { per_run: Some(1.into()), ..Budget::default() };
    let (process, setup) = (&call.process, call.process.setup());
    let journal = process.journal();
    let checked =
        check_budget(&journal, &setup, (1_000, setup.policy.limits.max_output_tokens), &Raises::default())
            .await
            .unwrap();
    assert_eq!(checked, CheckedBudget::default());
    process.storage.set_spent(Spent { run: Some(1.into()), ..Spent::default() });
    let over =
        check_budget(&journal, &setup, (1_000, setup.policy.limits.max_output_tokens), &Raises::default())
            .await
            .unwrap()
            .over
            .unwrap();
    assert!(matches!(over, OverBudget::Exceeded { scope: BudgetScope::Run, .. }), "{over}");
    assert_eq!(journal.services.metrics.models.over_budget.get(), 1, "the operator sees it");
}

fn paused(text: &str) -> Script {
    let Script::Events(mut events) = says(text) else { return says(text) };
    if let Some(Ok(Event::Done(answer))) = events.last_mut() {
        answer.stop = StopReason::Paused;
    }
    Script::Events(events)
}

#[tokio::test(start_paused = true)]
async fn paused_answer_is_sent_back_and_goes_on() {
    let model = ScriptedModel::new([paused("I look. "), paused("I look on. "), says("Found.")]);
    let mut call = Call::of(Arc::clone(&model));
    call.turn.frame.system_context = Some("It is noon.".to_owned());
    let (outcome, text) = call.run(nothing).await;
    let Ok(ModelOutcome::Answered { answer, usage, .. }) = outcome else { panic!("no answer") };
    let texts = ["I look. ", "I look on. ", "Found."].map(Block::text);
    assert_eq!((answer.content.as_slice(), answer.stop), (texts.as_slice(), StopReason::EndTurn));
    assert_eq!(usage.input_tokens, 3 * USAGE.input_tokens, "each part is paid for");
    assert_eq!(call.estimated, [false; 3]);
    assert_eq!(text, "I look. I look on. Found.");
    let last = model.histories().pop().unwrap();
    assert_eq!(
        last.iter().map(|entry| entry.text()).collect::<Vec<_>>(),
        ["Hello", "It is noon.", "I look. \n\nI look on. "]
    );
}

#[tokio::test(start_paused = true)]
async fn answer_that_is_paused_for_ever_is_cut_off() {
    let model = ScriptedModel::new((0..20).map(|_| paused("…")));
    let mut call = Call::of(Arc::clone(&model));
    let (outcome, _) = call.run(nothing).await;
    let Ok(ModelOutcome::Answered { answer, .. }) = outcome else { panic!("no answer") };
    assert_eq!(answer.stop, StopReason::MaxTokens);
    assert_eq!(model.calls.load(Ordering::Relaxed), 1 + MAX_PAUSES);
}
