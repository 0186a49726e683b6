//! What a started step executes: its templates rendered in the scope of its place.

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use super::document::{Action, Document, Step};
use super::expression;
use super::insert::Origins;
use super::problem::unknown;
use super::scope::{MAX_RESULT, cut, outermost, visible};
use super::state::{Failure, Given, States};
use crate::frame::escape;

/// What a step executes.
#[derive(Debug, Clone, PartialEq)]
pub enum Resolved {
    /// Call of a tool.
    Tool {
        /// The tool.
        name: String,
        /// With their templates rendered.
        args: Map<String, Value>,
    },
    /// One call of a model.
    Llm {
        /// The rendered prompt.
        prompt: String,
        /// What the answer has to match.
        schema: Option<Value>,
        /// `None`: the role's.
        max_output_tokens: Option<u32>,
    },
    /// An executor.
    Task {
        /// The rendered instructions, with the results of the steps in `context` behind them.
        instructions: String,
        /// Tools that it may use; empty: those of its kind.
        tools: Vec<String>,
        /// What the answer has to match.
        schema: Option<Value>,
    },
    /// A question to a person.
    Input {
        /// The rendered question.
        question: String,
        /// What the answer has to match; `None`: any.
        schema: Option<Value>,
        /// The answer if there is none in time.
        default: Option<Value>,
        /// When the question expires.
        expires: Option<DateTime<Utc>>,
    },
}

/// What the step of this path executes.
///
/// # Errors
/// There is no such step, it is a container, or one of its templates cannot be rendered (`VALIDATION_ERROR`: the step fails).
pub fn resolve(
    document: &Document,
    states: &States,
    input: &Value,
    now: DateTime<Utc>,
    path: &str,
) -> Result<Resolved, Failure> {
    let given =
        Given { input, now, paused: false, cancelled: false, deadline: now, may_replan: false, at_once: 0 };
    let mut place = Place { scope: outermost(&given), origins: Origins::new() };
    let found = place.find(&document.steps, states, "", path);
    let step = found.ok_or_else(|| invalid("path", format!("there is no step `{path}`")))?;
    let Place { scope, origins } = &place;
    let prompt = |field: &str, source: &str| {
        expression::prompt(source, scope, origins).map_err(|error| invalid(field, error.to_string()))
    };
    match &step.action {
        Action::Tool { tool, args } => {
            let args = Value::Object(args.clone());
            match expression::value(&args, scope).map_err(|error| invalid("args", error.to_string()))? {
                Value::Object(args) => Ok(Resolved::Tool { name: tool.clone(), args }),
                _ => Err(invalid("args", "is not an object".to_owned())),
            }
        }
        Action::Llm { prompt: source, schema, max_output_tokens } => Ok(Resolved::Llm {
            prompt: prompt("prompt", source)?,
            schema: schema.clone(),
            max_output_tokens: *max_output_tokens,
        }),
        Action::Task { instructions, tools, context, schema } => {
            let mut instructions = prompt("instructions", instructions)?;
            for id in context {
                instructions.push_str(&format!("\n\n{}", shared(id, scope, context.len())?));
            }
            Ok(Resolved::Task { instructions, tools: tools.clone(), schema: schema.clone() })
        }
        Action::Input { question, schema, default, .. } => Ok(Resolved::Input {
            question: expression::render(question, scope, false)
                .map_err(|error| invalid("question", error.to_string()))?,
            schema: schema.clone(),
            default: default.clone(),
            expires: states.get(path).and_then(|state| state.due),
        }),
        _ => Err(invalid("path", format!("`{path}` has steps of its own, it does nothing itself"))),
    }
}

/// The step of a path in a document, as in `each[2].read`. The number of a turn is not looked at.
#[must_use]
pub fn step<'d>(document: &'d Document, path: &str) -> Option<&'d Step> {
    let mut steps: Vec<&[Step]> = vec![&document.steps];
    let mut found = None;
    for part in path.split('.') {
        let id = part.split('[').next().unwrap_or(part);
        let step = steps.iter().flat_map(|steps| steps.iter()).find(|step| step.id == id)?;
        steps = step.lists();
        found = Some(step);
    }
    found
}

fn invalid(field: &str, message: String) -> Failure {
    Failure::new("VALIDATION_ERROR", format!("{field}: {message}"))
}

/// The result of another step, or an item of a loop, for an executor.
fn shared(id: &str, scope: &Value, of: usize) -> Result<String, Failure> {
    let names: Vec<&str> =
        scope.as_object().iter().flat_map(|names| names.keys()).map(String::as_str).collect();
    let value = scope.get(id).ok_or_else(|| invalid("context", unknown("result", id, &names)))?;
    let result = value.get("result").filter(|_| value.get("status").is_some()).unwrap_or(value);
    let text = match cut(result, id, MAX_RESULT / of.max(1)) {
        Value::String(text) => text,
        other => other.to_string(),
    };
    Ok(format!("<result step=\"{id}\">{}</result>", escape(&text)))
}

/// What a step can read, and the steps that it comes from.
struct Place {
    scope: Value,
    origins: Origins,
}

impl Place {
    fn find<'d>(&mut self, steps: &'d [Step], states: &States, prefix: &str, path: &str) -> Option<&'d Step> {
        let part = path.strip_prefix(prefix)?.split('.').next()?;
        let (id, turn) = match part.strip_suffix(']').and_then(|part| part.split_once('[')) {
            Some((id, turn)) => (id, Some(turn.parse::<usize>().ok()?)),
            None => (part, None),
        };
        let step = steps.iter().find(|step| step.id == id)?;
        let here = format!("{prefix}{part}");
        self.scope = visible(steps, Some(&step.after), prefix, &self.scope, states);
        self.origins.extend(step.after.iter().map(|id| (id.clone(), id.clone())));
        if here == path {
            return turn.is_none().then_some(step);
        }
        if let Action::Loop { name, .. } = &step.action {
            let item = states.get(&format!("{prefix}{id}"))?.turns.get(turn?)?;
            self.scope.as_object_mut()?.insert(name.clone(), cut(item, &format!("{prefix}{id}"), MAX_RESULT));
            self.origins.insert(name.clone(), id.to_owned());
        } else if turn.is_some() {
            return None;
        }
        let inner = format!("{here}.");
        let next = path.strip_prefix(inner.as_str())?.split(['.', '[']).next()?;
        let list = step.lists().into_iter().find(|list| list.iter().any(|child| child.id == next))?;
        self.find(list, states, &inner, path)
    }
}
