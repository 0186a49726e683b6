//! The layers of settings, merged into one tree of values, each with the file or variable that sets it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::explain::Error;
use super::{ConfigError, FILES, variables};

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
    pub(super) fn merge(&mut self, over: Self) {
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
    ///
    /// # Errors
    /// As [`Self::add`].
    pub(super) fn built_in() -> Result<Self, ConfigError> {
        let mut layers = Self(Node { value: Value::Table(BTreeMap::new()), origin: Origin::Environment });
        for (name, text) in FILES {
            layers.add(name, text, format!("jobs/{name}.toml"))?;
        }
        Ok(layers)
    }

    /// Adds the files of a folder.
    ///
    /// # Errors
    /// [`ConfigError`] when a file cannot be read or is not TOML.
    pub(super) fn add_folder(&mut self, folder: &Path) -> Result<(), ConfigError> {
        for (name, _) in FILES {
            let path = folder.join(format!("{name}.toml"));
            let origin = path.display().to_string();
            match std::fs::read_to_string(&path) {
                Ok(text) => self.add(name, &text, origin)?,
                Err(_) if !path.is_file() => {}
                Err(error) => {
                    let (key, reason) = ("settings".to_owned(), error.to_string());
                    return Err(ConfigError::Setting { key, origin, reason });
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, name: &str, text: &str, path: String) -> Result<(), ConfigError> {
        let origin = Origin::File(path.into());
        let section: toml::Table = text.parse().map_err(|error| Error::of_file(&error, origin.clone()))?;
        let file = toml::Table::from_iter([(name.to_owned(), toml::Value::Table(section))]);
        self.0.merge(Node::of(toml::Value::Table(file), &origin));
        Ok(())
    }

    /// Adds the settings of the environment.
    pub(super) fn add_variables(&mut self, variables: impl Iterator<Item = (OsString, OsString)>) {
        self.0.merge(variables::values(variables));
    }

    /// # Errors
    /// [`ConfigError::Setting`] for a key that does not exist or is missing, and for a value of the wrong type.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        Ok(T::deserialize(&self.0)?)
    }

    /// The file or variable that sets `key`.
    pub(super) fn origin(&self, key: &str) -> String {
        let node = key.split('.').try_fold(&self.0, |node, part| node.get(part));
        node.map_or_else(|| "not set".to_owned(), |node| node.origin.of(key))
    }

    /// The error of a setting that breaks a rule.
    pub(super) fn refuse(&self, key: impl Into<String>, reason: impl Into<String>) -> ConfigError {
        let key = key.into();
        ConfigError::Setting { origin: self.origin(&key), key, reason: reason.into() }
    }
}
