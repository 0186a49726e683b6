//! What the expressions of a step can read: the input, the time, and results, none of them longer than [`MAX_RESULT`].

use std::collections::BTreeSet;
use std::io::{Error as IoError, Write};

use serde_json::{Map, Value, json};

use super::document::Step;
use super::state::{Given, States};

/// Maximum size of a result in a scope, as JSON in bytes. A longer one is cut; `read_plan` returns all of it.
pub const MAX_RESULT: usize = 16 * 1024;
/// What is kept free for the sentence that says what was cut.
const SENTENCE: usize = 256;

/// What every expression of a plan can read.
pub(super) fn outermost(given: &Given<'_>) -> Value {
    json!({"input": cut(given.input, "input", MAX_RESULT), "now": given.now.to_rfc3339()})
}

/// The scope with those settled steps of a list that are `named`.
pub(super) fn visible(
    steps: &[Step],
    named: Option<&BTreeSet<String>>,
    prefix: &str,
    scope: &Value,
    states: &States,
) -> Value {
    let mut scope = scope.as_object().cloned().unwrap_or_default();
    for step in steps.iter().filter(|step| named.is_none_or(|named| named.contains(&step.id))) {
        let path = format!("{prefix}{}", step.id);
        if let Some(state) = states.get(&path).filter(|state| state.status.is_settled()) {
            let result = cut(&state.result, &path, MAX_RESULT);
            let entry = json!({"status": state.status, "result": result, "error": state.error});
            scope.insert(step.id.clone(), entry);
        }
    }
    Value::Object(scope)
}

/// A value of at most `most` bytes as JSON: texts and lists keep their beginning, and the last of them says where the rest is.
pub(super) fn cut(value: &Value, path: &str, most: usize) -> Value {
    match size(value) <= most {
        true => value.clone(),
        false => shortened(value, &mut most.saturating_sub(SENTENCE), path),
    }
}

fn shortened(value: &Value, left: &mut usize, path: &str) -> Value {
    let rest =
        |what: String| Value::String(format!("[{what}: read_plan with the path `{path}` returns all]"));
    match value {
        Value::String(text) => {
            let full = size(value);
            if full <= *left {
                *left -= full;
                return value.clone();
            }
            let mut end = (*left * text.len() / full).min(text.len());
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            *left = 0;
            let kept = &text[..end];
            format!(
                "{kept}… [{} more bytes are left out: read_plan with the path `{path}` returns all]",
                text.len() - end
            )
            .into()
        }
        Value::Array(items) => {
            *left = left.saturating_sub(2);
            let mut kept = Vec::new();
            for (at, item) in items.iter().enumerate() {
                if *left < 8 {
                    kept.push(rest(format!("{} more items are left out", items.len() - at)));
                    break;
                }
                *left -= 1;
                kept.push(shortened(item, left, path));
            }
            kept.into()
        }
        Value::Object(fields) => {
            *left = left.saturating_sub(2);
            let mut kept = Map::new();
            for (at, (name, field)) in fields.iter().enumerate() {
                if *left < 8 + name.len() {
                    kept.insert(
                        "left_out".to_owned(),
                        rest(format!("{} more fields are left out", fields.len() - at)),
                    );
                    break;
                }
                *left -= name.len() + 4;
                kept.insert(name.clone(), shortened(field, left, path));
            }
            kept.into()
        }
        other => {
            *left = left.saturating_sub(size(other));
            other.clone()
        }
    }
}

/// Size as JSON, in bytes.
pub(super) fn size(value: &Value) -> usize {
    struct Count(usize);
    impl Write for Count {
        fn write(&mut self, bytes: &[u8]) -> Result<usize, IoError> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> Result<(), IoError> {
            Ok(())
        }
    }
    let mut count = Count(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        Err(_) => usize::MAX,
    }
}
