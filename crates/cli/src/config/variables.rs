//! The settings of the environment: every `HOUSTON_…` that is not read elsewhere, with `__` between the parts of a key.
//!
//! A value is `true`, `false`, a number, a text in double quotes with the escapes of TOML, a list `[a, 1]` or a table
//! `{key = a}`. All else is a text as it is.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::layers::{Node, Origin, Value};

const PREFIX: &str = "HOUSTON_";

/// Variables that begin with `HOUSTON_` but are read elsewhere: by `houston chat`, by providers, by tests.
const NOT_SETTINGS: &[&str] = &[
    "url",
    "api_key",
    "local_url",
    "local_key",
    "local_key_file",
    "custom_url",
    "custom_key",
    "custom_key_file",
    "test_database_url",
    "test_redis_url",
    "jobs",
    "folder",
    "secrets_key",
    "console_oidc_secret",
];

/// The values of the variables that are settings.
pub(super) fn values(variables: impl Iterator<Item = (OsString, OsString)>) -> Node {
    let mut values = node(Value::Table(BTreeMap::new()));
    for (name, text) in variables {
        if let Some(key) = key_of(name.to_string_lossy().trim()) {
            let within = |inner, part: &str| node(Value::Table(BTreeMap::from([(part.to_owned(), inner)])));
            values.merge(key.rsplit('.').fold(parse(&text.to_string_lossy()), within));
        }
    }
    values
}

fn node(value: Value) -> Node {
    Node { value, origin: Origin::Environment }
}

/// The key that a variable sets. The case of its name does not matter.
fn key_of(name: &str) -> Option<String> {
    let (prefix, key) = name.split_at_checked(PREFIX.len())?;
    let mut elsewhere = NOT_SETTINGS.iter().copied().chain(houston_faults::mutation::SETTING);
    if !prefix.eq_ignore_ascii_case(PREFIX) || elsewhere.any(|name| key.eq_ignore_ascii_case(name)) {
        return None;
    }
    let key = key.replace("__", ".").trim().to_ascii_lowercase();
    key.split('.').all(|part| !part.is_empty()).then_some(key)
}

fn parse(text: &str) -> Node {
    let mut rest = Rest(text);
    rest.value().filter(|_| rest.0.is_empty()).unwrap_or_else(|| node(Value::Text(text.to_owned())))
}

/// What is left to be parsed.
struct Rest<'t>(&'t str);

impl<'t> Rest<'t> {
    fn eat(&mut self, start: &str) -> bool {
        let rest = self.0.strip_prefix(start);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn take(&mut self, end: impl FnMut(char) -> bool) -> &'t str {
        let (taken, rest) = self.0.split_at(self.0.find(end).unwrap_or(self.0.len()));
        self.0 = rest;
        taken
    }

    fn skip_spaces(&mut self) {
        self.0 = self.0.trim_ascii_start();
    }

    fn value(&mut self) -> Option<Node> {
        self.skip_spaces();
        let value = if self.eat("true") {
            Value::Bool(true)
        } else if self.eat("false") {
            Value::Bool(false)
        } else if self.eat("{") {
            Value::Table(self.all("}", Self::entry)?.into_iter().collect())
        } else if self.eat("[") {
            Value::List(self.all("]", Self::value)?)
        } else if self.0.starts_with('"') {
            Value::Text(self.quoted()?)
        } else if self.eat("'") {
            let character = self.0.chars().next()?;
            self.0 = self.0.strip_prefix(character)?.strip_prefix('\'')?;
            Value::Text(character.into())
        } else {
            plain(self.take(|c| ",{}[]".contains(c)).trim())
        };
        self.skip_spaces();
        Some(node(value))
    }

    /// Items with commas between them, also after the last one.
    fn all<T>(&mut self, end: &str, item: fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut items = Vec::new();
        while !self.eat(end) {
            items.push(item(self)?);
            if !self.eat(",") {
                return self.eat(end).then_some(items);
            }
        }
        Some(items)
    }

    fn entry(&mut self) -> Option<(String, Node)> {
        self.skip_spaces();
        let key = match self.0.starts_with('"') {
            true => self.quoted()?,
            false => self.take(|c| !(c.is_ascii_alphanumeric() || "_-".contains(c))).to_owned(),
        };
        self.skip_spaces();
        if key.is_empty() || !self.eat("=") {
            return None;
        }
        Some((key, self.value()?))
    }

    fn quoted(&mut self) -> Option<String> {
        let mut escaped = false;
        let end = self.0.strip_prefix('"')?.find(|c| {
            let is_end = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            is_end
        })?;
        let (quoted, rest) = self.0.split_at(end + 2);
        self.0 = rest;
        match quoted.parse() {
            Ok(toml::Value::String(text)) => Some(text),
            _ => None,
        }
    }
}

/// A number, else a text.
fn plain(text: &str) -> Value {
    let float = if text.contains('.') { text.parse().ok().map(Value::Float) } else { None };
    let integer = || text.parse().map(Value::Unsigned).or_else(|_| text.parse().map(Value::Integer)).ok();
    float.or_else(integer).unwrap_or_else(|| Value::Text(text.to_owned()))
}
