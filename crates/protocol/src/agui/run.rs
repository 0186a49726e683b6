//! How runs and tasks end; and interrupts: the questions for which a run waits, as AG-UI has them.

use std::borrow::Cow;

use houston_domain::id::QuestionId;
use houston_domain::model::Usage;
use houston_domain::question::input::CLIENT_PREFIX;
use houston_domain::question::{NewQuestion, QuestionKind, budget, pause};
use houston_domain::run::RunStatus;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::EntityId;
use crate::question::CallToApprove;
use crate::time::Time;

/// How a run ended: the `result` of `RUN_FINISHED`.
///
/// ```json
/// {"status": "cancelled", "cancelled_by": "user", "stop_reason": "user", "cost": "0.0012"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RunResult<'a> {
    /// The final status of the run.
    pub status: RunStatus,
    /// For a cancelled run: who requested it. After `rollback`, its messages are rolled back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancelled_by: Option<Cow<'a, str>>,
    /// What stopped the run (a stop rule, `content_filter`, who cancelled it); absent if its agent had
    /// finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<Cow<'a, str>>,
    /// Known cost in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Decimal>))]
    pub cost: Option<Decimal>,
    /// The answer as a value, if a form was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub output: Option<Cow<'a, Value>>,
}

/// The outcome of a run that did not fail: `{"type": "success"}`, `{"type": "cancelled"}`, or what a waiting run needs:
///
/// ```json
/// {"type": "interrupt", "interrupts": [{"id": "question_0190…", "reason": "tool_call", "message": "May I delete all notes?"}]}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Outcome<'a> {
    Success,
    Cancelled,
    /// The run waits for answers; an AG-UI run with `resume` gives them.
    Interrupt {
        interrupts: Vec<Interrupt<'a>>,
    },
}

impl Outcome<'_> {
    /// Leaves out the calls of the client's own tools; without any other interrupt the run has ended with success.
    pub fn leave_out_client_calls(&mut self) {
        if let Self::Interrupt { interrupts } = self {
            interrupts.retain(|interrupt| !interrupt.is_client_call());
            if interrupts.is_empty() {
                *self = Self::Success;
            }
        }
    }
}

/// The outcome of a task: `{"type": "success"}` or `{"type": "suspended"}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SubagentOutcome {
    /// It was completed.
    Success,
    /// It continues beyond this run.
    Suspended,
}

/// Tokens of a run.
///
/// ```json
/// {"inputTokens": 900, "outputTokens": 40, "totalTokens": 940, "cachedInputTokens": 700}
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TokenUsage {
    /// Tokens sent, cached or not.
    pub input_tokens: u64,
    /// Tokens received, including reasoning.
    pub output_tokens: u64,
    /// The sum of input and output tokens.
    pub total_tokens: u64,
    /// Output tokens that were spent on reasoning; absent if 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reasoning_tokens: u64,
    /// Input tokens that were read from the provider's cache; absent if 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached_input_tokens: u64,
    /// Input tokens that were written to the provider's cache; absent if 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write_input_tokens: u64,
}

fn is_zero(tokens: &u64) -> bool {
    *tokens == 0
}

impl TokenUsage {
    /// The usage of a run; `None` if no model was called.
    pub fn of(usage: &Usage) -> Option<[Self; 1]> {
        (*usage != Usage::default()).then(|| {
            [Self {
                input_tokens: usage.input_tokens,
                output_tokens: usage.output_tokens,
                total_tokens: usage.input_tokens + usage.output_tokens,
                reasoning_tokens: usage.reasoning_tokens,
                cached_input_tokens: usage.cache_read_tokens,
                cache_write_input_tokens: usage.cache_write_tokens,
            }]
        })
    }
}

/// A question for which a run waits.
///
/// ```json
/// {"id": "question_0190…", "reason": "tool_call", "message": "Delete note: it deletes something for good. Allow it?",
///  "toolCallId": "msg_0190…", "responseSchema": {"type": "object"}, "expiresAt": "2026-11-23T09:00:00.000Z",
///  "metadata": {"houston": {"kind": "approval", "subject": "call_1", "approval": {"tool": "delete_note",
///  "input": {"note_id": "note_0190…"}, "why": "it deletes something for good", "message_id": "msg_0190…"}}}}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Interrupt<'a> {
    pub id: QuestionId,
    /// `tool_call`, `confirmation`, `input_required`, `houston:pause` or `houston:budget`.
    pub reason: Cow<'a, str>,
    /// The text for people.
    pub message: Cow<'a, str>,
    /// For `tool_call`: the call that waits, for a person's yes or for the client to carry it out. For `input_required` of a tool call: the call that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<EntityId>,
    /// The JSON Schema of the payload that answers; absent: any JSON value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson, required = false))]
    pub response_schema: Option<Cow<'a, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    pub metadata: InterruptMetadata<'a>,
}

/// Houston's additions to an interrupt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct InterruptMetadata<'a> {
    pub houston: InterruptDetails<'a>,
}

/// What else is stored about the question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct InterruptDetails<'a> {
    pub kind: QuestionKind,
    /// What it is about, such as the id of a tool call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Cow<'a, str>>,
    /// The answer that holds if no answer comes in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson, required = false))]
    pub default_value: Option<Cow<'a, Value>>,
    /// The tool call that an approval is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<CallToApprove>,
}

impl Interrupt<'_> {
    /// Whether it is a call of a tool that the client itself carries out.
    pub fn is_client_call(&self) -> bool {
        let InterruptDetails { subject, approval, .. } = &self.metadata.houston;
        approval.is_none() && subject.as_deref().is_some_and(|subject| subject.starts_with(CLIENT_PREFIX))
    }
}

impl<'a> From<&'a NewQuestion> for Interrupt<'a> {
    fn from(question: &'a NewQuestion) -> Self {
        let approval = question.approval.as_deref();
        Self {
            id: question.id,
            reason: reason(question).into(),
            message: question.text.as_str().into(),
            tool_call_id: approval
                .and_then(|approval| approval.message_id)
                .or(question.message_id)
                .map(EntityId::Message),
            response_schema: response_schema(question),
            expires_at: question.expires_at.map(Time),
            metadata: InterruptMetadata {
                houston: InterruptDetails {
                    kind: question.kind,
                    subject: question.subject.as_deref().map(Into::into),
                    default_value: question.default_value.as_ref().map(Cow::Borrowed),
                    approval: approval.cloned().map(Into::into),
                },
            },
        }
    }
}

/// The schema of the payload; AG-UI has objects only. That of a call of the client's own tool is its result, whatever it is.
fn response_schema(question: &NewQuestion) -> Option<Cow<'_, Value>> {
    if question.is_client_call() {
        return Some(Cow::Owned(json!({"description": "The result of the call."})));
    }
    question.schema.as_ref().filter(|schema| schema.is_object()).map(Cow::Borrowed)
}

fn reason(question: &NewQuestion) -> &'static str {
    let begins =
        |prefix: &str| question.subject.as_deref().is_some_and(|subject| subject.starts_with(prefix));
    let is_of_thread = question.approval.as_ref().is_some_and(|approval| approval.message_id.is_some());
    match question.kind {
        QuestionKind::Approval if is_of_thread => "tool_call",
        QuestionKind::Approval if begins(pause::PREFIX) => "houston:pause",
        QuestionKind::Approval => "confirmation",
        QuestionKind::Input if question.is_client_call() => "tool_call",
        QuestionKind::Input => "input_required",
        QuestionKind::Budget if begins(budget::PREFIX) => "houston:budget",
        QuestionKind::Budget => "confirmation",
    }
}
