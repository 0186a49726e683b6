//! Schemas in the dialect of a provider: those of tools, and those of answers.
//!
//! The schema of a tool's arguments is first read into one form ([`houston_domain::tool_schema::read`]), then written with the
//! keywords and the names that the provider accepts. Names of properties that it refuses are replaced, and put back in the
//! arguments of the model's calls ([`Originals`]).

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use houston_domain::history::Block;
use houston_domain::tool_call::ToolDefinition;
use houston_domain::tool_schema::read;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::identifier::Alphabet;
use super::object::Object;
use crate::model::{AnswerSchema, Event, Request};

/// What a provider accepts in a schema. A keyword that it does not accept is moved into the description.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Rules {
    /// The keywords that are sent; `None`: all of the one form.
    keywords: Option<Vec<String>>,
    /// The values of `format` that are sent; `None`: all.
    formats: Option<Vec<String>>,
    /// The largest `minItems` that is sent.
    min_items: u64,
    /// Whether `enum` is sent with texts and numbers only.
    plain_choices: bool,
    /// Whether regular expressions are sent only if Python compiles them and they do not look around.
    portable_patterns: bool,
    /// Whether objects get no properties besides those named.
    closes: bool,
    /// The names of properties that are sent.
    names: Alphabet,
    /// For people who read the table.
    why: String,
}

impl Default for Rules {
    /// All that a schema can say.
    fn default() -> Self {
        Self {
            keywords: None,
            formats: None,
            min_items: u64::MAX,
            plain_choices: false,
            portable_patterns: false,
            closes: false,
            names: Alphabet::Any,
            why: String::new(),
        }
    }
}

/// The rules of `data/schemas.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AllRules {
    pub(crate) anthropic: Rules,
    /// Also of all that speak its protocols.
    pub(crate) openai: Rules,
    pub(crate) gemini: Rules,
    pub(crate) cohere: Rules,
    pub(crate) ollama: Rules,
    /// What Anthropic enforces in answers.
    pub(crate) anthropic_answers: Rules,
}

pub(crate) static RULES: LazyLock<AllRules> =
    LazyLock::new(|| crate::of_data(include_str!("../../data/schemas.json")));

/// The schema of a tool as it is sent.
#[derive(Clone)]
struct Written {
    /// `None` if it cannot be read.
    parameters: Option<Arc<Value>>,
    /// Set if properties were renamed.
    renamed: Option<Arc<Renamed>>,
}

/// What was written, by the addresses of the schema and of the rules: the same tools are sent with every call. The weak reference
/// keeps the address from being used again.
static WRITTEN: LazyLock<Mutex<AllWritten>> = LazyLock::new(Mutex::default);

type AllWritten = HashMap<(usize, usize), (Weak<Value>, Written)>;

/// The most that is kept of [`WRITTEN`].
const MAX_WRITTEN: usize = 2048;

impl Rules {
    /// The schema of a tool's arguments, as it is sent. `None`: it cannot be read, and the tool is not sent.
    pub(crate) fn parameters(&'static self, tool: &ToolDefinition) -> Option<Arc<Value>> {
        self.written_for(tool).parameters
    }

    fn written_for(&'static self, tool: &ToolDefinition) -> Written {
        let key = (Arc::as_ptr(&tool.input_schema).addr(), std::ptr::from_ref(self).addr());
        let lock = || WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, written)) = lock().get(&key) {
            return written.clone();
        }
        let written = self.write(tool);
        let mut all = lock();
        if all.len() >= MAX_WRITTEN {
            all.retain(|_, (of, _)| of.strong_count() > 0);
        }
        if all.len() >= MAX_WRITTEN {
            all.clear();
        }
        all.insert(key, (Arc::downgrade(&tool.input_schema), written.clone()));
        written
    }

    fn write(&self, tool: &ToolDefinition) -> Written {
        let read = match read(&tool.input_schema) {
            Ok(read) => read,
            Err(reason) => {
                tracing::warn!(tool = tool.name, %reason, "a tool is not sent to a model");
                return Written { parameters: None, renamed: None };
            }
        };
        let whole = Whole::of(&read, self.names);
        let written = self.renamed(&read, &whole);
        // The same bytes as before, for the provider's cache.
        let is_same = written == *tool.input_schema;
        let parameters = Some(if is_same { Arc::clone(&tool.input_schema) } else { Arc::new(written) });
        let originals: BTreeMap<String, String> =
            whole.names.into_iter().map(|(name, sent)| (sent, name)).collect();
        let renamed = (!originals.is_empty()).then(|| Arc::new(Renamed { schema: read, originals }));
        Written { parameters, renamed }
    }

    /// A schema with the keywords that the provider accepts.
    pub(crate) fn written(&self, schema: &Value) -> Value {
        self.renamed(schema, &Whole::default())
    }

    fn renamed(&self, schema: &Value, whole: &Whole) -> Value {
        let Value::Object(fields) = schema else { return schema.clone() };
        let (mut sent, mut rest) = (Map::new(), Map::new());
        for (keyword, value) in fields {
            let sent_as = self.keyword(keyword, fields);
            let says_nothing = match (keyword.as_str(), value) {
                ("$schema", _) => true,
                ("additionalProperties", _) if self.closes => true,
                ("title", _) | ("additionalProperties", Value::Bool(_)) => !self.sends(keyword),
                _ => false,
            };
            if says_nothing {
                continue;
            }
            match self.sends(sent_as).then(|| self.value(keyword, value, fields, whole)).flatten() {
                Some(value) => drop(sent.insert(sent_as.to_owned(), value)),
                None => drop(rest.insert(keyword.clone(), value.clone())),
            }
        }
        if self.closes && describes_object(fields) {
            sent.insert("additionalProperties".to_owned(), false.into());
        }
        if !rest.is_empty() {
            let rest = Value::Object(rest);
            let description = match sent.get("description").and_then(Value::as_str) {
                Some(description) => format!("{description} {rest}"),
                None => rest.to_string(),
            };
            sent.insert("description".to_owned(), description.into());
        }
        Value::Object(sent)
    }

    /// The value of a keyword as it is sent; `None` if the provider does not accept it.
    fn value(
        &self,
        keyword: &str,
        value: &Value,
        fields: &Map<String, Value>,
        whole: &Whole,
    ) -> Option<Value> {
        let inner = |value: &Value| self.renamed(value, whole);
        Some(match (keyword, value) {
            ("const", _) if !self.sends("const") => self.choices(std::slice::from_ref(value), fields)?,
            ("enum", Value::Array(choices)) => self.choices(choices, fields)?,
            ("properties", Value::Object(named)) => {
                let named = named.iter().map(|(name, schema)| (whole.sent(name).to_owned(), inner(schema)));
                Value::Object(named.collect())
            }
            ("patternProperties", Value::Object(named)) => {
                let named =
                    named.iter().filter(|(pattern, _)| !self.portable_patterns || whole.is_portable(pattern));
                Value::Object(named.map(|(pattern, schema)| (pattern.clone(), inner(schema))).collect())
            }
            ("$defs" | "definitions", Value::Object(named)) => {
                Value::Object(named.iter().map(|(name, schema)| (name.clone(), inner(schema))).collect())
            }
            ("required", Value::Array(listed)) => {
                let sent =
                    |name: &Value| name.as_str().map_or_else(|| name.clone(), |name| json!(whole.sent(name)));
                listed.iter().map(sent).collect()
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(listed)) => {
                listed.iter().map(inner).collect()
            }
            ("items" | "additionalProperties" | "not" | "contains" | "propertyNames", _) => inner(value),
            ("minItems", _) if value.as_u64() > Some(self.min_items) => return None,
            ("format", Value::String(format))
                if self.formats.as_ref().is_some_and(|known| !known.contains(format)) =>
            {
                return None;
            }
            ("pattern", Value::String(pattern)) if self.portable_patterns && !whole.is_portable(pattern) => {
                return None;
            }
            _ => value.clone(),
        })
    }

    fn sends(&self, keyword: &str) -> bool {
        self.keywords.as_ref().is_none_or(|keywords| keywords.iter().any(|sent| sent == keyword))
    }

    /// The keyword that means the same to the provider, unless the schema has that one, too.
    fn keyword<'k>(&self, keyword: &'k str, fields: &Map<String, Value>) -> &'k str {
        let other = match keyword {
            "oneOf" => "anyOf",
            "const" => "enum",
            _ => return keyword,
        };
        let is_better = !self.sends(keyword) && self.sends(other) && !fields.contains_key(other);
        if is_better { other } else { keyword }
    }

    /// The values of an enumeration that are sent; `None` if it is not sent.
    fn choices(&self, choices: &[Value], fields: &Map<String, Value>) -> Option<Value> {
        if !self.plain_choices {
            return Some(Value::Array(choices.to_vec()));
        }
        let allows_null =
            fields.get("type").and_then(Value::as_array).is_some_and(|types| types.contains(&json!("null")));
        let others: Vec<Value> =
            choices.iter().filter(|choice| !(choice.is_null() && allows_null)).cloned().collect();
        let is_plain =
            !others.is_empty() && others.iter().all(|choice| choice.is_string() || choice.is_number());
        is_plain.then_some(Value::Array(others))
    }
}

/// Whether Python's `re` and engines that do not look around read a regular expression as it is meant. A few that would be
/// are not recognised; among them are long ones, whose checking would take long.
fn is_portable(pattern: &str) -> bool {
    let foreign = ["(?=", "(?!", "(?<", "\\p", "\\P", "\\u{", "\\x{", "\\k", "\\c", "\\z", "\\h", "[[:"];
    let is_short = pattern.len() <= MAX_PATTERN && !foreign.iter().any(|part| pattern.contains(part));
    is_short && regex_lite::RegexBuilder::new(pattern).size_limit(MAX_COMPILED).build().is_ok()
}

/// The longest pattern that is checked, in bytes, and the most bytes of memory that it may take then: some 0.2 ms.
const MAX_PATTERN: usize = 512;
const MAX_COMPILED: usize = 128 * 1024;
/// The most patterns of a tool that are checked. The others are described.
const MAX_PATTERNS: usize = 100;

/// What is the same in a whole schema: its names, and how many more of its patterns are checked.
#[derive(Debug)]
struct Whole {
    /// The names of a tool's properties that are sent as others.
    names: BTreeMap<String, String>,
    patterns_left: Cell<usize>,
}

impl Default for Whole {
    fn default() -> Self {
        Self { names: BTreeMap::new(), patterns_left: Cell::new(MAX_PATTERNS) }
    }
}

impl Whole {
    /// A schema uses one name everywhere for the same name, and none for two.
    fn of(schema: &Value, alphabet: Alphabet) -> Self {
        let mut whole = Self::default();
        if alphabet == Alphabet::Any {
            return whole;
        }
        let mut all = Vec::new();
        collect(schema, &mut all);
        let mut taken: HashSet<String> =
            all.iter().filter(|name| alphabet.has(name)).map(|name| (*name).to_owned()).collect();
        for name in all.into_iter().filter(|name| !alphabet.has(name)) {
            if whole.names.contains_key(name) {
                continue;
            }
            let sent = alphabet.renamed(name, |other| taken.contains(other));
            taken.insert(sent.clone());
            whole.names.insert(name.to_owned(), sent);
        }
        whole
    }

    fn sent<'n>(&'n self, name: &'n str) -> &'n str {
        self.names.get(name).map_or(name, String::as_str)
    }

    fn is_portable(&self, pattern: &str) -> bool {
        let left = self.patterns_left.get();
        self.patterns_left.set(left.saturating_sub(1));
        left > 0 && is_portable(pattern)
    }
}

/// The names of all properties in a schema.
fn collect<'s>(schema: &'s Value, names: &mut Vec<&'s str>) {
    let Value::Object(fields) = schema else { return };
    if let Some(named) = fields.get("properties").and_then(Value::as_object) {
        names.extend(named.keys().map(String::as_str));
    }
    for schema in inner(fields) {
        collect(schema, names);
    }
}

/// The schemas directly in a schema of the one form.
fn inner(fields: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let named =
        ["properties", "patternProperties"].into_iter().filter_map(|key| fields.get(key)?.as_object());
    let listed = ["anyOf", "oneOf", "prefixItems"].into_iter().filter_map(|key| fields.get(key)?.as_array());
    let one = ["items", "additionalProperties", "not", "contains", "propertyNames"].into_iter();
    named.flat_map(Map::values).chain(listed.flatten()).chain(one.filter_map(|key| fields.get(key)))
}

/// The names of properties that a provider was sent as others, of the tools of one request by their names.
#[derive(Debug)]
pub(crate) struct Originals(Vec<(String, Arc<Renamed>)>);

/// A tool of which some properties were sent with other names.
#[derive(Debug)]
struct Renamed {
    schema: Value,
    /// The original names by those sent.
    originals: BTreeMap<String, String>,
}

impl Originals {
    /// `None` if all names are sent as they are.
    pub(crate) fn of(rules: &'static Rules, request: &Request<'_>) -> Option<Self> {
        if rules.names == Alphabet::Any {
            return None;
        }
        let deferred = request.deferred.map(|deferred| deferred.tools).unwrap_or_default();
        let renamed = |tool: &ToolDefinition| Some((tool.name.clone(), rules.written_for(tool).renamed?));
        let all: Vec<_> = request.tools.iter().chain(deferred).filter_map(renamed).collect();
        (!all.is_empty()).then_some(Self(all))
    }

    /// Puts the original names into the calls of a complete answer. [`Event::ToolArguments`] keeps the names that the model
    /// wrote: nothing but the text of replies is read from it.
    pub(crate) fn restore(&self, event: Event) -> Event {
        let Event::Done(mut answer) = event else { return event };
        for block in &mut answer.content {
            if let Block::ToolUse { name, input, .. } = block
                && let Some((_, tool)) = self.0.iter().find(|(tool, _)| tool == name)
            {
                tool.restore(input, &[&tool.schema]);
            }
        }
        Event::Done(answer)
    }
}

impl Renamed {
    /// Puts the original names into a value that matches one of `schemas`. Names that no schema has are left as they are: they
    /// may be the caller's own, in an object with any properties.
    fn restore(&self, value: &mut Value, schemas: &[&Value]) {
        let schemas = with_alternatives(schemas);
        match value {
            Value::Array(items) => {
                for (nth, item) in items.iter_mut().enumerate() {
                    let items: Vec<&Value> =
                        schemas.iter().filter_map(|schema| item_at(schema, nth)).collect();
                    self.restore(item, &items);
                }
            }
            Value::Object(fields) => {
                let named = |name: &str| -> Vec<&Value> {
                    schemas.iter().filter_map(|schema| schema.get("properties")?.get(name)).collect()
                };
                let taken = std::mem::take(fields);
                for (name, mut value) in taken {
                    let original = self.originals.get(&name).filter(|original| !named(original).is_empty());
                    let name: Cow<'_, str> =
                        original.map_or(Cow::Owned(name), |original| Cow::Borrowed(original));
                    let mut inner = named(&name);
                    if inner.is_empty() {
                        let rest = schemas.iter().filter_map(|schema| schema.get("additionalProperties"));
                        let patterns =
                            schemas.iter().filter_map(|schema| schema.get("patternProperties")?.as_object());
                        inner = rest.chain(patterns.flat_map(Map::values)).collect();
                    }
                    self.restore(&mut value, &inner);
                    fields.insert(name.into_owned(), value);
                }
            }
            _ => {}
        }
    }
}

/// The schema of an item of an array.
fn item_at(schema: &Map<String, Value>, nth: usize) -> Option<&Value> {
    let listed = schema.get("prefixItems").and_then(Value::as_array);
    listed.and_then(|listed| listed.get(nth)).or_else(|| schema.get("items"))
}

/// The schemas, and the alternatives in them.
fn with_alternatives<'s>(schemas: &[&'s Value]) -> Vec<&'s Map<String, Value>> {
    let mut all = Vec::new();
    let mut open: Vec<&Value> = schemas.to_vec();
    while let Some(schema) = open.pop() {
        let Value::Object(fields) = schema else { continue };
        let alternatives = ["anyOf", "oneOf"].iter().filter_map(|key| fields.get(*key)?.as_array());
        open.extend(alternatives.flatten());
        all.push(fields);
    }
    all
}

// Answer schemas in the format of providers. Their keywords are those of [`Rules`].

/// A schema in the format of OpenAI, whose fields are added to `object`. `may_be_strict`: whether the model accepts strict
/// schemas. OpenAI enforces only schemas without optional or additional properties.
pub(crate) fn named(object: Object, form: AnswerSchema<'_>, may_be_strict: bool) -> Object {
    let strict = may_be_strict && form.strict && is_strict(form.schema);
    object.with("name", form.name).with("strict", strict).with("schema", form.schema)
}

/// Whether every object in a schema forbids additional properties and requires all that it has.
fn is_strict(schema: &Value) -> bool {
    let Value::Object(fields) = schema else { return !schema.is_boolean() };
    let nested = children(fields).all(is_strict);
    if !describes_object(fields) {
        return nested;
    }
    let required: Vec<&str> = names(fields.get("required")).collect();
    let properties = fields.get("properties").and_then(Value::as_object);
    let all_required = properties.into_iter().flatten().all(|(name, _)| required.contains(&name.as_str()));
    nested && all_required && fields.get("additionalProperties") == Some(&Value::Bool(false))
}

/// Prompt text for a model whose provider does not enforce the schema.
pub(crate) fn instruction(form: AnswerSchema<'_>) -> String {
    format!(
        "Answer with one JSON object and nothing else, no Markdown around it. It must satisfy this JSON Schema:\n{}",
        form.schema
    )
}

/// Whether a schema has properties, or the type `object`.
fn describes_object(fields: &Map<String, Value>) -> bool {
    let is_object = |kind: &Value| kind == "object" || names(Some(kind)).any(|kind| kind == "object");
    fields.contains_key("properties") || fields.get("type").is_some_and(is_object)
}

/// The direct subschemas of a schema.
fn children(fields: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let named = ["properties", "$defs", "definitions"];
    let listed = ["anyOf", "allOf", "oneOf"];
    let named = named.into_iter().filter_map(|name| fields.get(name)?.as_object());
    let listed = listed.into_iter().filter_map(|name| fields.get(name)?.as_array());
    named
        .flat_map(|named| named.iter().map(|(_, schema)| schema))
        .chain(listed.flatten())
        .chain(fields.get("items"))
}

fn names(list: Option<&Value>) -> impl Iterator<Item = &str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

#[cfg(test)]
mod answer_schema_tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_fully_specified_schemas_are_strict() {
        let point = json!({"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"],
            "additionalProperties": false});
        assert!(is_strict(&point));
        for (path, value) in [("required", json!([])), ("additionalProperties", json!(true))] {
            let mut open = point.clone();
            open[path] = value;
            assert!(!is_strict(&open), "{open}");
            let around = json!({"type": "object", "properties": {"p": {"type": "array", "items": open}},
                "required": ["p"], "additionalProperties": false});
            assert!(!is_strict(&around), "{around}");
        }
        assert!(!is_strict(&json!({"type": ["object", "null"]})));
    }
}

#[cfg(test)]
mod tests;
