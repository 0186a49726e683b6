//! Where an expression is evaluated. One that is plain takes time and memory in proportion to what it reads, and is evaluated
//! at once. Any other can grow without a limit of minijinja's own (the fuel counts neither the length of lists that are
//! added nor what filters allocate), so the program evaluates it where it can be stopped: see [`evaluate_elsewhere`].

use std::borrow::Cow;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::document::Problem;
use super::expression::{ExpressionError, compute, is_plain, nested_names};
use crate::question::schema::below;

/// What is evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Form {
    /// An expression that is true or false.
    Condition,
    /// An expression.
    Value,
    /// A template.
    Text,
    /// A template for a model.
    Prompt,
}

impl Form {
    pub(super) fn is_template(self) -> bool {
        matches!(self, Self::Text | Self::Prompt)
    }
}

/// An expression or a template, and what it reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation<'a> {
    pub(super) form: Form,
    pub(super) source: Cow<'a, str>,
    pub(super) context: Cow<'a, Value>,
}

/// Evaluates what is not plain, and returns the result. Called on threads that may wait.
pub type Elsewhere = Box<dyn Fn(&Evaluation<'_>) -> Result<Value, ExpressionError> + Send + Sync>;

static ELSEWHERE: OnceLock<Elsewhere> = OnceLock::new();

/// Evaluates what is not plain by this function from now on, in this process; without, it is evaluated in place. The first
/// call counts.
pub fn evaluate_elsewhere(elsewhere: Elsewhere) {
    let _ = ELSEWHERE.set(elsewhere);
}

/// Answers the request of another process: an [`Evaluation`] as JSON. The answer is its result as JSON: `{"Ok": …}` or
/// `{"Err": …}`.
pub fn answer(request: &str) -> String {
    let evaluation = serde_json::from_str::<Evaluation<'static>>(request);
    let wrong = |error: serde_json::Error| ExpressionError::Wrong(error.to_string());
    let result = evaluation.map_err(wrong).and_then(|evaluation| compute(&evaluation));
    serde_json::to_string(&result)
        .unwrap_or_else(|_| r#"{"Err":{"wrong":"the result is no JSON"}}"#.to_owned())
}

pub(super) fn evaluated(evaluation: &Evaluation<'_>) -> Result<Value, ExpressionError> {
    match ELSEWHERE.get() {
        Some(elsewhere) if !is_plain(&evaluation.source, evaluation.form.is_template()) => {
            elsewhere(evaluation)
        }
        _ => compute(evaluation),
    }
}

/// Names of fields that contain expressions.
const EXPRESSIONS: [&str; 4] = ["when", "if", "over", "while"];

/// An expression in a document.
struct Found<'d> {
    pointer: String,
    form: Form,
    source: &'d str,
}

/// The expressions and templates of a document, or of a value with templates, that are not plain.
fn metered(document: &Value) -> Vec<Found<'_>> {
    let (mut found, mut open) = (Vec::new(), vec![(String::new(), "", document)]);
    while let Some((pointer, name, value)) = open.pop() {
        match value {
            Value::Array(items) => {
                let items = items.iter().enumerate();
                open.extend(items.map(|(nth, item)| (format!("{pointer}/{nth}"), "", item)));
            }
            Value::Object(fields) => {
                let fields = fields.iter();
                open.extend(fields.map(|(name, field)| (below(&pointer, name), name.as_str(), field)));
            }
            Value::String(source) => {
                let form = match ["{{", "{%", "{#"].iter().any(|mark| source.contains(mark)) {
                    true => Form::Text,
                    false if EXPRESSIONS.contains(&name) => Form::Value,
                    false => continue,
                };
                if !is_plain(source, form.is_template()) {
                    found.push(Found { pointer, form, source });
                }
            }
            _ => {}
        }
    }
    found
}

/// Whether all expressions and templates of a document are plain.
pub fn all_plain(document: &Value) -> bool {
    metered(document).is_empty()
}

/// Tries the expressions and templates of a document, or of a value with templates, that are not plain: with nothing to read,
/// and with much. Call it where threads may wait, before the document is stored.
///
/// # Errors
/// What took more time or memory than an evaluation may, or calls what does not exist, and where it is.
pub fn tried(document: &Value) -> Result<(), Problem> {
    for Found { pointer, form, source } in metered(document) {
        let names = nested_names(source, form.is_template());
        let much = [json!("a b\n".repeat(4_000)), json!((0..500).collect::<Vec<u32>>()), json!(1_000_000)];
        for (nth, leaf) in [Value::Null].iter().chain(&much).enumerate() {
            let context = if nth == 0 { Value::Object(Map::new()) } else { sample(&names, leaf) };
            let evaluation = Evaluation { form, source: Cow::Borrowed(source), context: Cow::Owned(context) };
            match evaluated(&evaluation) {
                Err(ExpressionError::Budget(reason)) => {
                    return Err(Problem::new(&pointer, format!("cannot be used, because it {reason}")));
                }
                // Names of filters, tests and functions are looked up when they are used.
                Err(ExpressionError::Wrong(reason)) if reason.starts_with("unknown ") => {
                    return Err(Problem::new(&pointer, reason));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// What an expression with these names can read, such as `event.data.items`: `leaf` at each of them.
fn sample<'n>(names: impl IntoIterator<Item = &'n String>, leaf: &Value) -> Value {
    let mut root = Value::Object(Map::new());
    for name in names {
        let mut place = &mut root;
        for part in name.split('.') {
            if !place.is_object() {
                *place = Value::Object(Map::new());
            }
            place = &mut place[part];
        }
        if !place.is_object() {
            *place = leaf.clone();
        }
    }
    root
}
