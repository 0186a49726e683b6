//! `houston plan show`, `list` and `run`: plans over the API.

use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use houston_domain::clock::SystemClock;
use houston_domain::id::Ids;
use houston_protocol::agui::{Event, Fact};
use houston_protocol::plan::{CreatePlan, PlanResponse};
use serde_json::Value;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::error::Result;
use super::follow::{StreamEvent, follow};
use super::output::one_line;
use super::server::path_of;
use super::{ServerArg, checklist};
use crate::output::{print, print_json, print_stderr};

/// Prints a plan: its steps, what it asks, its output.
///
/// # Errors
/// [`super::ChatError`] when the server does not answer with it.
pub(crate) async fn show((at, folder): (&ServerArg, &Path), id: &str, json: bool) -> Result<ExitCode> {
    let plan = at.client(folder)?.plan(id).await?;
    if json {
        print_json(&plan);
        return Ok(ExitCode::SUCCESS);
    }
    print(&plan.id);
    lines_of(&plan.checklist).iter().for_each(|line| print(line));
    for question in &plan.questions {
        let (text, id) = (one_line(&question.text), question.id);
        print(&format!("? {text} (answer with POST /v1/questions/{id}/answer)"));
    }
    show_output(&plan);
    Ok(ExitCode::SUCCESS)
}

/// Prints the plans of a goal, newest first.
pub(crate) async fn list((at, folder): (&ServerArg, &Path), goal: &str, json: bool) -> Result<ExitCode> {
    let plans = at.client(folder)?.plans(goal).await?;
    if json {
        print_json(&plans);
        return Ok(ExitCode::SUCCESS);
    }
    for plan in &plans.data {
        let head = checklist::of(&plan.checklist).map_or_else(String::new, |list| checklist::head(&list));
        print(&format!("{}  {:<9}  {head}", plan.id, plan.status));
    }
    if plans.data.is_empty() {
        print_stderr(&format!("{goal} has no plans"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes a plan and prints how it gets on, to its end. Exit code 1 if it is not completed.
pub(crate) async fn run(
    (at, folder): (&ServerArg, &Path),
    (goal, plan): (&str, &CreatePlan),
    json: bool,
) -> Result<ExitCode> {
    let server = at.client(folder)?;
    let key = Ids::new(Arc::new(SystemClock)).next::<Uuid>().simple().to_string();
    let made = server.make_plan(goal, plan, &key).await?;
    print_stderr(&format!("made {}", made.id));
    let tasks = TaskTracker::new();
    let path = path_of(&made.id).unwrap_or_default();
    let mut events = follow(server.clone(), format!("{path}/events"), &tasks);
    let mut titles = HashMap::new();
    loop {
        let event = tokio::select! {
            event = events.recv() => event.unwrap_or(StreamEvent::Ended),
            _ = tokio::signal::ctrl_c() => {
                print_stderr(&format!("{} goes on: houston plan show {}", made.id, made.id));
                return Ok(ExitCode::from(130));
            }
        };
        match event {
            StreamEvent::Event(event, _) => {
                progress(&event, &mut titles).iter().for_each(|line| print_stderr(line));
                if event.ends_run() {
                    break;
                }
            }
            StreamEvent::Disconnected(reason) => {
                print_stderr(&format!("connection lost: {reason}; reconnecting…"));
            }
            StreamEvent::Reconnected => print_stderr("reconnected"),
            StreamEvent::Ended => break,
            StreamEvent::Failed(error) => return Err(error),
        }
    }
    let plan = server.plan(&made.id).await?;
    if json {
        print_json(&plan);
    } else {
        lines_of(&plan.checklist).iter().for_each(|line| print_stderr(line));
        show_output(&plan);
    }
    Ok(if plan.status == "completed" { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What an event says about the progress of the plan.
fn progress(event: &Event<'_>, titles: &mut HashMap<String, String>) -> Option<String> {
    let Event::Custom { fact, .. } = event else { return None };
    let title = |path: &str| titles.get(path).cloned().unwrap_or_else(|| path.to_owned());
    Some(match fact {
        Fact::PlanStepStarted { path, title, attempt, .. } => {
            titles.insert(path.to_string(), one_line(title));
            let again = if *attempt > 1 { format!(" (attempt {attempt})") } else { String::new() };
            format!("◐ {}{again}", one_line(title))
        }
        Fact::PlanStepFinished { path, status } if status == "succeeded" => format!("✓ {}", title(path)),
        Fact::PlanStepFinished { path, status } => format!("– {} ({status})", title(path)),
        Fact::PlanStepFailed { path, message, retry_at, .. } => {
            let again =
                retry_at.map_or_else(String::new, |at| format!(", again at {}", at.0.format("%H:%M:%S")));
            format!("✗ {}: {}{again}", title(path), one_line(message))
        }
        Fact::QuestionAsked { question_id, text, .. } => {
            format!("? {} (answer with POST /v1/questions/{question_id}/answer)", one_line(text))
        }
        _ => return None,
    })
}

fn lines_of(checklist: &Value) -> Vec<String> {
    checklist::of(checklist).map_or_else(Vec::new, |list| checklist::all(&list))
}

fn show_output(plan: &PlanResponse) {
    match &plan.output {
        None | Some(Value::Null) => {}
        Some(Value::String(text)) => print(text),
        Some(output) => print(&format!("{output:#}")),
    }
}
