//! [`Chunks`]: AG-UI events as chunks of the Vercel AI SDK.

use std::collections::HashSet;
use std::ops::ControlFlow;

use houston_domain::id::MessageId;
use houston_domain::question::approval;
use houston_protocol::agui::{EntityId, Event, Fact, Interrupt, Outcome, RunResult};
use houston_protocol::ai_sdk::{Chunk, DONE, FinishReason};
use houston_protocol::sse::SseEncoder;
use serde_json::{Value, json};

use crate::dialects::draft::Draft;
use crate::events::position::Position;
use crate::events::stream::Dialect;

/// The translation of one stream.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    /// The names of the tools that the client carries out.
    of_client: Vec<String>,
    /// Calls whose results the client has given with its request: it has them.
    given: HashSet<MessageId>,
    /// The tool of the call whose arguments are next.
    tool: String,
    draft: Draft,
}

/// Writes the chunks of one event. All but the last have no id: who has some of them gets all of them again.
struct Frames<'f> {
    at: Position,
    frames: &'f mut SseEncoder,
}

impl Frames<'_> {
    fn part(&mut self, chunk: &Chunk<'_>) {
        self.frames.push_without_id(chunk);
    }

    fn last(&mut self, chunk: &Chunk<'_>) {
        self.frames.push(self.at, chunk);
    }
}

impl Chunks {
    pub(crate) fn new(of_client: Vec<String>, given: HashSet<MessageId>) -> Self {
        Self { of_client, given, tool: String::new(), draft: Draft::default() }
    }

    /// A call: its name is in one event, its arguments in the next.
    fn call(&self, tool_call_id: EntityId, arguments: &str, to: &mut Frames<'_>) {
        let tool_name = self.tool.as_str();
        let provider_executed = !self.of_client.iter().any(|name| name == tool_name);
        to.part(&Chunk::ToolInputStart { tool_call_id, tool_name: tool_name.into(), provider_executed });
        to.part(&Chunk::ToolInputDelta { tool_call_id, input_text_delta: arguments.into() });
        // It is what a JSON object was written as.
        let input = serde_json::from_str(arguments).unwrap_or_default();
        to.last(&Chunk::ToolInputAvailable {
            tool_call_id,
            tool_name: tool_name.into(),
            input,
            provider_executed,
        });
    }

    fn result(&self, call: EntityId, content: &str, is_error: bool, to: &mut Frames<'_>) {
        if matches!(call, EntityId::Message(cell) if self.given.contains(&cell)) {
            return;
        }
        to.last(&match is_error {
            true if approval::is_rejection(content) => Chunk::ToolOutputDenied { tool_call_id: call },
            true => Chunk::ToolOutputError { tool_call_id: call, error_text: content.into() },
            false => {
                Chunk::ToolOutputAvailable { tool_call_id: call, output: Value::String(content.to_owned()) }
            }
        });
    }
}

impl Dialect for Chunks {
    fn push(&mut self, at: Position, event: &Event<'_>, frames: &mut SseEncoder) {
        let to = &mut Frames { at, frames };
        let ControlFlow::Continue(message) = self.draft.push(event) else { return };
        if let Some((id, delta)) = message {
            to.part(&Chunk::TextStart { id });
            to.part(&Chunk::TextDelta { id, delta: delta.into() });
            to.part(&Chunk::TextEnd { id });
        }
        match event {
            Event::ToolCallStart { tool_call_name, .. } => self.tool = tool_call_name.as_ref().to_owned(),
            Event::ToolCallArgs { tool_call_id, delta, .. } => self.call(*tool_call_id, delta, to),
            Event::ToolCallEnd { .. } => {}
            Event::ToolCallResult { tool_call_id, content, metadata, .. } => {
                let is_error = metadata.as_ref().is_some_and(|metadata| metadata.houston.is_error);
                self.result(*tool_call_id, content, is_error, to);
            }
            Event::RunFinished { result, outcome, .. } => finish(result, outcome, to),
            // The client posted it.
            Event::Custom { fact: Fact::MessagePosted { .. }, .. } => {}
            event => to.last(&chunk(event)),
        }
    }

    fn end(&mut self, frames: &mut SseEncoder) {
        frames.push_text(DONE);
    }
}

/// The chunk of an event that has one.
fn chunk<'e>(event: &'e Event<'_>) -> Chunk<'e> {
    match event {
        Event::RunStarted { run_id, .. } => Chunk::Start { message_id: *run_id },
        Event::StepStarted { .. } => Chunk::StartStep {},
        Event::StepFinished { .. } => Chunk::FinishStep {},
        Event::TextMessageStart { message_id, .. } => Chunk::TextStart { id: *message_id },
        Event::TextMessageContent { message_id, delta, .. } => {
            Chunk::TextDelta { id: *message_id, delta: delta.as_ref().into() }
        }
        Event::TextMessageEnd { message_id, .. } => Chunk::TextEnd { id: *message_id },
        Event::ReasoningMessageStart { message_id, .. } => Chunk::ReasoningStart { id: *message_id },
        Event::ReasoningMessageContent { message_id, delta, .. } => {
            Chunk::ReasoningDelta { id: *message_id, delta: delta.as_ref().into() }
        }
        Event::ReasoningMessageEnd { message_id, .. } => Chunk::ReasoningEnd { id: *message_id },
        Event::RunError { message, .. } => Chunk::Error { error_text: message.as_ref().into() },
        // Clients keep the messages themselves, and a snapshot may have megabytes.
        Event::MessagesSnapshot { .. } => data(json!({"type": "MESSAGES_SNAPSHOT"})),
        // Serialising strings and numbers cannot fail.
        event => data(serde_json::to_value(event).unwrap_or_default()),
    }
}

/// An event for which there is no chunk.
fn data(event: Value) -> Chunk<'static> {
    Chunk::Data { data: event, transient: true }
}

fn finish(result: &RunResult<'_>, outcome: &Outcome<'_>, to: &mut Frames<'_>) {
    let finish_reason = match outcome {
        Outcome::Cancelled => {
            // An aborted message is as it was written so far: clients see by its metadata that it is not all.
            to.part(&Chunk::MessageMetadata { message_metadata: json!({"houston": result}) });
            return to.last(&Chunk::Abort { reason: result.cancelled_by.as_deref().map(Into::into) });
        }
        Outcome::Success if result.stop_reason.is_none() => FinishReason::Stop,
        Outcome::Success => FinishReason::Other,
        Outcome::Interrupt { interrupts } => {
            interrupts.iter().filter_map(question).for_each(|question| to.part(&question));
            let waits = interrupts.iter().any(|interrupt| interrupt.reason == "tool_call");
            if waits { FinishReason::ToolCalls } else { FinishReason::Other }
        }
    };
    to.last(&Chunk::Finish { finish_reason, message_metadata: json!({"houston": result}) });
}

/// The question of an interrupt; `None` for a call of the client's own tool, which the client has got as a call.
fn question(interrupt: &Interrupt<'_>) -> Option<Chunk<'static>> {
    match (interrupt.tool_call_id, &interrupt.metadata.houston.approval) {
        (Some(tool_call_id), Some(_)) => {
            Some(Chunk::ToolApprovalRequest { approval_id: interrupt.id, tool_call_id })
        }
        (Some(_), None) if interrupt.reason == "tool_call" => None,
        // Serialising strings and numbers cannot fail.
        _ => Some(Chunk::Question {
            id: interrupt.id,
            data: serde_json::to_value(interrupt).unwrap_or_default(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use houston_domain::id::RunId;
    use houston_protocol::agui::Metadata;

    use super::*;

    #[test]
    fn a_call_is_resumed_whole() {
        let cell = MessageId(uuid::Uuid::nil());
        let call = EntityId::Message(cell);
        let written = |of_client: Vec<String>, events: &[Event<'_>]| {
            let (mut chunks, mut frames) = (Chunks::new(of_client, HashSet::new()), SseEncoder::default());
            for (event, seq) in events.iter().zip(5..) {
                chunks.push(Position::after(seq), event, &mut frames);
            }
            chunks.end(&mut frames);
            String::from_utf8(frames.take().unwrap()).unwrap()
        };
        let events = [
            Event::ToolCallStart {
                timestamp: None,
                tool_call_id: call,
                tool_call_name: "show_map".into(),
                metadata: Metadata::default(),
            },
            Event::ToolCallArgs { timestamp: None, tool_call_id: call, delta: "{}".into() },
            Event::ToolCallEnd { timestamp: None, tool_call_id: call },
        ];
        let expected = format!(
            "data: {{\"type\":\"tool-input-start\",\"toolCallId\":\"{call}\",\"toolName\":\"show_map\"}}\n\n\
             data: {{\"type\":\"tool-input-delta\",\"toolCallId\":\"{call}\",\"inputTextDelta\":\"{{}}\"}}\n\n\
             id: 6\n\
             data: {{\"type\":\"tool-input-available\",\"toolCallId\":\"{call}\",\"toolName\":\"show_map\",\"input\":{{}}}}\n\n\
             data: [DONE]\n\n"
        );
        assert_eq!(written(vec!["show_map".to_owned()], &events), expected);
        assert!(written(Vec::new(), &events).contains("\"providerExecuted\":true"));
        let steps = [
            Event::RunStarted {
                timestamp: None,
                thread_id: "goal_1".into(),
                run_id: RunId(uuid::Uuid::nil()),
                protocol_version: "1.0".into(),
            },
            Event::StepStarted { timestamp: None, step_name: "iteration 1".into() },
        ];
        assert!(
            written(Vec::new(), &steps).starts_with("id: 5\ndata: {\"type\":\"start\",\"messageId\":\"run_")
        );
    }
}
