//! What a step of a plan's run changes in the plan.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::state::State;
use crate::answering::Output;
use crate::id::{AgentableId, MessageId, QuestionId, RunId};

/// What a committed step of a plan's run changes in the plan.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PlanChanges {
    /// How often something other than its run had changed the plan when the run read it. If that has happened again since,
    /// the step is not committed.
    pub seen: i64,
    /// Plan steps with another state than before.
    pub steps: Vec<ChangedStep>,
    /// Calls of tools and models that begin with it.
    pub calls: u32,
    /// When the plan has to have ended, if that has changed.
    pub deadline: Option<DateTime<Utc>>,
    /// Paths of steps that are forgotten: their rows go.
    pub removed: Vec<String>,
    /// A new document, and why there is one.
    pub document: Option<(Value, String)>,
    /// What people see of the plan; `None`: nothing that they see has changed.
    pub listed: Option<Listing>,
    /// Set if the plan ends.
    pub end: Option<PlanEnd>,
}

/// A plan step with a new state.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangedStep {
    /// Its path.
    pub path: String,
    /// Its state.
    pub state: State,
    /// The executor that begins to work on it.
    pub executor: Option<NewExecutor>,
    /// The question that it asks.
    pub question: Option<QuestionId>,
}

/// An executor to be created: a task of the plan.
#[derive(Debug, Clone, PartialEq)]
pub struct NewExecutor {
    /// The id of its agentable.
    pub id: AgentableId,
    /// The id of its first run.
    pub run: RunId,
    /// The id of its first message.
    pub message: MessageId,
    /// Its kind.
    pub kind: String,
    /// Its first stored status.
    pub status: Option<String>,
    /// Its title, one line.
    pub title: String,
    /// The text of its first message.
    pub instructions: String,
    /// The tools it may call.
    pub tools: Vec<String>,
    /// The form of its result.
    pub output: Option<Output>,
    /// Where its first run belongs in a trace, a `traceparent`; `None`: where the plan's run does.
    pub traceparent: Option<String>,
}

/// What people see of a plan after a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Listing {
    /// The whole list of steps.
    pub checklist: Value,
    /// How it differs from the list before, as a JSON Patch; empty: it has other steps.
    pub delta: Vec<Value>,
    /// Set if the document was replaced: its number, and why.
    pub changed: Option<(i32, String)>,
}

/// The end of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanEnd {
    /// The result.
    pub output: Value,
    /// What the agent reads that the plan works for.
    pub report: String,
    /// The whole list of steps.
    pub checklist: Value,
}
