//! Conditions and templates: minijinja with fuel and without includes, macros and loaders. No other module calls minijinja.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::{Error as IoError, Write};
use std::sync::LazyLock;

use minijinja::value::{Kwargs, Serde, ValueKind};
use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior, Value as Jinja};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::ser::PrettyFormatter;
use thiserror::Error;

use super::metered::{Evaluation, Form, evaluated};
use crate::frame::escape;
use crate::storable::storable_value;

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
    let is_within_limits = source.len() <= most && prefixes <= EXPRESSION;
    ensure!(
        is_within_limits,
        wrong(format!("an expression has at most {EXPRESSION} bytes, a template {TEMPLATE}"))
    );
    Ok(())
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
    text(checked(Form::Prompt, &tagged(source, origins), context)?)
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
    let mut computed = computed(evaluation)?;
    // An expression can make a U+0000, which Postgres refuses, with all that is written beside it.
    storable_value(&mut computed);
    Ok(computed)
}

fn computed(evaluation: &Evaluation<'_>) -> Result<Value, ExpressionError> {
    let (source, context) = (&*evaluation.source, Jinja::from(Serde(&*evaluation.context)));
    let template = match evaluation.form {
        Form::Prompt => PROMPT,
        Form::Text => "text",
        Form::Condition | Form::Value => {
            let compiled = ENVIRONMENT.compile_expression(source).map_err(wrong)?;
            let found = compiled.eval(context).map_err(wrong)?;
            ensure!(!found.is_undefined(), wrong("the value is undefined"));
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
    let mut found = variables(source, is_template, false).map_err(wrong)?;
    if source.contains(':') {
        found.extend(variables(&without_slices(source, is_template), is_template, false).map_err(wrong)?);
    }
    Ok(found.into_iter().filter(|name| !ENVIRONMENT.globals().any(|(global, _)| global == name)).collect())
}

/// The names that an expression or template takes from its context, with the fields that it reads of them: `event.data.n`.
/// Empty if it cannot be compiled.
pub(super) fn nested_names(source: &str, is_template: bool) -> BTreeSet<String> {
    variables(source, is_template, true).unwrap_or_default().into_iter().collect()
}

fn variables(source: &str, is_template: bool, nested: bool) -> Result<HashSet<String>, minijinja::Error> {
    if is_template {
        return Ok(ENVIRONMENT.template_from_named_str("text", source)?.undeclared_variables(nested));
    }
    Ok(ENVIRONMENT.compile_expression(source)?.undeclared_variables(nested))
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

// How results enter what a model reads: `<result step="find">…</result>`, escaped, so that they are data and not orders.
//
// The template is rewritten before it is rendered: what `{{ … }}` inserts is put between the tags of those steps whose results
// it reads, also through the variables of `{% for %}`, `{% set %}` and `{% with %}`. Escaping does not depend on it: the
// renderer escapes everything that it inserts.

/// Names of a template, and the steps whose results they contain.
pub(super) type Origins = BTreeMap<String, String>;

/// A part of a template.
enum Part {
    /// A text or a comment.
    Text,
    Insertion,
    Statement,
}

/// The template with the tags.
fn tagged(source: &str, origins: &Origins) -> String {
    let mut origins = origins.clone();
    let (mut out, mut raw) = (String::with_capacity(source.len() + 64), false);
    for (part, text) in parts(source) {
        match part {
            Part::Insertion if !raw => match found(text, &origins) {
                Some(step) => out.push_str(&format!("<result step=\"{step}\">{text}</result>")),
                None => out.push_str(text),
            },
            Part::Statement => {
                raw = statement(text, &mut origins, raw);
                out.push_str(text);
            }
            _ => out.push_str(text),
        }
    }
    out
}

/// The same template or expression with each slice `a[b:c]` as `a[[b,c]]`. It means something else, but it has the same names,
/// and minijinja finds those of `a` in it. (Its search for names passes over what is sliced.)
fn without_slices(source: &str, is_template: bool) -> String {
    if !is_template {
        return unsliced(source);
    }
    let texts = parts(source).into_iter().map(|(part, text)| match part {
        Part::Insertion | Part::Statement => unsliced(text),
        _ => text.to_owned(),
    });
    texts.collect()
}

fn unsliced(expression: &str) -> String {
    let mut out = String::with_capacity(expression.len() + 16);
    // Where each open bracket is in `out`, and whether a slice is in it.
    let mut open: Vec<(usize, bool)> = Vec::new();
    let (mut quote, mut escaped) = (None, false);
    for c in expression.chars() {
        match (quote, c) {
            (Some(end), c) => {
                quote = (escaped || c != end).then_some(end);
                escaped = c == '\\' && !escaped;
            }
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '(' | '{') => open.push((out.len(), false)),
            (None, ':') if open.last().is_some_and(|(at, _)| out[*at..].starts_with('[')) => {
                if let Some(bracket) = open.last_mut() {
                    bracket.1 = true;
                }
                out.push_str(if out.trim_end().ends_with(['[', ',']) { "0," } else { "," });
                continue;
            }
            (None, ']' | ')' | '}') => {
                if let Some((at, true)) = open.pop() {
                    out.insert(at, '[');
                    out.push(']');
                }
            }
            _ => {}
        }
        out.push(c);
    }
    out
}

/// The parts of a template, in order.
fn parts(source: &str) -> Vec<(Part, &str)> {
    let (mut parts, mut rest) = (Vec::new(), source);
    while !rest.is_empty() {
        let start = ["{{", "{%", "{#"].iter().filter_map(|start| rest.find(start)).min();
        let (text, from) = rest.split_at(start.unwrap_or(rest.len()));
        if !text.is_empty() {
            parts.push((Part::Text, text));
        }
        let (part, (block, after)) = match from.as_bytes().get(1) {
            Some(b'{') => (Part::Insertion, split(from, "}}")),
            Some(b'%') => (Part::Statement, split(from, "%}")),
            Some(_) => (Part::Text, from.split_at(from.find("#}").map_or(from.len(), |end| end + 2))),
            None => break,
        };
        parts.push((part, block));
        rest = after;
    }
    parts
}

/// A block up to its end, which is neither in a text nor in brackets, and what follows it.
fn split<'s>(from: &'s str, end: &str) -> (&'s str, &'s str) {
    let (bytes, mut at, mut depth, mut quote) = (from.as_bytes(), 2, 0_usize, None);
    while at < bytes.len() {
        match (quote, bytes[at]) {
            (Some(_), b'\\') => at += 1,
            (Some(open), byte) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, byte @ (b'"' | b'\'')) => quote = Some(byte),
            (None, _) if depth == 0 && from[at..].starts_with(end) => return from.split_at(at + 2),
            (None, b'(' | b'[' | b'{') => depth += 1,
            (None, b')' | b']' | b'}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
        while !from.is_char_boundary(at.min(from.len())) {
            at += 1;
        }
    }
    (from, "")
}

/// Notes what the variables of a statement contain. Returns whether a raw part follows.
fn statement(block: &str, origins: &mut Origins, raw: bool) -> bool {
    let text = block.trim_start_matches(['{', '%', '-', '+']).trim_start();
    let word = text.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    let parts = match word {
        "raw" | "endraw" => return word == "raw",
        "for" => text.split_once(" in "),
        "set" | "with" => text.split_once('='),
        _ => None,
    };
    if let Some((names, value)) = parts.filter(|_| !raw)
        && let Some(step) = found(value, origins)
    {
        let names = identifiers(names.trim_start_matches(word));
        origins.extend(names.map(|name| (name.to_owned(), step.clone())));
    }
    raw
}

/// The steps whose results an expression reads.
fn found(expression: &str, origins: &Origins) -> Option<String> {
    let mut steps: Vec<&str> = Vec::new();
    for origin in identifiers(expression).filter_map(|name| origins.get(name)) {
        if !steps.contains(&origin.as_str()) {
            steps.push(origin);
        }
    }
    (!steps.is_empty()).then(|| steps.join(" "))
}

/// The names in an expression, without attributes. Those in texts are among them: a tag too many does no harm.
fn identifiers(expression: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = expression.split(move |c: char| !is_part(c)).filter(|word| !word.is_empty());
    words.filter(move |word| {
        let at = word.as_ptr() as usize - expression.as_ptr() as usize;
        !expression[..at].trim_end().ends_with('.')
    })
}

// Plain expressions: names, comparisons, tests, and those filters whose result is no larger than what they are given. Each
// reads its values a bounded number of times, so that it takes time and memory in proportion to them.

/// Filters without arguments.
const FILTERS: [&str; 11] =
    ["length", "count", "lower", "upper", "trim", "first", "last", "bool", "int", "float", "abs"];

/// Tests without arguments.
const TESTS: [&str; 15] = [
    "defined",
    "undefined",
    "none",
    "true",
    "false",
    "boolean",
    "number",
    "integer",
    "float",
    "string",
    "sequence",
    "iterable",
    "mapping",
    "odd",
    "even",
];

/// Bytes of the text between what is joined.
const SEPARATOR: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'s> {
    Name(&'s str),
    Number,
    /// With its length.
    Text(usize),
    Sign(&'s str),
}

/// The most tokens and filters of a plain expression, and filters of a plain template: each may read all that it is given, and
/// all of them together take microseconds.
const MAX_TOKENS: usize = 128;
const MAX_FILTERS: usize = 8;
const MAX_TEMPLATE_FILTERS: usize = 32;

/// Whether an expression, or each of a template's, is plain. Statements and comments are not.
pub(crate) fn is_plain(source: &str, is_template: bool) -> bool {
    if !is_template {
        return is_plain_expression(source);
    }
    if source.contains("{%") || source.contains("{#") {
        return false;
    }
    let (mut rest, mut filters) = (source, 0);
    while let Some((_, behind)) = rest.split_once("{{") {
        // Braces in a text or a map make the expression end too early: then it is not plain.
        let Some((inner, behind)) = behind.split_once("}}") else { return false };
        let inner = inner.strip_prefix(['-', '+']).unwrap_or(inner);
        let inner = inner.strip_suffix(['-', '+']).unwrap_or(inner);
        filters += inner.matches('|').count();
        if filters > MAX_TEMPLATE_FILTERS || !is_plain_expression(inner) {
            return false;
        }
        rest = behind;
    }
    true
}

fn is_plain_expression(source: &str) -> bool {
    let Some(tokens) = tokens(source) else { return false };
    let filters = tokens.iter().filter(|token| **token == Token::Sign("|")).count();
    if tokens.len() > MAX_TOKENS || filters > MAX_FILTERS {
        return false;
    }
    let mut once = 0;
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let before = at.checked_sub(1).and_then(|before| tokens.get(before)).copied();
        let next = tokens.get(at + 1).copied();
        match token {
            Token::Sign("|") => {
                let Some(Token::Name(filter)) = next else { return false };
                let argument = match tokens.get(at + 2..) {
                    Some([Token::Sign("("), argument, Token::Sign(")"), ..]) => Some(*argument),
                    Some([Token::Sign("("), ..]) => return false,
                    _ => None,
                };
                // What could multiply what it is given, if repeated, is allowed once.
                match (filter, argument) {
                    (filter, None) if FILTERS.contains(&filter) => {}
                    ("join", Some(Token::Text(length))) if length <= SEPARATOR => once += 1,
                    ("join" | "tojson" | "e" | "escape", None) => once += 1,
                    ("default" | "d", Some(_)) => once += 1,
                    _ => return false,
                }
                at += if argument.is_some() { 5 } else { 2 };
                continue;
            }
            Token::Sign("(") if matches!(before, Some(Token::Name(name)) if !is_operator(name)) => {
                return false;
            }
            Token::Sign("(")
                if matches!(before, Some(Token::Sign("]" | ")") | Token::Text(_) | Token::Number)) =>
            {
                return false;
            }
            Token::Sign("+") => {
                // With a number beside it that no operator or dot binds, both sides are numbers, or it fails.
                let is_number = matches!(next, Some(Token::Number))
                    && !matches!(tokens.get(at + 2), Some(Token::Sign("|" | "." | "[" | "(")));
                if !is_number {
                    return false;
                }
            }
            // Between the literals of a list.
            Token::Sign(",") if !(is_literal(before) && is_literal(next)) => return false,
            Token::Sign("[") if next == Some(Token::Sign("]")) => {}
            // A position, a field, or a list of literals.
            Token::Sign("[") if !is_literal(next) => return false,
            Token::Name("is") => {
                let name = if next == Some(Token::Name("not")) { tokens.get(at + 2).copied() } else { next };
                if !matches!(name, Some(Token::Name(test)) if TESTS.contains(&test)) {
                    return false;
                }
            }
            _ => {}
        }
        at += 1;
    }
    once <= 1
}

fn is_literal(token: Option<Token<'_>>) -> bool {
    matches!(token, Some(Token::Number | Token::Text(_)))
}

fn is_operator(name: &str) -> bool {
    matches!(name, "and" | "or" | "not" | "in" | "if" | "else")
}

/// The tokens; `None` for one that no plain expression has.
fn tokens(source: &str) -> Option<Vec<Token<'_>>> {
    let mut tokens = Vec::new();
    let mut rest = source.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' | '\'' => {
                let length = text_length(rest, first)?;
                tokens.push(Token::Text(length - 2));
                length
            }
            '0'..='9' => {
                let length = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'_').count();
                let fraction = rest[length..]
                    .strip_prefix('.')
                    .map_or(0, |digits| digits.bytes().take_while(u8::is_ascii_digit).count());
                tokens.push(Token::Number);
                if fraction > 0 { length + 1 + fraction } else { length }
            }
            c if c == '_' || c.is_ascii_alphabetic() => {
                let length =
                    rest.bytes().take_while(|byte| *byte == b'_' || byte.is_ascii_alphanumeric()).count();
                tokens.push(Token::Name(&rest[..length]));
                length
            }
            _ => {
                let double = rest.get(..2).filter(|sign| ["==", "!=", "<=", ">="].contains(sign));
                let single = rest.get(..1).filter(|sign| "<>()[].,|+-".contains(sign));
                let sign = double.or(single)?;
                tokens.push(Token::Sign(sign));
                sign.len()
            }
        };
        rest = rest[length..].trim_start();
    }
    Some(tokens)
}

/// The length of a text with its quotes.
fn text_length(source: &str, quote: char) -> Option<usize> {
    let mut is_escaped = false;
    for (at, c) in source.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::is_plain;

    #[test]
    fn what_may_grow_is_not_plain() {
        for plain in [
            "a.result == 'x' and not (b.status in [\"failed\", \"skipped\"])",
            "input.items[0].name|lower|trim != \"\"",
            "event.data.amount > 100 + 5",
            "event.content|default('')|length >= 3 or event is defined",
            "a.result|join(', ')",
            "x is not none",
            "a if b else c",
            "-1 < x - 2",
        ] {
            assert!(is_plain(plain, false), "{plain}");
        }
        for metered in [
            "a + a",
            "(a + 1) + a",
            "a + 1|default(a)",
            "x.1 + x.1.y",
            "a * 1000000000",
            "a ~ a",
            "[a, a]",
            "[[1, 2], a]",
            "range(10)",
            "a.items()",
            "a['x'](1)",
            "a|map('upper')",
            "a|join('-')|join('-')",
            "a|tojson|tojson",
            "a|tojson(indent=1000000)",
            "a|join(b)",
            "a|join('12345678901234567')",
            "a[1:]",
            "a|default(b)|default(c)",
            "{'a': 1}",
            "a is divisibleby(3)",
            "10 ** 10",
        ] {
            assert!(!is_plain(metered, false), "{metered}");
        }
        assert!(is_plain("Dear {{ input.name }}, {{- a.result|default('nothing') -}}.", true));
        assert!(is_plain("no expression", true));
        assert!(is_plain(&"| a | {{ b|length }} |".repeat(32), true));
        assert!(!is_plain(&"{{ b|length }}".repeat(33), true));
        assert!(!is_plain(&format!("a{}", "|upper".repeat(9)), false));
        assert!(!is_plain(&"a and ".repeat(65), false));
        for metered in ["{% for x in a %}{{ x }}{% endfor %}", "{# c #}", "{{ a + a }}", "{{ '}}' }}", "{{ a"]
        {
            assert!(!is_plain(metered, true), "{metered}");
        }
    }
}
