//! A durable event as AG-UI events: pure, and always the same for the same event at the same place.
//!
//! Which step is open is taken from what came before, not from the event: so starts and ends pair, whatever a
//! worker that died left open.

use houston_domain::error_message::ErrorMessage;
use houston_domain::event::{Committed, Event as Durable, MessageBody};
use houston_domain::id::MessageId;
use houston_domain::message::Source;
use houston_domain::model::Usage;
use houston_domain::run::RunStatus;
use serde_json::Value;

use crate::events::agui::{
    Added, ERROR_ACTIVITY, EntityId, Event, Fact, Metadata, Outcome, PROTOCOL_VERSION, Posted, RunResult,
    StepName, Timestamp, TokenUsage,
};
use crate::rfc3339::Time;

/// Where an event happens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'a> {
    /// The thread's id, as shown.
    pub(crate) thread: &'a str,
    /// The iteration that is open.
    pub(crate) step: Option<u32>,
    /// The id its message has.
    pub(crate) message: Option<MessageId>,
}

/// The AG-UI events of `committed`; none for a thought without text.
pub(crate) fn frames<'a>(context: &Context<'a>, committed: &'a Committed) -> Vec<Event<'a>> {
    let timestamp = Some(committed.at.timestamp_millis());
    match &committed.event {
        Durable::RunQueued {} => vec![Event::RunStarted {
            timestamp,
            thread_id: context.thread,
            run_id: committed.run_id,
            protocol_version: PROTOCOL_VERSION,
        }],
        Durable::MessagePosted { message_id } => {
            posted(timestamp, *message_id, committed).into_iter().collect()
        }
        Durable::AttemptStarted { attempt, iteration, .. } => {
            let value = Fact::Attempt { attempt: *attempt, iteration: *iteration };
            let begun = Event::Custom { timestamp, name: "houston.attempt.started", value };
            let started = [begun, step_start(timestamp, *iteration)];
            step_end(timestamp, context).into_iter().chain(started).collect()
        }
        Durable::StepFinished { iteration, .. } => {
            step_end(timestamp, context).into_iter().chain([step_start(timestamp, iteration + 1)]).collect()
        }
        Durable::Thought { text } => thought(timestamp, context, text),
        Durable::MessageSent { message_id } => sent(timestamp, *message_id, committed),
        Durable::ToolCalled { call_id, name, input, message_id } => {
            tool_called(timestamp, *message_id, call_id, name, input)
        }
        Durable::ToolReturned { content, is_error, message_id, .. } => vec![Event::ToolCallResult {
            timestamp,
            message_id: EntityId::Result(*message_id),
            tool_call_id: EntityId::Message(*message_id),
            content,
            role: "tool",
            metadata: is_error.then(|| Metadata { houston: Added { is_error: true, ..Added::default() } }),
        }],
        Durable::RetryScheduled { attempt, of, retry_at, code, message, .. } => {
            let value = Fact::Retry { attempt: *attempt, of: *of, retry_at: Time(*retry_at), code, message };
            let scheduled = Event::Custom { timestamp, name: "houston.retry.scheduled", value };
            step_end(timestamp, context).into_iter().chain([scheduled]).collect()
        }
        Durable::ModelFallback { from, to, code, message } => {
            vec![fact(timestamp, "houston.model.fallback", Fact::Fallback { from, to, code, message })]
        }
        Durable::TeamRouted { team_id, agent_id, agent_name, by, reason } => {
            let (team_id, agent_id, by) = (*team_id, *agent_id, *by);
            let value = Fact::Routed { team_id, agent_id, agent_name, by, reason };
            vec![fact(timestamp, "houston.team.routed", value)]
        }
        Durable::ErrorShown { message_id, content, metadata } => {
            vec![error_shown(timestamp, *message_id, content, metadata)]
        }
        Durable::HandedOver { iteration } => {
            let value = Fact::HandedOver { iteration: *iteration };
            let handed = Event::Custom { timestamp, name: "houston.run.handed_over", value };
            step_end(timestamp, context).into_iter().chain([handed]).collect()
        }
        Durable::RunFinished { status, usage, message, code, .. } => {
            let ended =
                run_end(timestamp, context, committed, *status, usage, (message.as_deref(), code.as_deref()));
            step_end(timestamp, context).into_iter().chain([ended]).collect()
        }
    }
}

fn fact<'a>(timestamp: Timestamp, name: &'static str, value: Fact<'a>) -> Event<'a> {
    Event::Custom { timestamp, name, value }
}

/// The end of a message of which `sent` characters have been sent: what is missing, then its end.
pub(crate) fn text_end<'a>(
    timestamp: Timestamp,
    id: EntityId,
    body: Option<&'a MessageBody>,
    sent: u32,
) -> Vec<Event<'a>> {
    let missing = suffix(body.map_or("", |body| &body.content), sent);
    let rest = (!missing.is_empty()).then_some(Event::TextMessageContent {
        timestamp,
        message_id: id,
        delta: missing,
    });
    let end = Event::TextMessageEnd { timestamp, message_id: id, metadata: body.and_then(about) };
    rest.into_iter().chain([end]).collect()
}

/// The same of a reasoning.
pub(crate) fn reasoning_end(timestamp: Timestamp, id: EntityId, text: &str, sent: u32) -> Vec<Event<'_>> {
    let missing = suffix(text, sent);
    let rest = (!missing.is_empty()).then_some(Event::ReasoningMessageContent {
        timestamp,
        message_id: id,
        delta: missing,
    });
    rest.into_iter().chain([Event::ReasoningMessageEnd { timestamp, message_id: id }]).collect()
}

/// What of `text` comes after its first `chars` characters.
pub(crate) fn suffix(text: &str, chars: u32) -> &str {
    match usize::try_from(chars).unwrap_or(usize::MAX) {
        0 => text,
        chars => text.char_indices().nth(chars).map_or("", |(at, _)| &text[at..]),
    }
}

fn sent(timestamp: Timestamp, id: MessageId, committed: &Committed) -> Vec<Event<'_>> {
    let id = EntityId::Message(id);
    let mut events = vec![Event::TextMessageStart { timestamp, message_id: id, role: "assistant" }];
    events.extend(text_end(timestamp, id, committed.body.as_ref(), 0));
    events
}

fn thought<'a>(timestamp: Timestamp, context: &Context<'_>, text: &'a str) -> Vec<Event<'a>> {
    // A thought without an iteration has no id it could be told by; no worker writes one.
    let Some(message) = context.message.filter(|_| !text.is_empty()) else { return Vec::new() };
    let id = EntityId::Reasoning(message);
    let mut events = vec![Event::ReasoningMessageStart { timestamp, message_id: id, role: "reasoning" }];
    events.extend(reasoning_end(timestamp, id, text, 0));
    events
}

fn posted(timestamp: Timestamp, id: MessageId, committed: &Committed) -> Option<Event<'_>> {
    let body = committed.body.as_ref()?;
    let message = Posted {
        id,
        source: body.source,
        message_type: body.message_type,
        content: &body.content,
        metadata: Some(&body.metadata).filter(|metadata| !metadata.is_null()),
        run_id: committed.run_id,
        seq: committed.seq,
        created_at: Time(committed.at),
    };
    let value = Fact::Message { message: Box::new(message) };
    Some(Event::Custom { timestamp, name: "houston.message.posted", value })
}

fn tool_called<'a>(
    timestamp: Timestamp,
    cell: MessageId,
    call_id: &'a str,
    name: &'a str,
    input: &Value,
) -> Vec<Event<'a>> {
    let id = EntityId::Message(cell);
    let metadata = Metadata { houston: Added { call_id: Some(call_id), ..Added::default() } };
    vec![
        Event::ToolCallStart { timestamp, tool_call_id: id, tool_call_name: name, metadata },
        Event::ToolCallArgs { timestamp, tool_call_id: id, delta: input.to_string() },
        Event::ToolCallEnd { timestamp, tool_call_id: id },
    ]
}

fn error_shown(timestamp: Timestamp, id: MessageId, text: &str, metadata: &Value) -> Event<'static> {
    Event::ActivitySnapshot {
        timestamp,
        message_id: EntityId::Message(id),
        activity_type: ERROR_ACTIVITY,
        content: ErrorMessage::shown(text, metadata),
    }
}

fn step_start(timestamp: Timestamp, step: u32) -> Event<'static> {
    Event::StepStarted { timestamp, step_name: StepName(step) }
}

fn step_end(timestamp: Timestamp, context: &Context<'_>) -> Option<Event<'static>> {
    context.step.map(|step| Event::StepFinished { timestamp, step_name: StepName(step) })
}

fn run_end<'a>(
    timestamp: Timestamp,
    context: &Context<'a>,
    committed: &Committed,
    status: RunStatus,
    usage: &Usage,
    (message, code): (Option<&'a str>, Option<&'a str>),
) -> Event<'a> {
    let (cost, usage) = (usage.cost.map(|cost| cost.normalize()), TokenUsage::of(usage));
    let outcome = match status {
        RunStatus::Failed | RunStatus::DeadLettered => {
            let message = message.or(status.notice()).unwrap_or("The run failed.");
            return Event::RunError { timestamp, message, code: code.unwrap_or(status.as_str()), usage };
        }
        RunStatus::Cancelled => Outcome::Cancelled,
        _ => Outcome::Success,
    };
    let (thread_id, run_id) = (context.thread, committed.run_id);
    let cancelled_by = code.filter(|_| status == RunStatus::Cancelled);
    let result = RunResult { status, cancelled_by, cost };
    Event::RunFinished { timestamp, thread_id, run_id, result, outcome, usage }
}

/// What there is to say of a message beside its text; nothing of an agent's plain message.
fn about(body: &MessageBody) -> Option<Metadata<'_>> {
    let source = Some(body.source).filter(|source| *source != Source::Agent);
    let has_any = match &body.metadata {
        Value::Null => false,
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    };
    let metadata = Some(&body.metadata).filter(|_| has_any);
    (source.is_some() || metadata.is_some())
        .then_some(Metadata { houston: Added { source, metadata, ..Added::default() } })
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use houston_domain::id::RunId;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_of_model_names_both_and_why() {
        let event = Durable::ModelFallback {
            from: "anthropic/a".into(),
            to: "openai/b".into(),
            code: "RATE_LIMITED".into(),
            message: "anthropic: slow down (HTTP 429)".into(),
        };
        let (run_id, at) = (RunId(uuid::Uuid::nil()), DateTime::UNIX_EPOCH);
        let committed = Committed { seq: 1, run_id, at, event, body: None };
        let context = Context { thread: "goal_1", step: Some(1), message: None };
        assert_eq!(
            serde_json::to_value(frames(&context, &committed)).unwrap(),
            json!([{
                "type": "CUSTOM", "timestamp": 0, "name": "houston.model.fallback",
                "value": {
                    "from": "anthropic/a", "to": "openai/b", "code": "RATE_LIMITED",
                    "message": "anthropic: slow down (HTTP 429)"
                }
            }])
        );
    }
}
