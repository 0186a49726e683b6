//! What depends on what: names in expressions are dependencies, and cycles are refused.

use std::collections::BTreeSet;

use serde_json::Value;

use super::document::{Action, Document, Step};
use super::expression::names;
use super::problem::{Problem, unknown};

/// Names that are in every context.
pub(super) const RESERVED: [&str; 3] = ["input", "now", "loop"];

/// Adds implied dependencies; reports duplicate ids, unknown names, wrong expressions and cycles.
pub(super) fn check(document: &mut Document, problems: &mut Vec<Problem>) {
    list(&mut document.steps, "/steps", &BTreeSet::new(), problems);
    let visible: BTreeSet<String> = document.steps.iter().map(|step| step.id.clone()).collect();
    if let Some(output) = &document.output {
        let mut found = BTreeSet::new();
        texts(output, "/output", &mut found, problems, 0);
        check_names(&found, &visible, "/output", problems);
    }
}

fn check_names(
    found: &BTreeSet<String>,
    visible: &BTreeSet<String>,
    pointer: &str,
    problems: &mut Vec<Problem>,
) {
    for name in
        found.iter().filter(|name| !visible.contains(*name) && !["input", "now"].contains(&name.as_str()))
    {
        let mut existing: Vec<&str> = visible.iter().map(String::as_str).collect();
        existing.extend(["input", "now"]);
        problems.push(Problem::new(pointer, unknown("step or variable", name, &existing)));
    }
}

fn list(steps: &mut [Step], pointer: &str, outer: &BTreeSet<String>, problems: &mut Vec<Problem>) {
    let mut ids = BTreeSet::new();
    for (at, step) in steps.iter().enumerate() {
        if outer.contains(&step.id) || !ids.insert(step.id.clone()) {
            problems.push(Problem::new(format!("{pointer}/{at}/id"), format!("`{}` is used twice", step.id)));
        }
    }
    let visible: BTreeSet<String> = ids.union(outer).cloned().collect();
    for (at, step) in steps.iter_mut().enumerate() {
        let here = format!("{pointer}/{at}");
        let existing: Vec<&str> = ids.iter().map(String::as_str).collect();
        for after in step.after.iter().filter(|after| !ids.contains(*after)) {
            problems.push(Problem::new(format!("{here}/after"), unknown("step", after, &existing)));
        }
        let found = used(step, &here, &visible, problems);
        check_names(&found, &visible, &here, problems);
        step.after.extend(found.intersection(&ids).cloned());
    }
    if let Some(cycle) = cycle(steps) {
        problems.push(Problem::new(pointer, format!("steps wait for each other: {}", cycle.join(" → "))));
    }
}

/// The names that a step and those inside it use; checks the latter.
fn used(
    step: &mut Step,
    here: &str,
    visible: &BTreeSet<String>,
    problems: &mut Vec<Problem>,
) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut take = |source: &str, field: &str, is_template: bool, problems: &mut Vec<Problem>| match names(
        source,
        is_template,
    ) {
        Ok(names) => found.extend(names),
        Err(error) => problems.push(Problem::new(format!("{here}/{field}"), error.to_string())),
    };
    if let Some(when) = &step.when {
        take(when, "when", false, problems);
    }
    match &step.action {
        Action::Tool { args, .. } => {
            let args = Value::Object(args.clone());
            texts(&args, &format!("{here}/args"), &mut found, problems, 0);
        }
        Action::Llm { prompt, .. } => take(prompt, "prompt", true, problems),
        Action::Task { instructions, context, .. } => {
            take(instructions, "instructions", true, problems);
            found.extend(context.iter().cloned());
        }
        Action::Input { question, .. } => take(question, "question", true, problems),
        Action::Condition { test, .. } => take(test, "if", false, problems),
        Action::Loop { over: Some(over), .. } => take(over, "over", false, problems),
        Action::Loop { test: Some(test), .. } => {
            take(test, "while", false, problems);
            // From the second turn on, its own steps' last results are visible to it.
            found.remove(&step.id);
        }
        Action::Loop { .. } | Action::Parallel { .. } => {}
    }
    inside(step, here, visible, &mut found, problems);
    found
}

/// Checks the steps inside a container. It waits for all that they read from outside of it, and none of them can read it.
fn inside(
    step: &mut Step,
    here: &str,
    visible: &BTreeSet<String>,
    found: &mut BTreeSet<String>,
    problems: &mut Vec<Problem>,
) {
    let mut outer = visible.clone();
    outer.remove(&step.id);
    let inner: Vec<(&mut Vec<Step>, &str)> = match &mut step.action {
        Action::Condition { then, otherwise, .. } => vec![(then, "then"), (otherwise, "else")],
        Action::Parallel { steps, .. } => vec![(steps, "steps")],
        Action::Loop { steps, name, .. } => {
            outer.insert(name.clone());
            vec![(steps, "steps")]
        }
        _ => Vec::new(),
    };
    let (mut before, mut read) = (BTreeSet::new(), BTreeSet::new());
    for (steps, field) in inner {
        list(steps, &format!("{here}/{field}"), &outer, problems);
        for (at, child) in steps.iter_mut().enumerate() {
            let mut ignored = Vec::new();
            read.extend(
                used(child, &format!("{here}/{field}/{at}"), &outer, &mut ignored)
                    .intersection(&outer)
                    .cloned(),
            );
            if !before.insert(child.id.clone()) && field == "else" {
                problems.push(Problem::new(
                    format!("{here}/else/{at}/id"),
                    format!("`{}` is in `then`, too", child.id),
                ));
            }
        }
    }
    if let Action::Loop { name, .. } = &step.action {
        read.remove(name);
    }
    found.extend(read);
}

/// Collects the names in all templates of a value.
fn texts(
    value: &Value,
    pointer: &str,
    found: &mut BTreeSet<String>,
    problems: &mut Vec<Problem>,
    depth: usize,
) {
    match value {
        _ if depth > 15 => problems.push(Problem::new(pointer, "is nested too deeply: at most 15 levels")),
        Value::String(text) => match names(text, true) {
            Ok(names) => found.extend(names),
            Err(error) => problems.push(Problem::new(pointer, error.to_string())),
        },
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                texts(item, &format!("{pointer}/{at}"), found, problems, depth + 1);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                texts(field, &format!("{pointer}/{name}"), found, problems, depth + 1);
            }
        }
        _ => {}
    }
}

/// A cycle, its first step repeated at the end.
fn cycle(steps: &[Step]) -> Option<Vec<String>> {
    let mut left: Vec<&Step> = steps.iter().collect();
    loop {
        let waiting = |step: &Step| left.iter().any(|other| step.after.contains(&other.id));
        let next: Vec<&Step> = left.iter().copied().filter(|step| waiting(step)).collect();
        if next.len() == left.len() {
            break;
        }
        left = next;
    }
    // Each of those left waits for another of them, so following them must come to one twice.
    let mut path = vec![*left.first()?];
    loop {
        let last = *path.last()?;
        let next = *left.iter().find(|step| last.after.contains(&step.id))?;
        if let Some(start) = path.iter().position(|step| step.id == next.id) {
            let mut cycle: Vec<String> = path[start..].iter().map(|step| step.id.clone()).collect();
            cycle.push(next.id.clone());
            return Some(cycle);
        }
        path.push(next);
    }
}
