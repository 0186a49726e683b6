//! Converts durable events to AG-UI events: a pure function of the event and its context.
//!
//! The open step is taken from the preceding events, not from the event itself, so that starts and ends pair even if a
//! dead worker left a step open.
//!
//! What happens in a run besides messages and tool calls is `CUSTOM` ([`fact`]).
//!
//! # Plans
//! In the stream of the agentable that a plan works for, its list of steps is an activity: a message that changes in place.
//! Never `STEP_*`, which a client refuses to have open at the end of a run, where a plan may go on. For the same reason the
//! steps in a plan's own stream are `CUSTOM`: its run may wait, fail or be cancelled while some are open, and several attempts
//! have one name.

use std::borrow::Cow;

use houston_domain::error_message::{ErrorMessage, user_text};
use houston_domain::event::{Committed, Event as Durable, MessageBody};
use houston_domain::id::{MessageId, RunId};
use houston_domain::message::Source;
use houston_domain::model::Usage;
use houston_domain::plan::Checklist;
use houston_domain::run::RunStatus;
use houston_protocol::agui::{
    ERROR_ACTIVITY, EntityId, Event, Fact, HoustonMetadata, Metadata, Outcome, PLAN_ACTIVITY,
    PROTOCOL_VERSION, PostedMessage, Role, RunResult, SubagentOutcome, Timestamp, TokenUsage,
};
use houston_protocol::time::Time;
use serde::Deserialize as _;
use serde_json::Value;

/// The context of an event: thread, open step and its message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'a> {
    /// Id of the thread with its prefix, e.g. `goal_…`.
    pub(crate) thread: &'a str,
    /// Number of the open iteration.
    pub(crate) step: Option<u32>,
    /// Id of the message of the open iteration.
    pub(crate) message: Option<MessageId>,
}

/// The AG-UI events for `committed`; none for reasoning without text.
pub(crate) fn frames<'a>(context: &Context<'a>, committed: &'a Committed) -> Vec<Event<'a>> {
    let timestamp = Some(committed.at.timestamp_millis());
    match &committed.event {
        Durable::RunQueued {} => vec![Event::RunStarted {
            timestamp,
            thread_id: context.thread.into(),
            run_id: committed.run_id,
            protocol_version: PROTOCOL_VERSION.into(),
        }],
        Durable::MessagePosted { message_id } => {
            posted(timestamp, *message_id, committed).into_iter().collect()
        }
        Durable::AttemptStarted { attempt, iteration, resumed, .. } => {
            let begun = Fact::AttemptStarted { attempt: *attempt, iteration: *iteration, resumed: *resumed };
            let started = [custom(timestamp, begun), step_start(timestamp, *iteration)];
            step_end(timestamp, context).into_iter().chain(started).collect()
        }
        Durable::StepFinished { iteration, .. } => {
            step_end(timestamp, context).into_iter().chain([step_start(timestamp, iteration + 1)]).collect()
        }
        Durable::Thought { text, .. } => thought(timestamp, context, text),
        Durable::MessageSent { message_id } => sent(timestamp, *message_id, committed),
        Durable::ToolCalled { call_id, name, input, message_id, .. } => {
            tool_called(timestamp, *message_id, call_id, name, input)
        }
        Durable::ToolReturned { content, is_error, code, message_id, .. } => {
            let failed =
                is_error.then(|| HoustonMetadata { is_error: true, code: *code, ..Default::default() });
            vec![tool_returned(timestamp, *message_id, content, failed)]
        }
        event @ (Durable::RateLimited { .. }
        | Durable::ModelFallback { .. }
        | Durable::TeamRouted { .. }
        | Durable::SessionArchived { .. }
        | Durable::ContextCompressed { .. }
        | Durable::ContextShifted { .. }
        | Durable::Analysed { .. }
        | Durable::QuestionAsked(_)
        | Durable::QuestionClosed(_)) => fact(timestamp, event).into_iter().collect(),
        Durable::TitleSet { title, between_runs } => {
            let event = custom(timestamp, Fact::TitleSet { title: title.into() });
            if *between_runs { within_latest_run(timestamp, context, committed, event) } else { vec![event] }
        }
        Durable::StateChanged { delta, between_runs } => {
            let event = Event::StateDelta { timestamp, delta: delta.into() };
            if *between_runs { within_latest_run(timestamp, context, committed, event) } else { vec![event] }
        }
        Durable::ErrorShown { message_id, content, metadata } => {
            vec![error_shown(timestamp, *message_id, content, metadata)]
        }
        event @ (Durable::PlanCreated { .. }
        | Durable::PlanProgress { .. }
        | Durable::PlanChanged { .. }
        | Durable::PlanEnded { .. }
        | Durable::PlanStepStarted { .. }
        | Durable::PlanStepFinished { .. }
        | Durable::PlanStepFailed { .. }) => plan(timestamp, event),
        Durable::TaskStarted { task_id, task_run_id, title, message_id } => {
            let call = Some(EntityId::Message(*message_id));
            task(timestamp, *task_run_id, (title, call), (task_id, None), (None, None))
        }
        Durable::TaskEnded { task_id, task_run_id, title, status, reason, code, message } => {
            let why = (message.as_deref(), code.as_deref().or(reason.as_deref()));
            task(timestamp, *task_run_id, (title, None), (task_id, Some(*status)), why)
        }
        event
        @ (Durable::RetryScheduled { .. } | Durable::RunWaiting { .. } | Durable::HandedOver { .. }) => {
            step_end(timestamp, context).into_iter().chain(fact(timestamp, event)).collect()
        }
        Durable::RunFinished { status, usage, message, code, result, .. } => {
            let (message, code, value) = (message.as_deref(), code.as_deref(), result.as_deref());
            let end = RunEnd { status: *status, usage, message, code, value };
            let ended = run_end(timestamp, context, committed, end);
            step_end(timestamp, context).into_iter().chain([ended]).collect()
        }
    }
}

fn custom(timestamp: Timestamp, fact: Fact<'_>) -> Event<'_> {
    Event::Custom { timestamp, fact }
}

fn tool_returned<'a>(
    timestamp: Timestamp,
    cell: MessageId,
    content: &'a str,
    failed: Option<HoustonMetadata<'a>>,
) -> Event<'a> {
    Event::ToolCallResult {
        timestamp,
        message_id: EntityId::Result(cell),
        tool_call_id: EntityId::Message(cell),
        content: content.into(),
        role: Role::Tool,
        metadata: failed.map(Into::into),
    }
}

/// Wraps an event between two runs into a start and an end of the latest run, because AG-UI has events only within
/// runs.
fn within_latest_run<'a>(
    timestamp: Timestamp,
    context: &Context<'a>,
    committed: &Committed,
    event: Event<'a>,
) -> Vec<Event<'a>> {
    let (thread_id, run_id) = (Cow::from(context.thread), committed.run_id);
    let result = bare_result(RunStatus::Completed);
    let (protocol_version, outcome) = (PROTOCOL_VERSION.into(), Outcome::Success);
    vec![
        Event::RunStarted { timestamp, thread_id: thread_id.clone(), run_id, protocol_version },
        event,
        Event::RunFinished { timestamp, thread_id, run_id, result, outcome, usage: None },
    ]
}

/// The result of a run that says nothing but its status.
pub(crate) fn bare_result(status: RunStatus) -> RunResult<'static> {
    RunResult { status, cancelled_by: None, stop_reason: None, cost: None, output: None }
}

/// The rest and the end of a message of which `sent` characters were sent.
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
        delta: missing.into(),
    });
    let end = Event::TextMessageEnd { timestamp, message_id: id, metadata: body.and_then(message_metadata) };
    rest.into_iter().chain([end]).collect()
}

/// The rest and the end of reasoning of which `sent` characters were sent.
pub(crate) fn reasoning_end(timestamp: Timestamp, id: EntityId, text: &str, sent: u32) -> Vec<Event<'_>> {
    let missing = suffix(text, sent);
    let rest = (!missing.is_empty()).then_some(Event::ReasoningMessageContent {
        timestamp,
        message_id: id,
        delta: missing.into(),
    });
    rest.into_iter().chain([Event::ReasoningMessageEnd { timestamp, message_id: id }]).collect()
}

/// The part of `text` after its first `chars` characters.
pub(crate) fn suffix(text: &str, chars: u32) -> &str {
    match usize::try_from(chars).unwrap_or(usize::MAX) {
        0 => text,
        chars => text.char_indices().nth(chars).map_or("", |(at, _)| &text[at..]),
    }
}

fn sent(timestamp: Timestamp, id: MessageId, committed: &Committed) -> Vec<Event<'_>> {
    let id = EntityId::Message(id);
    let (role, is_draft) = (Role::Assistant, false);
    let mut events = vec![Event::TextMessageStart { timestamp, message_id: id, role, is_draft }];
    events.extend(text_end(timestamp, id, committed.body.as_ref(), 0));
    events
}

fn thought<'a>(timestamp: Timestamp, context: &Context<'_>, text: &'a str) -> Vec<Event<'a>> {
    // Reasoning outside an iteration would have no id; no worker writes it.
    let Some(message) = context.message.filter(|_| !text.is_empty()) else { return Vec::new() };
    let id = EntityId::Reasoning(message);
    let mut events = vec![Event::ReasoningMessageStart { timestamp, message_id: id, role: Role::Reasoning }];
    events.extend(reasoning_end(timestamp, id, text, 0));
    events
}

fn posted(timestamp: Timestamp, id: MessageId, committed: &Committed) -> Option<Event<'_>> {
    let body = committed.body.as_ref()?;
    let message = PostedMessage {
        id,
        source: body.source,
        message_type: body.message_type,
        content: body.content.as_str().into(),
        metadata: Some(&body.metadata).filter(|metadata| !metadata.is_null()).map(Cow::Borrowed),
        run_id: committed.run_id,
        seq: committed.seq,
        created_at: Time(committed.at),
    };
    Some(custom(timestamp, Fact::MessagePosted { message: Box::new(message) }))
}

fn tool_called<'a>(
    timestamp: Timestamp,
    cell: MessageId,
    call_id: &'a str,
    name: &'a str,
    input: &Value,
) -> Vec<Event<'a>> {
    let id = EntityId::Message(cell);
    let metadata = HoustonMetadata { call_id: Some(call_id.into()), ..Default::default() }.into();
    vec![
        Event::ToolCallStart { timestamp, tool_call_id: id, tool_call_name: name.into(), metadata },
        Event::ToolCallArgs { timestamp, tool_call_id: id, delta: input.to_string().into() },
        Event::ToolCallEnd { timestamp, tool_call_id: id },
    ]
}

fn error_shown(timestamp: Timestamp, id: MessageId, text: &str, metadata: &Value) -> Event<'static> {
    Event::ActivitySnapshot {
        timestamp,
        message_id: EntityId::Message(id),
        activity_type: ERROR_ACTIVITY.into(),
        content: Cow::Owned(ErrorMessage::client_fields(text, metadata)),
    }
}

/// The start and the end of a task in its parent's stream. The task has a run and a stream of its own, so the two
/// events follow each other directly, and no run ends with an open subagent.
fn task<'a>(
    timestamp: Timestamp,
    run: RunId,
    (name, call): (&'a str, Option<EntityId>),
    (task_id, status): (&'a str, Option<RunStatus>),
    (message, code): (Option<&'a str>, Option<&'a str>),
) -> Vec<Event<'a>> {
    let started = Event::SubagentStarted {
        timestamp,
        subagent_run_id: run,
        name: name.into(),
        parent_tool_call_id: call,
        metadata: HoustonMetadata { task_id: Some(task_id.into()), status, ..Default::default() }.into(),
    };
    let finished = |outcome| Event::SubagentFinished { timestamp, subagent_run_id: run, outcome };
    let ended = match status {
        None => finished(SubagentOutcome::Suspended),
        Some(status) if status.stop_reason(code).is_none() => finished(SubagentOutcome::Success),
        Some(status) => {
            let usual = match status {
                RunStatus::Cancelled => "The task was cancelled.",
                status if status.answers() => "The task was cut off.",
                _ => "The task failed.",
            };
            let message = message.or(status.notice()).unwrap_or(usual);
            Event::SubagentError {
                timestamp,
                subagent_run_id: run,
                message: message.into(),
                code: code.unwrap_or(status.as_str()).into(),
            }
        }
    };
    vec![started, ended]
}

fn step_start(timestamp: Timestamp, step: u32) -> Event<'static> {
    Event::StepStarted { timestamp, step_name: step_name(step) }
}

fn step_end(timestamp: Timestamp, context: &Context<'_>) -> Option<Event<'static>> {
    context.step.map(|step| Event::StepFinished { timestamp, step_name: step_name(step) })
}

fn step_name(step: u32) -> Cow<'static, str> {
    format!("iteration {step}").into()
}

/// How a run ended.
struct RunEnd<'a> {
    status: RunStatus,
    usage: &'a Usage,
    message: Option<&'a str>,
    code: Option<&'a str>,
    /// The answer, if a form was asked for.
    value: Option<&'a Value>,
}

fn run_end<'a>(
    timestamp: Timestamp,
    context: &Context<'a>,
    committed: &Committed,
    RunEnd { status, usage, message, code, value }: RunEnd<'a>,
) -> Event<'a> {
    let (cost, usage) = (usage.cost.map(|cost| cost.normalize()), TokenUsage::of(usage));
    let outcome = match status {
        RunStatus::Failed | RunStatus::DeadLettered => {
            let code = code.unwrap_or(status.as_str());
            let text = status.notice().unwrap_or_else(|| user_text(code)).into();
            let cause = |cause: &'a str| HoustonMetadata { cause: Some(cause.into()), ..Default::default() };
            let metadata = message.map(|message| cause(message).into());
            return Event::RunError { timestamp, message: text, code: code.into(), usage, metadata };
        }
        RunStatus::Cancelled => Outcome::Cancelled,
        _ => Outcome::Success,
    };
    let (thread_id, run_id) = (context.thread.into(), committed.run_id);
    let cancelled_by = code.filter(|_| status == RunStatus::Cancelled).map(Into::into);
    let stop_reason = status.stop_reason(code).map(Cow::from);
    let output = value.map(Cow::Borrowed);
    let result = RunResult { status, cancelled_by, stop_reason, cost, output };
    Event::RunFinished { timestamp, thread_id, run_id, result, outcome, usage }
}

/// Source and metadata of a message; `None` for a message of an agent without metadata.
fn message_metadata(body: &MessageBody) -> Option<Metadata<'_>> {
    let source = Some(body.source).filter(|source| *source != Source::Agent);
    let has_any = match &body.metadata {
        Value::Null => false,
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    };
    let metadata = Some(&body.metadata).filter(|_| has_any).map(Cow::Borrowed);
    (source.is_some() || metadata.is_some())
        .then(|| HoustonMetadata { source, metadata, ..Default::default() }.into())
}

/// The `CUSTOM` event for `event`; `None` if it is rendered otherwise.
fn fact(timestamp: Timestamp, event: &Durable) -> Option<Event<'_>> {
    let fact = match event {
        // The worker let go of the run.
        Durable::RetryScheduled { attempt, of, retry_at, code, message, .. } => Fact::RetryScheduled {
            attempt: *attempt,
            of: *of,
            retry_at: Time(*retry_at),
            code: code.into(),
            message: user_text(code).into(),
            cause: message.into(),
        },
        Durable::RateLimited { retry_at } => Fact::RateLimited { retry_at: Time(*retry_at) },
        Durable::RunWaiting { until, .. } => Fact::RunWaiting { until: until.map(Time) },
        Durable::HandedOver { iteration } => Fact::HandedOver { iteration: *iteration },
        // Questions.
        Durable::QuestionAsked(question) => Fact::QuestionAsked {
            question_id: question.id,
            kind: question.kind,
            subject: question.subject.as_deref().map(Into::into),
            text: question.text.as_str().into(),
            schema: question.schema.as_ref().map(Cow::Borrowed),
            default_value: question.default_value.as_ref().map(Cow::Borrowed),
            expires_at: question.expires_at.map(Time),
            approval: question.approval.as_deref().map(|approval| Box::new(approval.clone().into())),
        },
        Durable::QuestionClosed(closed) => Fact::QuestionClosed {
            question_id: closed.id,
            state: closed.state,
            answer: closed.answer.as_ref().map(Cow::Borrowed),
        },
        // Which model or agent answers.
        Durable::ModelFallback { from, to, code, message } => Fact::ModelFallback {
            from: from.into(),
            to: to.into(),
            code: code.into(),
            message: message.into(),
        },
        Durable::TeamRouted { team_id, agent_id, agent_name, by, reason } => Fact::TeamRouted {
            team_id: *team_id,
            agent_id: *agent_id,
            agent_name: agent_name.into(),
            by: *by,
            reason: reason.into(),
        },
        // What the model is sent of the past.
        Durable::SessionArchived { session_id, number, reason, started_at, completed_at } => {
            Fact::SessionArchived {
                session_id: *session_id,
                number: *number,
                completion_reason: *reason,
                started_at: Time(*started_at),
                completed_at: Time(*completed_at),
            }
        }
        Durable::Analysed { strategy, operations } => {
            Fact::Analysis { strategy: strategy.as_str().into(), operations: *operations }
        }
        Durable::ContextShifted { from, to } => Fact::ContextShifted { from: from.clone(), to: to.clone() },
        Durable::ContextCompressed {
            reason,
            entries_before,
            entries_after,
            tokens_before,
            tokens_after,
            model,
            ..
        } => Fact::ContextCompressed {
            reason: *reason,
            entries_before: *entries_before,
            entries_after: *entries_after,
            tokens_before: *tokens_before,
            tokens_after: *tokens_after,
            model: model.as_deref().map(Into::into),
        },
        _ => return None,
    };
    Some(custom(timestamp, fact))
}

/// The AG-UI events for an event of a plan; none for another event.
fn plan(timestamp: Timestamp, event: &Durable) -> Vec<Event<'_>> {
    let reported = plan_fact(event).map(|fact| custom(timestamp, fact));
    reported.into_iter().chain(plan_steps(timestamp, event)).collect()
}

/// What happened to a plan as a whole, or, in its own stream, to a step.
fn plan_fact(event: &Durable) -> Option<Fact<'_>> {
    Some(match event {
        Durable::PlanCreated { plan_id, goal, .. } => {
            Fact::PlanCreated { plan_id: plan_id.into(), goal: goal.into() }
        }
        Durable::PlanChanged { plan_id, version, reason, .. } => {
            Fact::PlanChanged { plan_id: plan_id.into(), version: *version, reason: reason.into() }
        }
        Durable::PlanEnded { plan_id, status, code, message, .. } => Fact::PlanEnded {
            plan_id: plan_id.into(),
            status: *status,
            code: code.as_deref().map(Cow::from),
            message: message.as_deref().map(Cow::from),
        },
        Durable::PlanStepStarted { path, title, step, attempt, task_id } => Fact::PlanStepStarted {
            path: path.into(),
            title: title.into(),
            step: step.into(),
            attempt: *attempt,
            task_id: task_id.as_deref().map(Into::into),
        },
        Durable::PlanStepFinished { path, status } => {
            Fact::PlanStepFinished { path: path.into(), status: status.into() }
        }
        Durable::PlanStepFailed { path, code, message, retry_at } => Fact::PlanStepFailed {
            path: path.into(),
            code: code.into(),
            message: message.into(),
            retry_at: retry_at.map(Time),
        },
        _ => return None,
    })
}

/// The list of steps: whole, or what changed in it.
fn plan_steps(timestamp: Timestamp, event: &Durable) -> Option<Event<'_>> {
    let whole = |plan_id: &str, content| plan_snapshot(timestamp, plan_id, content);
    match event {
        Durable::PlanCreated { plan_id, checklist, .. }
        | Durable::PlanChanged { plan_id, checklist, .. }
        | Durable::PlanEnded { plan_id, checklist, .. }
        | Durable::PlanProgress { plan_id, checklist: Some(checklist), .. } => whole(plan_id, checklist),
        Durable::PlanProgress { plan_id, delta, .. } if !delta.is_empty() => Some(Event::ActivityDelta {
            timestamp,
            message_id: EntityId::of_plan(plan_id)?,
            activity_type: PLAN_ACTIVITY.into(),
            patch: delta.into(),
        }),
        _ => None,
    }
}

fn plan_snapshot<'a>(timestamp: Timestamp, plan_id: &str, content: &'a Value) -> Option<Event<'a>> {
    // Postgres stores fields in an order of its own: the same list is the same bytes, wherever the event comes from.
    let in_order = Checklist::deserialize(content).and_then(serde_json::to_value);
    Some(Event::ActivitySnapshot {
        timestamp,
        message_id: EntityId::of_plan(plan_id)?,
        activity_type: PLAN_ACTIVITY.into(),
        content: in_order.map_or(Cow::Borrowed(content), Cow::Owned),
    })
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use houston_domain::id::RunId;
    use houston_domain::run::RunStatus;
    use serde_json::json;

    use super::*;

    #[test]
    fn model_fallback_names_both_models_and_the_reason() {
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

    const PLAN: &str = "plan_00000000000000000000000000000007";

    fn rendered(event: &Durable) -> Value {
        serde_json::to_value(plan(Some(5), event)).unwrap()
    }

    #[test]
    fn list_of_steps_is_an_activity_with_the_plans_id() {
        let list = json!({"status": "running", "steps": []});
        let activity = json!({"type": "ACTIVITY_SNAPSHOT", "timestamp": 5, "messageId": PLAN, "activityType": "houston.plan",
            "content": list});
        let (plan_id, checklist) = (PLAN.to_owned(), list);
        let created = Durable::PlanCreated {
            plan_id: plan_id.clone(),
            goal: "go".into(),
            checklist: checklist.clone(),
        };
        let reported = |name: &str, value: Value| json!({"type": "CUSTOM", "timestamp": 5, "name": name, "value": value});
        assert_eq!(
            rendered(&created),
            json!([reported("houston.plan.created", json!({"plan_id": PLAN, "goal": "go"})), activity])
        );
        let changed = Durable::PlanChanged {
            plan_id: plan_id.clone(),
            version: 2,
            reason: "`a` failed".into(),
            checklist: checklist.clone(),
        };
        assert_eq!(
            rendered(&changed),
            json!([
                reported(
                    "houston.plan.changed",
                    json!({"plan_id": PLAN, "version": 2, "reason": "`a` failed"})
                ),
                activity
            ])
        );
        let ended = Durable::PlanEnded {
            plan_id: plan_id.clone(),
            status: RunStatus::Failed,
            code: Some("TIMEOUT".into()),
            message: None,
            checklist: checklist.clone(),
        };
        assert_eq!(
            rendered(&ended),
            json!([
                reported(
                    "houston.plan.ended",
                    json!({"plan_id": PLAN, "status": "failed", "code": "TIMEOUT"})
                ),
                activity
            ])
        );
        let again =
            Durable::PlanProgress { plan_id: plan_id.clone(), delta: Vec::new(), checklist: Some(checklist) };
        assert_eq!(rendered(&again), json!([activity]));
        let patch = vec![json!({"op": "replace", "path": "/done", "value": 1})];
        let got_on = Durable::PlanProgress { plan_id, delta: patch.clone(), checklist: None };
        assert_eq!(
            rendered(&got_on),
            json!([{"type": "ACTIVITY_DELTA", "timestamp": 5, "messageId": PLAN, "activityType": "houston.plan",
                "patch": patch}])
        );
    }

    #[test]
    fn steps_in_the_plans_own_stream_are_custom() {
        let started = Durable::PlanStepStarted {
            path: "each[1].read".into(),
            title: "Read".into(),
            step: "task".into(),
            attempt: 2,
            task_id: None,
        };
        let failed = Durable::PlanStepFailed {
            path: "find".into(),
            code: "TIMEOUT".into(),
            message: "too long".into(),
            retry_at: None,
        };
        let finished = Durable::PlanStepFinished { path: "find".into(), status: "skipped".into() };
        let all = [started, failed, finished].map(|event| rendered(&event)[0]["name"].clone());
        assert_eq!(
            all,
            ["houston.plan.step.started", "houston.plan.step.failed", "houston.plan.step.finished"]
        );
    }
}
