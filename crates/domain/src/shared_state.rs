//! [`SharedState`]: one JSON document of an agentable that its agent and the front end both change.
//!
//! The model changes it with a merge patch (RFC 7386): models write an excerpt of a document more reliably than operations with
//! pointers and positions. What changed goes to clients as a JSON Patch (RFC 6902), of `add`, `remove` and `replace`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::question::schema::{self, Mismatch};
use crate::setting::require;

/// The name of the model's tool.
pub const UPDATE_STATE: &str = "update_state";
/// The most bytes of a schema: the model reads it with each request.
pub const MAX_SCHEMA_BYTES: usize = 16 * 1024;
/// The most bytes that `max_bytes` may allow: the model reads the document with each run.
pub const MAX_STATE_BYTES: usize = 256 * 1024;
/// How deep documents are nested at most.
const MAX_DEPTH: usize = 24;

/// The state of a kind's agentables, as its file declares it.
///
/// ```toml
/// [state]
/// initial = { items = [] }
///
/// [state.schema]
/// type = "object"
/// additionalProperties = false
/// properties.items = { type = "array", maxItems = 20, items = { type = "string" } }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedState {
    /// The JSON Schema of the document, which is an object.
    pub schema: Arc<Value>,
    /// What the state is before anything has changed it.
    #[serde(default = "empty")]
    pub initial: Value,
    /// The most bytes of the document as JSON.
    #[serde(default = "default_max_bytes")]
    pub max_bytes: usize,
}

fn empty() -> Value {
    Value::Object(Map::new())
}

fn default_max_bytes() -> usize {
    32 * 1024
}

/// A change that was found to be allowed.
#[derive(Debug, Clone, PartialEq)]
pub struct StateChange {
    /// The state after it.
    pub state: Value,
    /// What changed: a JSON Patch; empty: nothing.
    pub delta: Vec<Value>,
}

impl SharedState {
    /// Checks the declaration itself.
    pub fn check_declaration(&self) -> Result<(), String> {
        ensure!(self.schema["type"] == "object", "state.schema must be a JSON Schema with type = \"object\"");
        let bytes = self.schema.to_string().len();
        ensure!(
            bytes <= MAX_SCHEMA_BYTES,
            "state.schema has {bytes} bytes as JSON; at most {MAX_SCHEMA_BYTES} are allowed"
        );
        if !(1..=MAX_STATE_BYTES).contains(&self.max_bytes) {
            return Err(format!("state.max_bytes must be from 1 to {MAX_STATE_BYTES}"));
        }
        self.check(&self.initial)
            .map_err(|Mismatch { pointer, reason }| format!("state.initial: `{pointer}` {reason}"))
    }

    /// Checks a document.
    ///
    /// # Errors
    /// The first [`Mismatch`].
    pub fn check(&self, state: &Value) -> Result<(), Mismatch> {
        require(state.is_object(), "", "must be an object")?;
        let reason = format_args!("is nested more than {MAX_DEPTH} levels deep");
        require(!is_deeper(state, MAX_DEPTH), "", reason)?;
        let bytes = state.to_string().len();
        let reason = format_args!("has {bytes} bytes as JSON; at most {} are allowed", self.max_bytes);
        require(bytes <= self.max_bytes, "", reason)?;
        schema::check(&self.schema, state)
    }

    /// The change from `before` to `state`.
    ///
    /// # Errors
    /// The first [`Mismatch`] of `state`.
    pub fn replace(&self, before: &Value, state: Value) -> Result<StateChange, Mismatch> {
        self.check(&state)?;
        let delta = delta(before, &state);
        Ok(StateChange { state, delta })
    }

    /// The change by a merge patch.
    ///
    /// # Errors
    /// The first [`Mismatch`] of what the state would be.
    pub fn merge(&self, before: &Value, patch: &Value) -> Result<StateChange, Mismatch> {
        let mut state = before.clone();
        let reason = format_args!("is nested more than {MAX_DEPTH} levels deep");
        require(!is_deeper(patch, MAX_DEPTH), "", reason)?;
        merge(&mut state, patch);
        self.replace(before, state)
    }
}

fn is_deeper(value: &Value, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return true };
    match value {
        Value::Object(fields) => fields.values().any(|value| is_deeper(value, depth)),
        Value::Array(items) => items.iter().any(|value| is_deeper(value, depth)),
        _ => false,
    }
}

/// Applies a merge patch: objects are merged, `null` removes, everything else replaces.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = empty();
    }
    let Value::Object(fields) = target else { return };
    for (name, value) in patch {
        if value.is_null() {
            fields.shift_remove(name);
        } else {
            merge(fields.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

/// The JSON Patch that makes `after` of `before`.
pub fn delta(before: &Value, after: &Value) -> Vec<Value> {
    let mut operations = Vec::new();
    compare(before, after, "", &mut operations);
    operations
}

fn compare(before: &Value, after: &Value, path: &str, operations: &mut Vec<Value>) {
    match (before, after) {
        (before, after) if before == after => {}
        (Value::Object(old), Value::Object(new)) => {
            let at = |name: &str| format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
            for name in old.keys().filter(|name| !new.contains_key(*name)) {
                operations.push(json!({"op": "remove", "path": at(name)}));
            }
            for (name, value) in new {
                match old.get(name) {
                    Some(old) => compare(old, value, &at(name), operations),
                    None => operations.push(json!({"op": "add", "path": at(name), "value": value})),
                }
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            for (nth, (old, new)) in old.iter().zip(new).enumerate() {
                compare(old, new, &format!("{path}/{nth}"), operations);
            }
            for nth in (new.len()..old.len()).rev() {
                operations.push(json!({"op": "remove", "path": format!("{path}/{nth}")}));
            }
            for (nth, value) in new.iter().enumerate().skip(old.len()) {
                operations.push(json!({"op": "add", "path": format!("{path}/{nth}"), "value": value}));
            }
        }
        (_, after) => operations.push(json!({"op": "replace", "path": path, "value": after})),
    }
}

/// Applies a JSON Patch that [`delta`] has made. What does not fit is left out.
pub fn apply(state: &mut Value, delta: &[Value]) {
    for operation in delta {
        let path = operation["path"].as_str().unwrap_or_default();
        let (op, value) = (operation["op"].as_str().unwrap_or_default(), &operation["value"]);
        let Some((parent, name)) = path.rsplit_once('/') else {
            *state = value.clone();
            continue;
        };
        let name = name.replace("~1", "/").replace("~0", "~");
        match state.pointer_mut(parent) {
            Some(Value::Object(fields)) if op == "remove" => drop(fields.shift_remove(&name)),
            Some(Value::Object(fields)) => drop(fields.insert(name, value.clone())),
            Some(Value::Array(items)) => {
                let Ok(nth) = name.parse::<usize>() else { continue };
                match op {
                    "add" if nth <= items.len() => items.insert(nth, value.clone()),
                    "remove" if nth < items.len() => drop(items.remove(nth)),
                    "replace" if nth < items.len() => items[nth] = value.clone(),
                    _ => {}
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (0..3i64).prop_map(Value::from),
            "[a~/0-]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[ab~/]{0,2}", inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_delta_makes_the_new_state_of_the_old(before in json_value(), after in json_value()) {
            let mut state = before.clone();
            apply(&mut state, &delta(&before, &after));
            prop_assert_eq!(state, after);
        }

        #[test]
        fn equal_states_have_an_empty_delta(state in json_value()) {
            prop_assert!(delta(&state, &state.clone()).is_empty());
        }
    }

    fn list() -> SharedState {
        toml::from_str(
            r#"
            initial = { items = [] }
            max_bytes = 200
            [schema]
            type = "object"
            additionalProperties = false
            properties.items = { type = "array", items = { type = "string" } }
            properties.done = { type = "boolean" }
            "#,
        )
        .unwrap()
    }

    #[test]
    fn merge_patches_merge_replace_and_remove() {
        let before = json!({"items": ["a"], "done": true});
        let change = list().merge(&before, &json!({"items": ["a", "b"], "done": null})).unwrap();
        assert_eq!(change.state, json!({"items": ["a", "b"]}));
        assert_eq!(
            change.delta,
            [
                json!({"op": "remove", "path": "/done"}),
                json!({"op": "add", "path": "/items/1", "value": "b"})
            ]
        );
        assert!(list().merge(&before, &json!({"done": true})).unwrap().delta.is_empty());
    }

    #[test]
    fn states_that_do_not_match_are_refused_with_a_pointer() {
        let wrong = |patch: Value| list().merge(&list().initial, &patch).unwrap_err().pointer;
        assert_eq!(wrong(json!({"items": ["a", 7]})), "/items/1");
        assert_eq!(wrong(json!({"other": 1})), "/other");
        assert_eq!(wrong(json!(7)), "");
        assert_eq!(wrong(json!({"items": ["x".repeat(300)]})), "");
        let deep = (0..40).fold(json!(1), |inner, _| json!([inner]));
        assert_eq!(wrong(json!({"items": deep})), "");
    }

    #[test]
    fn wrong_declarations_are_refused() {
        assert_eq!(list().check_declaration(), Ok(()));
        for wrong in [
            SharedState { schema: Arc::new(json!({})), ..list() },
            SharedState { initial: json!({"items": 7}), ..list() },
            SharedState { max_bytes: 0, ..list() },
            SharedState {
                schema: Arc::new(json!({"type": "object", "title": "x".repeat(20_000)})),
                ..list()
            },
        ] {
            wrong.check_declaration().unwrap_err();
        }
    }
}
