//! A plan: its steps and what they returned. It has no thread.

use askama::Template;
use chrono::{DateTime, Utc};
use futures_util::future::join;
use houston_protocol::plan::{PlanResponse, PlanStepResponse};
use houston_protocol::question::QuestionResponse;
use serde_json::Value;

use super::kind_of;
use crate::api::Refused;
use crate::shell::{Section, Shell};
use crate::show::{self, Fact, Status, When, fact, segment};
use crate::viewer::Viewer;
use crate::why::{self, Reason};

/// The kind of plans, which have a shape of their own in the API.
pub(super) const KIND: &str = "plan";

/// The most characters of what a step returned, and of the result.
const MAX_STEP: usize = 300;
const MAX_RESULT: usize = 20_000;

#[derive(Template)]
#[template(path = "plan.html")]
pub(super) struct Plan {
    shell: Shell,
    id: String,
    title: String,
    status: Status,
    user_href: String,
    user_short: String,
    parent_href: String,
    parent_short: String,
    /// Empty: it has no run yet.
    run_href: String,
    run_short: String,
    facts: Vec<Fact>,
    created: When,
    due: When,
    ended: When,
    reasons: Vec<Reason>,
    questions: Vec<QuestionResponse>,
    done: String,
    steps: Vec<PlanStepResponse>,
    output: String,
}

/// The page of a plan.
pub(super) async fn page(viewer: &Viewer, id: &str) -> Result<Plan, Refused> {
    let path = format!("/v1/plans/{}", segment(id));
    let now = viewer.console.now();
    let (of, reasons) = join(viewer.api.get::<PlanResponse>(&path), why::reasons(viewer, &path, now)).await;
    let of = of?;
    let title = of.document["goal"].as_str().map(|goal| show::line(goal, 120)).unwrap_or_default();
    let title = if title.trim().is_empty() { "Without a title".to_owned() } else { title };
    let (user, run) = (of.user_id.to_string(), of.run_id.map(|run| run.to_string()).unwrap_or_default());
    Ok(Plan {
        shell: viewer.shell(Section::Threads, title.clone()).live_if(of.ended_at.is_none()),
        title,
        status: super::status(Some(&of.status)),
        user_href: viewer.path(&format!("/users/{user}")),
        user_short: show::short(&user),
        parent_href: viewer.path(&format!("/threads/{}/{}", kind_of(&of.parent_id), of.parent_id)),
        parent_short: show::short(&of.parent_id),
        run_href: if run.is_empty() { String::new() } else { viewer.path(&format!("/runs/{run}")) },
        run_short: show::short(&run),
        facts: facts(&of),
        created: show::when(of.created_at, now),
        due: if of.ended_at.is_none() { show::when(of.deadline_at, now) } else { When::default() },
        ended: show::when_if(of.ended_at, now),
        // One that has ended takes no messages: there is nothing to do.
        reasons: if of.ended_at.is_none() { reasons } else { Vec::new() },
        done: done(&of.checklist),
        steps: of.steps,
        output: of.output.as_ref().map(|output| text(output, MAX_RESULT)).unwrap_or_default(),
        questions: of.questions,
        id: of.id,
    })
}

fn facts(of: &PlanResponse) -> Vec<Fact> {
    vec![
        fact("Version", of.version.to_string()),
        fact("Changed after a failure", of.replans.to_string()),
        fact("Calls of tools and models", of.calls.to_string()),
        fact("Who made it", if of.attached { "waits for it" } else { "goes on meanwhile" }),
    ]
}

/// How many steps are done, as the checklist says.
fn done(checklist: &Value) -> String {
    match (checklist["done"].as_u64(), checklist["of"].as_u64()) {
        (Some(done), Some(all)) => format!("{done} of {all} done"),
        _ => String::new(),
    }
}

fn state(of: &PlanStepResponse) -> Status {
    let tone = match of.status.as_str() {
        "running" => "busy",
        "retrying" => "warn",
        "asking" => "wait",
        "succeeded" => "good",
        "failed" => "bad",
        "cancelled" | "skipped" => "off",
        _ => "idle",
    };
    Status { text: of.status.replace('_', " "), tone }
}

/// What a step returned, or why it failed.
fn outcome(of: &PlanStepResponse) -> String {
    let text = match (&of.error, &of.result) {
        (Some(error), _) => format!("{} {}", error.code, error.message),
        (None, Some(result)) => text(result, MAX_STEP),
        (None, None) => String::new(),
    };
    show::line(&text, MAX_STEP)
}

fn took(of: &PlanStepResponse, now: DateTime<Utc>) -> String {
    let took = of.started_at.map(|start| show::took(of.ended_at.map_or(now, |end| end.0) - start.0));
    took.unwrap_or_default()
}

/// A value as a person reads it.
fn text(value: &Value, most: usize) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    };
    text.chars().take(most).collect()
}
