//! The layers of settings, merged into one tree of values, each with the file or variable that sets it.
//!
//! The settings of the environment: every `HOUSTON_…` that is not read elsewhere, with `__` between the parts of a key.
//!
//! A value is `true`, `false`, a number, a text in double quotes with the escapes of TOML, a list `[a, 1]` or a table `{key =
//! a}`. All else is a text as it is.

use std::collections::{BTreeMap, btree_map};
use std::ffi::OsString;
use std::fmt::Display;
use std::iter::Enumerate;
use std::path::Path;
use std::slice;
use std::sync::Arc;

use serde::de::value::MapAccessDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess, SeqAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;

use super::error::Error;
use super::{ConfigError, Result};

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

macro_rules! files {
    ($($name:ident)*) => {
        &[$((stringify!($name), include_str!(concat!("../../../../jobs/", stringify!($name), ".toml")))),*]
    };
}

/// Files of `jobs/`: the top-level key of their settings, and their text.
pub(super) const FILES: &[(&str, &str)] = files! {
    orchestrator server health_monitor session_archive feed_generation agent_check_in knowledge models
    providers teams cells guards web sandbox mcp overseer tables packs skills tools workspaces rates
    webhooks plans triggers attachments console
};

/// Where a value comes from.
#[derive(Debug, Clone)]
pub(super) enum Origin {
    File(Arc<str>),
    Environment,
}

impl Origin {
    /// The file or variable of `key`.
    pub(super) fn of(&self, key: &str) -> String {
        match self {
            Self::File(path) => path.to_string(),
            Self::Environment => format!("HOUSTON_{}", key.replace('.', "__").to_uppercase()),
        }
    }
}

/// A value, and the last layer that sets it or something in it.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) value: Value,
    pub(super) origin: Origin,
}

/// A value of a file or a variable.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Bool(bool),
    Integer(i64),
    Unsigned(u64),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Table(BTreeMap<String, Node>),
}

impl Node {
    fn of(value: toml::Value, origin: &Origin) -> Self {
        let value = match value {
            toml::Value::Boolean(value) => Value::Bool(value),
            toml::Value::Integer(value) => Value::Integer(value),
            toml::Value::Float(value) => Value::Float(value),
            toml::Value::String(text) => Value::Text(text),
            toml::Value::Datetime(time) => Value::Text(time.to_string()),
            toml::Value::Array(list) => {
                Value::List(list.into_iter().map(|value| Self::of(value, origin)).collect())
            }
            toml::Value::Table(table) => {
                Value::Table(table.into_iter().map(|(key, value)| (key, Self::of(value, origin))).collect())
            }
        };
        Self { value, origin: origin.clone() }
    }

    /// Puts the keys of a table over those of a table, and any other value in the place of this one.
    fn merge(&mut self, over: Self) {
        match (&mut self.value, over.value) {
            (Value::Table(below), Value::Table(over)) => {
                for (key, node) in over {
                    match below.get_mut(&key) {
                        Some(below) => below.merge(node),
                        None => drop(below.insert(key, node)),
                    }
                }
            }
            (below, over) => *below = over,
        }
        self.origin = over.origin;
    }

    fn get(&self, key: &str) -> Option<&Self> {
        match &self.value {
            Value::Table(table) => table.get(key),
            _ => None,
        }
    }
}

/// All layers.
#[derive(Debug, Clone)]
pub(super) struct Layers(Node);

impl Layers {
    /// The files of `jobs/`.
    pub(super) fn built_in() -> Result<Self> {
        let mut layers = Self(node(Value::Table(BTreeMap::new())));
        for (name, text) in FILES {
            layers.add(name, text, format!("jobs/{name}.toml"))?;
        }
        Ok(layers)
    }

    /// Adds the files of a folder.
    ///
    /// # Errors
    /// [`ConfigError`] when a file cannot be read or is not TOML.
    pub(super) fn add_folder(&mut self, folder: &Path) -> Result<()> {
        for (name, _) in FILES {
            let path = folder.join(format!("{name}.toml"));
            let origin = path.display().to_string();
            match std::fs::read_to_string(&path) {
                Ok(text) => self.add(name, &text, origin)?,
                Err(_) if !path.is_file() => {}
                Err(error) => return Err(ConfigError::setting("settings", &origin, error)),
            }
        }
        Ok(())
    }

    fn add(&mut self, name: &str, text: &str, path: String) -> Result<()> {
        let origin = Origin::File(path.into());
        let section: toml::Table = text.parse().map_err(|error| Error::of_file(&error, origin.clone()))?;
        let file = toml::Table::from_iter([(name.to_owned(), toml::Value::Table(section))]);
        self.0.merge(Node::of(toml::Value::Table(file), &origin));
        Ok(())
    }

    /// Adds the settings of the environment.
    pub(super) fn add_variables(&mut self, variables: impl Iterator<Item = (OsString, OsString)>) {
        let mut values = node(Value::Table(BTreeMap::new()));
        for (name, text) in variables {
            if let Some(key) = key_of(name.to_string_lossy().trim()) {
                let within =
                    |inner, part: &str| node(Value::Table(BTreeMap::from([(part.to_owned(), inner)])));
                values.merge(key.rsplit('.').fold(parse_value(&text.to_string_lossy()), within));
            }
        }
        self.0.merge(values);
    }

    /// # Errors
    /// [`ConfigError`] for a key that does not exist or is missing, and for a value of the wrong type.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T> {
        Ok(T::deserialize(&self.0)?)
    }

    /// The file or variable that sets `key`.
    pub(super) fn origin(&self, key: &str) -> String {
        let node = key.split('.').try_fold(&self.0, |node, part| node.get(part));
        node.map_or_else(|| "not set".to_owned(), |node| node.origin.of(key))
    }

    /// The error of a setting that breaks a rule.
    pub(super) fn refuse(&self, key: impl AsRef<str>, reason: impl Display) -> ConfigError {
        let key = key.as_ref();
        ConfigError::setting(key, &self.origin(key), reason)
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.value {
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Integer(value) => visitor.visit_i64(*value),
            Value::Unsigned(value) => visitor.visit_u64(*value),
            Value::Float(value) => visitor.visit_f64(*value),
            Value::Text(text) => visitor.visit_str(text),
            Value::List(list) => visitor.visit_seq(Items(list.iter().enumerate())),
            Value::Table(table) => visitor.visit_map(Fields { rest: table.iter(), at: None }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match &self.value {
            Value::Text(text) => visitor.visit_enum(text.as_str().into_deserializer()),
            Value::Table(table) => {
                visitor.visit_enum(MapAccessDeserializer::new(Fields { rest: table.iter(), at: None }))
            }
            _ => self.deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

struct Items<'v>(Enumerate<slice::Iter<'v, Node>>);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some((nth, node)) = self.0.next() else { return Ok(None) };
        seed.deserialize(node).map(Some).map_err(|error| error.within(&nth.to_string(), &node.origin))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

struct Fields<'v> {
    rest: btree_map::Iter<'v, String, Node>,
    at: Option<(&'v String, &'v Node)>,
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        self.at = self.rest.next();
        let Some((key, node)) = self.at else { return Ok(None) };
        let key_of = seed.deserialize(key.as_str().into_deserializer());
        key_of.map(Some).map_err(|error: Error| error.within(key, &node.origin))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let Some((key, node)) = self.at else { return Err(Error::custom("a value without its key")) };
        seed.deserialize(node).map_err(|error| error.within(key, &node.origin))
    }
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

fn parse_value(text: &str) -> Node {
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
