//! Conditions and templates: minijinja with fuel and without includes, macros and loaders. No other module calls minijinja.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{Error as IoError, Write};
use std::sync::LazyLock;

use minijinja::value::{Kwargs, Serde, ValueKind};
use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior, Value as Jinja};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::ser::PrettyFormatter;
use thiserror::Error;

use super::insert::{self, Origins};
use super::metered::{Evaluation, Form, evaluated};
use crate::frame::escape;

/// Maximum length of an expression, in bytes. Its parser recurses, so a long one would overflow the stack.
const EXPRESSION: usize = 1_000;
/// Maximum length of a template, in bytes.
const TEMPLATE: usize = 4_000;
/// Maximum length of what a template makes, in bytes.
const OUTPUT: usize = 16 * 1024;
/// Maximum length of JSON that is read further, in bytes, and spaces of a level of it.
const JSON: usize = 256 * 1024;
const MAX_INDENT: usize = 8;
/// Instructions and bytes that one evaluation may take.
const FUEL: u64 = 20_000;
/// Maximum nesting of arguments with templates.
const DEPTH: usize = 16;
/// Name of templates that models read.
const PROMPT: &str = "prompt";

/// An expression that cannot be used, or whose evaluation failed.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpressionError {
    /// It is wrong, or does not fit what it reads.
    #[error("{0}")]
    Wrong(String),
    /// It took more time or memory than an evaluation may: which limit it reached, after "it".
    #[error("{0}")]
    Budget(String),
}

static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.set_fuel(Some(FUEL));
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment
        .set_auto_escape_callback(|name| if name == PROMPT { AutoEscape::Html } else { AutoEscape::None });
    // Escaped in a prompt whatever the template says: `autoescape false` changes nothing, and `safe` does not exist.
    environment.remove_filter("safe");
    environment.add_filter("tojson", to_json);
    environment.set_formatter(|out, state, value| {
        let text = match value.kind() {
            ValueKind::Seq | ValueKind::Map | ValueKind::Iterable | ValueKind::Bool | ValueKind::None => {
                json(value, None, OUTPUT)?
            }
            _ => value.to_string(),
        };
        let text = if state.name() == PROMPT && !value.is_safe() { escape(&text) } else { text };
        Ok(out.write_str(&text)?)
    });
    environment
});

/// JSON of at most `most` bytes. `indent`: spaces of a level.
fn json(value: &Jinja, indent: Option<usize>, most: usize) -> Result<String, minijinja::Error> {
    let mut out = Limited { bytes: Vec::new(), most };
    let spaces = [b' '; MAX_INDENT];
    let written = match indent {
        None => serde_json::to_writer(&mut out, value),
        Some(width) => {
            let pretty = PrettyFormatter::with_indent(&spaces[..width.min(MAX_INDENT)]);
            value.serialize(&mut serde_json::Serializer::with_formatter(&mut out, pretty))
        }
    };
    let bad = |reason: String| minijinja::Error::new(ErrorKind::BadSerialization, reason);
    written.map_err(|error| bad(error.to_string()))?;
    String::from_utf8(out.bytes).map_err(|error| bad(error.to_string()))
}

/// `tojson` of minijinja, of which only the result would count as fuel: what it writes is bounded before.
fn to_json(value: &Jinja, indent: Option<Jinja>, named: Kwargs) -> Result<Jinja, minijinja::Error> {
    let given = match &indent {
        None => named.get::<Option<Jinja>>("indent")?,
        Some(indent) => Some(indent.clone()),
    };
    let width = match given.map(|given| (bool::try_from(given.clone()), usize::try_from(given))) {
        None => None,
        Some((Ok(is_pretty), _)) => is_pretty.then_some(2),
        Some((Err(_), Ok(width))) if width <= MAX_INDENT => Some(width),
        Some(_) => {
            let reason = format!("tojson: `indent` is true, false or a number of at most {MAX_INDENT}");
            return Err(minijinja::Error::new(ErrorKind::InvalidOperation, reason));
        }
    };
    json(value, width, JSON)?;
    minijinja::filters::tojson(value, indent, named)
}

fn wrong(error: impl std::fmt::Display) -> ExpressionError {
    ExpressionError::Wrong(error.to_string().chars().take(300).collect())
}

fn limited(source: &str, most: usize) -> Result<(), ExpressionError> {
    // Operators before a value recurse without a limit of the parser's own, so a template may have only a few.
    let prefixes = source.matches("not").count() + source.matches('-').count();
    match source.len() <= most && prefixes <= EXPRESSION {
        true => Ok(()),
        false => Err(wrong(format!("an expression has at most {EXPRESSION} bytes, a template {TEMPLATE}"))),
    }
}

/// The expression of a text that is exactly one `{{ … }}`.
fn single(source: &str) -> Option<&str> {
    let inner = source.trim().strip_prefix("{{")?.strip_suffix("}}")?;
    (!inner.contains("{{") && !inner.contains("}}")).then_some(inner)
}

/// The value of an expression.
///
/// # Errors
/// It is too long, wrong, takes too long, or names what does not exist.
pub fn evaluate(source: &str, context: &Value) -> Result<Value, ExpressionError> {
    limited(source, EXPRESSION)?;
    checked(Form::Value, source, context)
}

/// Whether an expression is true.
///
/// # Errors
/// As [`evaluate`].
pub fn condition(source: &str, context: &Value) -> Result<bool, ExpressionError> {
    limited(source, EXPRESSION)?;
    Ok(checked(Form::Condition, source, context)? == Value::Bool(true))
}

/// The text of a template. With `escapes`, what is inserted cannot contain tags: it is data, whatever a page said.
///
/// # Errors
/// It is too long, wrong, takes too long, writes too much, or names what does not exist.
pub fn render(source: &str, context: &Value, escapes: bool) -> Result<String, ExpressionError> {
    limited(source, TEMPLATE)?;
    text(checked(if escapes { Form::Prompt } else { Form::Text }, source, context)?)
}

/// The text of a template for a model: what `origins` names is inserted as `<result step="…">…</result>`, escaped.
pub(super) fn prompt(source: &str, context: &Value, origins: &Origins) -> Result<String, ExpressionError> {
    limited(source, TEMPLATE)?;
    text(checked(Form::Prompt, &insert::tagged(source, origins), context)?)
}

fn checked(form: Form, source: &str, context: &Value) -> Result<Value, ExpressionError> {
    evaluated(&Evaluation { form, source: Cow::Borrowed(source), context: Cow::Borrowed(context) })
}

fn text(value: Value) -> Result<String, ExpressionError> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err(wrong("the result is no text")),
    }
}

/// Evaluates here: an expression that is not plain may take all memory and time of this process.
pub(super) fn compute(evaluation: &Evaluation<'_>) -> Result<Value, ExpressionError> {
    let (source, context) = (&*evaluation.source, Jinja::from(Serde(&*evaluation.context)));
    let template = match evaluation.form {
        Form::Prompt => PROMPT,
        Form::Text => "text",
        Form::Condition | Form::Value => {
            let compiled = ENVIRONMENT.compile_expression(source).map_err(wrong)?;
            let found = compiled.eval(context).map_err(wrong)?;
            if found.is_undefined() {
                return Err(wrong("the value is undefined"));
            }
            if evaluation.form == Form::Condition {
                return Ok(found.is_true().into());
            }
            let mut out = Limited { bytes: Vec::new(), most: OUTPUT };
            serde_json::to_writer(&mut out, &found).map_err(wrong)?;
            return serde_json::from_slice(&out.bytes).map_err(wrong);
        }
    };
    let template = ENVIRONMENT.template_from_named_str(template, source).map_err(wrong)?;
    let mut out = Limited { bytes: Vec::new(), most: OUTPUT };
    template.render_captured_to(context, &mut out).map_err(wrong)?;
    String::from_utf8(out.bytes).map(Value::String).map_err(wrong)
}

/// Arguments with their templates rendered. A text that is exactly one `{{ … }}` keeps the type of its value.
///
/// # Errors
/// As [`render`].
pub fn value(argument: &Value, context: &Value) -> Result<Value, ExpressionError> {
    nested(argument, context, DEPTH)
}

fn nested(argument: &Value, context: &Value, depth: usize) -> Result<Value, ExpressionError> {
    let Some(depth) = depth.checked_sub(1) else { return Err(wrong("the arguments are nested too deeply")) };
    Ok(match argument {
        Value::String(text) => match single(text) {
            Some(expression) => evaluate(expression, context)?,
            None if text.contains("{{") || text.contains("{%") => {
                Value::String(render(text, context, false)?)
            }
            None => argument.clone(),
        },
        Value::Array(items) => {
            items.iter().map(|item| nested(item, context, depth)).collect::<Result<_, _>>()?
        }
        Value::Object(fields) => {
            let each = fields.iter().map(|(name, field)| Ok((name.clone(), nested(field, context, depth)?)));
            Value::Object(each.collect::<Result<_, ExpressionError>>()?)
        }
        other => other.clone(),
    })
}

/// The names that an expression or template takes from its context.
pub(crate) fn names(source: &str, is_template: bool) -> Result<BTreeSet<String>, ExpressionError> {
    limited(source, if is_template { TEMPLATE } else { EXPRESSION })?;
    let compiles = |source: &str| match is_template {
        true => {
            let template = ENVIRONMENT.template_from_named_str("text", source).map_err(wrong)?;
            Ok(template.undeclared_variables(false))
        }
        false => Ok(ENVIRONMENT.compile_expression(source).map_err(wrong)?.undeclared_variables(false)),
    };
    let mut found = compiles(source)?;
    if source.contains(':') {
        found.extend(compiles(&insert::without_slices(source, is_template))?);
    }
    Ok(found.into_iter().filter(|name| !ENVIRONMENT.globals().any(|(global, _)| global == name)).collect())
}

/// The names that an expression or template takes from its context, with the fields that it reads of them: `event.data.n`.
/// Empty if it cannot be compiled.
pub(super) fn nested_names(source: &str, is_template: bool) -> BTreeSet<String> {
    let names = match is_template {
        true => ENVIRONMENT
            .template_from_named_str("text", source)
            .map(|template| template.undeclared_variables(true)),
        false => ENVIRONMENT.compile_expression(source).map(|compiled| compiled.undeclared_variables(true)),
    };
    names.unwrap_or_default().into_iter().collect()
}

/// Refuses to grow beyond so many bytes.
struct Limited {
    bytes: Vec<u8>,
    most: usize,
}

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, IoError> {
        if self.bytes.len() + bytes.len() > self.most {
            return Err(IoError::other(format!("the text has more than {} bytes", self.most)));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<(), IoError> {
        Ok(())
    }
}
