//! `/v1/plans/{id}/steps`: the steps of a plan in the order of its document, those of loops for each turn, with their results; and
//! what people do to single steps.

use std::collections::HashMap;

use houston_domain::plan::{ByHandError, Document, MAX_RESULT, States, Step, repeat, skip as skip_step};
use houston_protocol::plan::{PlanResponse, PlanStepResponse};
use houston_protocol::problem::ProblemCode;
use houston_store::plan::{PlanStep, StepsChange};
use serde_json::Value;

use crate::request::prelude::*;
use crate::resources::plans::{PlanPath, StepPath, listed, refused, tell};

endpoints! {
    get "/v1/plans/{id}/steps" for ROW => list,
    "list_plan_steps" in "plans": "List the steps of a plan in the order of its document, those of loops for each turn so far.",
    params(Paged),
    200 "A page of steps, with up to 16 KiB of each result." [Page<houston_protocol::plan::PlanStepResponse>];

    post "/v1/plans/{id}/steps/{path}/retry" for ROW => retry,
    "retry_plan_step" in "plans": "Repeat a step that failed or was cancelled, with the steps that were skipped because of it; or do not wait for its next attempt.",
    params(("path" = String, Path, description = "Path of the step.", example = "each[2].read")),
    200 "The plan." [PlanResponse],
    409 "`invalid_state`: the plan has ended. `invalid_step_status`: the step did not fail.";

    post "/v1/plans/{id}/steps/{path}/skip" for ROW => skip,
    "skip_plan_step" in "plans": "Skip a step that does not run and has no result: the plan goes on as if it were not needed.",
    params(("path" = String, Path, description = "Path of the step.", example = "each[2].read")),
    200 "The plan." [PlanResponse],
    409 "`invalid_state`: the plan has ended. `invalid_step_status`: the step runs, or has a result.";
}

async fn list(ctx: Ctx, PlanPath(id): PlanPath, query: PageQuery) -> Result<impl IntoResponse> {
    let (limit, after) = (query.limit()?, query.text(List::PlanSteps)?);
    let plan = ctx.store().plan(id).await?;
    let rows = ctx.store().plan_steps(&[id]).await?.into_iter().map(|(_, step)| step).collect::<Vec<_>>();
    let document = plan.read()?;
    let all = lines(&document, &rows);
    // The document may have been changed since: then the step before the page may be gone.
    let start = match &after {
        None => 0,
        Some(path) => all.iter().position(|line| line.path == *path).ok_or(ApiError::InvalidCursor)? + 1,
    };
    let page: Vec<Line<'_>> = all.into_iter().skip(start).take(limit + 1).collect();
    let position = |line: &Line<'_>| HexText(line.path.clone());
    Ok(Json(Page::of(List::PlanSteps, limit, page, position, |line| line.response(MAX_RESULT))))
}

async fn retry(ctx: Ctx, plan: PlanPath, StepPath(path): StepPath) -> Result<Json<PlanResponse>> {
    let now = ctx.now();
    change(&ctx, plan, |document, states| repeat(document, states, &path, now)).await
}

async fn skip(ctx: Ctx, plan: PlanPath, StepPath(path): StepPath) -> Result<Json<PlanResponse>> {
    change(&ctx, plan, |document, states| skip_step(document, states, &path)).await
}

async fn change(
    ctx: &Ctx,
    PlanPath(id): PlanPath,
    rule: impl Fn(&Document, &States) -> Result<StepsChange, ByHandError>,
) -> Result<Json<PlanResponse>> {
    let plan = ctx.store().plan(id).await?;
    let done = ctx.store().change_plan_steps(id, rule).await?;
    done.map_err(|refusal| {
        refused(refusal, |error| match error {
            ByHandError::Unknown => ApiError::NotFound("step of the plan"),
            ByHandError::Status(reason) => ApiError::Refused(ProblemCode::InvalidStepStatus, reason),
        })
    })?;
    tell(ctx, &plan);
    listed(ctx, id).await
}

/// How many steps are listed with a plan itself.
const LISTED: usize = 200;
/// Length of a result that is listed with a plan itself, in characters.
const BEGINNING: usize = 400;

/// A step, with its state.
struct Line<'p> {
    path: String,
    step: &'p Step,
    row: Option<&'p PlanStep>,
}

/// All steps.
fn lines<'p>(document: &'p Document, rows: &'p [PlanStep]) -> Vec<Line<'p>> {
    let rows: HashMap<&str, &PlanStep> = rows.iter().map(|row| (row.path.as_str(), row)).collect();
    let turns = |path: &str| rows.get(path).map_or(0, |row| row.state.turns.len());
    let steps = houston_domain::plan::listed(document, turns).into_iter();
    steps.map(|(path, step)| Line { row: rows.get(path.as_str()).copied(), path, step }).collect()
}

/// The first steps, with the beginnings of their results.
pub(super) fn beginnings(document: &Document, rows: &[PlanStep]) -> Vec<PlanStepResponse> {
    lines(document, rows).iter().take(LISTED).map(|line| line.response(BEGINNING)).collect()
}

impl Line<'_> {
    /// The response, with at most so many characters of the result.
    fn response(&self, longest: usize) -> PlanStepResponse {
        let state = self.row.map(|row| row.state.clone()).unwrap_or_default();
        let (result, is_cut) = cut(state.result, longest);
        PlanStepResponse {
            path: self.path.clone(),
            title: self.step.title.clone(),
            kind: self.step.action.kind().to_owned(),
            status: state.status.as_str().to_owned(),
            attempt: state.attempt,
            result,
            is_cut,
            error: state.error,
            due_at: state.due.map(Time),
            task_id: self.row.and_then(|row| row.task.as_ref()).map(|(kind, id)| id.public_id(kind)),
            question_id: self.row.and_then(|row| row.question),
            started_at: self.row.and_then(|row| row.started_at).map(Time),
            ended_at: self.row.and_then(|row| row.ended_at).map(Time),
        }
    }
}

/// A result; a longer one as the beginning of its text or JSON.
fn cut(result: Value, longest: usize) -> (Option<Value>, bool) {
    if result.is_null() {
        return (None, false);
    }
    let text = match &result {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match text.char_indices().nth(longest) {
        Some((at, _)) => (Some(Value::String(text[..at].to_owned())), true),
        None => (Some(result), false),
    }
}

#[cfg(test)]
mod tests {
    use houston_domain::plan::{Offer, State, Status};
    use serde_json::json;

    use super::*;

    #[test]
    fn steps_have_the_order_of_the_document_and_loops_their_turns() {
        let document = json!({"v": 1, "goal": "g", "steps": [
            {"id": "z", "type": "llm", "prompt": "p"},
            {"id": "each", "type": "loop", "over": "z.result", "as": "item", "max": 3, "steps": [
                {"id": "read", "type": "llm", "prompt": "{{ item }}"}]},
            {"id": "if", "type": "condition", "if": "1", "then": [{"id": "a", "type": "llm", "prompt": "p"}]}]});
        let document = Document::parse(&document.to_string(), Offer { tools: &[], steps: 10 }).unwrap();
        let row = |path: &str, state| PlanStep {
            path: path.to_owned(),
            state,
            task: None,
            question: None,
            started_at: None,
            ended_at: None,
        };
        let looped = State { status: Status::Running, turns: vec![json!(1), json!(2)], ..State::default() };
        let long = State { status: Status::Succeeded, result: json!("ä".repeat(500)), ..State::default() };
        let rows = [row("z", long), row("each", looped)];
        let listed = beginnings(&document, &rows);
        let paths: Vec<&str> = listed.iter().map(|step| step.path.as_str()).collect();
        assert_eq!(paths, ["z", "each", "each[0].read", "each[1].read", "if", "if.a"]);
        assert_eq!((listed[0].is_cut, listed[0].result.clone()), (true, Some(json!("ä".repeat(400)))));
        assert_eq!((listed[2].status.as_str(), listed[2].is_cut), ("pending", false));
    }
}
