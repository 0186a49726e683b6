//! Hooks and observers of a run.

use std::sync::{Arc, Mutex};

use houston_domain::run::RunStatus;
use houston_domain::tool_call::EffectClass;

use crate::hook::{RunHook, RunSetup};
use crate::observer::{Observation, Observed, Observers};
use crate::run::driver::DriveOutcome;
use crate::run::tests::fixture::{Behaviour, Process, ScriptedModel, TestTool, calls_tools, says};

fn rings() -> TestTool {
    TestTool::new("ring", EffectClass::Read, Behaviour::Answers)
}

fn with_hooks(mut process: Process, hooks: Vec<Arc<dyn RunHook>>) -> Process {
    process.services.setups.hooks = hooks;
    process
}

#[tokio::test(start_paused = true)]
async fn hooks_change_model_tools_and_prompt_in_order() {
    let usual = ScriptedModel::new([]);
    let other = ScriptedModel::new([calls_tools(&[("c1", "ring")]), says("Hello.")]);
    let tool = rings();
    let executed = Arc::clone(&tool.executed);
    let model = Arc::clone(&other);
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let order = Arc::clone(&seen);
    let first = move |setup: &mut RunSetup| {
        setup.model = Arc::clone(&model) as Arc<dyn houston_llm::Model>;
        setup.tools = vec!["no_such_tool".to_owned(), "ring".to_owned()];
        setup.role.push_str(" You are brief.");
    };
    let second = move |setup: &mut RunSetup| {
        setup.add_section("mode", "It is a test.");
        order.lock().unwrap().push(format!("{} {:?} {}", setup.run.kind, setup.tools, setup.role));
    };
    let process = with_hooks(Process::new(usual, vec![tool]), vec![Arc::new(first), Arc::new(second)]);

    assert_eq!(process.drive(1).await.unwrap(), DriveOutcome::Ended(RunStatus::Completed));

    assert_eq!(executed.load(std::sync::atomic::Ordering::Relaxed), 1);
    let seen = seen.lock().unwrap();
    assert!(seen[0].contains(r#"goal ["no_such_tool", "ring"]"#) && seen[0].ends_with("You are brief."));
    let requests = other.requests.lock().unwrap();
    assert_eq!(requests[0].tools, ["ring"], "what does not exist is left out, and so is what was dropped");
    assert!(requests[0].system.contains("You are brief."), "{}", requests[0].system);
    assert!(requests[0].context.contains("<mode>\nIt is a test.\n</mode>"), "{}", requests[0].context);
}

#[tokio::test(start_paused = true)]
async fn hooks_cannot_lift_guards() {
    let model = ScriptedModel::new([calls_tools(&[("c1", "ring")]), says("It was refused.")]);
    let tool = rings();
    let executed = Arc::clone(&tool.executed);
    let add = |setup: &mut RunSetup| setup.tools = vec!["ring".to_owned()];
    let process = Process::guarded(model, vec![tool], r#"denied = ["ring"]"#);
    let process = with_hooks(process, vec![Arc::new(add)]);
    assert_eq!(process.drive(1).await.unwrap(), DriveOutcome::Ended(RunStatus::Completed));
    assert_eq!(executed.load(std::sync::atomic::Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn observers_see_calls_and_the_end_in_order() {
    let model = ScriptedModel::new([calls_tools(&[("c1", "ring")]), says("Hello.")]);
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let lines = Arc::clone(&seen);
    let observer = move |seen: &Observation<'_>| {
        let line = match &seen.what {
            Observed::ModelCallStarted { .. } => "asks".to_owned(),
            Observed::ModelCallEnded { usage, .. } => format!("{} tokens", usage.output_tokens),
            Observed::ToolCallStarted { call } => format!("calls {}", call.name),
            Observed::ToolCallEnded { response, .. } => response.text().to_owned(),
            Observed::RunEnded { status, usage } => {
                format!("{}, {} tokens", status.as_str(), usage.output_tokens)
            }
            other => format!("{other:?}"),
        };
        lines.lock().unwrap().push(line);
    };
    let mut process = Process::new(model, vec![rings()]);
    let panics = |_: &Observation<'_>| panic!("an observer of a test");
    process.services.observers = Observers::new(vec![Arc::new(panics), Arc::new(observer)]);
    assert_eq!(process.drive(1).await.unwrap(), DriveOutcome::Ended(RunStatus::Completed));
    let expected = ["asks", "10 tokens", "calls ring", "Done.", "asks", "10 tokens", "completed, 20 tokens"];
    assert_eq!(*seen.lock().unwrap(), expected);
}
