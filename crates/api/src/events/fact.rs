//! `CUSTOM` events for what happens in a run besides messages and tool calls: model fallback, routing, compression,
//! retries, waits, questions, …

use std::borrow::Cow;

use houston_domain::error_message::user_text;
use houston_domain::event::Event as Durable;
use houston_protocol::agui::{Event, Fact, Timestamp};
use houston_protocol::time::Time;

/// The `CUSTOM` event for `event`; `None` if it is rendered otherwise.
pub(crate) fn fact(timestamp: Timestamp, event: &Durable) -> Option<Event<'_>> {
    let fact =
        let_go(event).or_else(|| asked(event)).or_else(|| answered_by(event)).or_else(|| past(event))?;
    Some(Event::Custom { timestamp, fact })
}

/// The worker let go of the run.
fn let_go(event: &Durable) -> Option<Fact<'_>> {
    Some(match event {
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
        _ => return None,
    })
}

/// Questions.
fn asked(event: &Durable) -> Option<Fact<'_>> {
    Some(match event {
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
        _ => return None,
    })
}

/// Which model or agent answers.
fn answered_by(event: &Durable) -> Option<Fact<'_>> {
    Some(match event {
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
        _ => return None,
    })
}

/// What the model is sent of the past.
fn past(event: &Durable) -> Option<Fact<'_>> {
    Some(match event {
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
    })
}
