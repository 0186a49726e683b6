//! The list that people see of a plan: a line for each step, and what changed since the last one.
//!
//! A loop is one line ("3 of 10"); the steps inside conditions and parallel steps have lines of their own, one level deeper.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::document::{Action, Document, Step};
use super::resolve::step as find;
use super::state::{End, State, States, Status, status};
use crate::frame::{attribute, escape};

/// Maximum length of a detail, in characters.
const DETAIL: usize = 200;

/// The content of the activity `houston.plan`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checklist {
    /// The public id of the plan, once it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_id: Option<String>,
    /// Rises with each change of the document.
    pub version: u32,
    /// What the plan is for.
    pub goal: String,
    /// Status of the plan.
    pub status: String,
    /// How many of its steps are done or were skipped.
    pub done: usize,
    /// The number of its steps, without conditions and parallel steps, which only contain others.
    pub of: usize,
    /// The lines.
    pub steps: Vec<Line>,
}

/// A line of a checklist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Path of the step.
    pub id: String,
    /// What people read.
    pub title: String,
    /// Type of the step.
    #[serde(rename = "type")]
    pub kind: String,
    /// How many containers it is in.
    pub depth: usize,
    /// How far it is.
    pub status: LineStatus,
    /// Turns of a loop, number of the attempt, or why it failed or was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// When it is started again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<DateTime<Utc>>,
    /// The public id of the question that it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question_id: Option<String>,
}

impl Line {
    /// Whether it counts as done.
    fn is_done(&self) -> bool {
        is_work(&self.kind) && matches!(self.status, LineStatus::Done | LineStatus::Skipped)
    }
}

names! {
    /// Status of a line.
    pub enum LineStatus {
        Pending = "pending",
        Running = "running",
        /// For its next attempt, or for an answer.
        Waiting = "waiting",
        Done = "done",
        Failed = "failed",
        Skipped = "skipped",
    }
}

/// What a checklist contains besides document and states.
#[derive(Debug, Clone, Copy)]
pub struct Heading<'h> {
    /// The public id of the plan, once it has one.
    pub plan_id: Option<&'h str>,
    /// The version of its document.
    pub version: u32,
    /// Its status: that of its run, or `paused`.
    pub status: &'h str,
    /// Public ids of open questions by the path of the step that asks.
    pub questions: &'h BTreeMap<String, String>,
}

/// The checklist of a plan.
pub fn checklist(document: &Document, states: &States, heading: Heading<'_>) -> Checklist {
    // A loop is one line, so none of its turns is listed, and each dot is a step into a container.
    let listed = listed(document, |_| 0).into_iter();
    let steps: Vec<Line> =
        listed.map(|(path, step)| line(step, &path, path.matches('.').count(), states, heading)).collect();
    Checklist {
        plan_id: heading.plan_id.map(str::to_owned),
        version: heading.version,
        goal: document.goal.clone(),
        status: heading.status.to_owned(),
        done: steps.iter().filter(|line| line.is_done()).count(),
        of: steps.iter().filter(|line| is_work(&line.kind)).count(),
        steps,
    }
}

fn line(step: &Step, path: &str, depth: usize, states: &States, heading: Heading<'_>) -> Line {
    let pending = State::default();
    let state = states.get(path).unwrap_or(&pending);
    let mut line = Line {
        id: path.to_owned(),
        title: step.title.clone(),
        kind: step.action.kind().to_owned(),
        depth,
        status: line_status(state.status),
        detail: detail(step, path, state, states),
        retry_at: None,
        question_id: None,
    };
    let waits: Vec<(&String, &State)> = match step.action {
        Action::Loop { .. } if state.status == Status::Running => {
            let inner = format!("{path}[");
            states.range(inner.clone()..).take_while(|(path, _)| path.starts_with(&inner)).collect()
        }
        _ => states.get_key_value(path).into_iter().collect(),
    };
    let is = |wanted: Status| waits.iter().any(|(_, state)| state.status == wanted && state.due.is_some());
    if !is(Status::Running) && (is(Status::Asking) || is(Status::Retrying)) {
        line.status = LineStatus::Waiting;
        let retrying = waits.iter().filter(|(_, state)| state.status == Status::Retrying);
        line.retry_at = retrying.filter_map(|(_, state)| state.due).min();
        line.question_id = waits.iter().find_map(|(path, _)| heading.questions.get(*path)).cloned();
    }
    line
}

fn line_status(status: Status) -> LineStatus {
    match status {
        Status::Pending => LineStatus::Pending,
        Status::Running => LineStatus::Running,
        Status::Retrying | Status::Asking => LineStatus::Waiting,
        Status::Succeeded => LineStatus::Done,
        Status::Failed => LineStatus::Failed,
        Status::Skipped | Status::Cancelled => LineStatus::Skipped,
    }
}

fn detail(step: &Step, path: &str, state: &State, states: &States) -> Option<String> {
    let error = state.error.as_ref();
    let detail = match (state.status, &step.action) {
        (Status::Running | Status::Succeeded, Action::Loop { test, max, steps, .. }) => {
            let is_settled = |step: &Step, turn: &usize| {
                status(states, &format!("{path}[{turn}].{}", step.id)).is_settled()
            };
            let is_done = |turn: &usize| steps.iter().all(|step| is_settled(step, turn));
            let all = state.turns.len();
            let of = if test.is_some() && state.status == Status::Running { *max } else { all };
            format!("{} of {of}", (0..all).filter(is_done).count())
        }
        (Status::Running | Status::Retrying, _) if state.attempt > 1 => format!("attempt {}", state.attempt),
        (Status::Cancelled, _) => "was cancelled".to_owned(),
        (Status::Failed, _) => error?.message.clone(),
        (Status::Skipped, _) => match error?.code.as_str() {
            "when" => "its condition is false".to_owned(),
            "branch" => "the other branch was taken".to_owned(),
            "dependency_failed" => "a step before it failed".to_owned(),
            _ => error?.message.clone(),
        },
        _ => return None,
    };
    Some(detail.chars().take(DETAIL).collect())
}

/// A checklist that follows a plan: a change costs no more in one of thousands of steps.
#[derive(Debug)]
pub struct Shown {
    /// The list as it is.
    pub list: Arc<Checklist>,
    /// Places of lines by the path of their step.
    places: HashMap<String, usize>,
}

impl Shown {
    /// The checklist of a plan.
    pub fn new(document: &Document, states: &States, heading: Heading<'_>) -> Self {
        let list = checklist(document, states, heading);
        let places = list.steps.iter().enumerate().map(|(place, line)| (line.id.clone(), place)).collect();
        Self { list: Arc::new(list), places }
    }

    /// Brings the lines of the steps with these paths up to date. Returns what changes by it: operations of RFC 6902, all of them
    /// `replace`.
    pub fn follow<'p>(
        &mut self,
        document: &Document,
        states: &States,
        heading: Heading<'_>,
        paths: impl Iterator<Item = &'p str>,
    ) -> Vec<Value> {
        let mut changes = Vec::new();
        let mut replace = |path: String, value: Value| {
            changes.push(json!({"op": "replace", "path": path, "value": value}));
        };
        // What is in a loop is in the line of the loop.
        let line_of = |path: &'p str| path.split('[').next().unwrap_or(path);
        let mut places: Vec<usize> =
            paths.filter_map(|path| self.places.get(line_of(path)).copied()).collect();
        places.sort_unstable();
        places.dedup();
        let list = Arc::make_mut(&mut self.list);
        let mut done = list.done;
        for at in places {
            let Some(old) = list.steps.get_mut(at) else { continue };
            let Some(step) = find(document, &old.id) else { continue };
            let new = line(step, &old.id, old.depth, states, heading);
            done = done + usize::from(new.is_done()) - usize::from(old.is_done());
            match (json!(old), json!(new)) {
                (Value::Object(before), Value::Object(after)) if before.keys().eq(after.keys()) => {
                    let changed = after.into_iter().filter(|(name, value)| before.get(name) != Some(value));
                    changed.for_each(|(name, value)| replace(format!("/steps/{at}/{name}"), value));
                }
                // A member that is not there cannot be replaced.
                (_, after) => replace(format!("/steps/{at}"), after),
            }
            *old = new;
        }
        if list.done != done {
            replace("/done".to_owned(), json!(done));
            list.done = done;
        }
        if list.status != heading.status {
            replace("/status".to_owned(), json!(heading.status));
            heading.status.clone_into(&mut list.status);
        }
        changes
    }
}

/// Each step with its path, as in `each[2].read`. `turns` returns how many turns the loop with this path has so far.
pub fn listed(document: &Document, turns: impl Fn(&str) -> usize) -> Vec<(String, &Step)> {
    let mut steps = Vec::new();
    walk(&document.steps, "", &turns, &mut steps);
    steps
}

fn walk<'d>(
    steps: &'d [Step],
    prefix: &str,
    turns: &impl Fn(&str) -> usize,
    found: &mut Vec<(String, &'d Step)>,
) {
    for step in steps {
        let path = format!("{prefix}{}", step.id);
        found.push((path.clone(), step));
        match &step.action {
            Action::Loop { steps, .. } => {
                (0..turns(&path)).for_each(|turn| walk(steps, &format!("{path}[{turn}]."), turns, found));
            }
            _ => step.lists().into_iter().for_each(|list| walk(list, &format!("{path}."), turns, found)),
        }
    }
}

// What the agent that made a plan reads about its end: each step with the beginning of its result, then the output.
//
// ```text
// <plan_ended id="plan_…" status="completed" done="4" of="5">
// <step id="find" title="Search hotels" status="done">[{"name":"Roma"}]</step>
// <output>Roma was booked.</output>
// </plan_ended>
// ```

/// Most steps that it lists; those that failed come first.
const LINES: usize = 100;

/// Maximum length of a step's result, in characters.
const RESULT: usize = 400;

/// Maximum length of all steps' results together.
const RESULTS: usize = 8_000;

/// Maximum length of the output.
const OUTPUT: usize = 4_000;

/// The message about the end of a plan. `untrusted`: its steps have read what strangers wrote.
pub fn ended(list: &Checklist, states: &States, end: &End, untrusted: bool) -> String {
    let id = attribute(list.plan_id.as_deref().unwrap_or_default());
    let status = match end {
        End::Completed { .. } => "completed",
        End::Failed(_) | End::Replan { .. } => "failed",
        End::Cancelled => "cancelled",
    };
    let done =
        list.steps.iter().filter(|line| line.status == LineStatus::Done && is_work(&line.kind)).count();
    let mut text = format!("<plan_ended id=\"{id}\" status=\"{status}\" done=\"{done}\" of=\"{}\">", list.of);
    if untrusted {
        text += &format!("\n<untrusted source=\"{id}\">");
    }
    let is_failed = |line: &&Line| line.status == LineStatus::Failed;
    let mut failed = LINES;
    let mut others = LINES.saturating_sub(list.steps.iter().filter(is_failed).count());
    let mut left = RESULTS;
    for line in &list.steps {
        let places = if is_failed(&line) { &mut failed } else { &mut others };
        if *places == 0 {
            continue;
        }
        *places -= 1;
        text += &format!(
            "\n<step id=\"{}\" title=\"{}\" status=\"{}\"",
            attribute(&line.id),
            attribute(&line.title),
            line.status.as_str()
        );
        let (kept, is_cut) = match states.get(&line.id) {
            Some(State { result, .. }) if is_work(&line.kind) && !result.is_null() => {
                begin(result, RESULT.min(left))
            }
            _ => (String::new(), false),
        };
        left -= kept.chars().count().min(left);
        if let Some(detail) = &line.detail
            && matches!(line.status, LineStatus::Failed | LineStatus::Skipped)
        {
            text += &format!(" reason=\"{}\"", attribute(detail));
        }
        text += if is_cut { " cut=\"true\">" } else { ">" };
        text += &format!("{}</step>", escape(&kept));
    }
    if let Some(more) = list.steps.len().checked_sub(LINES).filter(|more| *more > 0) {
        text += &format!("\n<more_steps count=\"{more}\">read_plan lists them.</more_steps>");
    }
    if let End::Completed { output } = end
        && !output.is_null()
    {
        let (kept, is_cut) = begin(output, OUTPUT);
        text += if is_cut { "\n<output cut=\"true\">" } else { "\n<output>" };
        text += &format!("{}</output>", escape(&kept));
    }
    if untrusted {
        text += "\n</untrusted>";
    }
    if let End::Failed(failure) = end {
        text +=
            &format!("\n<error code=\"{}\">{}</error>", attribute(&failure.code), escape(&failure.message));
    }
    if text.contains(" cut=\"true\">") {
        text += "\n<hint>read_plan returns what was cut: pass the id of the step as path.</hint>";
    }
    text + "\n</plan_ended>"
}

/// Whether a step has a result of its own, and not only those of the steps inside it.
fn is_work(kind: &str) -> bool {
    !["condition", "parallel"].contains(&kind)
}

/// The beginning of a value, and whether that is not all of it.
fn begin(value: &Value, most: usize) -> (String, bool) {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let kept: String = text.chars().take(most).collect();
    let is_cut = kept.len() < text.len();
    (kept, is_cut)
}
