//! Verdicts: what may be done with a call, and why.

use serde::{Deserialize, Serialize};

use super::{LayerKind, Risk, Ruling, Step};
use crate::tool_call::ToolErrorCode;

/// What may be done with a call.
///
/// ```json
/// {"decision": "ask", "why": "sending something out needs a yes", "risk": "external", "lasting": true,
///  "by": {"layer": "installation", "rule": "profile: external", "decision": "ask"}}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// What may be done.
    #[serde(flatten)]
    pub decision: Decision,
    /// What decided.
    pub by: DecidedBy,
}

/// What may be done with a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Decision {
    /// It is carried out.
    Allow,
    /// A person is asked.
    Ask {
        /// Why, for the person: all reasons, separated by semicolons.
        why: String,
        /// What may go wrong.
        risk: Risk,
        /// Whether a lasting yes is possible.
        lasting: bool,
    },
    /// It is refused.
    Deny {
        /// The kind of failure.
        code: ToolErrorCode,
        /// Why, for the model.
        why: String,
    },
}

impl Decision {
    /// Without its reasons.
    #[must_use]
    pub fn ruling(&self) -> Ruling {
        match self {
            Self::Allow => Ruling::Allow,
            Self::Ask { .. } => Ruling::Ask,
            Self::Deny { .. } => Ruling::Deny,
        }
    }
}

/// What decided. Small: each event of a call stores it.
///
/// ```json
/// {"layer": "tenant", "rule": "rule 3: github__create_issue", "decision": "ask"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DecidedBy {
    /// The layer. None for steps that belong to no layer: `pin`, `autonomy: low`, `rule of two`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<LayerKind>,
    /// The rule, the key of the settings, or the step.
    pub rule: String,
    /// What was decided.
    pub decision: Ruling,
}

/// A verdict with all that was looked at, in order: what `houston guard explain` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The verdict.
    pub verdict: Verdict,
    /// The steps. They end with the one that denied, if one did.
    pub steps: Vec<StepTaken>,
}

/// One step, as it was looked at in one layer.
///
/// ```json
/// {"step": "level", "layer": "installation", "name": "jobs/guards.toml", "outcome": "pass", "why": "read ≤ write"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepTaken {
    /// The step.
    pub step: Step,
    /// The layer; none for steps that belong to no layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<LayerKind>,
    /// Whose settings the layer has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What came of it.
    pub outcome: Outcome,
    /// Why, in a few words.
    pub why: String,
}

/// What came of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It has no objection.
    Pass,
    /// It allows the call, which lifts questions of later steps.
    Allow,
    /// A person must be asked.
    Ask,
    /// The call is refused.
    Deny,
}
