//! Answers in plain text, where an agent replies by calling `send_message`: they are streamed as messages while they grow.

use houston_domain::agent::SEND_MESSAGE;
use houston_domain::event::{Delta, Event as RunEvent, Live, Part};
use houston_domain::history::Block;
use houston_domain::id::MessageId;
use houston_domain::message::{MessageType, Source};
use houston_domain::run::RunStatus;
use houston_domain::step::Step;
use houston_domain::tool_call::EffectClass;
use houston_llm::Event;
use houston_queue::{Received, Subscription};
use serde_json::json;

use crate::run::driver::DriveOutcome;
use crate::run::tests::fixture::{
    Behaviour, Process, Script, ScriptedModel, TestTool, begins_with, calls_with, says,
};

const ENDED: DriveOutcome = DriveOutcome::Ended(RunStatus::Completed);

/// Longer than what is held.
fn long() -> String {
    (100..200).map(|number| format!("{number} ")).collect()
}

/// This text, piece by piece, and then that.
fn after(text: &str, then: Script) -> Script {
    begins_with(text.split_inclusive(' ').map(|piece| Event::Text(piece.to_owned())), then)
}

/// This text, piece by piece.
fn grows(text: &str) -> Script {
    let Script::Events(mut events) = says(text) else { panic!("no events") };
    after(text, Script::Events(events.split_off(1)))
}

fn calls(tool: &str) -> Script {
    calls_with([("c1", tool, json!({"content": "Hello."}))])
}

struct Run {
    process: Process,
    stream: Subscription,
}

impl Run {
    fn new(scripts: impl IntoIterator<Item = Script>) -> Self {
        let pay = TestTool::new("pay", EffectClass::Effect, Behaviour::Answers);
        let process = Process::new(ScriptedModel::new(scripts), vec![pay]);
        let stream = process.services.bus.subscribe(process.agentable());
        Self { process, stream }
    }

    /// What streams have received since they were looked at before.
    fn deltas(&mut self) -> Vec<Delta> {
        let mut deltas = Vec::new();
        while let Some(Received::Item(item)) = self.stream.try_recv() {
            if let Live::Delta(delta) = &item.live {
                deltas.push(delta.clone());
            }
        }
        deltas
    }

    fn steps(&self) -> Vec<Step> {
        self.process.storage.committed()
    }

    /// The agent's messages.
    fn messages(&self) -> Vec<(MessageId, String)> {
        let steps = self.steps();
        let messages = steps.iter().flat_map(|step| &step.messages);
        messages
            .filter(|of| of.source == Source::Agent && of.message_type == MessageType::Text)
            .map(|of| (of.id, of.content.clone()))
            .collect()
    }

    fn thoughts(&self) -> Vec<(String, Option<u32>)> {
        let steps = self.steps();
        let thought = |event: &RunEvent| match event {
            RunEvent::Thought { text, withdrawn_at } => Some((text.clone(), *withdrawn_at)),
            _ => None,
        };
        steps.iter().flat_map(|step| &step.events).filter_map(thought).collect()
    }
}

fn text(deltas: &[Delta], part: Part) -> String {
    deltas.iter().filter(|delta| delta.part == part).map(|delta| delta.text.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn plain_text_is_streamed_as_the_message_it_becomes() {
    for written in [long(), "Hi.".to_owned()] {
        let mut run = Run::new([grows(&written)]);
        assert_eq!(run.process.drive(1).await.unwrap(), ENDED);
        let deltas = run.deltas();
        assert_eq!(text(&deltas, Part::Message), written);
        assert!(deltas.iter().all(|delta| delta.part == Part::Message), "{deltas:?}");
        assert_eq!(deltas.len() > 1, written.len() > 100, "it grows: {deltas:?}");
        assert_eq!(run.messages(), [(deltas[0].message_id, written)]);
        assert!(run.thoughts().is_empty(), "it is not doubled as reasoning");
    }
}

#[tokio::test(start_paused = true)]
async fn text_before_a_call_is_reasoning() {
    let thinks = begins_with([Event::Thinking("Hm.".to_owned())], after(&long(), calls("pay")));
    for (first, held, at) in [
        (after("Let me look.", calls("pay")), "Let me look.".to_owned(), None),
        (after(&long(), calls("pay")), long(), Some(0)),
        (thinks, format!("Hm.{}", long()), Some(3)),
    ] {
        let mut run = Run::new([first, says("Paid.")]);
        assert_eq!(run.process.drive(1).await.unwrap(), ENDED);
        assert_eq!(run.thoughts(), [(held, at)]);
        let deltas = run.deltas();
        let last = deltas.last().unwrap();
        assert_eq!(run.messages(), [(last.message_id, "Paid.".to_owned())]);
        assert_ne!(deltas[0].message_id, last.message_id);
        assert_eq!(text(&deltas[..deltas.len() - 1], Part::Message).is_empty(), at.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn message_after_withdrawn_text_has_another_id() {
    for (before, is_withdrawn) in [(long(), true), ("So: ".to_owned(), false)] {
        let begun = Event::ToolStart { index: 0, id: "c1".to_owned(), name: SEND_MESSAGE.to_owned() };
        let content = Event::ToolArguments { index: 0, json: "{\"content\": \"Hello.\"}".to_owned() };
        let sends = after(&before, begins_with([begun, content], calls(SEND_MESSAGE)));
        let mut run = Run::new([sends, says("Done.")]);
        run.process.drive(1).await.unwrap();
        let (messages, deltas) = (run.messages(), run.deltas());
        assert_eq!((messages.len(), messages[0].1.as_str()), (1, "Hello."), "{messages:?}");
        assert_eq!(messages[0].0 != deltas[0].message_id, is_withdrawn);
        assert_eq!(text(&deltas, Part::Message).contains("Hello."), !is_withdrawn);
    }
}

#[tokio::test(start_paused = true)]
async fn retried_turn_doubles_no_text() {
    let broken = Script::Breaks(long().leak());
    let mut run = Run::new([broken, grows("Whole.")]);
    let outcome = run.process.drive(1).await.unwrap();
    assert!(matches!(outcome, DriveOutcome::Retrying { .. }), "{outcome:?}");
    assert_eq!(text(&run.deltas(), Part::Message), long());
    assert_eq!(run.process.drive(2).await.unwrap(), ENDED);
    let (messages, deltas) = (run.messages(), run.deltas());
    assert_eq!((messages[0].1.as_str(), messages.len(), run.thoughts().len()), ("Whole.", 1, 0));
    assert_eq!((deltas[0].offset, deltas[0].text.as_str()), (0, "Whole."));
    let history = run.process.storage.history();
    assert_eq!(history.last().unwrap().content, [Block::text("Whole.")]);
}
