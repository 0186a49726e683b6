//! The lines of a plan, and its replay: the state machine is given the recorded outcomes, and what it says is compared.
//!
//! ```text
//! {"type":"plan","at":"…","version":1,"document":{"v":1,…},"tools":["search"],"input":…,"deadline":"…","at_once":5}
//! {"type":"advance","at":"…","start":["find"],"cancel":[],"wait_until":"…"}
//! {"type":"step","at":"…","path":"find","outcome":"succeeded","result":"…"}
//! {"type":"step","at":"…","path":"find","outcome":"failed","code":"TIMEOUT","message":"…","retry_at":"…"}
//! {"type":"advance","at":"…","start":[],"cancel":[],"end":{"status":"completed","output":"…"}}
//! ```

mod machine;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Trace;
use super::replay::{Difference, Replayed};
use crate::event::Event;
use crate::plan::{End, Status};
use crate::run::RunStatus;
use machine::Machine;

/// The driver of the runs whose traces have these lines.
pub const DRIVER: &str = "plan";

/// A version of the document. The first one begins the plan; a later one changes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Version {
    /// When it was committed.
    pub at: DateTime<Utc>,
    /// Its number, from 1.
    pub version: u32,
    /// The document.
    pub document: Value,
    /// The tools that its steps might call.
    #[serde(default)]
    pub tools: Vec<String>,
    /// The plan's input.
    #[serde(default)]
    pub input: Value,
    /// When the plan has to have ended.
    pub deadline: DateTime<Utc>,
    /// How many steps run at the same time.
    pub at_once: usize,
    /// Whether the plan may be changed after it.
    #[serde(default)]
    pub may_replan: bool,
    /// Paths of steps that begin anew, as if they had never been started: those that this version changed or removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forgotten: Vec<String>,
}

/// What became of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// When it was committed.
    pub at: DateTime<Utc>,
    /// The path of the step, such as `each[2].read`.
    pub path: String,
    /// What became of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// How the work of a step ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// It returned this.
    Succeeded {
        /// What it returned.
        #[serde(default)]
        result: Value,
    },
    /// A person answered it.
    Answered {
        /// The answer.
        #[serde(default)]
        result: Value,
    },
    /// It failed.
    Failed {
        /// Stable code.
        code: String,
        /// Sentence for people and models.
        message: String,
        /// When it is repeated; `None`: it is not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_at: Option<DateTime<Utc>>,
    },
}

/// What the state machine said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Advanced {
    /// The time that it was given.
    pub at: DateTime<Utc>,
    /// Whether nothing new was to start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Whether the plan was to end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancelled: bool,
    /// Paths whose work begins.
    #[serde(default)]
    pub start: Vec<String>,
    /// Paths whose work is cancelled.
    #[serde(default)]
    pub cancel: Vec<String>,
    /// Paths that have settled since the line before, and how. Empty: they are not compared.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settled: BTreeMap<String, String>,
    /// The next time something is due. `None`: it is not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_until: Option<DateTime<Utc>>,
    /// How the plan ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Ended>,
}

/// How a plan ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Ended {
    /// With this result.
    Completed {
        /// The result.
        #[serde(default)]
        output: Value,
    },
    /// With this error.
    Failed {
        /// Stable code.
        code: String,
        /// Sentence for people and models.
        message: String,
    },
    /// By request.
    Cancelled {},
    /// It waits for a change, because the step of this path failed.
    Replan {
        /// The path.
        path: String,
    },
}

impl From<End> for Ended {
    fn from(end: End) -> Self {
        match end {
            End::Completed(output) => Self::Completed { output },
            End::Failed(failure) => Self::Failed { code: failure.code, message: failure.message },
            End::Cancelled => Self::Cancelled {},
            End::Replan(path) => Self::Replan { path },
        }
    }
}

/// The name of a status in traces.
#[must_use]
pub fn name_of(status: Status) -> &'static str {
    match status {
        Status::Pending => "pending",
        Status::Running => "running",
        Status::Retrying => "retrying",
        Status::Asking => "asking",
        Status::Succeeded => "succeeded",
        Status::Failed => "failed",
        Status::Cancelled => "cancelled",
        Status::Skipped => "skipped",
    }
}

/// Replays the plan of a trace.
///
/// # Errors
/// The first [`Difference`]; `iteration` is the version of the document.
pub(super) fn replay(trace: &Trace) -> Result<Replayed, Box<Difference>> {
    let mut machine = Machine::default();
    let mut finished = None;
    for (index, line) in trace.lines.iter().enumerate() {
        machine.line = index + 2;
        match line {
            super::Line::Plan(version) => machine.change(version)?,
            super::Line::Step(report) => machine.report(report)?,
            super::Line::Advance(advanced) => machine.advance(advanced)?,
            super::Line::Event { event, .. } => {
                if let Event::RunFinished { status, .. } = &**event {
                    finished = Some((machine.line, *status));
                }
            }
            _ => {}
        }
    }
    if let Some((line, status)) = finished {
        machine.line = line;
        let is_done = matches!(status, RunStatus::Completed | RunStatus::MessageSent);
        let is_same = match machine.ended {
            Some(Ended::Completed { .. }) => is_done,
            // A run may also end from outside: a person cancels it, or its workers die.
            _ => !is_done,
        };
        if !is_same {
            return Err(machine.differs("end", json!({"done": status}), json!(machine.ended)));
        }
    }
    Ok(machine.replayed(finished.map(|(_, status)| status)))
}

#[cfg(test)]
mod tests;
