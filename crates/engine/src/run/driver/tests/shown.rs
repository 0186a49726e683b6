//! What the user is shown after private data and texts of strangers were read.

use houston_domain::agent::Reply;
use houston_domain::guard::ToolFacts;
use houston_domain::inert::NOTE;
use houston_domain::message::{MessageType, Source};
use houston_domain::run::RunStatus;
use houston_domain::tool_call::EffectClass;

use crate::run::driver::DriveOutcome;
use crate::run::tests::fixture::{Behaviour, Process, ScriptedModel, TestTool, calls_tools, says, streamed};

const WRITTEN: &str = "See ![a](https://x.example/i?d=1) and [b](https://ok.example/).";

fn reads() -> Vec<TestTool> {
    let tool = |name, facts| TestTool::new(name, EffectClass::Read, Behaviour::Answers).with_facts(facts);
    let facts = || ToolFacts::of_effect(EffectClass::Read);
    vec![
        tool("page", ToolFacts { untrusted_output: true, reads_private: false, ..facts() }),
        tool("mail", ToolFacts { reads_private: true, untrusted_output: false, ..facts() }),
    ]
}

/// The message that is stored after these calls, and what streams have shown of it.
async fn shown(calls: &[(&str, &str)]) -> (String, String) {
    let model = ScriptedModel::new([calls_tools(calls), says(WRITTEN)]);
    let process = Process::changed(model, reads(), |kind| {
        kind.reply = Reply::Text;
        kind.guards = Some(Box::new(toml::from_str("hosts = [\"ok.example\"]").unwrap()));
    });
    let mut stream = process.services.bus.subscribe(process.agentable());
    assert_eq!(process.drive(1).await.unwrap(), DriveOutcome::Ended(RunStatus::Completed));
    let steps = process.storage.committed();
    let mut messages = steps.iter().flat_map(|step| &step.messages);
    let message = messages
        .find(|message| message.source == Source::Agent && message.message_type == MessageType::Text)
        .unwrap();
    (message.content.clone(), streamed(&mut stream))
}

#[tokio::test(start_paused = true)]
async fn nothing_shown_after_both_kinds_is_fetched() {
    let inert = "See ! [a] (https: //x[.]example/i?d=1) and [b](https://ok.example/).";
    for calls in [&[("1", "page"), ("2", "mail")][..], &[("1", "mail"), ("2", "page")]] {
        let (stored, streamed) = shown(calls).await;
        assert_eq!(stored, format!("{inert}\n\n{NOTE}"));
        assert_eq!(streamed, inert, "no stream shows more");
    }
    for calls in [&[("1", "page")][..], &[("1", "mail")]] {
        assert_eq!(shown(calls).await, (WRITTEN.to_owned(), WRITTEN.to_owned()), "{calls:?}");
    }
}
