//! Changes of a plan that has begun: steps that have not started leave, new ones join, or the plan is given up.
//!
//! A patch answers for all failures so far: they are marked as superseded and no longer fail the plan. What had been skipped
//! because of them may be removed; if nothing that failed is left in front of it, it is pending again.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::document::{Action, Document, MAX_STEPS, Offer, OnError, Problem, Step, unknown};
use super::resolve::step;
use super::state::{State, States, Status, status};

/// Maximum number of times that a model changes a plan because of a failure.
pub const MAX_REPLANS: u32 = 2;
/// Maximum number of times that a model corrects a patch that was refused.
pub const MAX_REPAIRS: u32 = 2;
/// So often may the same work fail. After that, a patch that contains it again is refused.
const STALL: u32 = 2;

/// What a patch makes of a plan.
#[derive(Debug, Clone, PartialEq)]
pub enum Patched {
    /// The next version.
    Changed {
        /// The document, as it is stored.
        json: Value,
        /// The same, parsed.
        document: Box<Document>,
        /// The states of its steps: what failed is superseded.
        states: States,
    },
    /// The plan fails, for this reason.
    GivenUp(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Patch {
    #[serde(default)]
    remove: Vec<String>,
    #[serde(default)]
    add: Vec<Value>,
    output: Option<Value>,
    give_up: Option<String>,
}

/// The plan after a patch `{"remove": [paths], "add": [steps], "output"?, "give_up": "why"?}`.
///
/// # Errors
/// Every problem, with a pointer into the patch (`/add/0/…`) or, for what stays, into the merged document (`/steps/2/…`).
pub fn patch(
    document: &Value,
    states: &States,
    patch: &Value,
    offer: Offer<'_>,
) -> Result<Patched, Vec<Problem>> {
    let read: Patch = serde_json::from_value(patch.clone())
        .map_err(|error| vec![Problem::new("", error.to_string().chars().take(300).collect::<String>())])?;
    if let Some(why) = read.give_up.as_deref().map(str::trim).filter(|why| !why.is_empty()) {
        return Ok(Patched::GivenUp(why.chars().take(1_000).collect()));
    }
    if read.remove.is_empty() && read.add.is_empty() && read.output.is_none() {
        return Err(vec![Problem::new("", "changes nothing: it has `remove`, `add`, `output` or `give_up`")]);
    }
    // Steps that stay may use tools that are no longer offered.
    let mut tools = offer.tools.to_vec();
    tools.extend(used_tools(document));
    let all = Offer { tools: &tools, steps: MAX_STEPS };
    let old = Document::parse(&document.to_string(), all)?;
    let mut json = document.clone();
    let mut problems = Vec::new();
    for (at, path) in read.remove.iter().enumerate() {
        if let Err(message) = remove(&mut json, &old, states, path) {
            problems.push(Problem::new(format!("/remove/{at}"), message));
        }
    }
    let kept = json.get("steps").and_then(Value::as_array).map_or(0, Vec::len);
    if let Some(steps) = json.get_mut("steps").and_then(Value::as_array_mut) {
        steps.extend(read.add);
    }
    if let Some(output) = read.output {
        json["output"] = output;
    }
    ensure!(problems.is_empty(), problems);
    let new = Document::parse(&json.to_string(), all).map_err(|problems| moved(problems, kept))?;
    let fresh = new.steps.get(kept..).unwrap_or_default();
    let failures = failures(&old, states);
    let mut states = states.clone();
    states.forget(|path| read.remove.iter().any(|gone| is_inside(path, gone)));
    revive(&new, &mut states);
    check_new(fresh, &new, &states, &failures, offer, &mut problems);
    let (count, most) = (count(&new.steps), offer.steps.max(count(&old.steps)));
    if problems.is_empty() && count > most {
        let text = format!("makes a plan of {count} steps, at most {most} are allowed");
        problems.push(Problem::new("/add", text));
    }
    ensure!(problems.is_empty(), problems);
    let is_lost = |state: &State| matches!(state.status, Status::Failed | Status::Cancelled);
    for path in states.paths(|_, state| is_lost(state) && !state.superseded) {
        states.of(&path).superseded = true;
    }
    Ok(Patched::Changed { document: Box::new(new), json, states })
}

/// The steps, and those inside them.
fn count(steps: &[Step]) -> usize {
    let mut count = 0;
    steps.iter().for_each(|step| visit(step, "", &mut |_, _| count += 1));
    count
}

/// Makes those steps pending again that had been skipped because of a failure and no longer wait for one.
fn revive(document: &Document, states: &mut States) {
    loop {
        let is_lost = |id: &String| {
            let step = document.steps.iter().find(|step| step.id == *id);
            match status(states, id) {
                Status::Cancelled => true,
                Status::Failed => step.is_some_and(|step| step.on_error != OnError::Continue),
                _ => was_left_out(states, id),
            }
        };
        let may_begin = |step: &&Step| was_left_out(states, &step.id) && !step.after.iter().any(is_lost);
        let Some(step) = document.steps.iter().find(may_begin) else { return };
        states.forget(|path| is_inside(path, &step.id));
    }
}

/// Whether a step was skipped because one before it failed.
pub(super) fn was_left_out(states: &States, path: &str) -> bool {
    states.get(path).is_some_and(|state| {
        state.status == Status::Skipped
            && state.error.as_ref().is_some_and(|error| error.code == "dependency_failed")
    })
}

fn used_tools(document: &Value) -> Vec<&str> {
    match document {
        Value::Array(items) => items.iter().flat_map(used_tools).collect(),
        Value::Object(fields) => {
            let own = fields.get("tool").and_then(Value::as_str);
            let of_task = fields.get("tools").and_then(Value::as_array).into_iter().flatten();
            let inner = ["steps", "then", "else"].iter().filter_map(|name| fields.get(*name));
            let of_task = of_task.filter_map(Value::as_str);
            own.into_iter().chain(of_task).chain(inner.flat_map(used_tools)).collect()
        }
        _ => Vec::new(),
    }
}

pub(crate) fn is_inside(path: &str, container: &str) -> bool {
    path.strip_prefix(container).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Takes a step out of the document, if it has not started.
fn remove(json: &mut Value, old: &Document, states: &States, path: &str) -> Result<(), String> {
    let Some(found) = step(old, path).filter(|_| !path.contains('[')) else {
        let ids: Vec<&str> = old.steps.iter().map(|step| step.id.as_str()).collect();
        return Err(unknown("step", path, &ids));
    };
    let parts: Vec<&str> = path.split('.').collect();
    // A step in a container that has begun belongs to what happens there.
    for end in 1..=parts.len() {
        let outer = parts[..end].join(".");
        let status = status(states, &outer);
        if status != Status::Pending && !was_left_out(states, &outer) {
            let what =
                if end == parts.len() { "it".to_owned() } else { format!("`{outer}`, which contains it,") };
            let reason = format!("{what} is {status}; only steps that have not started can be");
            return Err(format!("`{path}` cannot be removed: {reason}"));
        }
    }
    let mut here = json;
    for (at, part) in parts.iter().enumerate() {
        let lists = ["steps", "then", "else"];
        let holds =
            |value: &Value| value.as_array().is_some_and(|list| list.iter().any(|step| step["id"] == **part));
        let name = lists.into_iter().find(|name| here.get(*name).is_some_and(holds));
        let list = name.and_then(|name| here.get_mut(name)).and_then(Value::as_array_mut);
        let Some(list) = list else { return Err(format!("`{}` is gone already", found.id)) };
        let Some(index) = list.iter().position(|step| step["id"] == **part) else { break };
        if at + 1 == parts.len() {
            list.remove(index);
            break;
        }
        here = &mut list[index];
    }
    Ok(())
}

/// Pointers to new steps, as the author of the patch knows them.
fn moved(problems: Vec<Problem>, kept: usize) -> Vec<Problem> {
    let moved = problems.into_iter().map(|problem| {
        let rest = problem.pointer.strip_prefix("/steps/").unwrap_or_default();
        let (index, rest) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        match index.parse::<usize>().ok().and_then(|index| index.checked_sub(kept)) {
            Some(at) => Problem::new(format!("/add/{at}{rest}"), problem.message),
            None => problem,
        }
    });
    moved.collect()
}

/// What only new steps have to satisfy: their tools are offered, what they wait for can still succeed, and they are no work that
/// failed again and again.
fn check_new(
    fresh: &[Step],
    new: &Document,
    states: &States,
    failures: &BTreeMap<String, u32>,
    offer: Offer<'_>,
    problems: &mut Vec<Problem>,
) {
    let mut count = 0;
    for (at, added) in fresh.iter().enumerate() {
        let here = format!("/add/{at}");
        for id in &added.after {
            let state = status(states, id);
            let waits = match new.steps.iter().find(|step| step.id == *id) {
                Some(step) if step.on_error != OnError::Continue => {
                    matches!(state, Status::Failed | Status::Cancelled) || was_left_out(states, id)
                }
                _ => false,
            };
            if waits {
                let todo = "add a step that does its work, and wait for that";
                let reason = format!("waits for `{id}`, which is {state}, so it would never start: {todo}");
                problems.push(Problem::new(&here, reason));
            }
        }
        visit(added, &here, &mut |step, pointer| {
            count += 1;
            let named: Vec<&String> = match &step.action {
                Action::Tool { tool, .. } => vec![tool],
                Action::Task { tools, .. } => tools.iter().collect(),
                _ => Vec::new(),
            };
            for tool in named.into_iter().filter(|tool| !offer.tools.contains(&tool.as_str())) {
                problems.push(Problem::new(pointer, unknown("tool", tool, offer.tools)));
            }
            let failed = key(step).and_then(|key| failures.get(&key)).copied().unwrap_or_default();
            if failed >= STALL {
                let what = format!("is the same work that failed {failed} times already");
                problems.push(Problem::new(pointer, format!("{what}: do something else, or give up")));
            }
        });
    }
    if count > offer.steps {
        let text = format!("has {count} steps, at most {} are allowed", offer.steps);
        problems.push(Problem::new("/add", text));
    }
}

fn visit(step: &Step, pointer: &str, see: &mut impl FnMut(&Step, &str)) {
    see(step, pointer);
    let names: &[&str] =
        if matches!(step.action, Action::Condition { .. }) { &["then", "else"] } else { &["steps"] };
    for (list, name) in step.lists().into_iter().zip(names) {
        for (at, child) in list.iter().enumerate() {
            visit(child, &format!("{pointer}/{name}/{at}"), see);
        }
    }
}

/// What makes two steps the same work. `None`: a container.
fn key(step: &Step) -> Option<String> {
    let key = match &step.action {
        Action::Tool { tool, args } => json!(["tool", tool, args]),
        Action::Llm { prompt, .. } => json!(["llm", prompt]),
        Action::Task { instructions, .. } => json!(["task", instructions]),
        Action::Input { question, .. } => json!(["input", question]),
        _ => return None,
    };
    Some(key.to_string())
}

/// How often each work failed: the attempts of steps that have failed.
fn failures(document: &Document, states: &States) -> BTreeMap<String, u32> {
    let mut failures = BTreeMap::new();
    for (path, state) in states.iter().filter(|(_, state)| state.status == Status::Failed) {
        if let Some(key) = step(document, path).and_then(key) {
            *failures.entry(key).or_default() += state.attempt.max(1);
        }
    }
    failures
}
