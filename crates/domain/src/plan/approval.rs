//! Whether a plan asks before it begins: because of how much its agent does without asking, or because it repeats what acts outside.

use super::document::{Action, Document, Step};
use crate::autonomy::Autonomy;
use crate::tool_call::EffectClass;

/// Why a plan asks first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approval {
    /// Agents of this level ask before every plan.
    Level,
    /// These steps, in a loop or side by side with others, call tools that act outside Houston.
    Effects(Vec<String>),
}

/// Why the plan asks first. `None`: it begins at once. `effect` returns the class of a tool.
#[must_use]
pub fn approval(
    document: &Document,
    autonomy: Autonomy,
    effect: impl Fn(&str) -> EffectClass,
) -> Option<Approval> {
    if autonomy <= Autonomy::Low {
        return Some(Approval::Level);
    }
    let mut paths = Vec::new();
    if autonomy < Autonomy::High {
        collect(&document.steps, "", false, &effect, &mut paths);
    }
    (!paths.is_empty()).then_some(Approval::Effects(paths))
}

fn collect(
    steps: &[Step],
    prefix: &str,
    repeats: bool,
    effect: &impl Fn(&str) -> EffectClass,
    paths: &mut Vec<String>,
) {
    for step in steps {
        let path = format!("{prefix}{}", step.id);
        let acts = match &step.action {
            Action::Tool { tool, .. } => effect(tool) == EffectClass::Effect,
            Action::Task { tools, .. } => tools.iter().any(|tool| effect(tool) == EffectClass::Effect),
            _ => false,
        };
        if repeats && acts {
            paths.push(path.clone());
        }
        let repeats = repeats || matches!(step.action, Action::Loop { .. } | Action::Parallel { .. });
        for list in step.lists() {
            collect(list, &format!("{path}."), repeats, effect, paths);
        }
    }
}
