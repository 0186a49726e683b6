//! The document of a plan, version 1.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::graph;
use super::parse::Reader;
use super::problem::Problem;

/// Maximum size of a document as JSON, in bytes.
pub const MAX_BYTES: usize = 64 * 1024;
/// Maximum number of steps of a document.
pub const MAX_STEPS: usize = 100;
/// Maximum number of turns of a loop.
pub const MAX_TURNS: usize = 50;
/// What a document may refer to.
#[derive(Debug, Clone, Copy)]
pub struct Offer<'o> {
    /// Names of the tools that its steps may call. An answer to the user and a change of plans are not among them: they are for
    /// the agent that made the plan.
    pub tools: &'o [&'o str],
    /// Maximum number of steps, at most [`MAX_STEPS`].
    pub steps: usize,
}

/// A document that passed all checks.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// What the plan is for.
    pub goal: String,
    /// The steps of the outermost list.
    pub steps: Vec<Step>,
    /// Template of the result.
    pub output: Option<Value>,
}

/// A step.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Unique in its list.
    pub id: String,
    /// What people read.
    pub title: String,
    /// Ids of the same list that settle before it: stated ones and those that its expressions name.
    pub after: BTreeSet<String>,
    /// If it is false, the step is skipped.
    pub when: Option<String>,
    /// Retries; `None`: the default of what it does.
    pub retry: Option<Retry>,
    /// Maximum duration in seconds.
    pub timeout_s: Option<u32>,
    /// What follows from its failure.
    pub on_error: OnError,
    /// What it does.
    pub action: Action,
}

/// How often a step is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// Maximum number of repetitions.
    pub max: u32,
    /// Delay before the first one, in ms.
    #[serde(default = "base_ms")]
    pub base_ms: u64,
}

fn base_ms() -> u64 {
    1_000
}

/// What follows from the failure of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// The plan may be changed; what does not depend on the step goes on.
    #[default]
    Replan,
    /// The plan fails at once.
    Fail,
    /// What depends on it goes on.
    Continue,
}

/// When a parallel step succeeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Join {
    /// All its steps succeed.
    #[default]
    All,
    /// At least one of its steps succeeds.
    Any,
    /// All its steps have settled, in whatever way.
    Settled,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Calls a tool.
    Tool { tool: String, args: Map<String, Value> },
    /// Calls a model once, without tools.
    Llm { prompt: String, schema: Option<Value>, max_output_tokens: Option<u32> },
    /// Starts an executor.
    Task { instructions: String, tools: Vec<String>, context: Vec<String>, schema: Option<Value> },
    /// Asks a person.
    Input { question: String, schema: Option<Value>, default: Option<Value>, expires_s: u32 },
    /// Executes one of two lists.
    Condition { test: String, then: Vec<Step>, otherwise: Vec<Step> },
    /// Executes its steps at the same time.
    Parallel { steps: Vec<Step>, join: Join, at_once: usize },
    /// Executes its steps for each item, or while a condition is true.
    Loop {
        over: Option<String>,
        test: Option<String>,
        name: String,
        max: usize,
        at_once: usize,
        steps: Vec<Step>,
    },
}

impl Action {
    /// The name of its type.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Tool { .. } => "tool",
            Self::Llm { .. } => "llm",
            Self::Task { .. } => "task",
            Self::Input { .. } => "input",
            Self::Condition { .. } => "condition",
            Self::Parallel { .. } => "parallel",
            Self::Loop { .. } => "loop",
        }
    }

    /// Whether it has steps of its own.
    #[must_use]
    pub fn is_container(&self) -> bool {
        matches!(self, Self::Condition { .. } | Self::Parallel { .. } | Self::Loop { .. })
    }
}

impl Step {
    /// The lists of steps inside it.
    #[must_use]
    pub fn lists(&self) -> Vec<&[Step]> {
        match &self.action {
            Action::Condition { then, otherwise, .. } => vec![then, otherwise],
            Action::Parallel { steps, .. } | Action::Loop { steps, .. } => vec![steps],
            _ => Vec::new(),
        }
    }
}

impl Document {
    /// The document, or what is wrong with it.
    ///
    /// # Errors
    /// Every problem found, at most 20.
    pub fn parse(json: &str, offer: Offer<'_>) -> Result<Self, Vec<Problem>> {
        if json.len() > MAX_BYTES {
            return Err(vec![Problem::new(
                "",
                format!("has {} bytes, at most {MAX_BYTES} are allowed", json.len()),
            )]);
        }
        let value: Value = serde_json::from_str(json)
            .map_err(|error| vec![Problem::new("", format!("is not JSON: {error}"))])?;
        let mut reader = Reader::new(offer);
        let document = reader.document(&value);
        let mut problems = reader.problems;
        match document {
            Some(mut document) if problems.is_empty() => {
                graph::check(&mut document, &mut problems);
                if problems.is_empty() { Ok(document) } else { Err(problems) }
            }
            _ => Err(problems),
        }
    }
}
