//! Agents of a program: conversations, questions, events, hooks, observers, errors.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use houston::{
    Context, Decision, Error, Event, FunctionTool, Happened, Observation, Observed, Risk, RunSetup,
    RunStatus, tool,
};
use serde::Deserialize;

use crate::installation::{installation, simulated};

#[derive(Deserialize, schemars::JsonSchema)]
struct Payment {
    amount: u32,
}

/// A tool that asks first, and counts what was paid.
fn pay(paid: &Arc<AtomicUsize>) -> FunctionTool {
    let paid = Arc::clone(paid);
    let run = move |payment: Payment, _: Context| {
        let paid = Arc::clone(&paid);
        async move {
            paid.fetch_add(payment.amount as usize, Ordering::Relaxed);
            Ok(format!("paid {}", payment.amount))
        }
    };
    tool("pay", "Pay an amount.", run).risk(Risk::External)
}

const PAY_FIVE: &str = "/sim delay_ms=0 tool=pay args={\"amount\":5}";

#[tokio::test]
async fn conversation_and_open_question_survive_a_restart() {
    let (servers, paid) = (installation(), Arc::new(AtomicUsize::new(0)));
    let agent = simulated(&servers).tool(pay(&paid)).build().await.unwrap();
    let ann = agent.conversation("ann").await.unwrap();
    ann.prompt("Hello").await.unwrap();
    let Err(Error::Question(asked)) = ann.prompt(PAY_FIVE).await else { panic!("nothing was asked") };
    assert_eq!(asked.call.as_ref().unwrap().tool, "pay");
    agent.shutdown().await.unwrap();
    agent.shutdown().await.unwrap();
    assert!(matches!(ann.prompt("Hello?").await, Err(Error::Stopped)));

    let agent = simulated(&servers).tool(pay(&paid)).build().await.unwrap();
    let same = agent.conversation("ann").await.unwrap();
    assert_eq!(same.id(), ann.id());
    let questions = same.questions().await.unwrap();
    assert_eq!(questions.len(), 1);
    assert_eq!((questions[0].id, &questions[0].call), (asked.id, &asked.call));
    assert!(agent.conversation("bob").await.unwrap().questions().await.unwrap().is_empty());
    let run = same.open_run().await.unwrap().unwrap();
    assert!(matches!(
        same.answer(&questions[0], Decision::Edit(serde_json::json!({"amount": "five"}))).await,
        Err(Error::Answer(_))
    ));
    same.answer(&questions[0], Decision::Approve).await.unwrap();
    let answer = run.answer().await.unwrap();
    assert_eq!((answer.status, paid.load(Ordering::Relaxed)), (RunStatus::Completed, 5));
    assert!(matches!(
        same.answer(&questions[0], Decision::reject("too late")).await,
        Err(Error::QuestionClosed)
    ));
    assert!(same.open_run().await.unwrap().is_none() && same.questions().await.unwrap().is_empty());
    agent.shutdown().await.unwrap();
}

#[derive(Debug, PartialEq, Deserialize, schemars::JsonSchema)]
struct Trip {
    city: String,
    days: u32,
}

#[tokio::test]
async fn answers_are_values_of_a_type() {
    let (servers, paid) = (installation(), Arc::new(AtomicUsize::new(0)));
    let typed = simulated(&servers).tool(pay(&paid)).output::<Trip>().temperature(0.2).max_tokens(500);
    let agent = typed.on_question(async |_| Decision::Approve).build().await.unwrap();
    let answer = agent.prompt(PAY_FIVE).await.unwrap();
    let trip: Trip = answer.parse().unwrap();
    assert_eq!(serde_json::from_str::<Trip>(&answer.text).unwrap(), trip);
    assert_eq!(paid.load(Ordering::Relaxed), 5, "its tools are called before");
    assert!(matches!(answer.parse::<Payment>(), Err(Error::Result(_))));
    agent.shutdown().await.unwrap();

    let hot = simulated(&servers).temperature(3.0).build().await;
    let refused = hot.err().map(|error| error.to_string()).unwrap();
    assert!(refused.contains("sampling.temperature: must be from 0 to 2"), "{refused}");
}

#[tokio::test]
async fn program_hears_events_by_their_topics() {
    let (servers, paid) = (installation(), Arc::new(AtomicUsize::new(0)));
    let wrong = simulated(&servers).on("tools.*", |_| {}).build().await;
    assert!(matches!(&wrong, Err(Error::Topic { pattern, .. }) if pattern == "tools.*"), "{wrong:?}");
    let heard: Arc<Mutex<Vec<(String, String, i64)>>> = Arc::default();
    let (tools, ends) = (Arc::clone(&heard), Arc::clone(&heard));
    let note = |all: &Mutex<Vec<_>>, happened: &Happened| {
        all.lock().unwrap().push((happened.conversation.clone(), happened.topic.to_owned(), happened.seq));
    };
    let agent = simulated(&servers)
        .tool(pay(&paid))
        .on_question(async |_| Decision::Approve)
        .on("tool.*", move |happened| note(&tools, happened))
        .on("run.finished", move |happened| note(&ends, happened))
        .build()
        .await
        .unwrap();
    let ann = agent.conversation("ann").await.unwrap();
    ann.prompt(PAY_FIVE).await.unwrap();
    agent.shutdown().await.unwrap();
    let heard = heard.lock().unwrap();
    let topics: Vec<&str> = heard.iter().map(|(_, topic, _)| topic.as_str()).collect();
    assert_eq!(topics, ["tool.called", "tool.returned", "run.finished"]);
    assert!(heard.iter().all(|(conversation, ..)| *conversation == ann.id()));
    assert!(heard.windows(2).all(|two| two[0].2 < two[1].2), "in order: {heard:?}");
}

#[tokio::test]
async fn stream_has_every_event_and_pieces_make_the_message() {
    let (servers, paid) = (installation(), Arc::new(AtomicUsize::new(0)));
    let decided = |question: houston::Question| async move {
        assert_eq!(question.call.unwrap().input["amount"], 5);
        Decision::Approve
    };
    let agent = simulated(&servers).tool(pay(&paid)).on_question(decided).build().await.unwrap();
    let mut run = agent.stream(PAY_FIVE).await.unwrap();
    let (mut seen, mut pieces, mut message) = (Vec::new(), String::new(), String::new());
    while let Some(event) = run.next().await {
        match event.unwrap() {
            Event::Text(piece) => pieces.push_str(&piece),
            Event::Message(text) => message = text,
            Event::ToolCalled { name, .. } => seen.push(name),
            Event::ToolReturned { text, .. } => seen.push(text),
            Event::Question(_) => seen.push("asked".to_owned()),
            Event::Finished(answer) => {
                assert_eq!(answer.text, message);
                assert!(answer.usage.output_tokens > 0);
                seen.push("finished".to_owned());
            }
            _ => {}
        }
    }
    assert_eq!(seen, ["pay", "asked", "paid 5", "finished"]);
    assert!(!message.is_empty() && pieces == message, "{pieces:?} {message:?}");
    agent.shutdown().await.unwrap();
}

#[tokio::test]
async fn hooks_and_observers_of_the_program_are_called() {
    let (servers, paid) = (installation(), Arc::new(AtomicUsize::new(0)));
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let lines = Arc::clone(&seen);
    let observe = move |seen: &Observation<'_>| {
        let line = match &seen.what {
            Observed::ModelCallEnded { model, .. } => format!("{model}"),
            Observed::ToolCallEnded { call, .. } => call.name.clone(),
            Observed::RunEnded { status, .. } => status.as_str().to_owned(),
            _ => return,
        };
        lines.lock().unwrap().push(line);
    };
    let no_payments = |setup: &mut RunSetup| setup.tools.retain(|tool| tool != "pay");
    let agent = simulated(&servers).tool(pay(&paid)).tool("get_current_time");
    let agent = agent.before_run(no_payments).on_event(observe).build().await.unwrap();
    agent.prompt(PAY_FIVE).await.unwrap();
    agent.prompt("What time is it?").await.unwrap();
    agent.shutdown().await.unwrap();
    assert_eq!(paid.load(Ordering::Relaxed), 0);
    let seen = seen.lock().unwrap();
    let last = ["simulated/simulated", "get_current_time", "simulated/simulated", "completed"];
    assert!(seen.ends_with(&last.map(str::to_owned)), "{seen:?}");
}

#[tokio::test]
async fn skills_of_the_folder_with_settings_are_found() {
    let (servers, jobs) = (installation(), tempfile::tempdir().unwrap());
    std::fs::write(jobs.path().join("skills.toml"), "bundled = [\"weekly-review\"]\n").unwrap();
    let agent = simulated(&servers).jobs(jobs.path()).tool("use_skill").build().await.unwrap();
    let asked = "/sim delay_ms=0 tool=use_skill args={\"name\":\"weekly-review\"}";
    let mut run = agent.stream(asked).await.unwrap();
    let mut read = String::new();
    while let Some(event) = run.next().await {
        if let Event::ToolReturned { text, .. } = event.unwrap() {
            read = text;
        }
    }
    // The message has a keyword of the skill, so the model has got its text with it.
    assert!(read.starts_with("You have read weekly-review"), "{read}");
    agent.shutdown().await.unwrap();
}

#[tokio::test]
async fn wrong_agents_and_messages_are_refused_with_a_reason() {
    let servers = installation();
    let refused = async |builder: houston::AgentBuilder| builder.build().await.unwrap_err().to_string();
    let text = refused(simulated(&servers).tool("no_such_tool")).await;
    assert!(text.contains("no_such_tool") && text.contains("create_note"), "{text}");
    let text = refused(simulated(&servers).name("Agent 1")).await;
    assert!(text.contains("letters"), "{text}");
    let text = refused(simulated(&servers).model("antropic/claude")).await;
    assert!(text.contains("antropic"), "{text}");
    let text = refused(simulated(&servers).guards("levle = \"read\"")).await;
    assert!(text.contains("levle"), "{text}");

    let agent = simulated(&servers).build().await.unwrap();
    for message in ["", " \n", "a\0b", &"x".repeat(1 << 20)] {
        assert!(matches!(agent.prompt(message).await, Err(Error::Message(_))), "{}", message.len());
    }
    assert!(matches!(agent.open_conversation("goal_1").await, Err(Error::Conversation(_))));
    let failed = agent.prompt("/sim fail=authentication").await;
    assert!(matches!(failed, Err(Error::Run { status: RunStatus::Failed, .. })), "{failed:?}");
    agent.shutdown().await.unwrap();
}

#[tokio::test]
async fn cancelled_run_is_an_error() {
    let servers = installation();
    let agent = simulated(&servers).build().await.unwrap();
    let run = agent.stream("/sim hold_ms=600000").await.unwrap();
    run.cancel().await.unwrap();
    let ended = run.answer().await;
    assert!(matches!(ended, Err(Error::Run { status: RunStatus::Cancelled, .. })), "{ended:?}");
    agent.shutdown().await.unwrap();
}
