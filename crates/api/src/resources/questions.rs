//! `/v1/questions`: what runs ask people. An answer wakes the run.

use houston_domain::id::QuestionId;
use houston_domain::question::approval;
use houston_domain::question::{MAX_ANSWERED_BY_CHARS, Question, QuestionKind, QuestionState};
use houston_domain::storable::storable_value;
use houston_protocol::question::{AnswerQuestion, ApprovalLink, CreateApprovalLink, QuestionResponse};
use houston_store::TenantStore;
use houston_store::answer::{Answered, AskedQuestion};
use serde_json::Value;

use crate::request::agentable_path::Owner;
use crate::request::prelude::*;
use crate::request::query::id;

endpoints! {
    get "/v1/questions" for NAMED => list,
    "list_questions" in "questions": "List open questions of the tenant or of one user, newest first.",
    params(
        ("user_id" = Option<UserId>, Query, description = "Only questions of this user's agents."),
        ("kind" = Option<houston_domain::question::QuestionKind>, Query, description = "Only questions of this kind; `approval`: calls that a person must allow, and paused runs."),
        Paged,
    ),
    200 "A page of open questions." [Page<houston_protocol::question::QuestionResponse>];

    get "/v1/questions/{id}" for ROW =>
        async |ctx: Ctx, Id(id): Id<QuestionId>| found(ctx.store().question(id).await.map(response)),
    "get_question" in "questions": "Get a question.",
    200 "The question." [houston_protocol::question::QuestionResponse];

    post "/v1/questions/{id}/answer" for ROW => answer,
    "answer_question" in "questions": "Answer a question; its run goes on.",
    body [AnswerQuestion],
    200 "The question with the answer. The same answer again is no error." [houston_protocol::question::QuestionResponse],
    409 "`question_closed`: it was answered otherwise, has expired, or is not asked any more.";

    post "/v1/questions/{id}/links" for ROW => create_link,
    "create_approval_link" in "questions": "Make a link with which a person decides an open question without an API key.",
    body [CreateApprovalLink],
    201 "The link. Only its hash is stored, so it cannot be read again." [ApprovalLink],
    409 "`question_closed`: it is not open any more; `full`: it has the maximum number of links.";
}

/// The query: page parameters, a user and a kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Filter {
    user_id: Option<String>,
    kind: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
}

async fn list(ctx: Ctx, Query(query): Query<Filter>) -> Result<impl IntoResponse> {
    let Filter { user_id, kind, limit, cursor } = query;
    let user = ctx.caller.list_of(id("user_id", user_id.as_deref())?)?;
    let kind = kind
        .map(|name| {
            let unknown = || ApiError::parameter("kind", "must be approval, input or budget".to_owned());
            QuestionKind::from_name(&name).ok_or_else(unknown)
        })
        .transpose()?;
    let page = PageQuery { limit, cursor };
    let (limit, before) = (page.limit()?, page.id(List::Questions)?.map(Into::into));
    let questions = ctx.store().open_questions(user, kind, before, rows(limit)).await?;
    Ok(Json(Page::of(List::Questions, limit, questions, |row| row.question.asked.id.0.as_u128(), response)))
}

/// Of several answers at once one is accepted.
async fn answer(
    ctx: Ctx,
    Id(id): Id<QuestionId>,
    // A repeated answer is recognised without the Idempotency-Key, which is ignored.
    Sent(AnswerQuestion { answer, answered_by }): Sent<AnswerQuestion>,
) -> Result<impl IntoResponse> {
    if let Some(name) = &answered_by {
        check_line("/answered_by", name, MAX_ANSWERED_BY_CHARS)?;
    }
    let mut storable = answer.clone();
    storable_value(&mut storable);
    ensure!(storable == answer, ApiError::field("/answer", "must not contain the character U+0000"));
    let store = ctx.store();
    // The schema of a question never changes.
    let asked = store.question(id).await?;
    let question = asked.question.asked;
    question.check_answer(&answer).map_err(|wrong| wrong.below("/answer"))?;
    if question.is_client_call() {
        // The client had chosen the function for this call; without this, its run would have to call it again.
        store.release_client_choice(asked.agentable).await?;
    }
    let asked = match accept(&ctx, store, id, &answer, answered_by.as_deref()).await? {
        Answered::Now(asked) => asked,
        Answered::Closed(asked) if asked.question.answer.as_ref() == Some(&answer) => asked,
        Answered::Closed(asked) => return Err(closed_otherwise(asked)),
    };
    Ok(Json(response(asked)))
}

async fn create_link(
    ctx: Ctx,
    Id(id): Id<QuestionId>,
    // Each request makes a link, with the Idempotency-Key as well: the first one cannot be shown again.
    Sent(CreateApprovalLink { answered_by }): Sent<CreateApprovalLink>,
) -> Result<impl IntoResponse> {
    if let Some(name) = &answered_by {
        check_line("/answered_by", name, MAX_ANSWERED_BY_CHARS)?;
    }
    let store = ctx.store();
    let asked = store.question(id).await?;
    ensure!(asked.question.state == QuestionState::Open, closed_otherwise(asked));
    if asked.question.asked.plain_answer(true, None).is_none() {
        let reason =
            format!("needs another answer than yes or no; POST /v1/questions/{id}/answer answers it");
        return Err(ApiError::parameter("id", reason));
    }
    let token = approval::link_token(&ctx.state.ids);
    store.create_approval_link(id, &token, answered_by.as_deref()).await?;
    let expires_at = asked.question.asked.expires_at.map(Time);
    Ok((
        StatusCode::CREATED,
        Json(ApprovalLink { path: approval::link_path(id, &token), answered_by, expires_at }),
    ))
}

/// Answers a question, and wakes its run if the answer counts.
pub(crate) async fn accept(
    app: &App,
    store: TenantStore<'_>,
    id: QuestionId,
    answer: &Value,
    by: Option<&str>,
) -> Result<Answered> {
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
