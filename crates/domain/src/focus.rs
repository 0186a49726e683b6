//! [`Focus`]: what a message is about, as its client says: a thing with a type and an id. A provider of the kind, a tool that
//! reads, says more about it. The prompt has its [`brief`]; the model reads the rest with that tool.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::setting::{WrongSetting, require};
use crate::tool_call::EffectClass;

/// The most characters of a type.
pub const MAX_TYPE_CHARS: usize = 64;
/// The most characters of an id.
pub const MAX_ID_CHARS: usize = 128;
/// The most bytes of `data` as JSON.
pub const MAX_DATA_BYTES: usize = 4 * 1024;
/// The most characters of a brief, without its children.
pub const BRIEF_CHARS: usize = 500;
/// The most children of a brief.
pub const BRIEF_CHILDREN: usize = 5;
/// The most characters of a child, and of a value of a brief.
const LINE_CHARS: usize = 100;
/// The most characters of a provider's answer that a prompt has whole.
pub const DETAIL_CHARS: usize = 8_000;
/// The most providers of a kind.
pub const MAX_PROVIDERS: usize = 32;

/// What a message is about.
///
/// ```json
/// {"type": "order", "id": "17", "data": {"tab": "delivery"}}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Focus {
    /// The type of the thing; that of a provider of the kind, if there is more to know about it.
    #[serde(rename = "type")]
    pub kind: String,
    /// The id that the client has for it.
    pub id: String,
    /// What the client knows of it. No one has checked it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// The thing of a focus, without what the client knows of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FocusRef {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// The id of the thing.
    pub id: String,
}

/// How much of a thing a prompt has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Beginnings and titles; another call reads the rest.
    #[default]
    Brief,
    /// All of one thing.
    Detail,
}

/// Where a kind gets more about the things of one type.
///
/// ```toml
/// [context_providers.order]
/// tool = "crm__get_order"
/// argument = "order_id"
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextProvider {
    /// The tool, which must only read. Agents that do not have it get nothing.
    pub tool: String,
    /// The argument that is the id.
    #[serde(default = "id")]
    pub argument: String,
    /// How much of its answer a prompt has.
    #[serde(default)]
    pub tier: Tier,
}

/// The providers of a kind, by type.
pub type ContextProviders = BTreeMap<String, ContextProvider>;

fn id() -> String {
    "id".to_owned()
}

impl Focus {
    /// Checks its type, id and size.
    ///
    /// # Errors
    /// [`WrongSetting`] with the place below the focus.
    pub fn check(&self) -> Result<(), WrongSetting> {
        let allowed = format_args!("{MAX_TYPE_CHARS} of the characters A-Z, a-z, 0-9, `_`, `-` and `.`");
        require(is_type(&self.kind), "/type", format_args!("must have 1 to {allowed}"))?;
        let allowed = "printable ASCII characters without spaces, `<`, `>` and `\"`";
        require(is_id(&self.id), "/id", format_args!("must have 1 to {MAX_ID_CHARS} {allowed}"))?;
        let bytes = self.data.as_ref().map_or(0, |data| data.to_string().len());
        let reason = format_args!("has {bytes} bytes as JSON; at most {MAX_DATA_BYTES} are allowed");
        require(bytes <= MAX_DATA_BYTES, "/data", reason)
    }

    /// The thing.
    pub fn thing(&self) -> FocusRef {
        FocusRef { kind: self.kind.clone(), id: self.id.clone() }
    }
}

/// Whether a text may be a type.
fn is_type(text: &str) -> bool {
    let is_of_type = |letter: u8| letter.is_ascii_alphanumeric() || b"_-.".contains(&letter);
    (1..=MAX_TYPE_CHARS).contains(&text.len()) && text.bytes().all(is_of_type)
}

/// Whether a text may be an id.
pub fn is_id(text: &str) -> bool {
    let is_of_id = |letter: u8| letter.is_ascii_graphic() && !b"<>\"".contains(&letter);
    (1..=MAX_ID_CHARS).contains(&text.len()) && text.bytes().all(is_of_id)
}

/// Checks the providers of a kind. `effect`: that of a tool, if the process knows it.
pub fn check_providers(
    providers: &ContextProviders,
    effect: impl Fn(&str) -> Option<EffectClass>,
) -> Result<(), String> {
    if providers.len() > MAX_PROVIDERS {
        return Err(format!("has {} types; at most {MAX_PROVIDERS} are allowed", providers.len()));
    }
    for (kind, ContextProvider { tool, argument, .. }) in providers {
        ensure!(
            is_type(kind),
            "`{kind}` cannot be a type: it must have 1 to {MAX_TYPE_CHARS} of the characters A-Z, a-z, 0-9, `_`, `-` and `.`"
        );
        ensure!(!tool.is_empty() && !argument.is_empty(), "{kind}: `tool` and `argument` must not be empty");
        if effect(tool).is_some_and(|effect| effect != EffectClass::Read) {
            return Err(format!("{kind}: `{tool}` does more than read: name a tool that only reads"));
        }
    }
    Ok(())
}

impl std::fmt::Display for FocusRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind, self.id)
    }
}

/// The beginning of what a provider answered: at most [`BRIEF_CHARS`] characters, and [`BRIEF_CHILDREN`] children. The fields of
/// a JSON object are lines; its first list has the children. Returns whether that is all.
pub fn brief(answer: &str) -> (String, bool) {
    // A line with a status may precede the object.
    let object = answer.find('{').and_then(|at| serde_json::from_str(answer[at..].trim()).ok());
    let Some(Value::Object(fields)) = object else { return cut(answer.trim(), BRIEF_CHARS) };
    let (mut lines, mut left, mut is_all) = (Vec::new(), BRIEF_CHARS, true);
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_array()) {
        let (line, is_whole) = line(name, value);
        is_all &= is_whole;
        let chars = line.chars().count() + 1;
        match left.checked_sub(chars) {
            Some(rest) => {
                left = rest;
                lines.push(line);
            }
            None => is_all = false,
        }
    }
    for (nth, (name, items)) in
        fields.iter().filter_map(|(name, value)| Some((name, value.as_array()?))).enumerate()
    {
        // Of other lists the number.
        let most = if nth == 0 { BRIEF_CHILDREN } else { 0 };
        is_all &= items.len() <= most;
        let Some(rest) = left.checked_sub(name.chars().count() + 8).filter(|_| items.len() < 1_000_000)
        else {
            is_all = false;
            continue;
        };
        left = rest;
        lines.push(format!("{name}: {}", items.len()));
        for item in items.iter().take(most) {
            let (child, is_whole) = child(item);
            is_all &= is_whole;
            lines.push(child);
        }
    }
    (lines.join("\n"), is_all)
}

fn line(name: &str, value: &Value) -> (String, bool) {
    let (value, is_all) = cut(&text(value), LINE_CHARS * 3);
    (format!("{name}: {value}"), is_all)
}

/// A child: its id and what it is called.
fn child(item: &Value) -> (String, bool) {
    let Value::Object(fields) = item else {
        let (text, is_all) = cut(&text(item), LINE_CHARS);
        return (format!("- {text}"), is_all);
    };
    let of = |names: &[&str]| names.iter().find_map(|name| scalar(fields, name));
    let called = [of(&["id", "key"]), of(&["title", "name", "summary", "status"])];
    let text = called.into_iter().flatten().collect::<Vec<_>>().join(" ");
    let (text, _) = cut(if text.is_empty() { "…" } else { &text }, LINE_CHARS);
    (format!("- {text}"), fields.len() <= 2)
}

fn scalar(fields: &Map<String, Value>, name: &str) -> Option<String> {
    fields.get(name).filter(|value| !value.is_object() && !value.is_array()).map(text)
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.split_whitespace().collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

fn cut(text: &str, most: usize) -> (String, bool) {
    match text.char_indices().nth(most) {
        None => (text.to_owned(), true),
        Some(_) => (text.chars().take(most - 1).chain(['…']).collect(), false),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn focus(kind: &str, id: &str) -> Focus {
        Focus { kind: kind.into(), id: id.into(), data: None }
    }

    #[test]
    fn wrong_focuses_are_refused_with_their_place() {
        let pointer = |focus: Focus| focus.check().err().map(|wrong| wrong.pointer);
        assert_eq!(pointer(focus("order", "17/é".trim_end_matches("/é"))), None);
        for kind in ["", "a b", "<x>", &"x".repeat(65)] {
            assert_eq!(pointer(focus(kind, "1")).unwrap(), "/type");
        }
        for id in ["", "a b", "a\n", "\"", "</focus>", &"x".repeat(129)] {
            assert_eq!(pointer(focus("order", id)).unwrap(), "/id");
        }
        let long = Focus { data: Some(json!("x".repeat(MAX_DATA_BYTES))), ..focus("order", "1") };
        assert_eq!(pointer(long).unwrap(), "/data");
    }

    #[test]
    fn providers_only_read_and_have_a_type_that_messages_can_name() {
        let providers = |kind: &str, tool: &str| {
            let provider = ContextProvider { tool: tool.into(), argument: id(), tier: Tier::Brief };
            ContextProviders::from([(kind.to_owned(), provider)])
        };
        let effect = |tool: &str| match tool {
            "get_order" => Some(EffectClass::Read),
            "pay_order" => Some(EffectClass::Effect),
            _ => None,
        };
        assert_eq!(check_providers(&providers("order", "get_order"), effect), Ok(()));
        assert_eq!(
            check_providers(&providers("order", "of_a_server"), effect),
            Ok(()),
            "it is not there yet"
        );
        for (kind, tool) in [("order", "pay_order"), ("an order", "get_order"), ("order", "")] {
            assert!(check_providers(&providers(kind, tool), effect).is_err(), "{kind} {tool}");
        }
    }

    #[test]
    fn brief_has_fields_and_five_children() {
        let items: Vec<Value> =
            (0..9).map(|nth| json!({"id": nth, "title": "A chair", "text": "long"})).collect();
        let (text, is_all) = brief(&json!({"id": "17", "status": "open", "items": items}).to_string());
        assert!(text.starts_with("id: 17\nstatus: open\nitems: 9\n- 0 A chair\n"), "{text}");
        assert_eq!(text.matches("- ").count(), BRIEF_CHILDREN);
        assert!(!is_all);
        assert_eq!(brief("short"), ("short".to_owned(), true));
        assert_eq!(brief(&json!({"id": 1}).to_string()), ("id: 1".to_owned(), true));
    }

    proptest! {
        #[test]
        fn brief_is_bounded(text in ".{0,2000}", names in proptest::collection::vec(".{0,700}", 0..20)) {
            let most = BRIEF_CHARS + BRIEF_CHILDREN * (LINE_CHARS + 3);
            prop_assert!(brief(&text).0.chars().count() <= BRIEF_CHARS);
            let fields: Map<String, Value> =
                names.iter().map(|name| (name.clone(), json!([name, {"id": text, "title": name}]))).collect();
            prop_assert!(brief(&Value::Object(fields).to_string()).0.chars().count() <= most);
            let fields: Map<String, Value> = names.iter().map(|name| (name.clone(), json!(text))).collect();
            prop_assert!(brief(&Value::Object(fields).to_string()).0.chars().count() <= BRIEF_CHARS);
        }
    }
}
