//! Reads a document field by field, so that each problem has its pointer. Names in expressions are dependencies, and cycles are
//! refused.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::document::{
    Action, Document, Join, MAX_STEPS, MAX_TURNS, Offer, OnError, Problem, Retry, Step, unknown,
};
use super::expression::names;
use crate::question;

/// Maximum nesting of containers.
const MAX_DEPTH: usize = 3;

/// Problems reported of one document.
const MAX_PROBLEMS: usize = 20;

const MAX_RETRIES: u32 = 5;

const MAX_AT_ONCE: usize = 20;

const MAX_OUTPUT_TOKENS: u32 = 100_000;

/// Seconds that a question may stay open: a week.
const MAX_EXPIRES_S: u32 = 604_800;

/// Steps whose results an executor is given.
const MAX_CONTEXT: usize = 20;

const TYPES: [&str; 7] = ["tool", "llm", "task", "input", "condition", "parallel", "loop"];

/// Other names of types, which are accepted.
const ALIASES: [(&str, &str); 4] =
    [("tool_call", "tool"), ("llm_decision", "llm"), ("executor", "task"), ("user_input", "input")];

const FIELDS: [&str; 8] = ["id", "type", "title", "after", "when", "retry", "timeout_s", "on_error"];

// The fields of the types of steps; others were refused before these are read.
#[derive(Deserialize)]
struct Tool {
    tool: String,
    #[serde(default)]
    args: Map<String, Value>,
}

#[derive(Deserialize)]
struct Llm {
    prompt: String,
    schema: Option<Value>,
    max_output_tokens: Option<u32>,
}

#[derive(Deserialize)]
struct Task {
    instructions: String,
    #[serde(default)]
    tools: Vec<String>,
    #[serde(default)]
    context: Vec<String>,
    schema: Option<Value>,
}

#[derive(Deserialize)]
struct Input {
    question: String,
    schema: Option<Value>,
    default: Option<Value>,
    expires_s: Option<u32>,
}

#[derive(Deserialize)]
struct Parallel {
    steps: Vec<Value>,
    #[serde(default)]
    join: Join,
    at_once: Option<usize>,
}

// Their fields are words of the language.
#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "if")]
    test: String,
    then: Vec<Value>,
    #[serde(default, rename = "else")]
    otherwise: Vec<Value>,
}

#[derive(Deserialize)]
struct Loop {
    over: Option<String>,
    #[serde(rename = "while")]
    test: Option<String>,
    #[serde(rename = "as")]
    name: Option<String>,
    max: usize,
    at_once: Option<usize>,
    steps: Vec<Value>,
}

#[derive(Deserialize)]
struct Common {
    id: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    after: BTreeSet<String>,
    when: Option<String>,
    retry: Option<Retry>,
    timeout_s: Option<u32>,
    #[serde(default)]
    on_error: OnError,
}

pub(super) struct Reader<'o> {
    offer: Offer<'o>,
    count: usize,
    /// Steps that checking the defaults of all questions may still take.
    schema_work: usize,
    pub(super) problems: Vec<Problem>,
}

impl<'o> Reader<'o> {
    pub(super) fn new(offer: Offer<'o>) -> Self {
        Self { offer, count: 0, schema_work: question::schema::MAX_WORK, problems: Vec::new() }
    }

    fn wrong(&mut self, pointer: impl Into<String>, message: impl Into<String>) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem::new(pointer, message));
        }
    }

    pub(super) fn document(&mut self, value: &Value) -> Option<Document> {
        let Some(fields) = value.as_object() else {
            self.wrong("", "must be an object");
            return None;
        };
        self.fields(fields, &["v", "goal", "steps", "output"], "");
        if fields.get("v") != Some(&Value::from(1)) {
            self.wrong("/v", "must be 1, the only version there is");
        }
        let goal = fields.get("goal").and_then(Value::as_str).unwrap_or_default();
        if goal.is_empty() || goal.chars().count() > 1_000 {
            self.wrong("/goal", "must be a text of 1 to 1,000 characters");
        }
        let Some(steps) = fields.get("steps").and_then(Value::as_array) else {
            self.wrong("/steps", "must be a list of steps");
            return None;
        };
        let steps = self.list(steps, "/steps", 0);
        Some(Document { goal: goal.to_owned(), steps, output: fields.get("output").cloned() })
    }

    fn fields(&mut self, fields: &Map<String, Value>, allowed: &[&str], pointer: &str) {
        for name in fields.keys().filter(|name| !allowed.contains(&name.as_str())) {
            let escaped = name.replace('~', "~0").replace('/', "~1");
            self.wrong(format!("{pointer}/{escaped}"), unknown("field", name, allowed));
        }
    }

    fn list(&mut self, values: &[Value], pointer: &str, depth: usize) -> Vec<Step> {
        if depth > MAX_DEPTH {
            self.wrong(pointer, format!("is nested too deeply: at most {MAX_DEPTH} containers"));
            return Vec::new();
        }
        self.count += values.len();
        if values.is_empty() || self.count > self.offer.steps.min(MAX_STEPS) {
            self.wrong(pointer, format!("a plan has 1 to {} steps in all", self.offer.steps.min(MAX_STEPS)));
            return Vec::new();
        }
        let each = values.iter().enumerate();
        each.filter_map(|(at, value)| self.step(value, &format!("{pointer}/{at}"), depth)).collect()
    }

    fn step(&mut self, value: &Value, pointer: &str, depth: usize) -> Option<Step> {
        let Some(fields) = value.as_object() else {
            self.wrong(pointer, "must be an object");
            return None;
        };
        let given = fields.get("type").and_then(Value::as_str).unwrap_or_default();
        let type_ = ALIASES.iter().find(|(alias, _)| *alias == given).map_or(given, |(_, name)| name);
        if !TYPES.contains(&type_) {
            self.wrong(format!("{pointer}/type"), unknown("type of step", given, &TYPES));
            return None;
        }
        let own: &[&str] = match type_ {
            "tool" => &["tool", "args"],
            "llm" => &["prompt", "schema", "max_output_tokens"],
            "task" => &["instructions", "tools", "context", "schema"],
            "input" => &["question", "schema", "default", "expires_s"],
            "parallel" => &["steps", "join", "at_once"],
            "condition" => &["if", "then", "else"],
            _ => &["over", "while", "as", "max", "at_once", "steps"],
        };
        let before = self.problems.len();
        self.fields(fields, &[&FIELDS[..], own].concat(), pointer);
        if self.problems.len() > before {
            return None;
        }
        let (mut shared, mut special) = (Map::new(), Map::new());
        for (name, value) in fields.iter().filter(|(name, _)| *name != "type") {
            let into = if FIELDS.contains(&name.as_str()) { &mut shared } else { &mut special };
            into.insert(name.clone(), value.clone());
        }
        let common: Common = self.read(shared, pointer)?;
        self.common(&common, pointer);
        let action = self.action(type_, special, pointer, depth)?;
        let title = if common.title.is_empty() { common.id.clone() } else { common.title };
        let Common { id, after, when, retry, timeout_s, on_error, .. } = common;
        Some(Step { id, title, after, when, retry, timeout_s, on_error, action })
    }

    fn read<T: serde::de::DeserializeOwned>(
        &mut self,
        fields: Map<String, Value>,
        pointer: &str,
    ) -> Option<T> {
        match serde_json::from_value(Value::Object(fields)) {
            Ok(read) => Some(read),
            Err(error) => {
                self.wrong(pointer, error.to_string().chars().take(300).collect::<String>());
                None
            }
        }
    }

    fn common(&mut self, common: &Common, pointer: &str) {
        if !is_name(&common.id) || RESERVED.contains(&common.id.as_str()) {
            let reserved = RESERVED.join(", ");
            self.wrong(
                format!("{pointer}/id"),
                format!("must be 1 to 32 characters a-z, 0-9 and _, begin with a letter, and not be one of {reserved}"),
            );
        }
        if common.title.chars().count() > 120 {
            self.wrong(format!("{pointer}/title"), "has more than 120 characters");
        }
        if common.retry.is_some_and(|retry| retry.max > MAX_RETRIES || retry.base_ms > 60_000) {
            self.wrong(
                format!("{pointer}/retry"),
                format!("max is at most {MAX_RETRIES}, base_ms at most 60000"),
            );
        }
        if common.timeout_s.is_some_and(|s| !(1..=86_400).contains(&s)) {
            self.wrong(format!("{pointer}/timeout_s"), "must be 1 to 86400");
        }
    }

    fn tool(&mut self, name: &str, pointer: String) {
        if !self.offer.tools.contains(&name) {
            self.wrong(pointer, unknown("tool", name, self.offer.tools));
        }
    }

    fn at_once(&mut self, given: Option<usize>, default: usize, pointer: &str) -> usize {
        if given.is_some_and(|given| !(1..=MAX_AT_ONCE).contains(&given)) {
            self.wrong(format!("{pointer}/at_once"), format!("must be 1 to {MAX_AT_ONCE}"));
        }
        given.unwrap_or(default).clamp(1, MAX_AT_ONCE)
    }

    fn action(
        &mut self,
        type_: &str,
        own: Map<String, Value>,
        pointer: &str,
        depth: usize,
    ) -> Option<Action> {
        Some(match type_ {
            "tool" => {
                let Tool { tool, args } = self.read(own, pointer)?;
                self.tool(&tool, format!("{pointer}/tool"));
                Action::Tool { tool, args }
            }
            "llm" => {
                let Llm { prompt, schema, max_output_tokens } = self.read(own, pointer)?;
                if max_output_tokens.is_some_and(|most| !(1..=MAX_OUTPUT_TOKENS).contains(&most)) {
                    self.wrong(
                        format!("{pointer}/max_output_tokens"),
                        format!("must be 1 to {MAX_OUTPUT_TOKENS}"),
                    );
                }
                Action::Llm { prompt, schema, max_output_tokens }
            }
            "task" => {
                let Task { instructions, tools, context, schema } = self.read(own, pointer)?;
                for (at, tool) in tools.iter().enumerate() {
                    self.tool(tool, format!("{pointer}/tools/{at}"));
                }
                if context.len() > MAX_CONTEXT {
                    self.wrong(format!("{pointer}/context"), format!("has more than {MAX_CONTEXT} ids"));
                }
                Action::Task { instructions, tools, context, schema }
            }
            "input" => self.input(own, pointer)?,
            "condition" => {
                let Condition { test, then, otherwise } = self.read(own, pointer)?;
                let then = self.list(&then, &format!("{pointer}/then"), depth + 1);
                let otherwise = match otherwise.is_empty() {
                    true => Vec::new(),
                    false => self.list(&otherwise, &format!("{pointer}/else"), depth + 1),
                };
                Action::Condition { test, then, otherwise }
            }
            "parallel" => {
                let Parallel { steps, join, at_once } = self.read(own, pointer)?;
                let steps = self.list(&steps, &format!("{pointer}/steps"), depth + 1);
                Action::Parallel { steps, join, at_once: self.at_once(at_once, 5, pointer) }
            }
            _ => self.loop_(own, pointer, depth)?,
        })
    }

    fn input(&mut self, own: Map<String, Value>, pointer: &str) -> Option<Action> {
        let Input { question, schema, default, expires_s } = self.read(own, pointer)?;
        let expires_s = expires_s.unwrap_or(86_400);
        if !(1..=MAX_EXPIRES_S).contains(&expires_s) {
            self.wrong(format!("{pointer}/expires_s"), format!("must be 1 to {MAX_EXPIRES_S}"));
        }
        if let (Some(schema), Some(default)) = (&schema, &default)
            && let Err(mismatch) = question::schema::check_within(schema, default, &mut self.schema_work)
        {
            self.wrong(
                format!("{pointer}/default{}", mismatch.pointer),
                format!("does not match the schema: {}", mismatch.reason),
            );
        }
        Some(Action::Input { question, schema, default, expires_s })
    }

    fn loop_(&mut self, own: Map<String, Value>, pointer: &str, depth: usize) -> Option<Action> {
        let Loop { over, test, name, max, at_once, steps } = self.read(own, pointer)?;
        if over.is_some() == test.is_some() {
            self.wrong(pointer, "a loop has either `over` or `while`");
        }
        let name = name.unwrap_or_else(|| "item".to_owned());
        if !is_name(&name) || RESERVED.contains(&name.as_str()) {
            self.wrong(format!("{pointer}/as"), "must be a name like an id");
        }
        if !(1..=MAX_TURNS).contains(&max) {
            self.wrong(format!("{pointer}/max"), format!("must be 1 to {MAX_TURNS}"));
        }
        // Turns of a `while` follow each other, as each decides about the next.
        let at_once = if test.is_some() { 1 } else { self.at_once(at_once, 1, pointer) };
        let steps = self.list(&steps, &format!("{pointer}/steps"), depth + 1);
        Some(Action::Loop { over, test, name, max, at_once, steps })
    }
}

fn is_name(name: &str) -> bool {
    (1..=32).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

/// Names that are in every context.
const RESERVED: [&str; 3] = ["input", "now", "loop"];

/// Adds implied dependencies; reports duplicate ids, unknown names, wrong expressions and cycles.
pub(super) fn check_dependencies(document: &mut Document, problems: &mut Vec<Problem>) {
    let names = BTreeSet::new();
    list(&mut document.steps, "/steps", Scope { names: &names, without: None, outer: None }, problems);
    let names: BTreeSet<String> = document.steps.iter().map(|step| step.id.clone()).collect();
    if let Some(output) = &document.output {
        let mut found = BTreeSet::new();
        texts(output, "/output", &mut found, problems, 0);
        check_names(&found, Scope { names: &names, without: None, outer: None }, "/output", problems);
    }
}

/// What expressions can name: the steps of a list or the variable of a loop, and what is around them.
#[derive(Clone, Copy)]
struct Scope<'s> {
    names: &'s BTreeSet<String>,
    /// The container whose steps are checked: they cannot read it.
    without: Option<&'s str>,
    outer: Option<&'s Scope<'s>>,
}

impl Scope<'_> {
    fn has(&self, name: &str) -> bool {
        self.names.contains(name) && self.without != Some(name)
            || self.outer.is_some_and(|outer| outer.has(name))
    }

    fn all(&self) -> BTreeSet<&str> {
        let mut all = self.outer.map(Scope::all).unwrap_or_default();
        all.extend(self.names.iter().map(String::as_str).filter(|name| self.without != Some(name)));
        all
    }
}

/// Adds a problem, unless enough are known.
fn add(problems: &mut Vec<Problem>, pointer: impl FnOnce() -> String, message: impl FnOnce() -> String) {
    if problems.len() < MAX_PROBLEMS {
        problems.push(Problem::new(pointer(), message()));
    }
}

fn check_names(found: &BTreeSet<String>, scope: Scope<'_>, pointer: &str, problems: &mut Vec<Problem>) {
    for name in found.iter().filter(|name| !scope.has(name) && !["input", "now"].contains(&name.as_str())) {
        add(
            problems,
            || pointer.to_owned(),
            || {
                let mut existing: Vec<&str> = scope.all().into_iter().collect();
                existing.extend(["input", "now"]);
                unknown("step or variable", name, &existing)
            },
        );
    }
}

/// Checks a list. Returns the names from outside of it that its steps use.
fn list(
    steps: &mut [Step],
    pointer: &str,
    outer: Scope<'_>,
    problems: &mut Vec<Problem>,
) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for (at, step) in steps.iter().enumerate() {
        if outer.has(&step.id) || !ids.insert(step.id.clone()) {
            add(problems, || format!("{pointer}/{at}/id"), || format!("`{}` is used twice", step.id));
        }
    }
    let mut read = BTreeSet::new();
    for (at, step) in steps.iter_mut().enumerate() {
        let here = format!("{pointer}/{at}");
        for after in step.after.iter().filter(|after| !ids.contains(*after)) {
            let existing = || ids.iter().map(String::as_str).collect::<Vec<_>>();
            add(problems, || format!("{here}/after"), || unknown("step", after, &existing()));
        }
        let scope = Scope { names: &ids, without: None, outer: Some(&outer) };
        let found = used(step, &here, scope, problems);
        check_names(&found, scope, &here, problems);
        step.after.extend(found.iter().filter(|name| ids.contains(*name)).cloned());
        read.extend(found.into_iter().filter(|name| outer.has(name)));
    }
    if let Some(cycle) = cycle(steps) {
        add(problems, || pointer.to_owned(), || format!("steps wait for each other: {}", cycle.join(" → ")));
    }
    read
}

/// The names that a step and those inside it use; checks the latter.
fn used(step: &mut Step, here: &str, visible: Scope<'_>, problems: &mut Vec<Problem>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut take = |source: &str, field: &str, is_template: bool, problems: &mut Vec<Problem>| match names(
        source,
        is_template,
    ) {
        Ok(names) => found.extend(names),
        Err(error) => add(problems, || format!("{here}/{field}"), || error.to_string()),
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
    visible: Scope<'_>,
    found: &mut BTreeSet<String>,
    problems: &mut Vec<Problem>,
) {
    let Step { id, action, .. } = step;
    let around = Scope { without: Some(id), ..visible };
    let read = match action {
        Action::Condition { then, otherwise, .. } => {
            let mut read = list(then, &format!("{here}/then"), around, problems);
            read.extend(list(otherwise, &format!("{here}/else"), around, problems));
            let before: BTreeSet<&str> = then.iter().map(|step| step.id.as_str()).collect();
            for (at, child) in otherwise.iter().enumerate().filter(|(_, child)| before.contains(&*child.id)) {
                let pointer = || format!("{here}/else/{at}/id");
                add(problems, pointer, || format!("`{}` is in `then`, too", child.id));
            }
            read
        }
        Action::Parallel { steps, .. } => list(steps, &format!("{here}/steps"), around, problems),
        Action::Loop { steps, name, .. } => {
            let variable = BTreeSet::from([name.clone()]);
            let scope = Scope { names: &variable, without: None, outer: Some(&around) };
            let mut read = list(steps, &format!("{here}/steps"), scope, problems);
            read.remove(name);
            read
        }
        _ => return,
    };
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
        _ if depth > 15 => {
            add(problems, || pointer.to_owned(), || "is nested too deeply: at most 15 levels".to_owned());
        }
        Value::String(text) => match names(text, true) {
            Ok(names) => found.extend(names),
            Err(error) => add(problems, || pointer.to_owned(), || error.to_string()),
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
    let at: BTreeMap<&str, usize> =
        steps.iter().enumerate().map(|(at, step)| (step.id.as_str(), at)).collect();
    let before = |step: &Step| step.after.iter().filter_map(|id| at.get(id.as_str()).copied()).collect();
    let before: Vec<Vec<usize>> = steps.iter().map(before).collect();
    let mut behind = vec![Vec::new(); steps.len()];
    for (step, waits_for) in before.iter().enumerate() {
        waits_for.iter().for_each(|other| behind[*other].push(step));
    }
    let mut open: Vec<usize> = before.iter().map(Vec::len).collect();
    let mut ready: Vec<usize> = (0..steps.len()).filter(|step| open[*step] == 0).collect();
    while let Some(done) = ready.pop() {
        for step in &behind[done] {
            open[*step] -= 1;
            if open[*step] == 0 {
                ready.push(*step);
            }
        }
    }
    // Each of those left waits for another of them, so following them must come to one twice.
    let mut path = vec![(0..steps.len()).find(|step| open[*step] > 0)?];
    let mut places = vec![None; steps.len()];
    loop {
        let last = *path.last()?;
        places[last] = Some(path.len() - 1);
        let next = before[last].iter().copied().filter(|step| open[*step] > 0).min()?;
        if let Some(start) = places[next] {
            let ids = path[start..].iter().chain([&next]).map(|step| steps[*step].id.clone());
            return Some(ids.collect());
        }
        path.push(next);
    }
}
