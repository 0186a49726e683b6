//! `/v1/questions`: what runs ask people. An answer wakes the run.

pub(crate) mod answer;
pub(crate) mod get;
pub(crate) mod link;
pub(crate) mod list;

use houston_domain::id::QuestionId;
use houston_domain::question::{Question, QuestionState};
use houston_protocol::question::QuestionResponse;
use houston_protocol::time::Time;
use houston_store::TenantStore;
use houston_store::answer::{Answered, AskedQuestion};
use serde_json::Value;

use crate::agentable_path::Owner;
use crate::error::ApiError;
use crate::state::App;

/// Answers a question, and wakes its run if the answer counts.
///
/// # Errors
/// The store's.
pub(crate) async fn accept(
    app: &App,
    store: TenantStore<'_>,
    id: QuestionId,
    answer: &Value,
    by: Option<&str>,
) -> Result<Answered, ApiError> {
    let answered = store.answer_question(id, answer, by).await?;
    if let Answered::Now(asked) = &answered {
        app.publish_nudge(asked.agentable);
        app.send_hint(asked.agentable, app.urgency(&asked.kind));
    }
    Ok(answered)
}

/// Why an answer to a question that is closed does not count.
pub(crate) fn closed_otherwise(asked: AskedQuestion) -> ApiError {
    let (id, state) = (asked.question.asked.id, asked.question.state);
    let answer = asked.question.answer.filter(|_| state == QuestionState::Answered);
    ApiError::QuestionClosed { id, state, answer }
}

/// The response for a question.
pub(crate) fn response(asked: AskedQuestion) -> QuestionResponse {
    let AskedQuestion { question, user, agentable, kind, run } = asked;
    let Question { asked, state, answer, answered_by, created_at, closed_at } = question;
    QuestionResponse {
        id: asked.id,
        owner: Owner { kind, id: agentable },
        user_id: user,
        run_id: run,
        kind: asked.kind,
        subject: asked.subject,
        text: asked.text,
        schema: asked.schema,
        default_value: asked.default_value,
        expires_at: asked.expires_at.map(Time),
        state,
        answer,
        answered_by,
        created_at: Time(created_at),
        closed_at: closed_at.map(Time),
        approval: asked.approval.map(|approval| (*approval).into()),
    }
}
