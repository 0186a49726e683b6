//! A plan: its steps and what they returned. It has no thread.

use askama::Template;
use chrono::{DateTime, Utc};
use futures_util::future::join;
use houston_protocol::plan::{PlanResponse, PlanStepResponse};
use houston_protocol::why::WhyReason;
use serde_json::Value;

use super::kind_of;
use crate::api::Result;
use crate::shell::{Shell, THREADS};
use crate::show::{self, Fact, Status, fact, segment};
use crate::viewer::Viewer;
use crate::why;

/// The kind of plans, which have a shape of their own in the API.
pub(super) const KIND: &str = "plan";

/// The most characters of what a step returned, and of the result.
const MAX_STEP: usize = 300;
const MAX_RESULT: usize = 20_000;

#[derive(Template)]
#[template(path = "plan.html")]
pub(super) struct Plan {
    shell: Shell,
    of: PlanResponse,
    facts: Vec<Fact>,
    reasons: Vec<WhyReason>,
    output: String,
}

/// The page of a plan.
pub(super) async fn page(viewer: &Viewer, id: &str) -> Result<Plan> {
    let path = format!("/v1/plans/{}", segment(id));
    let (of, reasons) = join(viewer.api.get::<PlanResponse>(&path), why::reasons(viewer, &path)).await;
    let of = of?;
    let title = of.document["goal"].as_str().map(|goal| show::line(goal, 120)).unwrap_or_default();
    let title = if title.trim().is_empty() { "Without a title".to_owned() } else { title };
    let is_open = of.ended_at.is_none();
    Ok(Plan {
        shell: viewer.shell(THREADS, title).live_if(is_open),
        facts: facts(&of),
        // One that has ended takes no messages: there is nothing to do.
        reasons: if is_open { reasons } else { Vec::new() },
        output: of.output.as_ref().map(|output| text(output, MAX_RESULT)).unwrap_or_default(),
        of,
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
