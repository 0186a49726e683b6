//! The numbers of plans.

use serde::{Deserialize, Serialize};

use super::document::MAX_STEPS;

/// `jobs/plans.toml`. Reasons for the values are in that file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Maximum number of steps in a document of a model.
    pub steps_of_model: usize,
    /// Maximum number of steps in a document of a request.
    pub steps_of_request: usize,
    /// Maximum number of steps with those of all turns of loops.
    pub steps_with_turns: usize,
    /// How often a model changes a plan because of a failure.
    pub replans: u32,
    /// How often a model corrects a change that was refused.
    pub repairs: u32,
    /// Seconds after which a plan fails that its agent waits for.
    pub attached_s: u32,
    /// Seconds after which any other plan fails.
    pub detached_s: u32,
    /// Calls of tools and models at the same time.
    pub at_once: usize,
    /// Executors at the same time.
    pub executors: usize,
    /// Maximum number of calls of tools by one plan.
    pub tool_calls: u32,
    /// Maximum number of calls of models by one plan.
    pub model_calls: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            steps_of_model: 30,
            steps_of_request: 100,
            steps_with_turns: 200,
            replans: super::MAX_REPLANS,
            repairs: super::MAX_REPAIRS,
            attached_s: 600,
            detached_s: 86_400,
            at_once: 5,
            executors: 5,
            tool_calls: 100,
            model_calls: 50,
        }
    }
}

impl Limits {
    /// What is wrong with the values, if anything is.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let steps = [("steps_of_model", self.steps_of_model), ("steps_of_request", self.steps_of_request)];
        if let Some((name, _)) = steps.into_iter().find(|(_, steps)| !(1..=MAX_STEPS).contains(steps)) {
            return Some(format!("{name} must be 1 to {MAX_STEPS}"));
        }
        let small = [
            ("steps_with_turns", self.steps_with_turns == 0),
            ("attached_s", self.attached_s == 0),
            ("detached_s", self.detached_s == 0),
            ("at_once", self.at_once == 0),
            ("executors", self.executors == 0),
        ];
        small.into_iter().find(|(_, is_zero)| *is_zero).map(|(name, _)| format!("{name} must be at least 1"))
    }
}
