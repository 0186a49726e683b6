//! Reads a document field by field, so that each problem has its pointer. Names in expressions are dependencies, and cycles are
//! refused.

use std::collections::BTreeSet;
use std::fmt::Display;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::document::{
    Action, Document, Join, MAX_STEPS, MAX_TURNS, Offer, OnError, Problem, Retry, Step, unknown,
};
use super::expression::names;
use super::machine::{by_id, places_after};
use crate::names::is_plain_name;
use crate::question::schema::{MAX_WORK, below, check_within};

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

/// The types of steps, each with another name that is accepted, and its fields.
const TYPES: [(&str, &str, &[&str]); 7] = [
    ("tool", "tool_call", &["tool", "args"]),
    ("llm", "llm_decision", &["prompt", "schema", "max_output_tokens"]),
    ("task", "executor", &["instructions", "tools", "context", "schema"]),
    ("input", "user_input", &["question", "schema", "default", "expires_s"]),
    ("condition", "condition", &["if", "then", "else"]),
    ("parallel", "parallel", &["steps", "join", "at_once"]),
    ("loop", "loop", &["over", "while", "as", "max", "at_once", "steps"]),
];

const FIELDS: [&str; 8] = ["id", "type", "title", "after", "when", "retry", "timeout_s", "on_error"];

/// What a step does, as it is written; other fields were refused before it is read.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Written {
    Tool {
        tool: String,
        #[serde(default)]
        args: Map<String, Value>,
    },
    Llm {
        prompt: String,
        schema: Option<Value>,
        max_output_tokens: Option<u32>,
    },
    Task {
        instructions: String,
        #[serde(default)]
        tools: Vec<String>,
        #[serde(default)]
        context: Vec<String>,
        schema: Option<Value>,
    },
    Input {
        question: String,
        schema: Option<Value>,
        default: Option<Value>,
        expires_s: Option<u32>,
    },
    Condition {
        #[serde(rename = "if")]
        test: String,
        then: Vec<Value>,
        #[serde(default, rename = "else")]
        otherwise: Vec<Value>,
    },
    Parallel {
        steps: Vec<Value>,
        #[serde(default)]
        join: Join,
        at_once: Option<usize>,
    },
    Loop {
        over: Option<String>,
        #[serde(rename = "while")]
        test: Option<String>,
        #[serde(rename = "as")]
        name: Option<String>,
        max: usize,
        at_once: Option<usize>,
        steps: Vec<Value>,
    },
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
    problems: Vec<Problem>,
}

impl<'o> Reader<'o> {
    pub(super) fn new(offer: Offer<'o>) -> Self {
        Self { offer, count: 0, schema_work: MAX_WORK, problems: Vec::new() }
    }

    fn wrong(&mut self, pointer: impl Display, message: impl Display) {
        self.require(false, pointer, message);
    }

    /// Adds a problem unless it `holds`, or enough are known.
    fn require(&mut self, holds: bool, pointer: impl Display, message: impl Display) {
        if !holds && self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem::new(pointer.to_string(), message.to_string()));
        }
    }

    /// The document with the dependencies that its expressions imply.
    pub(super) fn read(mut self, value: &Value) -> Result<Document, Vec<Problem>> {
        let mut document = self.document(value);
        if let Some(document) = document.as_mut().filter(|_| self.problems.is_empty()) {
            self.dependencies(document);
        }
        document.filter(|_| self.problems.is_empty()).ok_or(self.problems)
    }

    fn document(&mut self, value: &Value) -> Option<Document> {
        let Some(fields) = value.as_object() else {
            self.wrong("", "must be an object");
            return None;
        };
        self.fields(fields, &["v", "goal", "steps", "output"], "");
        let is_known = fields.get("v") == Some(&Value::from(1));
        self.require(is_known, "/v", "must be 1, the only version there is");
        let goal = fields.get("goal").and_then(Value::as_str).unwrap_or_default();
        let is_goal = (1..=1_000).contains(&goal.chars().count());
        self.require(is_goal, "/goal", "must be a text of 1 to 1,000 characters");
        let Some(steps) = fields.get("steps").and_then(Value::as_array) else {
            self.wrong("/steps", "must be a list of steps");
            return None;
        };
        let steps = self.list(steps, "/steps", 0);
        Some(Document { goal: goal.to_owned(), steps, output: fields.get("output").cloned() })
    }

    fn fields(&mut self, fields: &Map<String, Value>, allowed: &[&str], pointer: &str) {
        for name in fields.keys().filter(|name| !allowed.contains(&name.as_str())) {
            self.wrong(below(pointer, name), unknown("field", name, allowed));
        }
    }

    fn list(&mut self, values: &[Value], pointer: &str, depth: usize) -> Vec<Step> {
        if depth > MAX_DEPTH {
            self.wrong(pointer, format_args!("is nested too deeply: at most {MAX_DEPTH} containers"));
            return Vec::new();
        }
        self.count += values.len();
        let most = self.offer.steps.min(MAX_STEPS);
        if values.is_empty() || self.count > most {
            self.wrong(pointer, format_args!("a plan has 1 to {most} steps in all"));
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
        let Some((kind, _, own)) = TYPES.iter().find(|(name, other, _)| [*name, *other].contains(&given))
        else {
            let names = TYPES.map(|(name, ..)| name);
            self.wrong(format_args!("{pointer}/type"), unknown("type of step", given, &names));
            return None;
        };
        let before = self.problems.len();
        self.fields(fields, &[&FIELDS[..], *own].concat(), pointer);
        if self.problems.len() > before {
            return None;
        }
        let fields = fields.iter().filter(|(name, _)| *name != "type");
        let fields = fields.map(|(name, value)| (name.clone(), value.clone()));
        let (shared, special): (Map<_, _>, Map<_, _>) =
            fields.partition(|(name, _)| FIELDS.contains(&name.as_str()));
        let common: Common = self.read_fields(shared, pointer)?;
        self.common(&common, pointer);
        let action = self.action(kind, special, pointer, depth)?;
        let title = if common.title.is_empty() { common.id.clone() } else { common.title };
        let Common { id, after, when, retry, timeout_s, on_error, .. } = common;
        Some(Step { id, title, after, when, retry, timeout_s, on_error, action })
    }

    fn read_fields<T: DeserializeOwned>(&mut self, fields: Map<String, Value>, pointer: &str) -> Option<T> {
        let read = serde_json::from_value(Value::Object(fields));
        read.map_err(|error| self.wrong(pointer, error.to_string().chars().take(300).collect::<String>()))
            .ok()
    }

    fn common(&mut self, common: &Common, pointer: &str) {
        let reserved = RESERVED.join(", ");
        let allowed = format_args!(
            "must be 1 to 32 characters a-z, 0-9 and _, begin with a letter, and not be one of {reserved}"
        );
        self.require(is_name(&common.id), format_args!("{pointer}/id"), allowed);
        let is_short = common.title.chars().count() <= 120;
        self.require(is_short, format_args!("{pointer}/title"), "has more than 120 characters");
        let is_usual = common.retry.is_none_or(|retry| retry.max <= MAX_RETRIES && retry.base_ms <= 60_000);
        let allowed = format_args!("max is at most {MAX_RETRIES}, base_ms at most 60000");
        self.require(is_usual, format_args!("{pointer}/retry"), allowed);
        self.within(common.timeout_s, 86_400, format_args!("{pointer}/timeout_s"));
    }

    /// A number, if it is given, is one from 1 to `most`.
    fn within<T>(&mut self, given: Option<T>, most: T, pointer: impl Display)
    where
        T: Copy + Display + From<u8> + PartialOrd,
    {
        let is_within = given.is_none_or(|given| (T::from(1)..=most).contains(&given));
        self.require(is_within, pointer, format_args!("must be 1 to {most}"));
    }

    fn tool(&mut self, name: &str, pointer: impl Display) {
        if !self.offer.tools.contains(&name) {
            self.wrong(pointer, unknown("tool", name, self.offer.tools));
        }
    }

    fn at_once(&mut self, given: Option<usize>, default: usize, pointer: &str) -> usize {
        self.within(given, MAX_AT_ONCE, format_args!("{pointer}/at_once"));
        given.unwrap_or(default).clamp(1, MAX_AT_ONCE)
    }

    fn action(&mut self, kind: &str, own: Map<String, Value>, pointer: &str, depth: usize) -> Option<Action> {
        let given = Map::from_iter([(kind.to_owned(), Value::Object(own))]);
        Some(match self.read_fields(given, pointer)? {
            Written::Tool { tool, args } => {
                self.tool(&tool, format_args!("{pointer}/tool"));
                Action::Tool { tool, args }
            }
            Written::Llm { prompt, schema, max_output_tokens } => {
                let pointer = format_args!("{pointer}/max_output_tokens");
                self.within(max_output_tokens, MAX_OUTPUT_TOKENS, pointer);
                Action::Llm { prompt, schema, max_output_tokens }
            }
            Written::Task { instructions, tools, context, schema } => {
                for (at, tool) in tools.iter().enumerate() {
                    self.tool(tool, format_args!("{pointer}/tools/{at}"));
                }
                let reason = format_args!("has more than {MAX_CONTEXT} ids");
                self.require(context.len() <= MAX_CONTEXT, format_args!("{pointer}/context"), reason);
                Action::Task { instructions, tools, context, schema }
            }
            Written::Input { question, schema, default, expires_s } => {
                self.within(expires_s, MAX_EXPIRES_S, format_args!("{pointer}/expires_s"));
                if let (Some(schema), Some(default)) = (&schema, &default)
                    && let Err(mismatch) = check_within(schema, default, &mut self.schema_work)
                {
                    let pointer = format_args!("{pointer}/default{}", mismatch.pointer);
                    self.wrong(pointer, format_args!("does not match the schema: {}", mismatch.reason));
                }
                Action::Input { question, schema, default, expires_s: expires_s.unwrap_or(86_400) }
            }
            Written::Condition { test, then, otherwise } => {
                let then = self.list(&then, &format!("{pointer}/then"), depth + 1);
                let otherwise = if otherwise.is_empty() {
                    Vec::new()
                } else {
                    self.list(&otherwise, &format!("{pointer}/else"), depth + 1)
                };
                Action::Condition { test, then, otherwise }
            }
            Written::Parallel { steps, join, at_once } => {
                let steps = self.list(&steps, &format!("{pointer}/steps"), depth + 1);
                Action::Parallel { steps, join, at_once: self.at_once(at_once, 5, pointer) }
            }
            Written::Loop { over, test, name, max, at_once, steps } => {
                let has_exactly_one = over.is_some() != test.is_some();
                self.require(has_exactly_one, pointer, "a loop has either `over` or `while`");
                let name = name.unwrap_or_else(|| "item".to_owned());
                self.require(is_name(&name), format_args!("{pointer}/as"), "must be a name like an id");
                self.within(Some(max), MAX_TURNS, format_args!("{pointer}/max"));
                // Turns of a `while` follow each other, as each decides about the next.
                let at_once = if test.is_some() { 1 } else { self.at_once(at_once, 1, pointer) };
                let steps = self.list(&steps, &format!("{pointer}/steps"), depth + 1);
                Action::Loop { over, test, name, max, at_once, steps }
            }
        })
    }
}

fn is_name(name: &str) -> bool {
    is_plain_name(name, b"_", 32) && !RESERVED.contains(&name)
}

/// Names that no step and no variable of a loop may have.
const RESERVED: [&str; 3] = ["input", "now", "loop"];

/// Names that are in every context.
const EVERYWHERE: [&str; 2] = ["input", "now"];

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

// Dependencies: those that expressions imply are added; duplicate ids, unknown names, wrong expressions and cycles are reported.
impl Reader<'_> {
    fn dependencies(&mut self, document: &mut Document) {
        let none = BTreeSet::new();
        self.check_list(&mut document.steps, "/steps", Scope { names: &none, without: None, outer: None });
        let names: BTreeSet<String> = document.steps.iter().map(|step| step.id.clone()).collect();
        if let Some(output) = &document.output {
            let mut found = BTreeSet::new();
            self.texts(output, "/output", &mut found, 0);
            self.check_names(&found, Scope { names: &names, without: None, outer: None }, "/output");
        }
    }

    fn check_names(&mut self, found: &BTreeSet<String>, scope: Scope<'_>, pointer: &str) {
        let is_unknown = |name: &&String| !scope.has(name) && !EVERYWHERE.contains(&name.as_str());
        // Finding the most similar name takes time, and no more problems are reported.
        let left = MAX_PROBLEMS.saturating_sub(self.problems.len());
        for name in found.iter().filter(is_unknown).take(left) {
            let existing: Vec<&str> = scope.all().into_iter().chain(EVERYWHERE).collect();
            self.wrong(pointer, unknown("step or variable", name, &existing));
        }
    }

    /// Checks a list. Returns the names from outside of it that its steps use.
    fn check_list(&mut self, steps: &mut [Step], pointer: &str, outer: Scope<'_>) -> BTreeSet<String> {
        let mut ids = BTreeSet::new();
        for (at, step) in steps.iter().enumerate() {
            let is_new = !outer.has(&step.id) && ids.insert(step.id.clone());
            let reason = format_args!("`{}` is used twice", step.id);
            self.require(is_new, format_args!("{pointer}/{at}/id"), reason);
        }
        let mut read = BTreeSet::new();
        for (at, step) in steps.iter_mut().enumerate() {
            let here = format!("{pointer}/{at}");
            let left = MAX_PROBLEMS.saturating_sub(self.problems.len());
            for after in step.after.iter().filter(|after| !ids.contains(*after)).take(left) {
                let existing: Vec<&str> = ids.iter().map(String::as_str).collect();
                self.wrong(format_args!("{here}/after"), unknown("step", after, &existing));
            }
            let scope = Scope { names: &ids, without: None, outer: Some(&outer) };
            let found = self.used(step, &here, scope);
            self.check_names(&found, scope, &here);
            step.after.extend(found.iter().filter(|name| ids.contains(*name)).cloned());
            read.extend(found.into_iter().filter(|name| outer.has(name)));
        }
        if let Some(cycle) = cycle(steps) {
            self.wrong(pointer, format_args!("steps wait for each other: {}", cycle.join(" → ")));
        }
        read
    }

    /// The names that a step and those inside it use; checks the latter.
    fn used(&mut self, step: &mut Step, here: &str, visible: Scope<'_>) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        if let Some(when) = &step.when {
            self.take(when, false, format_args!("{here}/when"), &mut found);
        }
        let own = match &step.action {
            Action::Tool { args, .. } => {
                self.texts(&Value::Object(args.clone()), &format!("{here}/args"), &mut found, 0);
                None
            }
            Action::Llm { prompt, .. } => Some(("prompt", prompt, true)),
            Action::Task { instructions, context, .. } => {
                found.extend(context.iter().cloned());
                Some(("instructions", instructions, true))
            }
            Action::Input { question, .. } => Some(("question", question, true)),
            Action::Condition { test, .. } => Some(("if", test, false)),
            Action::Loop { over: Some(over), .. } => Some(("over", over, false)),
            Action::Loop { test, .. } => test.as_ref().map(|test| ("while", test, false)),
            Action::Parallel { .. } => None,
        };
        if let Some((field, source, is_template)) = own {
            self.take(source, is_template, format_args!("{here}/{field}"), &mut found);
        }
        if matches!(step.action, Action::Loop { over: None, .. }) {
            // From the second turn on, its own steps' last results are visible to it.
            found.remove(&step.id);
        }
        found.extend(self.inside(step, here, visible));
        found
    }

    /// Adds the names that an expression or a template takes.
    fn take(&mut self, source: &str, is_template: bool, pointer: impl Display, found: &mut BTreeSet<String>) {
        match names(source, is_template) {
            Ok(names) => found.extend(names),
            Err(error) => self.wrong(pointer, error),
        }
    }

    /// Checks the steps inside a container. It waits for all that they read from outside of it, and none of them can read it.
    fn inside(&mut self, step: &mut Step, here: &str, visible: Scope<'_>) -> BTreeSet<String> {
        let Step { id, action, .. } = step;
        let around = Scope { without: Some(id), ..visible };
        match action {
            Action::Condition { then, otherwise, .. } => {
                let mut read = self.check_list(then, &format!("{here}/then"), around);
                read.extend(self.check_list(otherwise, &format!("{here}/else"), around));
                let before: BTreeSet<&str> = then.iter().map(|step| step.id.as_str()).collect();
                for (at, child) in otherwise.iter().enumerate() {
                    let reason = format_args!("`{}` is in `then`, too", child.id);
                    self.require(!before.contains(&*child.id), format_args!("{here}/else/{at}/id"), reason);
                }
                read
            }
            Action::Parallel { steps, .. } => self.check_list(steps, &format!("{here}/steps"), around),
            Action::Loop { steps, name, .. } => {
                let variable = BTreeSet::from([name.clone()]);
                let scope = Scope { names: &variable, without: None, outer: Some(&around) };
                let mut read = self.check_list(steps, &format!("{here}/steps"), scope);
                read.remove(name);
                read
            }
            _ => BTreeSet::new(),
        }
    }

    /// Collects the names in all templates of a value.
    fn texts(&mut self, value: &Value, pointer: &str, found: &mut BTreeSet<String>, depth: usize) {
        match value {
            _ if depth > 15 => self.wrong(pointer, "is nested too deeply: at most 15 levels"),
            Value::String(text) => self.take(text, true, pointer, found),
            Value::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    self.texts(item, &format!("{pointer}/{at}"), found, depth + 1);
                }
            }
            Value::Object(fields) => {
                for (name, field) in fields {
                    self.texts(field, &below(pointer, name), found, depth + 1);
                }
            }
            _ => {}
        }
    }
}

/// A cycle, its first step repeated at the end.
fn cycle(steps: &[Step]) -> Option<Vec<String>> {
    let places = by_id(steps);
    let before: Vec<_> = steps.iter().map(|step| places_after(step, &places)).collect();
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
