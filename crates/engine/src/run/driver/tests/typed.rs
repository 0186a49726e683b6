//! Runs whose answer must be a value that fits a schema.

use std::sync::Arc;

use houston_domain::agent::SEND_MESSAGE;
use houston_domain::agent::limits::LimitChanges;
use houston_domain::answering::{Output, Sampling};
use houston_domain::client_offer::{ClientOffer, ClientTool};
use houston_domain::error_message::RESULT_MISMATCH;
use houston_domain::event::Event;
use houston_domain::frame::FrameMark;
use houston_domain::history::{Block, Entry};
use houston_domain::run::RunStatus;
use houston_domain::step::RunTransition;
use houston_domain::tool_call::EffectClass;
use houston_store::run_context::RunContext;
use serde_json::json;

use crate::run::driver::DriveOutcome;
use crate::run::tests::fixture::{Behaviour, Process, Script, ScriptedModel, TestTool, calls_tools, says};
use crate::run::tests::scripted_model::Asked;

/// Drives a run whose answer must have a `city`, and returns how it ended, and what it posted.
async fn drive(process: &Process, history: Vec<Entry>) -> (RunStatus, Vec<String>) {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    let output = Output::of(schema);
    let mut claimed = process.claimed.clone();
    claimed.context = Some(Box::new(RunContext {
        mark: FrameMark::new("1234"),
        run_entries: history.len(),
        history,
        client: Some(Box::new(ClientOffer { output: Some(output), ..ClientOffer::default() })),
        ..RunContext::default()
    }));
    let DriveOutcome::Ended(status) = process.drive_claim(claimed, 1).await.unwrap() else {
        panic!("the run has not ended");
    };
    let steps = process.storage.committed();
    let posted = steps.iter().flat_map(|step| &step.messages).map(|message| message.content.clone());
    (status, posted.collect())
}

fn hello() -> Vec<Entry> {
    vec![Entry::user(vec![Block::text("Where to?")])]
}

fn process(scripts: Vec<Script>) -> (Arc<ScriptedModel>, Process) {
    let model = ScriptedModel::new(scripts);
    let tools = vec![TestTool::new("look", EffectClass::Read, Behaviour::Answers)];
    (Arc::clone(&model), Process::new(model, tools))
}

#[tokio::test(start_paused = true)]
async fn answer_that_fits_is_posted_without_its_fence() {
    let (model, process) =
        process(vec![calls_tools(&[("c1", "look")]), says("```json\n{\"city\": \"Rome\"}\n```")]);
    let (status, posted) = drive(&process, hello()).await;
    assert_eq!(
        (status, posted.last().map(String::as_str)),
        (RunStatus::Completed, Some("{\"city\": \"Rome\"}"))
    );
    let last = process.storage.committed().pop().unwrap();
    assert_eq!(last.messages[0].metadata["result"], true);
    let RunTransition::Complete { event: Event::RunFinished { result, .. }, .. } = &last.transition else {
        panic!("{:?}", last.transition)
    };
    assert_eq!(result.as_deref(), Some(&json!({"city": "Rome"})));
    let requests = model.requests.lock().unwrap();
    let context = &requests[0].context;
    assert!(context.contains("\"required\":[\"city\"]"), "{context}");
    assert!(
        requests[1].tools.contains(&"look".to_owned())
            && !requests[1].tools.contains(&SEND_MESSAGE.to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn model_mends_an_answer_that_does_not_fit() {
    let (model, process) =
        process(vec![says("Rome."), says("{\"town\": \"Rome\"}"), says("{\"city\": \"Rome\"}")]);
    let (status, posted) = drive(&process, hello()).await;
    assert_eq!((status, posted), (RunStatus::Completed, vec!["{\"city\": \"Rome\"}".to_owned()]));
    let histories = model.histories();
    let said = histories[1].last().unwrap().text();
    assert!(said.starts_with("<result_mismatch mark=\"1234\">") && said.contains("not valid JSON"), "{said}");
    assert!(histories[2].last().unwrap().text().contains("city"), "{:?}", histories[2].last());
}

#[tokio::test(start_paused = true)]
async fn third_wrong_answer_fails_the_run_and_is_kept() {
    let (_, process) = process(vec![says("Rome."), says("Milan."), says("Turin.")]);
    let (status, posted) = drive(&process, hello()).await;
    assert_eq!(status, RunStatus::Failed);
    assert_eq!(posted[0], "Turin.");
    let last = process.storage.committed().pop().unwrap();
    assert!(format!("{:?}", last.transition).contains(RESULT_MISMATCH), "{:?}", last.transition);
}

/// What a message says counts before what the kind says, field by field; its limits only if they are lower.
#[tokio::test(start_paused = true)]
async fn message_has_its_own_settings_of_the_model() {
    let model = ScriptedModel::new(vec![says("{\"city\": \"Rome\"}")]);
    let process = Process::changed(Arc::clone(&model), vec![], |kind| {
        let stop = vec!["STOP".to_owned()];
        kind.sampling = Sampling { temperature: Some(0.9), stop, ..Sampling::default() };
        kind.output = Some(Output::any_object());
    });
    let sampling = Sampling { temperature: Some(0.2), ..Sampling::default() };
    let limits = LimitChanges {
        max_output_tokens: Some(50),
        max_iterations: Some(1_000_000),
        ..LimitChanges::default()
    };
    let offer = ClientOffer { sampling, limits, ..ClientOffer::default() };
    let mut claimed = process.claimed.clone();
    claimed.context = Some(Box::new(RunContext {
        mark: FrameMark::new("1234"),
        run_entries: 1,
        history: hello(),
        client: Some(Box::new(offer)),
        ..RunContext::default()
    }));
    process.drive_claim(claimed, 1).await.unwrap();
    let last = process.storage.committed().pop().unwrap();
    assert_eq!(last.messages[0].metadata["result"], true, "the kind's form");
    let requests = model.requests.lock().unwrap();
    let Asked { sampling, max_output_tokens, .. } = &requests[0];
    assert_eq!((sampling.temperature, sampling.stop.as_slice()), (Some(0.2), &["STOP".to_owned()][..]));
    assert_eq!(*max_output_tokens, 50);
}

/// A client that stops at a call leaves it to expire. Then the model may say something.
#[tokio::test(start_paused = true)]
async fn tool_whose_call_failed_need_not_be_called_again() {
    let use_of = Block::ToolUse { id: "c1".into(), name: "show_map".into(), input: json!({}), raw: None };
    let expired =
        Block::ToolResult { tool_use_id: "c1".into(), content: "expired".into(), is_error: true, code: None };
    let mut history = hello();
    history.extend([Entry::assistant(vec![use_of]), Entry::user(vec![expired])]);
    let tool = ClientTool {
        name: "show_map".to_owned(),
        description: String::new(),
        parameters: Arc::new(json!({"type": "object"})),
    };
    let offer =
        ClientOffer { tools: vec![tool], must_call: vec!["show_map".to_owned()], ..ClientOffer::default() };
    let (_, process) = process(vec![says("No map, then.")]);
    let mut claimed = process.claimed.clone();
    claimed.context = Some(Box::new(RunContext {
        mark: FrameMark::new("1234"),
        run_entries: history.len(),
        history,
        client: Some(Box::new(offer)),
        ..RunContext::default()
    }));
    let outcome = process.drive_claim(claimed, 1).await.unwrap();
    assert_eq!(outcome, DriveOutcome::Ended(RunStatus::Completed));
}

/// Providers differ in how they make a model call a tool; an answer without the call goes back to it in any case.
#[tokio::test(start_paused = true)]
async fn client_gets_one_call_of_the_tool_that_it_wants() {
    let tool = |name: &str| ClientTool {
        name: name.to_owned(),
        description: String::new(),
        parameters: Arc::new(json!({"type": "object"})),
    };
    let offer = ClientOffer {
        tools: vec![tool("show_map"), tool("ring")],
        must_call: vec!["show_map".to_owned()],
        one_call: true,
        ..ClientOffer::default()
    };
    let (model, process) = process(vec![says("A map."), calls_tools(&[("c1", "show_map"), ("c2", "ring")])]);
    let mut claimed = process.claimed.clone();
    claimed.context = Some(Box::new(RunContext {
        mark: FrameMark::new("1234"),
        run_entries: 1,
        history: hello(),
        client: Some(Box::new(offer)),
        ..RunContext::default()
    }));
    let outcome = process.drive_claim(claimed, 1).await.unwrap();
    assert!(matches!(outcome, DriveOutcome::Waiting { .. }), "{outcome:?}");
    let requests = model.requests.lock().unwrap();
    assert_eq!(
        (&requests[0].tools[..], &requests[1].tools[..]),
        (&["show_map".to_owned()][..], &["show_map".to_owned()][..])
    );
    let asked = process.storage.committed().into_iter().filter_map(|step| step.questions);
    assert_eq!(asked.map(|questions| questions.asked.len()).sum::<usize>(), 1);
}

/// A worker that takes the run over reads from the history how often the model was asked.
#[tokio::test(start_paused = true)]
async fn mends_are_counted_across_workers() {
    let mark = FrameMark::new("1234");
    let wrong = || {
        [
            Entry::assistant(vec![Block::text("Rome.")]),
            Entry::user(vec![Block::text(mark.frame("result_mismatch", "It is not JSON."))]),
        ]
    };
    let history = hello().into_iter().chain(wrong()).chain(wrong()).collect();
    let (model, process) = process(vec![says("Turin.")]);
    let (status, _) = drive(&process, history).await;
    assert_eq!((status, model.histories().len()), (RunStatus::Failed, 1));
}
