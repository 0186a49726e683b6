//! The list of a plan's steps as lines of text.

use houston_domain::plan::{Checklist, Line, LineStatus};
use houston_domain::run::RunStatus;
use serde::Deserialize as _;
use serde_json::Value;

use super::output::one_line;

/// Most lines of a list that changes in place.
const MOST_LINES: usize = 12;

/// The list in a document of the API; `None`: it has another shape.
pub(crate) fn of(content: &Value) -> Option<Checklist> {
    Checklist::deserialize(content).ok()
}

/// What the plan is for, and how far it is.
pub(crate) fn head(list: &Checklist) -> String {
    let goal = one_line(&list.goal);
    match list.status.as_str() {
        "queued" | "running" | "waiting" => format!("plan: {goal} ({} of {})", list.done, list.of),
        status => format!("plan: {goal} ({status}, {} of {})", list.done, list.of),
    }
}

/// A step: how far it is, its title, and what there is to say about that.
pub(crate) fn line(line: &Line) -> String {
    let mark = match line.status {
        LineStatus::Pending => '○',
        LineStatus::Running => '◐',
        LineStatus::Waiting => '?',
        LineStatus::Done => '✓',
        LineStatus::Failed => '✗',
        LineStatus::Skipped => '–',
    };
    let detail = line.detail.as_deref().map(one_line);
    let waits = match (&line.question_id, line.retry_at) {
        (Some(question), _) => Some(format!("waits for an answer to {question}")),
        (None, Some(at)) => Some(format!("again at {}", at.format("%H:%M:%S"))),
        (None, None) => None,
    };
    let said = [detail, waits].into_iter().flatten().collect::<Vec<_>>().join("; ");
    let said = if said.is_empty() { said } else { format!(" ({said})") };
    format!("{}{mark} {}{said}", "  ".repeat(line.depth + 1), one_line(&line.title))
}

/// The whole list.
pub(crate) fn all(list: &Checklist) -> Vec<String> {
    std::iter::once(head(list)).chain(list.steps.iter().map(line)).collect()
}

/// The list where there is little room: of a long one the part that is being worked on.
pub(crate) fn part(list: &Checklist) -> Vec<String> {
    let is_over = |line: &Line| matches!(line.status, LineStatus::Done | LineStatus::Skipped);
    let first = list.steps.iter().position(|line| !is_over(line)).unwrap_or(list.steps.len());
    let start = first.min(list.steps.len().saturating_sub(MOST_LINES));
    let listed = list.steps.iter().skip(start).take(MOST_LINES).map(line);
    std::iter::once(head(list)).chain(listed).collect()
}

/// Whether the plan has ended.
pub(crate) fn is_over(list: &Checklist) -> bool {
    RunStatus::from_name(&list.status).is_some_and(RunStatus::is_terminal)
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    pub(crate) fn list(status: &str, steps: &[(&str, &str)]) -> Value {
        let done = steps.iter().filter(|(_, status)| *status == "done").count();
        let steps: Vec<Value> = steps
            .iter()
            .map(|(id, status)| json!({"id": id, "title": id, "type": "llm", "depth": 0, "status": status}))
            .collect();
        json!({"plan_id": format!("plan_{:032x}", 7), "version": 1, "goal": "Compare hotels", "status": status,
               "done": done, "of": steps.len(), "steps": steps})
    }

    #[test]
    fn lines_say_how_far_each_step_is() {
        let mut content = list("running", &[("find", "done"), ("each", "running"), ("ask", "waiting")]);
        content["steps"][1]["detail"] = json!("1 of 3");
        content["steps"][2]["question_id"] = json!("question_1");
        content["steps"][2]["depth"] = json!(1);
        let list: Checklist = serde_json::from_value(content).unwrap();
        assert_eq!(
            all(&list),
            [
                "plan: Compare hotels (1 of 3)",
                "  ✓ find",
                "  ◐ each (1 of 3)",
                "    ? ask (waits for an answer to question_1)"
            ]
        );
    }

    #[test]
    fn long_list_begins_where_work_is_done() {
        let ids: Vec<String> = (0..20).map(|nth| format!("step {nth}")).collect();
        let status = |nth: usize| if nth < 15 { "done" } else { "pending" };
        let steps: Vec<(&str, &str)> =
            ids.iter().enumerate().map(|(nth, id)| (id.as_str(), status(nth))).collect();
        let list: Checklist = serde_json::from_value(list("running", &steps)).unwrap();
        let lines = part(&list);
        assert_eq!((lines.len(), lines[1].as_str()), (13, "  ✓ step 8"));
    }
}
