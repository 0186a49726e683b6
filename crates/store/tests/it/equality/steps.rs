//! The steps of a sequence.

use houston_domain::event::Event;
use houston_domain::history::{Block, Entry};
use houston_domain::id::MessageId;
use houston_domain::message::{MessageType, Source};
use houston_domain::model::Usage;
use houston_domain::run::RunStatus;
use houston_domain::step::{Intent, ModelCall, NewMessage, RunTransition, Step};
use houston_domain::tool_call::{EffectClass, ToolResponse};
use houston_store::claim::ClaimedRun;
use serde_json::json;

use super::sequence::{End, Shape};
use crate::step::{ending, finished};
use crate::test_store::TestStore;

fn transition(test: &TestStore, end: End) -> RunTransition {
    let next = || Event::StepFinished { iteration: 1, next_message_id: test.ids.next() };
    match end {
        End::Poll => RunTransition::Continue { read: true, event: None },
        End::Continue { read } => RunTransition::Continue { read, event: Some(next()) },
        End::Complete => RunTransition::Complete {
            event: finished(RunStatus::Completed),
            continue_event: next(),
            ending: ending(test, RunStatus::Completed),
        },
        End::Terminate(status) => {
            let mut ending = ending(test, status);
            if status == RunStatus::Failed {
                (ending.error_code, ending.error_message) = (Some("TIMEOUT".into()), Some("too slow".into()));
            }
            RunTransition::Terminate { event: finished(status), ending }
        }
        End::Retry { counts } => RunTransition::Retry {
            event: Event::HandedOver { iteration: 1 },
            at: chrono::DateTime::UNIX_EPOCH,
            counts,
            ending: ending(test, RunStatus::Retrying),
        },
        End::Release => RunTransition::Release { event: Event::HandedOver { iteration: 1 } },
    }
}

pub(super) fn step(
    test: &TestStore,
    claimed: &ClaimedRun,
    open_call: &mut Option<(String, MessageId)>,
    shape: &Shape,
) -> Step {
    let mut step = test.step(claimed, transition(test, shape.end));
    if matches!(shape.end, End::Poll) {
        return step;
    }
    step.entries =
        (0..shape.entries).map(|nth| Entry::assistant(vec![Block::text(format!("ä {nth}"))])).collect();
    for nth in 0..shape.messages {
        let id = if nth == 1 {
            houston_domain::error_message::ErrorMessage::id_of(claimed.run)
        } else {
            test.ids.next()
        };
        step.messages.push(NewMessage {
            id,
            event: nth,
            source: if nth == 1 { Source::Error } else { Source::Agent },
            message_type: MessageType::Text,
            content: format!("hello {nth}"),
            metadata: json!({"nth": nth}),
        });
        step.events.push(Event::MessageSent { message_id: id });
    }
    if shape.calls_tool {
        match open_call.take() {
            Some(open) => answer_call(&mut step, open),
            None if shape.entries == 0 => {
                let call = start_call(test, &mut step);
                answer_call(&mut step, call);
            }
            None => *open_call = Some(start_call(test, &mut step)),
        }
    }
    step.usage = Usage { input_tokens: 7, output_tokens: 5, reasoning_tokens: 1, ..Usage::default() };
    step.model = shape.call.is_some().then(|| "openai/gpt-5-mini".to_owned());
    step.call = shape.call.map(|cost| ModelCall {
        provider: "openai".into(),
        model: "gpt-5-mini".into(),
        iteration: 1,
        usage: Usage { cost: cost.map(|cost| cost.parse().unwrap()), ..step.usage },
        reported: false,
    });
    step
}

/// Adds a call that is about to execute, with its message.
fn start_call(test: &TestStore, step: &mut Step) -> (String, MessageId) {
    let cell: MessageId = test.ids.next();
    let call = cell.to_string();
    step.intents.push(Intent {
        call: call.clone(),
        name: "send_mail".into(),
        effect: EffectClass::Effect,
        cell,
    });
    step.messages.push(NewMessage {
        id: cell,
        event: step.events.len(),
        source: Source::Agent,
        message_type: MessageType::Tool,
        content: "send_mail".into(),
        metadata: json!({"status": "running"}),
    });
    step.events.push(Event::MessageSent { message_id: cell });
    (call, cell)
}

fn answer_call(step: &mut Step, (call, cell): (String, MessageId)) {
    step.responses.push((call, ToolResponse::success("done")));
    step.cells.push((cell, json!({"status": "done"})));
}
