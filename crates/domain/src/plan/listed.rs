//! The steps of a plan in the order of its document, those of loops for each turn so far.

use super::document::{Action, Document, Step};

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
