//! Documents that are kept as files: plans are made of them, each with an input of its own.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::document::{Document, MAX_STEPS, Offer};
use super::problem::{Problem, unknown};
use crate::question::schema;

/// Maximum length of a name, and of a description, in characters.
const MAX_NAME_CHARS: usize = 40;
const MAX_DESCRIPTION_CHARS: usize = 300;

/// A document that plans are made of.
#[derive(Debug, Clone, PartialEq)]
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    description: String,
    input: Value,
    document: Value,
}

impl Template {
    /// Reads the file with this stem. `tools`: those that steps may name.
    ///
    /// # Errors
    /// Every problem, with a JSON pointer into the file.
    pub fn parse(json: &str, stem: &str, tools: &[&str]) -> Result<Self, Vec<Problem>> {
        let file: File =
            serde_json::from_str(json).map_err(|error| vec![Problem::new("", error.to_string())])?;
        let File { name, description, input, document } = file;
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
        let template = Self { name, description, input, document };
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
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
