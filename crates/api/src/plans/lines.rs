//! The steps of a plan in the order of its document, those of loops for each turn.

use std::collections::HashMap;

use houston_domain::plan::{Document, Step, listed};
use houston_protocol::plan::{PlanStepError, PlanStepResponse};
use houston_protocol::time::Time;
use houston_store::plan::PlanStep;
use serde_json::Value;

/// How many steps are listed with a plan itself.
const LISTED: usize = 200;
/// Length of a result that is listed with a plan itself, in characters.
const BEGINNING: usize = 400;

/// A step, with its state.
pub(super) struct Line<'p> {
    pub(super) path: String,
    step: &'p Step,
    row: Option<&'p PlanStep>,
}

/// All steps.
pub(super) fn lines<'p>(document: &'p Document, rows: &'p [PlanStep]) -> Vec<Line<'p>> {
    let rows: HashMap<&str, &PlanStep> = rows.iter().map(|row| (row.path.as_str(), row)).collect();
    let turns = |path: &str| rows.get(path).map_or(0, |row| row.state.turns.len());
    let steps = listed(document, turns).into_iter();
    steps.map(|(path, step)| Line { row: rows.get(path.as_str()).copied(), path, step }).collect()
}

/// The first steps, with the beginnings of their results.
pub(super) fn beginnings(document: &Document, rows: &[PlanStep]) -> Vec<PlanStepResponse> {
    lines(document, rows).iter().take(LISTED).map(|line| line.response(BEGINNING)).collect()
}

impl Line<'_> {
    /// The response, with at most so many characters of the result.
    pub(super) fn response(&self, longest: usize) -> PlanStepResponse {
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
            error: state.error.map(|error| PlanStepError { code: error.code, message: error.message }),
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
