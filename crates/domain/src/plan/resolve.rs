//! What a started step executes: its templates rendered in the scope of its place, which has the input, the time, and
//! results, none of them longer than [`MAX_RESULT`].

use std::fmt::Display;

use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};

use super::document::{Action, Document, Step, unknown};
use super::expression::{self, Origins};
use super::state::{Failure, Given, States};
use crate::frame::escape;
use crate::storable::size;

/// What the step of this path executes: its action with the templates rendered. The instructions of an executor have the results
/// of the steps in `context` behind them.
///
/// # Errors
/// There is no such step, it is a container, or one of its templates cannot be rendered (`VALIDATION_ERROR`: the step fails).
pub fn resolve(
    document: &Document,
    states: &States,
    input: &Value,
    now: DateTime<Utc>,
    path: &str,
) -> Result<Action, Failure> {
    let given =
        Given { input, now, paused: false, cancelled: false, deadline: now, may_replan: false, at_once: 0 };
    let (mut scope, mut origins) = (outermost(&given), Origins::new());
    let found = step_in_scope(document, states, path, &mut scope, &mut origins);
    let step = found.ok_or_else(|| invalid("path", format_args!("there is no step `{path}`")))?;
    let prompt = |field: &str, source: &str| {
        expression::prompt(source, &scope, &origins).map_err(|error| invalid(field, error))
    };
    let mut action = step.action.clone();
    match &mut action {
        Action::Tool { args, .. } => {
            let rendered = expression::value(&Value::Object(std::mem::take(args)), &scope);
            match rendered.map_err(|error| invalid("args", error))? {
                Value::Object(rendered) => *args = rendered,
                _ => return Err(invalid("args", "is not an object")),
            }
        }
        Action::Llm { prompt: source, .. } => *source = prompt("prompt", source)?,
        Action::Task { instructions, context, .. } => {
            *instructions = prompt("instructions", instructions)?;
            for id in &*context {
                instructions.push_str(&format!("\n\n{}", shared(id, &scope, context.len())?));
            }
        }
        Action::Input { question, .. } => {
            let rendered = expression::render(question, &scope, false);
            *question = rendered.map_err(|error| invalid("question", error))?;
        }
        _ => {
            return Err(invalid(
                "path",
                format_args!("`{path}` has steps of its own, it does nothing itself"),
            ));
        }
    }
    Ok(action)
}

/// A step on the way to another, with its list.
pub(super) struct Place<'d> {
    /// With what the paths of its list begin.
    pub(super) prefix: String,
    pub(super) list: &'d [Step],
    pub(super) step: &'d Step,
    /// The turn of it that the way goes through.
    pub(super) turn: Option<usize>,
}

impl Place<'_> {
    pub(super) fn path(&self) -> String {
        format!("{}{}", self.prefix, self.step.id)
    }
}

/// The containers of the step of a path, as in `each[2].read`, the outermost first, and the step itself.
pub(super) fn trail<'d>(document: &'d Document, path: &str) -> Option<Vec<Place<'d>>> {
    let mut lists: Vec<&[Step]> = vec![&document.steps];
    let (mut prefix, mut trail) = (String::new(), Vec::new());
    for part in path.split('.') {
        let (id, turn) = match part.strip_suffix(']').and_then(|part| part.split_once('[')) {
            Some((id, turn)) => (id, Some(turn.parse().ok()?)),
            None => (part, None),
        };
        let of_list = |list: &&'d [Step]| Some((*list, list.iter().find(|step| step.id == id)?));
        let (list, step) = lists.iter().find_map(of_list)?;
        trail.push(Place { prefix: prefix.clone(), list, step, turn });
        prefix = format!("{prefix}{part}.");
        lists = step.lists();
    }
    // A turn is not a step.
    trail.last()?.turn.is_none().then_some(trail)
}

/// The step of a path in a document, as in `each[2].read`. The number of a turn is not compared with those there are.
pub fn step<'d>(document: &'d Document, path: &str) -> Option<&'d Step> {
    trail(document, path)?.pop().map(|place| place.step)
}

fn invalid(field: &str, message: impl Display) -> Failure {
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

/// The step of a path. Sets `scope` to what the step can read, and adds to `origins` which steps that comes from.
fn step_in_scope<'d>(
    document: &'d Document,
    states: &States,
    path: &str,
    scope: &mut Value,
    origins: &mut Origins,
) -> Option<&'d Step> {
    let trail = trail(document, path)?;
    for (nth, place) in trail.iter().enumerate() {
        let (step, here) = (place.step, place.path());
        *scope = visible(&step.after, &place.prefix, scope, states);
        origins.extend(step.after.iter().map(|id| (id.clone(), id.clone())));
        match (&step.action, place.turn) {
            (Action::Loop { name, .. }, Some(turn)) => {
                let item = states.get(&here)?.turns.get(turn)?;
                scope.as_object_mut()?.insert(name.clone(), cut(item, &here, MAX_RESULT));
                origins.insert(name.clone(), step.id.clone());
            }
            (Action::Loop { .. }, None) if nth + 1 < trail.len() => return None,
            (_, Some(_)) => return None,
            _ => {}
        }
    }
    trail.last().map(|place| place.step)
}

/// Maximum size of a result in a scope, as JSON in bytes. A longer one is cut; `read_plan` returns all of it.
pub const MAX_RESULT: usize = 16 * 1024;

/// Size of all results of a plan as JSON, in bytes, from which on longer ones than [`MAX_RESULT`] are cut for good: all of them
/// are read whenever a worker takes the plan.
const MAX_RESULTS: usize = 64 << 20;

/// The result as a plan keeps it whose results have `others` bytes, and its size. One may take half of what is left.
pub fn kept(result: Value, others: usize) -> (Value, usize) {
    let (full, most) = (size(&result), (MAX_RESULTS.saturating_sub(others) / 2).max(MAX_RESULT));
    if full <= most {
        return (result, full);
    }
    let text = match result {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let kept = &text[..text.floor_char_boundary(most)];
    let more = text.len() - kept.len();
    let cut = format!("{kept}… [{more} more bytes were left out: the results of the plan are too large]");
    (cut.into(), most)
}

/// What is kept free for the sentence that says what was cut.
const SENTENCE: usize = 256;

/// What every expression of a plan can read.
pub(super) fn outermost(given: &Given<'_>) -> Value {
    json!({"input": cut(given.input, "input", MAX_RESULT), "now": given.now.to_rfc3339()})
}

/// The scope with those settled steps of a list that are `named`.
pub(super) fn visible<'s>(
    named: impl IntoIterator<Item = &'s String>,
    prefix: &str,
    scope: &Value,
    states: &States,
) -> Value {
    let mut scope = scope.as_object().cloned().unwrap_or_default();
    for id in named {
        let path = format!("{prefix}{id}");
        if let Some(state) = states.get(&path).filter(|state| state.status.is_settled()) {
            let result = cut(&state.result, &path, MAX_RESULT);
            let entry = json!({"status": state.status, "result": result, "error": state.error});
            scope.insert(id.clone(), entry);
        }
    }
    Value::Object(scope)
}

/// A value of at most `most` bytes as JSON: texts and lists keep their beginning, and the last of them says where the rest is.
fn cut(value: &Value, path: &str, most: usize) -> Value {
    if size(value) <= most {
        return value.clone();
    }
    shortened(value, &mut most.saturating_sub(SENTENCE), path)
}

fn shortened(value: &Value, left: &mut usize, path: &str) -> Value {
    let rest = |what: String| format!("[{what}: read_plan with the path `{path}` returns all]");
    match value {
        Value::String(text) => {
            let full = size(value);
            if full <= *left {
                *left -= full;
                return value.clone();
            }
            let end = text.floor_char_boundary(*left * text.len() / full);
            *left = 0;
            let more = format!("{} more bytes are left out", text.len() - end);
            format!("{}… {}", &text[..end], rest(more)).into()
        }
        Value::Array(items) => {
            *left = left.saturating_sub(2);
            let mut kept = Vec::new();
            for (at, item) in items.iter().enumerate() {
                if *left < 8 {
                    kept.push(rest(format!("{} more items are left out", items.len() - at)).into());
                    break;
                }
                *left -= 1;
                kept.push(shortened(item, left, path));
            }
            kept.into()
        }
        Value::Object(fields) => {
            *left = left.saturating_sub(2);
            let mut kept = Map::new();
            for (at, (name, field)) in fields.iter().enumerate() {
                if *left < 8 + name.len() {
                    let what = format!("{} more fields are left out", fields.len() - at);
                    kept.insert("left_out".to_owned(), rest(what).into());
                    break;
                }
                *left -= name.len() + 4;
                kept.insert(name.clone(), shortened(field, left, path));
            }
            kept.into()
        }
        other => {
            *left = left.saturating_sub(size(other));
            other.clone()
        }
    }
}
