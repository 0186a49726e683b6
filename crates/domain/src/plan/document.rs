//! The document of a plan, version 1: its limits, what is wrong with it, whether it asks before it begins, and the files that
//! plans are made of.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::parse::Reader;
use crate::autonomy::Autonomy;
use crate::question::schema;
use crate::setting::{positive, within};
use crate::time::Time;
use crate::tool_call::EffectClass;

/// Maximum size of a document as JSON, in bytes.
pub const MAX_BYTES: usize = 512 * 1024;

/// Size of a document that is read within a millisecond or two. Larger ones are read on threads for computations.
pub const SMALL_BYTES: usize = 16 * 1024;

/// Maximum size of what a plan is given as `input`, as JSON in bytes.
pub const MAX_INPUT_BYTES: usize = 64 * 1024;

/// Maximum number of steps of a document, and of those in the turns of all loops. All of them are read when a worker takes the
/// plan, and walked over whenever it goes on.
pub const MAX_STEPS: usize = 2_000;

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
    pub fn is_container(&self) -> bool {
        matches!(self, Self::Condition { .. } | Self::Parallel { .. } | Self::Loop { .. })
    }
}

impl Step {
    /// The lists of steps inside it.
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
            let reason = format!("has {} bytes, at most {MAX_BYTES} are allowed", json.len());
            return Err(vec![Problem::new("", reason)]);
        }
        let value: Value = serde_json::from_str(json)
            .map_err(|error| vec![Problem::new("", format!("is not JSON: {error}"))])?;
        Reader::new(offer).read(&value)
    }
}

settings! {
    /// `jobs/plans.toml`. Reasons for the values are in that file.
    #[serde(default)]
    pub struct Limits {
        /// Maximum number of steps in a document of a model.
        pub steps_of_model: usize = 30, "within::<1, { MAX_STEPS as u64 }, _, _>";
        /// Maximum number of steps in a document of a request.
        pub steps_of_request: usize = MAX_STEPS, "within::<1, { MAX_STEPS as u64 }, _, _>";
        /// How often a model changes a plan because of a failure.
        pub replans: u32 = super::MAX_REPLANS;
        /// How often a model corrects a change that was refused.
        pub repairs: u32 = super::MAX_REPAIRS;
        /// Seconds after which a plan fails that its agent waits for.
        pub attached_s: u32 = 600, "positive";
        /// Seconds after which any other plan fails.
        pub detached_s: u32 = 86_400, "positive";
        /// Calls of tools and models at the same time.
        pub at_once: usize = 5, "positive";
        /// Executors at the same time.
        pub executors: usize = 5, "positive";
        /// Maximum number of calls of tools by one plan.
        pub tool_calls: u32 = 2_000;
        /// Maximum number of calls of models by one plan.
        pub model_calls: u32 = 50;
    }
}

/// Something wrong in a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
// The pointer of the whole document is empty.
#[error("{}{message}", if .pointer.is_empty() { String::new() } else { format!("{}: ", .pointer) })]
pub struct Problem {
    /// JSON pointer to the value.
    pub pointer: String,
    /// What is wrong and what is allowed.
    pub message: String,
}

impl Problem {
    pub(super) fn new(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), message: message.into() }
    }
}

/// Names that an error lists.
const MAX_NAMES: usize = 50;

/// A name that does not exist, those that do, and the most similar one.
pub(super) fn unknown(what: &str, given: &str, existing: &[&str]) -> String {
    let given: String = given.chars().take(64).collect();
    let rated = existing.iter().map(|name| (strsim::damerau_levenshtein(&given, name), *name));
    let near =
        rated.min().filter(|(typos, name)| *typos <= name.chars().count().max(given.chars().count()) / 3);
    let like = near.map(|(_, name)| format!("; did you mean `{name}`?")).unwrap_or_default();
    let list = match existing {
        [] => "none".to_owned(),
        [first @ .., _] if existing.len() > MAX_NAMES => {
            format!("{}, and {} more", first[..MAX_NAMES].join(", "), existing.len() - MAX_NAMES)
        }
        all => all.join(", "),
    };
    format!("there is no {what} `{given}`; there are: {list}{like}")
}

/// Why a plan asks first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approval {
    /// Agents of this level ask before every plan.
    Level,
    /// These steps, in a loop or side by side with others, call tools that act outside Houston.
    Effects(Vec<String>),
}

/// Why the plan asks first. `None`: it begins at once. `effect` returns the class of a tool.
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

/// Maximum length of a name, and of a description, in characters.
const MAX_NAME_CHARS: usize = 40;

const MAX_DESCRIPTION_CHARS: usize = 300;

/// A document that plans are made of.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// Its name: that of its file.
    pub name: String,
    /// What its plans are for: agents read it to choose.
    pub description: String,
    /// JSON schema of the input.
    pub input: Value,
    /// The document.
    pub document: Value,
}

impl Template {
    /// Reads the file with this stem. `tools`: those that steps may name.
    ///
    /// # Errors
    /// Every problem, with a JSON pointer into the file.
    pub fn parse(json: &str, stem: &str, tools: &[&str]) -> Result<Self, Vec<Problem>> {
        let template: Self =
            serde_json::from_str(json).map_err(|error| vec![Problem::new("", error.to_string())])?;
        let Self { name, description, input, document } = &template;
        let mut problems = Vec::new();
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
        if name != stem || name.len() > MAX_NAME_CHARS || !name.chars().all(is_plain) {
            let reason = format!(
                "must be `{stem}`, as the file is called: at most {MAX_NAME_CHARS} characters a-z, 0-9, _ and -"
            );
            problems.push(Problem::new("/name", reason));
        }
        if !(1..=MAX_DESCRIPTION_CHARS).contains(&description.trim().chars().count()) {
            let reason = format!("must have 1 to {MAX_DESCRIPTION_CHARS} characters");
            problems.push(Problem::new("/description", reason));
        }
        if input.get("type").and_then(Value::as_str) != Some("object") {
            problems.push(Problem::new("/input/type", "must be \"object\": the input of a plan is one"));
        }
        if let Err(wrong) = Document::parse(&document.to_string(), Offer { tools, steps: MAX_STEPS }) {
            let moved = wrong.into_iter();
            problems.extend(moved.map(|one| Problem::new(format!("/document{}", one.pointer), one.message)));
        }
        if problems.is_empty() { Ok(template) } else { Err(problems) }
    }

    /// Checks the input of a plan.
    ///
    /// # Errors
    /// The first problem, with a pointer into the input.
    pub fn check_input(&self, input: &Value) -> Result<(), Problem> {
        schema::check(&self.input, input).map_err(|wrong| Problem::new(wrong.pointer, wrong.reason))
    }

    /// The names of the fields of the input.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        let fields = self.input.get("properties").and_then(Value::as_object);
        fields.into_iter().flatten().map(|(name, _)| name.as_str())
    }
}

/// All templates, by name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Templates(BTreeMap<String, Template>);

impl Templates {
    /// These templates; of several with the same name the last.
    pub fn new(templates: impl IntoIterator<Item = Template>) -> Self {
        Self(templates.into_iter().map(|template| (template.name.clone(), template)).collect())
    }

    /// The template with this name.
    ///
    /// # Errors
    /// Which there are, and the most similar one.
    pub fn get(&self, name: &str) -> Result<&Template, String> {
        let names: Vec<&str> = self.0.keys().map(String::as_str).collect();
        self.0.get(name).ok_or_else(|| unknown("template", name, &names))
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Template> {
        self.0.values()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A document of a plan.
///
/// ```json
/// {"version": 2, "reason": "`find` failed: 404", "document": {"v": 1, "goal": "Compare hotels", "steps": []},
///  "created_at": "2026-11-22T09:00:30.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = PlanVersionResponse))]
pub struct PlanVersion {
    pub version: i32,
    /// Why there is this version; empty for the first.
    pub reason: String,
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, crate::schema::AnyJson>))]
    pub document: Value,
    pub created_at: Time,
}
